//! The controller's side of the log: log messages become records, records become durable, and
//! waiters resume.

use std::collections::VecDeque;

use super::packer;
use super::record::{Content, DROPPED};
use super::{
    AHEAD, Commit, HEAD, LOG_MESSAGE, Live, Log, LogMessage, Logging, MOVES, START, Slot, TAIL,
    WAITS, cannot_hold, parts, tag,
};
use crate::machine::controller::{Class, Id, Write};
use crate::machine::description::Point;
use crate::machine::network::Size;
use crate::machine::when::{Time, When};
use crate::machine::{Machine, Notify};
use crate::mutants::{Mutant, injected};

/// Holds back a program write that has reached the controller before its log entries are durable.
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
    if injected(Mutant::DataBeforeLog) {
        return;
    }
    write.held = true;
    log.held.push((id, line, now));
    // Log space may only become free after this line is written, which itself waits for log space.
    if log.unsafe_lines[&line] == u64::MAX && log.packer.is_mirrored() {
        return cannot_hold(machine);
    }
    if log.packer.is_open(line) {
        log.packer.seal();
        write_lines(machine);
    }
}

/// Receives a message at the controller. Returns whether it belongs to the log.
pub(in crate::design) fn message<D: Logging>(machine: &mut Machine<D>, message: u64) -> bool {
    if message != LOG_MESSAGE {
        return false;
    }
    let log = machine.design.log();
    let log_message = log.log_messages.pop_front().expect("each message announces a log message");
    if let LogMessage::Entry { slot, .. } = &log_message {
        log.unsafe_lines.insert(slot.line, u64::MAX);
    }
    log.inbox.push_back(log_message);
    work(machine);
    true
}

/// Appends the log messages that have arrived, while the log has room.
fn work<D: Logging>(machine: &mut Machine<D>) {
    while !machine.design.log().inbox.is_empty() {
        let log = machine.design.log();
        if !log.packer.has_room() {
            let keeps = log.starts.first().map(|(_, serial)| log.live[serial]);
            let open = keeps.is_some_and(|live| live.end.is_none() && live.start <= log.floor);
            // A held line whose entry has no room: log space may only become free after that line
            // is written.
            let no_room = |(_, line, _): &(Id, u32, Time)| log.unsafe_lines[line] == u64::MAX;
            if log.packer.is_mirrored() && (open || log.held.iter().any(no_room)) {
                return cannot_hold(machine);
            }
            D::request_write_backs(machine);
            return mirror(machine);
        }
        let mut sender = None;
        match log.inbox.pop_front().expect("the inbox is not empty") {
            LogMessage::Entry { core, serial, slot } => {
                append(machine, serial, &slot);
                sender = Some(core);
            }
            LogMessage::Seal => log.packer.seal(),
            LogMessage::Commit { serial, core, token } => {
                let live = log.live.get_mut(&serial).expect("the transaction is open");
                let record = log.packer.commit(live.id, live.entries);
                live.end = Some(record);
                let is_dropped = false;
                log.commits.push_back(Commit { record, serial, core, token, is_dropped });
                machine.counts.add("log_bytes", 8);
                machine.counts.add("log_commits", 1);
                is_closed(machine);
            }
            LogMessage::Drop { serial, core, token } => drop_it(machine, serial, core, token),
        }
        let last = write_lines(machine);
        match (sender, last) {
            (Some(core), Some(last)) => drop(machine.design.log().last_lines.insert(last, core)),
            // The slot's words wait in the open record, so the slot is accepted now.
            (Some(core), None) => is_taken(machine, core),
            _ => {}
        }
    }
    if machine.design.log().is_low() {
        D::request_write_backs(machine);
        mirror(machine);
    }
}

/// Abandons a transaction. If recovery would undo its entries, it gets a drop word.
fn drop_it<D: Logging>(machine: &mut Machine<D>, serial: u64, core: usize, token: When) {
    is_closed(machine);
    let log = machine.design.log();
    let live = log.live.get_mut(&serial).expect("the transaction is open");
    if log.content != Content::New && live.entries > 0 && !injected(Mutant::DropWithoutWord) {
        let record = log.packer.commit(live.id, DROPPED);
        live.end = Some(record);
        log.commits.push_back(Commit { record, serial, core, token, is_dropped: true });
        machine.counts.add("log_bytes", 8);
        return;
    }
    // The identifier stays reserved until Log Start passes the last record with its entries. The
    // open record is sealed now: perhaps only a transaction that waits for the identifier would
    // seal it.
    if live.entries > 0 {
        log.packer.seal();
        live.end = Some(log.packer.next() - 1);
    }
    let there = machine.answer(0, core, Size::Control);
    machine.notify(token, there);
    finish(machine, serial);
}

fn append<D: Logging>(machine: &mut Machine<D>, serial: u64, slot: &Slot) {
    let log = machine.design.log();
    let live = log.live.get_mut(&serial).expect("the transaction is open");
    let mut places = Vec::new();
    let first = log.packer.next();
    let (entries, words) = log.packer.append(live.id, slot, &mut places);
    live.entries += entries;
    // A record that was sealed by this entry is the one before the open record.
    let last =
        if log.packer.is_open(slot.line) { log.packer.next() } else { log.packer.next() - 1 };
    let is_of_line =
        |it: &LogMessage| matches!(it, LogMessage::Entry { slot: of, .. } if of.line == slot.line);
    if !log.inbox.iter().any(is_of_line) {
        log.unsafe_lines.insert(slot.line, last.max(first));
    }
    // A transaction that waits for the line's write-back may hold the locks of the transaction that
    // would end the record.
    let is_held = |log: &Log| log.held.iter().any(|(_, line, _)| *line == slot.line);
    if log.software.needs_write_back() && log.packer.is_open(slot.line) && is_held(log) {
        log.packer.seal();
    }
    machine.design.appended(serial, slot, places);
    machine.counts.add("log_entries", u64::from(entries));
    machine.counts.add("log_bytes", 8 * (u64::from(entries) + words));
}

/// Counts a slot of a core as arrived, and wakes a store that waits for it.
fn is_taken<D: Logging>(machine: &mut Machine<D>, core: usize) {
    let writing = &mut machine.design.log().cores[core];
    writing.in_flight -= 1;
    if let Some((token, since)) = writing.stalled.take() {
        let there = machine.answer(0, core, Size::Control);
        machine.counts.phases.log_stall += there - since;
        machine.notify(token, there);
    }
}

/// Sends the packer's lines to memory. Returns the tag of the last one. The queue accepts them in
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
                let id = machine.log(0, write, Notify::Design(0, tag(TAIL, number)));
                machine.design.log().tails.insert(number, id);
                last = Some(tag(TAIL, number));
            }
            Some(record) => {
                let tails = std::mem::take(&mut machine.design.log().tails);
                write.after = tails.into_values().collect();
                machine.log(0, write, Notify::Design(0, tag(HEAD, record)));
                last = Some(tag(HEAD, record));
            }
        }
    }
    last
}

/// Receives the progress of a write. Returns whether the write belongs to the log.
pub(in crate::design) fn write_reached<D: Logging>(
    machine: &mut Machine<D>,
    write_tag: u64,
    at: Point,
) -> bool {
    let (kind, number) = parts(write_tag);
    if at == Point::Accepted
        && let Some(core) = machine.design.log().last_lines.remove(&write_tag)
    {
        is_taken(machine, core);
    }
    let is_durable = at == machine.description.persist.point;
    match kind {
        HEAD if is_durable => head_is_durable(machine, number),
        START if is_durable => start_is_durable(machine),
        // A head cannot wait for a completed write.
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
    let own = injected(Mutant::AcknowledgeOwnRecord);
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
    // A dropped transaction without a drop word has no commit to trigger `trim`.
    if over.is_empty() && !machine.design.log().waiting.is_empty() {
        trim(machine);
    }
    for Commit { serial, core, token, is_dropped, .. } in over {
        let there = machine.answer(0, core, Size::Control);
        machine.notify(token, there);
        match is_dropped {
            true => finish(machine, serial),
            false => D::committed(machine, serial),
        }
    }
}

/// Ends a transaction whose records are no longer needed, and advances Log Start.
pub(in crate::design) fn finish<D: Logging>(machine: &mut Machine<D>, serial: u64) {
    let log = machine.design.log();
    let Live { id, start, end, .. } = log.live.remove(&serial).expect("the transaction is live");
    log.starts.remove(&(start, serial));
    log.ids.give_back(id, end.filter(|_| !injected(Mutant::NameReusedEarly)));
    trim(machine);
}

/// Advances Log Start as far as the live transactions allow.
pub(in crate::design) fn trim<D: Logging>(machine: &mut Machine<D>) {
    let log = machine.design.log();
    let first = log.starts.first().map_or(log.packer.next(), |(start, _)| *start);
    log.packer.move_start(first.min(log.floor));
    mirror(machine);
    // If Log Start has not advanced, no other event may retry the messages that wait for room.
    if !machine.design.log().packer.has_room() {
        work(machine);
    }
}

/// Starts a write of Log Start to memory, if a waiter or a low log needs it.
pub(super) fn mirror<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let log = machine.design.log();
    let waits = !log.waiting.is_empty() || !log.inbox.is_empty();
    let wanted = waits || log.is_low() || log.ids.are_few();
    let moves = wanted && !log.packer.is_mirrored() || !log.watermark_waiters.is_empty();
    if !moves || log.packer.is_mirroring() {
        return;
    }
    log.mirrors = now;
    let (line, words) = log.packer.mirror();
    let write = Write::new(u64::from(line), words, Class::Checkpoint);
    machine.log(0, write, Notify::Design(0, tag(START, 0)));
}

/// Frees the space before the durable Log Start.
fn start_is_durable<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let log = machine.design.log();
    let start = log.packer.has_mirrored();
    log.ids.log_starts_at(start);
    let (since, watermark) = (log.mirrors, log.packer.watermark());
    let (known, left): (Vec<_>, _) =
        log.watermark_waiters.drain(..).partition(|(record, ..)| *record <= watermark);
    log.watermark_waiters = left;
    machine.rare(MOVES, since, now);
    for (_, core, token) in known {
        let there = machine.answer(0, core, Size::Control);
        machine.notify(token, there);
    }
    room_again(machine);
    work(machine);
    mirror(machine);
}

/// Raises the applied watermark to this record. Returns a token for its durability; recovery then
/// skips the commits before it.
pub(super) fn raise_watermark<D: Logging>(
    machine: &mut Machine<D>,
    record: u64,
    core: usize,
) -> When {
    let token = machine.open_token();
    let log = machine.design.log();
    log.packer.raise_watermark(record);
    log.watermark_waiters.push((record, core, token));
    mirror(machine);
    token
}

/// Ends the reservation of log space for a transaction's entries and its end.
pub(super) fn is_closed<D: Logging>(machine: &mut Machine<D>) {
    machine.design.log().open -= 1;
    room_again(machine);
}

/// Wakes the transactions that wait to begin.
pub(in crate::design) fn room_again<D: Logging>(machine: &mut Machine<D>) {
    let now = machine.now();
    let waiting = std::mem::take(&mut machine.design.log().waiting);
    waiting.into_iter().for_each(|token| machine.notify(token, now));
}
