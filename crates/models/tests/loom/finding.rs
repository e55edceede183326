//! Findings of threads that look at a pool's files: no thread hides the cut that another has found.

use crate::explore::explore;
use crate::findings::Findings;
use crate::sync::{Arc, thread};

/// One thread looked before a file was cut, the other one after it.
pub(crate) fn cut_stays_found() {
    explore(None, || {
        let findings = Arc::new(Findings::<u8>::default());
        let others = Arc::clone(&findings);
        let late = thread::spawn(move || others.add(false, [1], |_, _| false));
        let found = findings.add(false, [], |_, _| false);
        assert!(found.is_none() || findings.is_lost(), "a cut that was found is hidden");
        assert_eq!(late.join().expect("the thread does not panic"), Some(1));
        assert!(findings.is_lost(), "a cut that was found is hidden");
        assert_eq!(findings.add(false, [], |_, _| false), Some(1));
    });
}
