//! What no program shows: lines that were modified outside of transactions; and those that are
//! given up.

use super::*;
use crate::image::{self, Image};
use crate::machine::cache::{COHERENCE, MODIFIED};
use crate::machine::kernel;
use crate::machine::memory::Memory;
use crate::mutants::plant;

/// The first word of a page, and a word of the next one.
const WORD: u64 = 8 * 64 * 8;
const OTHER: u64 = WORD + 64 * 8;

/// Runs a core on the tiny machine whose write set has one page.
fn run(program: impl FnOnce(&mut Hart<'_, Ssp>) + 'static) -> Box<Machine<Ssp>> {
    let mut description = Description::builtin("tiny-ssp").unwrap();
    description.set("ssp.write_set=1").unwrap();
    let words = Image::format(1 << 20).unwrap().into_words();
    let (bytes, lines) = (8 * words.len() as u64, (words.len() / 8) as u32);
    let extra = Ssp::extra_lines(&description) + Ssp::table_lines(lines);
    let memory = Memory::new(&words, extra, 0, true);
    let design = Ssp::new(&description, lines);
    let machine = Box::new(Machine::new(description, memory, design));
    let heap = (image::heap(bytes), image::TAG, bytes);
    kernel::run(machine, heap, vec![Box::new(program)], &mut |_| {}).unwrap()
}

/// A word is stored outside of a transaction, and another one of its line in one that is given up.
fn plain_and_given_up() -> Box<Machine<Ssp>> {
    run(|hart| {
        hart.store(WORD, 0, 7);
        hart.fence();
        let line = line_of(WORD);
        assert_eq!(hart.machine().private_state(0, line) & COHERENCE, MODIFIED);
        Ssp::begin(hart);
        Ssp::store(hart, WORD + 1, 0, 8).unwrap();
        hart.settle();
        assert_ne!(hart.machine().design.place(line), line, "it has another number");
        assert_eq!((hart.load(WORD, 0), hart.load(WORD + 1, 0)), (7, 8));
        assert_eq!(Ssp::store(hart, OTHER, 0, 9), Err(Stop::TooLarge));
        hart.settle();
        Ssp::falls_back(hart);
        assert_eq!(hart.machine().design.place(line), line, "it is where it was");
        assert_eq!((hart.load(WORD, 0), hart.load(WORD + 1, 0)), (7, 0));
    })
}

fn in_memory(machine: &Machine<Ssp>) -> u64 {
    machine.memory.media_line(line_of(WORD)).unwrap()[0]
}

#[test]
fn what_was_modified_outside_of_a_transaction_outlives_one_that_is_given_up() {
    assert_eq!(in_memory(&plain_and_given_up()), 7);
    let planted = plant(Mutant::SspRetagsDirty);
    let lost = in_memory(&plain_and_given_up());
    drop(planted);
    assert_eq!(lost, 0, "nobody writes it back");
}

/// What slots have after recovery from a journal with these records in its first line.
fn recovered(records: [(u32, bool, u8); 3]) -> [bool; 3] {
    let description = Description::builtin("tiny-ssp").unwrap();
    let (heap, extra) = (1 << 14, Ssp::extra_lines(&description) + Ssp::table_lines(1 << 14));
    let layout = Layout::new(&description, heap);
    let mut state = Persistent::new(vec![0; (heap + extra) as usize * 8], 1);
    let mut words = [0; 8];
    for (pair, (slot, last, number)) in words.chunks_mut(2).zip(records) {
        let record = Record { slot, p0: slot, committed: 0, last, number };
        pair.copy_from_slice(&record.words(0, layout.journal.lines()));
    }
    state.set_line(layout.journal.line(0), words).unwrap();
    Ssp::recover(&description, heap, &mut state).unwrap();
    [0, 1, 2].map(|slot| layout.slot_in(&state, slot).p0.is_some())
}

#[test]
fn records_that_end_in_another_transaction_are_not_committed_by_its_mark() {
    let end = |number| (2, true, number);
    assert_eq!(recovered([(0, false, 7), (1, false, 7), end(7)]), [true; 3]);
    assert_eq!(recovered([(0, false, 7), (1, false, 7), end(8)]), [false, false, true]);
    assert_eq!(recovered([(0, true, 6), (1, false, 7), end(8)]), [true, false, true]);
    assert_eq!(recovered([(0, true, 6), (1, false, 7), (2, false, 7)]), [true, false, false]);
}

#[test]
fn a_commit_makes_the_other_place_the_lines_own_and_the_next_one_takes_it_back() {
    let machine = run(|hart| {
        let line = line_of(WORD);
        for (value, moved) in [(1, true), (2, false), (3, true)] {
            Ssp::begin(hart);
            Ssp::store(hart, WORD, 0, value).unwrap();
            Ssp::store(hart, WORD + 7, 0, value).unwrap();
            Ssp::commit(hart);
            let design = &mut hart.machine().design;
            assert_eq!(design.place(line) != line, moved);
            let slot = design.cache.slot(line / PAGE_LINES);
            assert_eq!((slot.committed != 0, slot.current, slot.cores), (moved, slot.committed, 0));
            let place = hart.machine().design.place(line);
            let durable = hart.machine().memory.media_line(place).unwrap();
            assert_eq!((durable[0], durable[7]), (value, value));
        }
    });
    let journal = machine.counts.nvm_writes[crate::machine::controller::Class::Journal as usize];
    assert_eq!((journal, machine.counts.of_design["flips"]), (3, 3));
}
