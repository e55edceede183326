//! What no program shows: lines that were modified outside of transactions; and those that are
//! given up.

use std::cell::Cell;
use std::rc::Rc;

use words::{Addr, Words};

use super::message::Flip;
use super::*;
use crate::image::{self, Image};
use crate::machine::cache::{COHERENCE, MODIFIED};
use crate::machine::kernel::{self, Program};
use crate::machine::memory::Memory;
use crate::mutants::plant;

/// The first word of a page, and a word of the next one.
const WORD: u64 = 8 * 64 * 8;
const OTHER: u64 = WORD + 64 * 8;

/// Runs a core on the tiny machine whose write set has one page.
fn run(program: impl FnOnce(&mut Hart<'_, Ssp>) + 'static) -> Box<Machine<Ssp>> {
    run_on("tiny-ssp", &["ssp.write_set=1"], vec![Box::new(program)])
}

/// Runs cores on a machine with these settings.
fn run_on(machine: &str, settings: &[&str], programs: Vec<Program<Ssp>>) -> Box<Machine<Ssp>> {
    let mut description = Description::builtin(machine).unwrap();
    settings.iter().for_each(|setting| description.set(setting).unwrap());
    let words = Image::format(1 << 20).unwrap().into_words();
    let (bytes, lines) = (8 * words.len() as u64, (words.len() / 8) as u32);
    let extra = Ssp::extra_lines(&description) + Ssp::table_lines(lines);
    let memory = Memory::new(&words, extra, 0, true);
    let design = Ssp::new(&description, lines);
    let machine = Box::new(Machine::new(description, memory, design));
    let heap = (image::heap(bytes), image::TAG, bytes);
    kernel::run(machine, heap, programs, &mut |_| {}).unwrap()
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
        assert_ne!(hart.machine().design.place(0, line), line, "it has another number");
        assert_eq!((hart.load(WORD, 0), hart.load(WORD + 1, 0)), (7, 8));
        assert_eq!(Ssp::store(hart, OTHER, 0, 9), Err(Stop::TooLarge));
        hart.settle();
        Ssp::falls_back(hart);
        assert_eq!(hart.machine().design.place(0, line), line, "it is where it was");
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

#[test]
fn a_store_that_is_refused_drops_nothing_of_its_line() {
    let machine = run(|hart| {
        hart.store(WORD, 0, 7);
        hart.fence();
        let at = |word| Addr::new(u64::from(image::TAG) << words::ADDRESS_BITS, 8 * word);
        let transacted = hart.transact(|tx| {
            tx.write(at(OTHER), 1)?;
            tx.write(at(WORD + 1), 8)
        });
        transacted.unwrap();
        assert_eq!([WORD, WORD + 1, OTHER].map(|word| hart.load(word, 0)), [7, 8, 1]);
    });
    assert_eq!((machine.counts.fallbacks, machine.counts.wrong_fills), (1, 0));
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
    assert_eq!(recovered([(0, false, 7), (1, false, 7), end(8)]), [false; 3]);
    assert_eq!(recovered([(0, true, 6), (1, false, 7), end(8)]), [true, false, false]);
    assert_eq!(recovered([(0, true, 6), (1, false, 7), (2, false, 7)]), [true, false, false]);
}

#[test]
fn what_comes_behind_a_transaction_that_is_missing_is_not_committed() {
    assert_eq!(recovered([(0, true, 255), (1, true, 0), (2, true, 1)]), [true; 3]);
    assert_eq!(recovered([(0, true, 255), (1, true, 1), (2, true, 2)]), [true, false, false]);
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
            assert_eq!(design.place(0, line) != line, moved);
            let slot = design.cache.slot(line / PAGE_LINES);
            assert_eq!(
                (slot.committed != 0, slot.pages.current, slot.writers),
                (moved, slot.committed, 0)
            );
            let place = hart.machine().design.place(0, line);
            let durable = hart.machine().memory.media_line(place).unwrap();
            assert_eq!((durable[0], durable[7]), (value, value));
        }
    });
    let journal = machine.counts.nvm_writes[crate::machine::controller::Class::Journal as usize];
    assert_eq!((journal, machine.counts.of_design["flips"]), (3, 3));
}

/// A page leaves the only entry of a TLB just after a line of it has got another place, and comes
/// back at once. Answers what its core finds in the line.
fn read_behind_its_own_flip(machine: &str) -> u64 {
    let found = Rc::new(Cell::new(0));
    let finds = Rc::clone(&found);
    let program: Program<Ssp> = Box::new(move |hart| {
        Ssp::begin(hart);
        Ssp::store(hart, WORD, 0, 5).unwrap();
        hart.settle();
        hart.load(OTHER, 0);
        finds.set(hart.load(WORD, 0));
    });
    run_on(machine, &["tlb.entries=1"], vec![program]);
    found.get()
}

#[test]
fn a_page_that_comes_back_has_the_bits_that_its_core_has_turned() {
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(read_behind_its_own_flip(machine), 5, "{machine}");
        let _planted = plant(Mutant::SspLeavesEarly);
        assert_eq!(read_behind_its_own_flip(machine), 0, "{machine}: its core knows the bit again");
    }
}

/// Where core 1 and the controller know a line of core 0's open transaction, so many cycles after
/// it has got another place: whether in the second page; and when the last of two stores has
/// drained, and the broadcast of the first is acknowledged.
fn after_a_flip(cycles: Time) -> [u64; 4] {
    let seen = Rc::new(Cell::new([0; 4]));
    let sees = Rc::clone(&seen);
    let writes: Program<Ssp> = Box::new(move |hart| {
        hart.at(10_000);
        // The lines are there, and may be written.
        [WORD, WORD + 8].into_iter().for_each(|word| hart.store(word, 0, 1));
        hart.fence();
        [WORD, WORD + 8].into_iter().for_each(|word| hart.write_back(line_of(word)));
        hart.fence();
        Ssp::begin(hart);
        Ssp::store(hart, WORD, 0, 2).unwrap();
        hart.settle();
        let moved = hart.machine().now();
        Ssp::store(hart, WORD + 8, 0, 2).unwrap();
        hart.settle();
        let drained = hart.machine().now() - moved;
        hart.until(moved + cycles);
        let (line, first) = (line_of(WORD), write_set(hart).broadcasts[0]);
        let Ssp { tlbs, cache, .. } = &mut hart.machine().design;
        let known = tlbs[1].entry(line).unwrap().current;
        let told = cache.slot(line / PAGE_LINES).pages.current;
        let [known, told] = [known, told].map(|bits| bits >> (line % PAGE_LINES) & 1);
        let acknowledged = hart.time_of(first) - moved;
        sees.set([known, told, drained, acknowledged]);
        Ssp::commit(hart);
    });
    let reads: Program<Ssp> = Box::new(|hart| {
        assert_eq!(hart.load(WORD, 0), 0);
        hart.at(100_000);
        assert_eq!(hart.load(WORD, 0), 2, "it has heard of it");
    });
    let machine = run_on("ssp", &["cores=2"], vec![writes, reads]);
    assert_eq!(machine.counts.of_design["flips"], 2);
    seen.get()
}

#[test]
fn a_broadcast_takes_a_way_through_the_last_cache_and_holds_no_store_up() {
    // Out of the private caches, through the last one, into the controller: all at once from there.
    let Description { l2, llc, mc, .. } = Description::builtin("ssp").unwrap();
    let way = l2.unwrap().latency + llc.latency + mc.overhead;
    let [known, told, drained, acknowledged] = after_a_flip(way - 1);
    assert_eq!((known, told), (0, 0), "it is on its way");
    assert!(drained < 5, "{drained} cycles later the next store has drained");
    assert_eq!((way, acknowledged), (41, 42));
    assert_eq!(after_a_flip(way + 1)[..2], [1, 1]);
}

/// A mesh whose ways are long, and differ: core 0 and the controller are at one corner, core 3 at
/// the other end.
const FAR: [&str; 4] = ["cores=4", "network.columns=2", "network.rows=2", "network.hop=5000"];

/// A word whose line's home is neither of them, and a line of another page.
const AWAY: u64 = WORD + 3 * 8;

/// How many TLBs know where core 0's line is when its transaction is over: all have its page.
fn knowing_at_the_end(machine: &str) -> usize {
    let found = Rc::new(Cell::new(0));
    let finds = Rc::clone(&found);
    let writes: Program<Ssp> = Box::new(move |hart| {
        hart.at(200_000);
        Ssp::begin(hart);
        Ssp::store(hart, AWAY, 0, 2).unwrap();
        Ssp::commit(hart);
        let (line, design) = (line_of(AWAY), &hart.machine().design);
        assert!(design.tlbs.iter().all(|tlb| tlb.entry(line).is_some()));
        finds.set((0..4).filter(|core| design.place(*core, line) != line).count());
    });
    let mut programs = vec![writes];
    for _ in 1..4 {
        programs.push(Box::new(|hart| assert_eq!(hart.load(AWAY, 0), 0)));
    }
    run_on(machine, &FAR, programs);
    found.get()
}

#[test]
fn all_know_what_a_transaction_has_moved_when_it_is_over() {
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(knowing_at_the_end(machine), 4, "{machine}");
        let _planted = plant(Mutant::SspEndsEarly);
        assert!(knowing_at_the_end(machine) < 4, "{machine}: one is far away");
    }
}

/// What contradicts itself behind a transaction that is given up, which has written this word.
fn contradictions_of_one_given_up(machine: &str, word: u64, settings: &[&str]) -> u64 {
    let gives_up: Program<Ssp> = Box::new(move |hart| {
        // The line is there, and may be written.
        hart.store(word, 0, 1);
        hart.write_back(line_of(word));
        hart.fence();
        Ssp::begin(hart);
        Ssp::store(hart, word, 0, 2).unwrap();
        hart.settle();
        Ssp::falls_back(hart);
    });
    run_on(machine, settings, vec![gives_up]).design.contradictions()
}

#[test]
fn nobody_writes_a_page_of_a_transaction_that_was_given_up() {
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(contradictions_of_one_given_up(machine, AWAY, &FAR), 0, "{machine}");
        let _planted = plant(Mutant::SspDropsEarly);
        let wrong = contradictions_of_one_given_up(machine, AWAY, &FAR);
        assert!(wrong > 0, "{machine}: the controller takes the core for a writer again");
    }
}

#[test]
fn a_line_that_is_moved_back_by_way_of_another_home_is_where_it_was() {
    // Three banks: the two places of a line of this page are in two of them.
    let settings = [&FAR[..], &["llc.banks=3"]].concat();
    let wrong = |machine| -> u64 {
        let words = (0..6).map(|line| OTHER + 8 * line);
        words.map(|word| contradictions_of_one_given_up(machine, word, &settings)).sum()
    };
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(wrong(machine), 0, "{machine}");
        let _planted = plant(Mutant::SspTurnsBackEarly);
        assert!(wrong(machine) > 0, "{machine}: the first broadcast comes last");
    }
}

/// Core 0 moves a line meanwhile, or not: how long a message of core 1 takes that is sent so many
/// cycles behind the store.
fn way_of_another_core(moves: bool, later: Time) -> Time {
    let found = Rc::new(Cell::new(0));
    let finds = Rc::clone(&found);
    let writes: Program<Ssp> = Box::new(move |hart| {
        hart.store(WORD, 0, 1);
        hart.write_back(line_of(WORD));
        hart.fence();
        hart.at(20_000);
        if moves {
            Ssp::begin(hart);
            Ssp::store(hart, WORD, 0, 2).unwrap();
            // What it writes back goes another time.
            hart.at(30_000);
            Ssp::commit(hart);
        }
    });
    let sends: Program<Ssp> = Box::new(move |hart| {
        hart.at(20_000 + later);
        let machine = hart.machine();
        let flip = Message::Flip(Flip { line: line_of(OTHER), in_second: false });
        let now = machine.now();
        let there = machine.send_from_home(1, (line_of(OTHER), Size::Control), now, flip.words());
        finds.set(there - now);
    });
    let loads_first: Program<Ssp> = Box::new(|hart| {
        hart.load(OTHER, 0);
        sends(hart);
    });
    run_on("ssp", &["cores=2"], vec![writes, loads_first]);
    found.get()
}

#[test]
fn a_broadcast_holds_no_message_of_another_core_up_before_it_leaves() {
    for later in [0, 5, 15, 25, 31, 60] {
        assert_eq!(way_of_another_core(true, later), way_of_another_core(false, later), "{later}");
    }
}
