//! The log at its controller: letters become records, records become durable, and what waits for
//! that goes on.

use std::collections::VecDeque;

use super::packer;
use super::record::{Content, DROPPED};
use super::{
    AHEAD, Commit, HEAD, LETTER, Letter, Live, Log, Logging, MOVES, START, Slot, TAIL, WAITS,
    cannot_hold, parts, tag,
};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::description::Point;
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Machine, Tell};
use crate::mutants::{Mutant, planted};

/// A write of the program's has reached the controller: it waits for its log.
pub(in crate::design) fn hold_back<D: Logging>(
    machine: &mut Machine<D>,
    id: Id,
    write: &mut Write,
) {
    let (now, line) = (machine.now(), write.line as u32);
    let log = machine.design.log();
    if write.class != Class::Data || !log.unsafe_lines.contains_key(&line) {
        return;
    }
    if planted(Mutant::DataBeforeLog) {
        return;
    }
    write.held = true;
    log.held.push((id, line, now));
    // What frees room may wait for this line, and it for room.
    if log.unsafe_lines[&line] == u64::MAX && log.packer.is_mirrored() {
        return cannot_hold(machine);
    }
    if log.packer.is_open(line) {
        log.packer.seal();
        write_lines(machine);
    }
}

/// A message has reached the controller. Whether it is one of the log's.
pub(in crate::design) fn message<D: Logging>(machine: &mut Machine<D>, message: u64) -> bool {
    if message != LETTER {
        return false;
    }
    let log = machine.design.log();
    let letter = log.letters.pop_front().expect("a message brings a letter");
    if let Letter::Entry { slot, .. } = &letter {
        log.unsafe_lines.insert(slot.line, u64::MAX);
    }
    log.inbox.push_back(letter);
    work(machine);
    true
}

/// Puts what has arrived into the log, as long as there is room.
fn work<D: Logging>(machine: &mut Machine<D>) {
    while !machine.design.log().inbox.is_empty() {
        let log = machine.design.log();
        if !log.packer.has_room() {
            let keeps = log.starts.first().map(|(_, serial)| log.live[serial]);
            let open = keeps.is_some_and(|live| live.end.is_none() && live.start <= log.floor);
            // A line whose entry has no room: what frees room may wait for that line.
            let no_room = |(_, line, _): &(Id, u32, Time)| log.unsafe_lines[line] == u64::MAX;
            if log.packer.is_mirrored() && (open || log.held.iter().any(no_room)) {
                return cannot_hold(machine);
            }
            D::squeeze(machine);
            return mirror(machine);
        }
        let mut sender = None;
        match log.inbox.pop_front().expect("there is one") {
            Letter::Entry { core, serial, slot } => {
                append(machine, serial, &slot);
                sender = Some(core);
            }
            Letter::Seal => log.packer.seal(),
            Letter::Commit { serial, core, token } => {
                let live = log.live.get_mut(&serial).expect("it is open");
                let record = log.packer.commit(live.id, live.entries);
                live.end = Some(record);
                let is_dropped = false;
                log.commits.push_back(Commit { record, serial, core, token, is_dropped });
                machine.counts.add("log_bytes", 8);
                machine.counts.add("log_commits", 1);
                is_closed(machine);
            }
            Letter::Drop { serial, core, token } => drop_it(machine, serial, core, token),
        }
        let last = write_lines(machine);
        match (sender, last) {
            (Some(core), Some(last)) => drop(machine.design.log().last_lines.insert(last, core)),
            // Its words wait here for others.
            (Some(core), None) => is_taken(machine, core),
            _ => {}
        }
    }
    if machine.design.log().is_low() {
        D::squeeze(machine);
        mirror(machine);
    }
}

/// A transaction ends without ever being committed. What would be undone gets a drop word.
fn drop_it<D: Logging>(machine: &mut Machine<D>, serial: u64, core: usize, token: When) {
    is_closed(machine);
    let log = machine.design.log();
    let live = log.live.get_mut(&serial).expect("it is open");
    if log.content != Content::New && live.entries > 0 && !planted(Mutant::DropWithoutWord) {
        let record = log.packer.commit(live.id, DROPPED);
        live.end = Some(record);
        log.commits.push_back(Commit { record, serial, core, token, is_dropped: true });
        machine.counts.add("log_bytes", 8);
        return;
    }
    // Nobody else has its name before the last record that may be about it is gone: that one is
    // written now, for who waits for the name may be the only one that would write any.
    if live.entries > 0 {
        log.packer.seal();
        live.end = Some(log.packer.next() - 1);
    }
    let there = machine.answer(0, core, Size::Control);
    machine.tell(token, there);
    finish(machine, serial);
}

fn append<D: Logging>(machine: &mut Machine<D>, serial: u64, slot: &Slot) {
    let log = machine.design.log();
    let live = log.live.get_mut(&serial).expect("it is open");
    let mut places = Vec::new();
    let first = log.packer.next();
    let (entries, words) = log.packer.append(live.id, slot, &mut places);
    live.entries += entries;
    // A record that was sealed with it is the one before the open one.
    let last =
        if log.packer.is_open(slot.line) { log.packer.next() } else { log.packer.next() - 1 };
    let is_of_line =
        |letter: &Letter| matches!(letter, Letter::Entry { slot: it, .. } if it.line == slot.line);
    if !log.inbox.iter().any(is_of_line) {
        log.unsafe_lines.insert(slot.line, last.max(first));
    }
    // Whoever waits until the line is at home may have the locks of who would end the record.
    let is_held = |log: &Log| log.held.iter().any(|(_, line, _)| *line == slot.line);
    if log.software.needs_home() && log.packer.is_open(slot.line) && is_held(log) {
        log.packer.seal();
    }
    machine.design.appended(serial, slot, places);
    machine.counts.add("log_entries", u64::from(entries));
    machine.counts.add("log_bytes", 8 * (u64::from(entries) + words));
}

/// A slot of a core is under way no longer: a store may wait for that.
fn is_taken<D: Logging>(machine: &mut Machine<D>, core: usize) {
    let writing = &mut machine.design.log().cores[core];
    writing.under_way -= 1;
    if let Some((token, since)) = writing.stalled.take() {
        let there = machine.answer(0, core, Size::Control);
        machine.counts.phases.log_stall += there - since;
        machine.tell(token, there);
    }
}

/// Sends what the packer has made to memory. Answers the last line's tag: the queue accepts them in
/// this order.
fn write_lines<D: Logging>(machine: &mut Machine<D>) -> Option<u64> {
    let mut last = None;
    for packer::Line { line, words, class, head } in machine.design.log().packer.take_lines() {
        let mut write = Write::new(u64::from(line), words, class);
        match head {
            None => {
                let log = machine.design.log();
                log.written += 1;
                let number = log.written;
                let id = machine.log(0, write, Tell::Design(0, tag(TAIL, number)));
                machine.design.log().tails.insert(number, id);
                last = Some(tag(TAIL, number));
            }
            Some(record) => {
                let tails = std::mem::take(&mut machine.design.log().tails);
                write.after = tails.into_values().collect();
                machine.log(0, write, Tell::Design(0, tag(HEAD, record)));
                last = Some(tag(HEAD, record));
            }
        }
    }
    last
}

/// A write of the design's has got somewhere. Whether it is one of the log's.
pub(in crate::design) fn told<D: Logging>(machine: &mut Machine<D>, told: u64, at: Point) -> bool {
    let (kind, number) = parts(told);
    if at == Point::Accepted
        && let Some(core) = machine.design.log().last_lines.remove(&told)
    {
        is_taken(machine, core);
    }
    let is_durable = at == machine.description.persist.point;
    match kind {
        HEAD if is_durable => head_is_durable(machine, number),
        START if is_durable => start_is_durable(machine),
        // A head cannot wait for what is over.
        TAIL if at == Point::Media => drop(machine.design.log().tails.remove(&number)),
        _ => {}
    }
    (HEAD..=START).contains(&kind)
}

fn head_is_durable<D: Logging>(machine: &mut Machine<D>, record: u64) {
    let now = machine.now();
    let log = machine.design.log();
    let (lines, is_ahead) = log.packer.durable(record);
    for (record, line) in lines {
        if log.unsafe_lines.get(&line) == Some(&record) {
            log.unsafe_lines.remove(&line);
        }
    }
    let frontier = log.packer.frontier();
    let own = planted(Mutant::AcknowledgeOwnRecord);
    let is_over = |commit: &Commit| commit.record < frontier || own && commit.record == record;
    let (over, left): (VecDeque<_>, _) = log.commits.drain(..).partition(is_over);
    log.commits = left;
    let held = std::mem::take(&mut log.held);
    let (held, free): (Vec<_>, Vec<_>) =
        held.into_iter().partition(|(_, line, _)| log.unsafe_lines.contains_key(line));
    log.held = held;
    if is_ahead {
        machine.rare(AHEAD, now, now + 100);
    }
    for (id, _, since) in free {
        machine.controller(0).release(now, id);
        machine.rare(WAITS, since, now);
    }
    // Of a dropped transaction without a drop word nobody else is told.
    if over.is_empty() && !machine.design.log().waiting.is_empty() {
        trim(machine);
    }
    for Commit { serial, core, token, is_dropped, .. } in over {
        let there = machine.answer(0, core, Size::Control);
        machine.tell(token, there);
        match is_dropped {
            true => finish(machine, serial),
            false => D::committed(machine, serial),
        }
    }
}

/// Nobody needs a transaction's records any more: Log Start moves on as far as it can.
pub(in crate::design) fn finish<D: Logging>(machine: &mut Machine<D>, serial: u64) {
    let log = machine.design.log();
    let Live { id, start, end, .. } = log.live.remove(&serial).expect("it is live");
    log.starts.remove(&(start, serial));
    log.names.give_back(id, end.filter(|_| !planted(Mutant::NameReusedEarly)));
    trim(machine);
}

/// Log Start moves on as far as it can.
pub(in crate::design) fn trim<D: Logging>(machine: &mut Machine<D>) {
    let log = machine.design.log();
    let first = log.starts.first().map_or(log.packer.next(), |(start, _)| *start);
    log.packer.move_start(first.min(log.floor));
    mirror(machine);
    // Where it cannot move, nothing else may come of what waits for room.
    if !machine.design.log().packer.has_room() {
        work(machine);
    }
}

/// Begins to write Log Start to memory, if that helps anybody.
pub(super) fn mirror<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let log = machine.design.log();
    let waits = !log.waiting.is_empty() || !log.inbox.is_empty();
    let wanted = waits || log.is_low() || log.names.are_few();
    let moves = wanted && !log.packer.is_mirrored() || !log.marks.is_empty();
    if !moves || log.packer.is_mirroring() {
        return;
    }
    log.mirrors = now;
    let (line, words) = log.packer.mirror();
    let write = Write::new(u64::from(line), words, Class::Checkpoint);
    machine.log(0, write, Tell::Design(0, tag(START, 0)));
}

/// Memory has Log Start: what is before it is free.
fn start_is_durable<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let log = machine.design.log();
    let start = log.packer.has_mirrored();
    log.names.log_starts_at(start);
    let (since, done) = (log.mirrors, log.packer.done());
    let (known, left): (Vec<_>, _) = log.marks.drain(..).partition(|(record, ..)| *record <= done);
    log.marks = left;
    machine.rare(MOVES, since, now);
    for (_, core, token) in known {
        let there = machine.answer(0, core, Size::Control);
        machine.tell(token, there);
    }
    room_again(machine);
    work(machine);
    mirror(machine);
}

/// What is committed before this record is at home: recovery leaves it as it is when memory knows
/// that, and then a core is told.
pub(super) fn all_at_home<D: Logging>(machine: &mut Machine<D>, record: u64, core: usize) -> When {
    let token = machine.open_token();
    let log = machine.design.log();
    log.packer.is_done(record);
    log.marks.push((record, core, token));
    mirror(machine);
    token
}

/// A transaction is open no longer: there is no room to keep for what it would log, and for its
/// end.
pub(super) fn is_closed<D: Logging>(machine: &mut Machine<D>) {
    machine.design.log().open -= 1;
    room_again(machine);
}

/// Who waits to begin looks again.
pub(in crate::design) fn room_again<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let waiting = std::mem::take(&mut machine.design.log().waiting);
    waiting.into_iter().for_each(|token| machine.tell(token, now));
}
