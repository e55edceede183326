//! The log at its cores: who may begin, what has been stored, and when it goes to the controller.

use super::controller::{is_closed, trim};
use super::{FULL, LETTER, Letter, Logging, Writing, finish};
use crate::machine::memory::line_of;
use crate::machine::when::When;
use crate::machine::{Hart, Machine};

/// A transaction begins, when there are room and a name for it.
pub(in crate::design) fn begin<D: Logging>(hart: &mut Hart<'_, D>) {
    let cycle = hart.cycle();
    hart.at(cycle);
    let (core, began) = (hart.core(), hart.machine().now());
    loop {
        let machine = hart.machine();
        let now = machine.now();
        if machine.design.log().is_low() {
            D::squeeze(machine);
        }
        let earlier = machine.stores_left(core);
        let may_begin = machine.design.may_begin() && can_take(machine, 1);
        let log = machine.design.log();
        if may_begin
            && log.packer.is_free(1)
            && let Some(id) = log.names.take()
        {
            log.begin(core, id, earlier);
            if now > began {
                machine.rare(FULL, began, now);
            }
            return;
        }
        let token = machine.open_token();
        machine.design.log().waiting.push(token);
        // A record that has become durable when nobody waited may have kept Log Start where it is.
        trim(machine);
        hart.wait_for(token);
    }
}

/// The body is over, and its stores have drained. Whether it has written anything that is to be
/// committed; otherwise nothing is left of it.
pub(in crate::design) fn end_body<D: Logging>(hart: &mut Hart<'_, D>) -> bool {
    hart.settle();
    let cycle = hart.cycle();
    hart.at(cycle);
    let core = hart.core();
    let machine = hart.machine();
    let writing = &mut machine.design.log().cores[core];
    writing.runs = false;
    let (serial, has_written) = (writing.serial, writing.has_written);
    // One that has given up may be forgotten already.
    if !has_written && machine.design.log().is_live(serial) {
        is_closed(machine);
        finish(machine, serial);
    }
    machine.design.log().software.is_over(core);
    has_written
}

/// Whether the log has room for one more store of a core's transaction.
///
/// It has when the core's share is not used up, and the log can take whatever else is on its way
/// there. So entries of open transactions always have room, and Log Start, which these keep where
/// it is, is never waited for by one of them. (The shares of all cores are less than a quarter of
/// the log, and one begins when that is free. But a record that is sealed early takes more of the
/// log than a share counts, and a line that leaves the caches early takes its slot with it.)
pub(super) fn has_room<D: Logging>(machine: &mut Machine<D>, core: usize) -> bool {
    let most = u64::from(machine.description.core.store_buffer);
    let log = machine.design.log();
    let used = log.cores[core].sent + log.cores[core].buffer.len();
    let left = log.share.saturating_sub(used);
    (most < left || (machine.stores_left(core) as u64) < left) && can_take(machine, 0)
}

/// Whether the log can take what is on its way there, a store more of each transaction, and so many
/// transactions' ends more. Each store that has not drained may need a slot: it may be to a line
/// whose slot has left. And whoever runs may have been granted room for one that still waits for
/// its place in the store buffer.
fn can_take<D: Logging>(machine: &mut Machine<D>, ends: u64) -> bool {
    let (cores, stores) = (machine.cores(), machine.description.core.store_buffer as usize);
    let log = machine.design.log();
    let (letters, ends) = ((log.letters.len() + log.inbox.len()) as u64, log.open + ends);
    // Mostly there is room for all that buffers of slots and of stores could ever make.
    let most = (cores * (log.places + stores + 1)) as u64;
    if log.packer.can_take(letters + most, ends) {
        return true;
    }
    let buffered: u64 = log.cores.iter().map(|writing| writing.buffer.len()).sum();
    // Software's stores have no entries.
    let running: Vec<usize> = (0..cores).filter(|core| log.cores[*core].runs).collect();
    let stores: usize = running.into_iter().map(|core| machine.stores_left(core) + 1).sum();
    machine.design.log().packer.can_take(letters + buffered + stores as u64, ends)
}

/// A core's transaction, whose stores have drained, ends without ever being committed. On return
/// the controller has all its entries, and nobody needs them: where they would be undone its drop
/// word is durable.
pub(super) fn forget<D: Logging>(hart: &mut Hart<'_, D>) {
    let core = hart.core();
    let machine = hart.machine();
    let token = machine.open_token();
    let writing = &mut machine.design.log().cores[core];
    (writing.runs, writing.has_written) = (false, false);
    writing.buffer.drain();
    let serial = writing.serial;
    send(machine, core, Letter::Drop { serial, core, token });
    hart.wait_for(token);
}

/// All that a core's buffer has goes to the controller.
pub(in crate::design) fn drain<D: Logging>(machine: &mut Machine<D>, core: usize) {
    let Writing { buffer, serial, .. } = &mut machine.design.log().cores[core];
    let (slots, serial) = (buffer.drain(), *serial);
    slots.into_iter().for_each(|slot| send(machine, core, Letter::Entry { core, serial, slot }));
}

/// The record that has a core's last entries is to be written.
pub(in crate::design) fn seal<D: Logging>(machine: &mut Machine<D>, core: usize) {
    send(machine, core, Letter::Seal);
}

/// A core's transaction is to be committed. Answers what to wait for.
pub(in crate::design) fn commit<D: Logging>(machine: &mut Machine<D>, core: usize) -> When {
    let token = machine.open_token();
    let serial = machine.design.log().cores[core].serial;
    send(machine, core, Letter::Commit { serial, core, token });
    token
}

/// A store of a core could drain. Answers what it waits for: when a slot has to leave the buffer
/// for it, until fewer slots are under way than the buffer has. (Nothing that makes room for these
/// waits for a store: what a transaction has left at its end, and what goes ahead of a line, leaves
/// at once.)
pub(in crate::design) fn waits<D: Logging>(
    machine: &mut Machine<D>,
    core: usize,
    word: u64,
) -> Option<When> {
    let (line, now) = (line_of(word), machine.now());
    let is_nvm = machine.memory.is_nvm(line);
    let log = machine.design.log();
    let Writing { buffer, runs, earlier, under_way, .. } = &log.cores[core];
    let has_place = *under_way < log.places || !buffer.is_full_for(line, word as usize % 8);
    if !is_nvm || !runs || *earlier > 0 || has_place {
        return None;
    }
    let token = machine.open_token();
    machine.design.log().cores[core].stalled = Some((token, now));
    Some(token)
}

fn send<D: Logging>(machine: &mut Machine<D>, core: usize, letter: Letter) {
    if let Letter::Entry { .. } = letter {
        let writing = &mut machine.design.log().cores[core];
        writing.under_way += 1;
        writing.sent += 1;
    }
    machine.design.log().letters.push_back(letter);
    machine.send_message(core, 0, [LETTER, 0]);
}

/// A store of a core has drained. Whether it is one of its transaction: what was in the store
/// buffer when that began is not, and drains first.
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
        send(machine, core, Letter::Entry { core, serial, slot });
    }
    true
}

/// A line leaves the caches: what buffers have of it goes ahead.
pub(in crate::design) fn push_out<D: Logging>(machine: &mut Machine<D>, line: u32) {
    for core in 0..machine.cores() {
        let Writing { buffer, serial, .. } = &mut machine.design.log().cores[core];
        if let Some(slot) = buffer.take(line) {
            let serial = *serial;
            send(machine, core, Letter::Entry { core, serial, slot });
        }
    }
}
