//! The core's side of the log: begin, drained stores, and log messages to the controller.

use super::controller::{is_closed, trim};
use super::{FULL, LOG_MESSAGE, LogMessage, Logging, Writing, finish};
use crate::machine::memory::line_of;
use crate::machine::when::When;
use crate::machine::{Hart, Machine};

/// Begins a transaction, after a wait for room and an identifier.
pub(in crate::design) fn begin<D: Logging>(hart: &mut Hart<'_, D>) {
    let cycle = hart.cycle();
    hart.at(cycle);
    let (core, began) = (hart.core(), hart.machine().now());
    loop {
        let machine = hart.machine();
        let now = machine.now();
        if machine.design.log().is_low() {
            D::request_write_backs(machine);
        }
        let earlier = machine.stores_left(core);
        let may_begin = machine.design.may_begin() && can_take(machine, 1);
        let log = machine.design.log();
        if may_begin
            && log.packer.is_free(1)
            && let Some(id) = log.ids.take()
        {
            log.begin(core, id, earlier);
            if now > began {
                machine.rare(FULL, began, now);
            }
            return;
        }
        let token = machine.open_token();
        machine.design.log().waiting.push(token);
        // Log Start may lag behind a record that became durable while no transaction waited.
        trim(machine);
        hart.wait_for(token);
    }
}

/// Ends the body of a transaction, after its stores have drained. Returns whether it has writes to
/// commit. Without writes, the log forgets it.
pub(in crate::design) fn end_body<D: Logging>(hart: &mut Hart<'_, D>) -> bool {
    hart.settle();
    let cycle = hart.cycle();
    hart.at(cycle);
    let core = hart.core();
    let machine = hart.machine();
    let writing = &mut machine.design.log().cores[core];
    writing.runs = false;
    let (serial, has_written) = (writing.serial, writing.has_written);
    // An aborted transaction may have been forgotten already.
    if !has_written && machine.design.log().is_live(serial) {
        is_closed(machine);
        finish(machine, serial);
    }
    machine.design.log().software.is_over(core);
    has_written
}

/// Whether the log has room for one more store of a core's transaction.
///
/// The log has room when the core's share is not used up and the log can take all entries in flight
/// to it. Entries of open transactions therefore always have room. No open transaction ever waits
/// for Log Start, which open transactions block. The shares of all cores sum to less than a quarter
/// of the log, and a transaction begins when that much is free. The second condition is still
/// necessary: a record that is sealed early takes more log space than a share counts, and a line
/// that leaves the caches early sends its slot early.
pub(super) fn has_room<D: Logging>(machine: &mut Machine<D>, core: usize) -> bool {
    let most = u64::from(machine.description.core.store_buffer);
    let log = machine.design.log();
    let used = log.cores[core].sent + log.cores[core].buffer.len();
    let left = log.share.saturating_sub(used);
    (most < left || (machine.stores_left(core) as u64) < left) && can_take(machine, 0)
}

/// Whether the log can take all entries in flight, one more store per transaction, and `ends` more
/// transaction ends. Each undrained store may need its own slot, since its line's slot may have
/// left. A running transaction may also hold a grant for a store that still waits for its place in
/// the store buffer.
fn can_take<D: Logging>(machine: &mut Machine<D>, ends: u64) -> bool {
    let (cores, stores) = (machine.cores(), machine.description.core.store_buffer as usize);
    let log = machine.design.log();
    let (log_messages, ends) = ((log.log_messages.len() + log.inbox.len()) as u64, log.open + ends);
    // The bound over all slot and store buffers usually suffices.
    let most = (cores * (log.places + stores + 1)) as u64;
    if log.packer.can_take(log_messages + most, ends) {
        return true;
    }
    let buffered: u64 = log.cores.iter().map(|writing| writing.buffer.len()).sum();
    // Software's stores create no entries.
    let running: Vec<usize> = (0..cores).filter(|core| log.cores[*core].runs).collect();
    let stores: usize = running.into_iter().map(|core| machine.stores_left(core) + 1).sum();
    machine.design.log().packer.can_take(log_messages + buffered + stores as u64, ends)
}

/// Abandons a core's transaction after its stores have drained. On return the controller has all
/// its entries and no recovery needs them. If recovery would undo them, the drop word is durable.
pub(super) fn forget<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    let machine = hart.machine();
    let token = machine.open_token();
    let writing = &mut machine.design.log().cores[core];
    (writing.runs, writing.has_written) = (false, false);
    writing.buffer.drain();
    let serial = writing.serial;
    send(machine, core, LogMessage::Drop { serial, core, token });
    hart.wait_for(token);
}

/// Sends all slots of a core's buffer to the controller.
pub(in crate::design) fn drain<D: Logging>(machine: &mut Machine<D>, core: usize) {
    let Writing { buffer, serial, .. } = &mut machine.design.log().cores[core];
    let (slots, serial) = (buffer.drain(), *serial);
    slots
        .into_iter()
        .for_each(|slot| send(machine, core, LogMessage::Entry { core, serial, slot }));
}

/// Requests the write of the record that has a core's last entries.
pub(in crate::design) fn seal<D: Logging>(machine: &mut Machine<D>, core: usize) {
    send(machine, core, LogMessage::Seal);
}

/// Requests the commit of a core's transaction. Returns a token for its acknowledgement.
pub(in crate::design) fn commit<D: Logging>(machine: &mut Machine<D>, core: usize) -> When {
    let token = machine.open_token();
    let serial = machine.design.log().cores[core].serial;
    send(machine, core, LogMessage::Commit { serial, core, token });
    token
}

/// Returns the token that a store of a core must wait for, if it would displace a slot while too
/// many slots are in flight. The wait cannot deadlock: slots at a transaction's end, and slots of
/// lines that leave the caches, leave at once.
pub(in crate::design) fn waits<D: Logging>(
    machine: &mut Machine<D>,
    core: usize,
    word: u64,
) -> Option<When> {
    let (line, now) = (line_of(word), machine.now());
    let is_nvm = machine.memory.is_nvm(line);
    let log = machine.design.log();
    let Writing { buffer, runs, earlier, in_flight, .. } = &log.cores[core];
    let has_place = *in_flight < log.places || !buffer.is_full_for(line, word as usize % 8);
    if !is_nvm || !runs || *earlier > 0 || has_place {
        return None;
    }
    let token = machine.open_token();
    machine.design.log().cores[core].stalled = Some((token, now));
    Some(token)
}

fn send<D: Logging>(machine: &mut Machine<D>, core: usize, log_message: LogMessage) {
    if let LogMessage::Entry { .. } = log_message {
        let writing = &mut machine.design.log().cores[core];
        writing.in_flight += 1;
        writing.sent += 1;
    }
    machine.design.log().log_messages.push_back(log_message);
    machine.send_message(core, 0, [LOG_MESSAGE, 0]);
}

/// Logs a drained store of a core. Returns whether the store belongs to the transaction. Stores
/// that were in the store buffer at its begin do not, and drain first.
pub(in crate::design) fn note<D: Logging>(
    machine: &mut Machine<D>,
    core: usize,
    word: u64,
    old: u64,
) -> bool {
    let line = line_of(word);
    let is_nvm = machine.memory.is_nvm(line);
    let writing = &mut machine.design.log().cores[core];
    if writing.earlier > 0 {
        writing.earlier -= 1;
        return false;
    }
    if !is_nvm || !writing.runs {
        if let Some(payload) = writing.puts_back.get(&word).copied() {
            let value = machine.memory.word(word);
            machine.memory.restore(word, value, payload);
        }
        return false;
    }
    let new = machine.memory.payload(word);
    let writing = &mut machine.design.log().cores[core];
    writing.has_written = true;
    let serial = writing.serial;
    if let Some(slot) = writing.buffer.store(line, word as usize % 8, old, new) {
        send(machine, core, LogMessage::Entry { core, serial, slot });
    }
    true
}

/// Sends the buffers' slots of a line that leaves the caches, ahead of the line.
pub(in crate::design) fn push_out<D: Logging>(machine: &mut Machine<D>, line: u32) {
    for core in 0..machine.cores() {
        let Writing { buffer, serial, .. } = &mut machine.design.log().cores[core];
        if let Some(slot) = buffer.take(line) {
            let serial = *serial;
            send(machine, core, LogMessage::Entry { core, serial, slot });
        }
    }
}
