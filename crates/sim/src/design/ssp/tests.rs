//! Tests of SSP that need more than programs of transactions: plain stores, fallback, journal gaps
//! and the timing of flips.

use std::cell::Cell;
use std::rc::Rc;

use words::{Addr, Words};

use super::message::Flip;
use super::*;
use crate::image::{self, Image};
use crate::machine::cache::{COHERENCE, MODIFIED};
use crate::machine::kernel::{self, Program};
use crate::machine::memory::Memory;
use crate::mutants::inject;

/// The first word of a page, and a word of the next page.
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
    let (bytes, lines) = (8 * words.length() as u64, (words.length() / 8) as u32);
    let extra = Ssp::extra_lines(&description) + Ssp::table_lines(lines);
    let memory = Memory::new(&words, extra, 0, true);
    let design = Ssp::new(&description, lines);
    let machine = Box::new(Machine::new(description, memory, design));
    let heap = (image::heap(bytes), image::TAG, bytes);
    kernel::run(machine, heap, programs, &mut |_| {}).unwrap()
}

/// Stores one word of a line outside of a transaction, and another in a transaction that falls
/// back.
fn plain_store_then_fallback() -> Box<Machine<Ssp>> {
    run(|hart| {
        hart.store(WORD, 0, 7);
        hart.fence();
        let line = line_of(WORD);
        assert_eq!(hart.machine().private_state(0, line) & COHERENCE, MODIFIED);
        Ssp::begin(hart);
        Ssp::store(hart, WORD + 1, 0, 8).unwrap();
        hart.settle();
        assert_ne!(hart.machine().design.place(0, line), line, "the line is at its other place");
        assert_eq!((hart.load(WORD, 0), hart.load(WORD + 1, 0)), (7, 8));
        assert_eq!(Ssp::store(hart, OTHER, 0, 9), Err(Stop::TooLarge));
        hart.settle();
        Ssp::falls_back(hart);
        assert_eq!(hart.machine().design.place(0, line), line, "the line is at its old place");
        assert_eq!((hart.load(WORD, 0), hart.load(WORD + 1, 0)), (7, 0));
    })
}

fn in_memory(machine: &Machine<Ssp>) -> u64 {
    machine.memory.media_line(line_of(WORD)).unwrap()[0]
}

#[test]
fn plain_store_survives_fallback() {
    assert_eq!(in_memory(&plain_store_then_fallback()), 7);
    let injected = inject(Mutant::SspRetagsDirty);
    let lost = in_memory(&plain_store_then_fallback());
    drop(injected);
    assert_eq!(lost, 0, "the mutant drops the modified line");
}

#[test]
fn refused_store_keeps_its_line() {
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

/// Recovers from a journal with these records in its first line. Returns whether each slot has a
/// page.
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
fn torn_group_is_ignored() {
    let end = |number| (2, true, number);
    assert_eq!(recovered([(0, false, 7), (1, false, 7), end(7)]), [true; 3]);
    assert_eq!(recovered([(0, false, 7), (1, false, 7), end(8)]), [false; 3]);
    assert_eq!(recovered([(0, true, 6), (1, false, 7), end(8)]), [true, false, false]);
    assert_eq!(recovered([(0, true, 6), (1, false, 7), (2, false, 7)]), [true, false, false]);
}

#[test]
fn groups_after_missing_group_are_ignored() {
    assert_eq!(recovered([(0, true, 255), (1, true, 0), (2, true, 1)]), [true; 3]);
    assert_eq!(recovered([(0, true, 255), (1, true, 1), (2, true, 2)]), [true, false, false]);
}

#[test]
fn commits_alternate_places_of_line() {
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

/// Evicts a page from a TLB with one entry just after a flip of one of its lines, and fetches it
/// again. Returns the word that its core reads there.
fn read_after_own_flip(machine: &str) -> u64 {
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
fn refetched_tlb_entry_has_own_flips() {
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(read_after_own_flip(machine), 5, "{machine}");
        let _injected = inject(Mutant::SspLeavesEarly);
        assert_eq!(read_after_own_flip(machine), 0, "{machine}: the mutant fetches the old bit");
    }
}

/// Flips a line in core 0's open transaction and looks at it `cycles` cycles later. Returns its bit
/// at core 1 and at the controller, then the cycles until the next store has drained and until the
/// flip is acknowledged.
fn after_a_flip(cycles: Time) -> [u64; 4] {
    let seen = Rc::new(Cell::new([0; 4]));
    let sees = Rc::clone(&seen);
    let writes: Program<Ssp> = Box::new(move |hart| {
        hart.at(10_000);
        // The lines are present and writable.
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
        let at_controller = cache.slot(line / PAGE_LINES).pages.current;
        let [known, at_controller] =
            [known, at_controller].map(|bits| bits >> (line % PAGE_LINES) & 1);
        let acknowledged = hart.time_of(first) - moved;
        sees.set([known, at_controller, drained, acknowledged]);
        Ssp::commit(hart);
    });
    let reads: Program<Ssp> = Box::new(|hart| {
        assert_eq!(hart.load(WORD, 0), 0);
        hart.at(100_000);
        assert_eq!(hart.load(WORD, 0), 2, "the flip has reached core 1");
    });
    let machine = run_on("ssp", &["cores=2"], vec![writes, reads]);
    assert_eq!(machine.counts.of_design["flips"], 2);
    seen.get()
}

#[test]
fn flip_crosses_llc_and_stalls_no_store() {
    // Out of the private caches, through the last one, into the controller, and at once from there.
    let Description { l2, llc, mc, .. } = Description::builtin("ssp").unwrap();
    let cycles_to_controller = l2.unwrap().latency + llc.latency + mc.overhead;
    let [known, at_controller, drained, acknowledged] = after_a_flip(cycles_to_controller - 1);
    assert_eq!((known, at_controller), (0, 0), "the flip is in flight");
    assert!(drained < 5, "the next store drained after {drained} cycles");
    assert_eq!((cycles_to_controller, acknowledged), (41, 42));
    assert_eq!(after_a_flip(cycles_to_controller + 1)[..2], [1, 1]);
}

/// A mesh with long routes of different lengths. Core 0 and the controller are at one corner, core
/// 3 at the opposite one.
const FAR: [&str; 4] = ["cores=4", "network.columns=2", "network.rows=2", "network.hop=5000"];

/// A word with a home tile at neither corner.
const AWAY: u64 = WORD + 3 * 8;

/// Returns the TLBs that know the place of core 0's line at the end of its transaction. All map its
/// page.
fn tlbs_with_flip_at_commit(machine: &str) -> usize {
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
fn commit_waits_for_flips_at_all_tlbs() {
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(tlbs_with_flip_at_commit(machine), 4, "{machine}");
        let _injected = inject(Mutant::SspEndsEarly);
        assert!(
            tlbs_with_flip_at_commit(machine) < 4,
            "{machine}: the farthest TLB has not received the flip"
        );
    }
}

/// Returns the inconsistencies after a fallback of a transaction that has written this word.
fn inconsistencies_after_fallback(machine: &str, word: u64, settings: &[&str]) -> u64 {
    let gives_up: Program<Ssp> = Box::new(move |hart| {
        // The line is present and writable.
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
fn fallback_leaves_no_writer() {
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(inconsistencies_after_fallback(machine, AWAY, &FAR), 0, "{machine}");
        let _injected = inject(Mutant::SspDropsEarly);
        let wrong = inconsistencies_after_fallback(machine, AWAY, &FAR);
        assert!(wrong > 0, "{machine}: a late flip makes the core a writer again");
    }
}

#[test]
fn fallback_moves_line_back_across_home_tiles() {
    // With three banks, the two places of a line of this page are in two of them.
    let settings = [&FAR[..], &["llc.banks=3"]].concat();
    let wrong = |machine| -> u64 {
        let words = (0..6).map(|line| OTHER + 8 * line);
        words.map(|word| inconsistencies_after_fallback(machine, word, &settings)).sum()
    };
    for machine in ["tiny-ssp", "ssp"] {
        assert_eq!(wrong(machine), 0, "{machine}");
        let _injected = inject(Mutant::SspTurnsBackEarly);
        assert!(wrong(machine) > 0, "{machine}: the first broadcast arrives last");
    }
}

/// Returns the cycles of a message of core 1 that leaves `later` cycles after a store of core 0.
/// With `moves`, that store flips a line.
fn cycles_of_other_message(moves: bool, later: Time) -> Time {
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
            // The write-back of the commit must not overlap the message.
            hart.at(30_000);
            Ssp::commit(hart);
        }
    });
    let sends: Program<Ssp> = Box::new(move |hart| {
        hart.at(20_000 + later);
        let machine = hart.machine();
        let flip = Message::Flip(Flip { line: line_of(OTHER), in_second: false });
        let now = machine.now();
        let there =
            machine.send_from_home_tile(1, (line_of(OTHER), Size::Control), now, flip.words());
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
fn flip_delays_no_message_of_another_core() {
    for later in [0, 5, 15, 25, 31, 60] {
        assert_eq!(
            cycles_of_other_message(true, later),
            cycles_of_other_message(false, later),
            "{later}"
        );
    }
}
