//! Mutants that no workload detects, because workloads store only within transactions. Here, cores
//! also store outside of transactions and write these words back.

use words::{ADDRESS_BITS, Addr, Stop, Words};

use super::common::setup;
use crate::crash::{Report, Run, cut_power};
use crate::design::{Design, Lad, Ssp};
use crate::image::{self, Image};
use crate::machine::kernel;
use crate::machine::memory::{Memory, line_of};
use crate::machine::when::Time;
use crate::machine::{Hart, Machine};
use crate::mutants::{Mutant, inject};
use crate::persist::history::Transaction;
use crate::persist::{History, Persistent, Trace};

/// The first word used, and the number of words per page.
const WORD: u64 = 8 * 64 * 8;
const PAGE: u64 = 64 * 8;

/// The number of lines written, each in another page.
const LINES: u64 = 40;

const CUTS: u64 = 1000;

/// Runs a core on a machine and cuts its power.
fn cuts<D: Design>(
    machine: &str,
    settings: &[&str],
    program: impl Fn(&mut Hart<'_, D>) + 'static,
) -> Report {
    let mut description = setup(machine, D::NAME, 1, 1).description;
    description.cores = 1;
    settings.iter().for_each(|setting| description.set(setting).unwrap());
    let words = Image::format(1 << 20).unwrap().into_words();
    let (bytes, lines) = (8 * words.length() as u64, (words.length() / 8) as u32);
    let extra = D::extra_lines(&description) + D::table_lines(lines);
    let memory = Memory::new(&words, extra, D::volatile_lines(&description), true);
    let before = memory.media().unwrap().clone();
    let before = Persistent::new(before, description.nvm.channels as usize);
    let design = D::new(&description, lines);
    let mut machine = Box::new(Machine::new(description, memory, design));
    (machine.trace, machine.history) = (Some(Trace::default()), Some(History::default()));
    let heap = (image::heap(bytes), image::TAG, bytes);
    let program = Box::new(move |hart: &mut Hart<'_, D>| program(hart));
    let machine = kernel::run(machine, heap, vec![program], &mut |_| {}).unwrap();
    assert_eq!((machine.failed, machine.counts.wrong_fills), (None, 0));
    let run =
        Run { machine: &machine, before, extra: lines, loaded: None, violations_max: u64::MAX };
    cut_power(run, CUTS, 1, &mut |_| {}).unwrap().0
}

/// Records a one-word transaction: present from `ends` on at the earliest, and from now on for
/// sure.
fn note<D: Design>(hart: &mut Hart<'_, D>, ends: Time, word: u64, value: u64) {
    let acknowledged = hart.cycle();
    hart.until(acknowledged);
    let one = Transaction { core: hart.core(), ends, acknowledged, words: vec![(word, value)] };
    hart.machine().history.as_mut().unwrap().push(one);
}

/// Stores a word and writes it back. The acknowledgement means that memory has it.
fn store_and_write_back<D: Design>(hart: &mut Hart<'_, D>, word: u64, value: u64) {
    let ends = hart.machine().now();
    hart.store(word, 0, value);
    hart.settle();
    hart.write_back(line_of(word));
    hart.fence();
    note(hart, ends, word, value);
}

/// Stores a word of each line in a transaction, and then another word of the line outside of it.
fn after_a_commit(hart: &mut Hart<'_, Lad>) {
    for (value, word) in (1..=LINES).map(|number| (number, WORD + number * PAGE)) {
        let at = Addr::new((u64::from(image::TAG) << ADDRESS_BITS) | (8 * word), 0);
        hart.transact(|tx| tx.write(at, value)).unwrap();
        store_and_write_back(hart, word + 1, value);
    }
}

#[test]
fn plain_write_before_staged_one_is_detected() {
    let slow = ["nvm.write_ns=2000", "nvm.write_hit_ns=2000"];
    for machine in ["tiny-lad", "lad"] {
        let report = cuts(machine, &slow, after_a_commit);
        assert_eq!(report.violations, Vec::<String>::new(), "{machine}");
        assert!(report.ending_there > 0 && report.ending_gone > 0, "{machine}: {report:?}");
        let _injected = inject(Mutant::LadPlainWritesHeap);
        let found = cuts(machine, &slow, after_a_commit).violations_total;
        println!("{}: {found} on {machine}", Mutant::LadPlainWritesHeap.name());
        assert!(found > 0, "{machine}");
    }
}

/// Stores a word of each line outside of a transaction, and another one in a transaction that
/// aborts. Then writes the first word back.
fn before_an_abort(hart: &mut Hart<'_, Ssp>) {
    for (value, word) in (1..=LINES / 2).map(|number| (number, WORD + 2 * number * PAGE)) {
        let ends = hart.machine().now();
        hart.store(word, 0, value);
        hart.fence();
        Ssp::begin(hart);
        Ssp::store(hart, word + 1, 0, value).unwrap();
        hart.settle();
        assert_eq!(Ssp::store(hart, word + PAGE, 0, value), Err(Stop::TooLarge));
        hart.settle();
        Ssp::falls_back(hart);
        hart.write_back(line_of(word));
        hart.fence();
        note(hart, ends, word, value);
    }
}

#[test]
fn retag_of_modified_line_is_detected() {
    let one_page = ["ssp.write_set=1"];
    for machine in ["tiny-ssp", "ssp"] {
        let report = cuts(machine, &one_page, before_an_abort);
        assert_eq!(report.violations, Vec::<String>::new(), "{machine}");
        // The acknowledgement follows when memory has the word, so no word is present earlier.
        assert!(report.ending_gone > 0, "{machine}: {report:?}");
        let _injected = inject(Mutant::SspRetagsDirty);
        let found = cuts(machine, &one_page, before_an_abort).violations_total;
        println!("{}: {found} on {machine}", Mutant::SspRetagsDirty.name());
        assert!(found > 0, "{machine}");
    }
}
