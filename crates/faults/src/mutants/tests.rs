//! Tests of the registry of mutants.

use std::collections::BTreeSet;

use super::*;

#[test]
fn registry_has_each_name_once() {
    let names: Vec<&str> = ALL.iter().chain(BETWEEN_THREADS).map(|entry| entry.name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
}

#[test]
fn every_bug_has_a_detection() {
    for Entry { mutant, name, .. } in ALL {
        assert!(DETECTIONS.iter().any(|it| it.mutant == *mutant), "no test detects {name}");
    }
}

#[test]
fn injected_bug_ends_with_its_guard() {
    let bug = Mutant::HeadLeft;
    let has_hooks = by_name(entry(bug).name) == Some(bug);
    assert_eq!(has_hooks, system::mutants::ENABLED);
    if !has_hooks {
        return;
    }
    let guard = inject(Some(bug));
    assert!(system::mutants::injected(bug));
    let elsewhere = std::thread::spawn(move || system::mutants::injected(bug));
    assert!(!elsewhere.join().unwrap(), "a bug is injected into one thread");
    let carried =
        std::thread::spawn(system::mutants::carried(move || system::mutants::injected(bug)));
    assert!(carried.join().unwrap());
    drop(guard);
    assert!(!system::mutants::injected(bug));
}
