//! Boots under one design and then another: each recovers what the one before has left.

use std::marker::PhantomData;

use lastword::Design;

use super::{End, Execution};
use crate::workload::Scenario;
use crate::{Violation, designs};

struct Boot<'a, 'e, S> {
    execution: &'a mut Execution<'e>,
    after_crash: bool,
    scenario: PhantomData<S>,
}

impl<S: Scenario> designs::Visitor for Boot<'_, '_, S> {
    type Out = Result<End, Violation>;

    fn visit<D: Design>(self) -> Self::Out {
        self.execution.boot::<D, S>(self.after_crash)
    }
}

impl Execution<'_> {
    /// A boot under any design.
    pub(super) fn boot_of_any<S: Scenario>(&mut self, after_crash: bool) -> Result<End, Violation> {
        let name = designs::NAMES[self.picker.pick(designs::NAMES.len())];
        self.picker.tell(format_args!("under {name}"));
        self.design = name;
        let boot = Boot { execution: self, after_crash, scenario: PhantomData::<S> };
        designs::by_name(name, boot).expect("it is one of the names")
    }
}
