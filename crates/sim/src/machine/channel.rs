//! A channel: one memory controller, the requests in flight to it, and the routing of its
//! responses.

use super::Machine;
use super::agenda::Agenda;
use super::controller::{Class, Controller, Counts, Event, Id, Line, Queue, Timing, Write};
use super::description::{Description, Interleaving, Memory as Described, Point};
use super::memory::LineWords;
use super::network::{Network, Size, Tile};
use super::when::{Time, When};
use crate::design::Design;
use crate::persist::requests::Request;
use crate::persist::{Change, Queued};

/// A memory channel.
pub(crate) struct Channel {
    pub(crate) controller: Controller,
    /// Arrivals by time; arrivals of equal time in the order of sending.
    inbox: Agenda<Time, Arrival>,
    tile: Tile,
    is_nvm: bool,
    /// The channel's number among those of its kind (persistent or DRAM), and their lines.
    index: u32,
    lines: Interleaving,
    /// Extra latency of each response from a remote channel.
    remote: Time,
}

/// A message that arrives at a controller.
enum Arrival {
    Read {
        id: Id,
        line: u32,
    },
    Write {
        id: Id,
        write: Write,
    },
    /// A message of the design.
    Message {
        core: usize,
        message: Message,
    },
}

/// The content of a design's message. The network sends it as one control message.
pub type Message = [u64; 2];

/// The consumer of a controller's response.
pub(crate) enum Pending {
    /// A core waits for a line. A checking run compares the line with `expected`.
    Fill { core: usize, line: u32, done: When, expected: Option<Box<LineWords>> },
    /// The design reads the array.
    Array { line: u32, tag: u64 },
    /// A core waits until a write is durable.
    Ack { core: usize, done: When },
    /// The design is notified.
    Design { core: usize, tag: u64 },
}

/// The receiver of a write's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// None.
    None,
    /// This core; the token completes when the acknowledgement reaches the core.
    Core(usize, When),
    /// The design, with a tag: [`Design::accepted`] and [`Design::notified`].
    Design(usize, u64),
}

impl Channel {
    /// Returns all channels of a machine, those of persistent memory first.
    pub(crate) fn all(description: &Description, network: &Network) -> Vec<Channel> {
        let kinds = [(Some(&description.nvm), true), (description.dram.as_ref(), false)];
        let described = kinds.into_iter().filter_map(|(it, is_nvm)| Some((it?, is_nvm)));
        let channels = described.flat_map(|(memory, is_nvm)| {
            (0..memory.channels).map(move |index| Channel {
                controller: controller(description, memory),
                inbox: Agenda::new(),
                tile: network.corner(index as usize),
                is_nvm,
                index,
                lines: memory.interleaving(),
                remote: if index >= 2 { description.cycles(description.mc.remote_ns) } else { 0 },
            })
        });
        channels.collect()
    }

    fn local(&self, line: u32) -> u64 {
        u64::from(self.lines.local(line))
    }

    fn global(&self, local: u64) -> u32 {
        self.lines.line(self.index, local as u32)
    }

    fn next(&self) -> Option<Time> {
        self.inbox.first().into_iter().chain(self.controller.next()).min()
    }
}

fn controller(description: &Description, memory: &Described) -> Controller {
    let in_cycles = |ns| description.cycles(ns);
    let timing = Timing {
        banks: u64::from(memory.banks),
        ranks: u64::from(memory.ranks),
        groups: u64::from(memory.bank_groups),
        row_lines: u64::from(memory.row_bytes / 64),
        interleave_lines: u64::from(memory.interleave_bytes / 64),
        read_hit: in_cycles(memory.read_hit_ns),
        read_miss: in_cycles(memory.read_miss_ns),
        write_hit: in_cycles(memory.write_hit_ns),
        write_miss: in_cycles(memory.write_ns),
        write_keeps_bank: memory.write_keeps_bank,
        burst: in_cycles(memory.burst_ns).max(1),
        ccd_l: in_cycles(memory.ccd_l_ns),
        rrd_s: in_cycles(memory.rrd_s_ns),
        rrd_l: in_cycles(memory.rrd_l_ns),
        faw: in_cycles(memory.faw_ns),
        rc: in_cycles(memory.rc_ns),
        rtp: in_cycles(memory.rtp_ns),
        wtr_s: in_cycles(memory.wtr_s_ns),
        wtr_l: in_cycles(memory.wtr_l_ns),
        rtw: in_cycles(memory.rtw_ns),
        refi: in_cycles(memory.refi_ns),
        rfc: in_cycles(memory.rfc_ns),
        forward: description.mc.forward,
    };
    let age = in_cycles(description.mc.write_age_ns);
    Controller::new(timing, Queue { slots: description.mc.wq as usize, age })
}

impl<D: Design> Machine<D> {
    /// Returns the channel of a line.
    pub(crate) fn channel_of(&self, line: u32) -> usize {
        let nvm = self.description.nvm.channels;
        match &self.description.dram {
            Some(dram) if !self.memory.is_nvm(line) => {
                (nvm + dram.interleaving().channel(line)) as usize
            }
            _ => self.description.nvm.interleaving().channel(line) as usize,
        }
    }

    fn next_id(&mut self) -> Id {
        self.next_id += 1;
        self.next_id
    }

    /// Sends a message to a channel and returns its time of arrival. Messages of one tile to one
    /// channel arrive in the order of sending.
    fn send(&mut self, from: Tile, to: usize, size: Size, time: Time, arrival: Arrival) -> Time {
        let through = self.network.send(from, self.channels[to].tile, size, time);
        let last = &mut self.arrivals[from * self.channels.len() + to];
        *last = (*last).max(through + self.description.mc.overhead);
        let at = *last;
        self.channels[to].inbox.add(at, arrival);
        self.sources.lower(to, at.max(self.now));
        at
    }

    /// Reads a line from its channel for a core. `time` is when the request leaves `from`.
    pub fn read_memory(&mut self, core: usize, line: u32, from: Tile, time: Time) -> When {
        let done = self.tokens.open();
        let expected = self.memory.keeps_media().then(|| Box::new(self.memory.line(line)));
        let id = self.next_id();
        self.pending.insert(id, Pending::Fill { core, line, done, expected });
        let channel = self.channel_of(line);
        self.send(from, channel, Size::Control, time, Arrival::Read { id, line });
        done
    }

    /// Writes a line's current value to its channel. `time` is when the write leaves `from`.
    pub fn write_memory(
        &mut self,
        line: u32,
        class: Class,
        from: Tile,
        time: Time,
        notify: Notify,
    ) -> Id {
        let payload = self.memory.line(line);
        let write = Write::new(u64::from(line), payload, class);
        self.write_line(write, from, time, notify)
    }

    /// Sends a prepared write, whose `line` is the machine's number.
    pub fn write_line(&mut self, write: Write, from: Tile, time: Time, notify: Notify) -> Id {
        let id = self.next_id();
        // A core that waits for an older write of the line must wait for this one.
        self.unsettled.entry(write.line as u32).or_default().0 = id;
        match notify {
            Notify::None => {}
            Notify::Core(core, done) => drop(self.pending.insert(id, Pending::Ack { core, done })),
            Notify::Design(core, tag) => {
                self.pending.insert(id, Pending::Design { core, tag });
            }
        }
        let channel = self.channel_of(write.line as u32);
        self.send(from, channel, Size::Data, time, Arrival::Write { id, write });
        id
    }

    /// Sends a message of the design from a core to a channel: [`Design::message`].
    pub fn send_message(&mut self, core: usize, channel: usize, message: Message) {
        let (time, tile) = (self.now, self.tile(core));
        self.send(tile, channel, Size::Control, time, Arrival::Message { core, message });
    }

    /// Sends a message of the design for a core, from a line's home tile to the line's channel,
    /// with or without the line's data. Returns its time of arrival.
    pub fn send_from_home_tile(
        &mut self,
        core: usize,
        (line, size): (u32, Size),
        time: Time,
        message: Message,
    ) -> Time {
        let (home, channel) = (self.home_tile(line), self.channel_of(line));
        self.send(home, channel, size, time, Arrival::Message { core, message })
    }

    /// Returns when a response that a channel sends at the current time reaches a core.
    pub fn answer(&mut self, channel: usize, core: usize, size: Size) -> Time {
        self.answer_at(channel, core, size, self.now)
    }

    /// Returns when a response that a channel sends at `time` reaches a core.
    pub fn answer_at(&mut self, channel: usize, core: usize, size: Size, time: Time) -> Time {
        let Channel { tile, remote, .. } = self.channels[channel];
        let to = self.tile(core);
        self.network.send(tile, to, size, time + remote)
    }

    /// The number of persistent channels, which come first.
    pub fn nvm_channels(&self) -> usize {
        self.description.nvm.channels as usize
    }

    /// Returns a channel's controller for a change.
    pub fn controller(&mut self, channel: usize) -> &mut Controller {
        // The caller may change its state, so the controller runs again at the current time.
        self.sources.lower(channel, self.now);
        &mut self.channels[channel].controller
    }

    /// Reads the array's value of a line for the design, regardless of queued writes:
    /// [`Design::has_read`].
    pub fn read_array(&mut self, line: u32, tag: u64) {
        let (channel, id, local) = self.reads_for_design(line, tag);
        let now = self.now;
        self.controller(channel).read_array(now, id, local);
    }

    /// Reads a line of any memory for the design, as a core's read would: [`Design::has_read`].
    pub fn read_below(&mut self, line: u32, tag: u64) {
        let (channel, id, local) = self.reads_for_design(line, tag);
        let now = self.now;
        self.controller(channel).read(now, id, local);
    }

    fn reads_for_design(&mut self, line: u32, tag: u64) -> (usize, Id, Line) {
        let id = self.next_id();
        let channel = self.channel_of(line);
        self.pending.insert(id, Pending::Array { line, tag });
        self.count_read(line);
        self.record(channel, id, line, None);
        (channel, id, self.channels[channel].local(line))
    }

    /// Records a read, or a write of this class, for the exported trace.
    fn record(&mut self, channel: usize, id: Id, line: u32, class: Option<Class>) {
        let Some(requests) = &mut self.requests else { return };
        let core = match self.pending.get(&id) {
            Some(Pending::Fill { core, .. } | Pending::Ack { core, .. }) => Some(*core as u8),
            _ => None,
        };
        let (time, channel, writes) = (self.now, channel as u8, class.is_some());
        let reads = if core.is_some() { "fill" } else { "design_read" };
        let purpose = class.map_or(reads, Class::name);
        requests.push(Request { time, line, channel, writes, purpose, core });
    }

    fn count_read(&mut self, line: u32) {
        match self.memory.is_nvm(line) {
            true => self.counts.nvm_reads += 1,
            false => self.counts.dram_reads += 1,
        }
    }

    fn count_write(&mut self, write: &Write) {
        match self.memory.is_nvm(write.line as u32) {
            true => self.counts.wrote(write.class),
            false => self.counts.dram_writes += 1,
        }
    }

    /// Passes a core's read that the design has taken on to the controller: [`Design::fill`].
    pub fn fill_from_array(&mut self, channel: usize, line: u32, read: Id) {
        self.count_read(line);
        self.record(channel, read, line, None);
        let (now, local) = (self.now, self.channels[channel].local(line));
        self.controller(channel).read(now, read, local);
    }

    /// Completes a core's read that the design has taken, with the value that the design has found,
    /// or `None` when the run keeps no values.
    pub fn fill_with(&mut self, channel: usize, read: Id, found: Option<LineWords>) {
        let pending = self.pending.remove(&read).expect("a read completes once");
        self.answer_read(channel, pending, found);
    }

    /// Returns the value that a read of a persistent line finds at this time, if the run keeps
    /// values.
    pub fn stored_line(&self, channel: usize, line: u32) -> Option<LineWords> {
        let Channel { controller, .. } = &self.channels[channel];
        let queued = controller.youngest(self.channels[channel].local(line));
        queued.filter(|_| self.memory.keeps_media()).or_else(|| self.memory.media_line(line))
    }

    /// Returns a channel's controller for inspection only; the controller does not run again.
    pub fn look_at(&self, channel: usize) -> &Controller {
        &self.channels[channel].controller
    }

    /// Returns the array's value of a line, or the coherent value when the run keeps no array.
    pub fn array_line(&self, line: u32) -> LineWords {
        self.memory.media_line(line).unwrap_or_else(|| self.memory.line(line))
    }

    /// Writes a line of a channel from its own controller.
    pub fn log(&mut self, channel: usize, mut write: Write, notify: Notify) -> Id {
        let id = self.next_id();
        if let Notify::Design(core, tag) = notify {
            self.pending.insert(id, Pending::Design { core, tag });
        }
        self.count_write(&write);
        self.record(channel, id, write.line as u32, Some(write.class));
        debug_assert_eq!(self.channel_of(write.line as u32), channel, "its own channel");
        write.line = self.channels[channel].local(write.line as u32);
        let now = self.now;
        self.controller(channel).write(now, id, write);
        id
    }

    /// Records a rare event of the design in the trace.
    pub fn rare(&mut self, name: &'static str, from: Time, until: Time) {
        if let Some(trace) = &mut self.trace {
            trace.rare(name, from, until);
        }
    }

    /// Returns the machine's number of a line from the controller's number.
    pub fn global_line(&self, channel: usize, local: u64) -> u32 {
        self.channels[channel].global(local)
    }

    /// Runs a channel's arrivals and its controller up to the current time.
    pub(crate) fn run_channel(&mut self, at: usize) {
        let now = self.now;
        while self.channels[at].inbox.first().is_some_and(|first| first <= now)
            && let Some(arrival) = self.channels[at].inbox.take_first()
        {
            self.arrive(at, arrival);
        }
        let mut events = std::mem::take(&mut self.events);
        if self.channels[at].controller.next().is_some_and(|next| next <= now) {
            self.channels[at].controller.run(now, &mut |event| events.push(event));
        }
        for event in events.drain(..) {
            self.handle_event(at, event);
        }
        self.events = events;
        if let Some(next) = self.channels[at].next() {
            self.sources.lower(at, next.max(now));
        }
    }

    fn arrive(&mut self, at: usize, arrival: Arrival) {
        let now = self.now;
        match arrival {
            Arrival::Read { id, line } => {
                if self.memory.is_nvm(line) && D::fill(self, at, line, id) {
                    return;
                }
                self.count_read(line);
                self.record(at, id, line, None);
                let channel = &mut self.channels[at];
                let local = channel.local(line);
                channel.controller.read(now, id, local);
            }
            Arrival::Write { id, mut write } => {
                self.count_write(&write);
                self.record(at, id, write.line as u32, Some(write.class));
                if self.memory.is_nvm(write.line as u32) {
                    D::arrives(self, at, id, &mut write);
                }
                let channel = &mut self.channels[at];
                write.line = channel.local(write.line as u32);
                channel.controller.write(now, id, write);
            }
            Arrival::Message { core, message } => D::message(self, at, core, message),
        }
    }

    fn handle_event(&mut self, at: usize, event: Event) {
        match event {
            Event::Read { id, forwarded } => self.has_read(at, id, forwarded),
            Event::Accepted { id } => {
                let channel = &self.channels[at];
                let write = channel.controller.queued_write(id).expect("it has a slot");
                let line = channel.global(write.line);
                self.note_accepted(at, id);
                self.settle_write(at, id, line, Point::Accepted);
                self.acknowledge(at, id, Point::Accepted);
                D::accepted(self, at);
            }
            Event::Merged { id, into } => {
                let channel = &self.channels[at];
                let write = channel.controller.queued_write(into).expect("it has a slot");
                let line = channel.global(write.line);
                self.note_merged(at, into);
                self.settle_write(at, id, line, Point::Accepted);
                self.acknowledge(at, id, Point::Accepted);
                self.pending.remove(&id);
            }
            Event::Durable { id, line, payload, .. } => {
                let line = self.channels[at].global(line);
                if self.channels[at].is_nvm {
                    self.memory.set_media_line(line, &payload);
                    self.changed(Change::Durable { channel: at as u8, id, line, payload });
                }
                self.settle_write(at, id, line, Point::Media);
                self.acknowledge(at, id, Point::Media);
            }
        }
    }

    fn note_accepted(&mut self, at: usize, id: Id) {
        let channel = &self.channels[at];
        if let Some(trace) = &mut self.trace
            && channel.is_nvm
        {
            let write = channel.controller.queued_write(id).expect("it has a slot");
            let Write { line, payload, owner, .. } = *write;
            let line = channel.global(line);
            let queued = Queued { id, line, owner, payload };
            trace.push(self.now, Change::Accepted { channel: at as u8, queued });
        }
    }

    fn note_merged(&mut self, at: usize, into: Id) {
        if let Some(trace) = &mut self.trace {
            let write = self.channels[at].controller.queued_write(into).expect("it has a slot");
            let (channel, payload) = (at as u8, write.payload);
            trace.push(self.now, Change::Merged { channel, into, payload });
        }
    }

    /// Records a change of the persistent state in the trace.
    pub fn changed(&mut self, change: Change) {
        if let Some(trace) = &mut self.trace {
            trace.push(self.now, change);
        }
    }

    fn has_read(&mut self, at: usize, id: Id, forwarded: Option<LineWords>) {
        match self.pending.remove(&id) {
            Some(Pending::Array { line, tag }) => D::has_read(self, at, line, tag),
            Some(pending) => self.answer_read(at, pending, forwarded),
            None => unreachable!("every read has a waiting core or design"),
        }
    }

    /// Completes a core's read with the found value, or with the array's.
    fn answer_read(&mut self, at: usize, pending: Pending, found: Option<LineWords>) {
        let Pending::Fill { core, line, done, expected } = pending else {
            unreachable!("every read has a waiting core or design")
        };
        if let Some(expected) = expected
            && self.memory.is_nvm(line)
        {
            let found = found.or_else(|| self.memory.media_line(line));
            if found != Some(*expected) {
                self.counts.wrong_fills += 1;
            }
        }
        let there = self.answer(at, core, Size::Data);
        self.filled(line);
        self.notify(done, there);
    }

    /// Lets a core that has written back a clean line wait for the last write of that line in
    /// flight. Returns whether such a write exists; the token then completes with it.
    pub(crate) fn wait_for_write(&mut self, core: usize, line: u32, done: When) -> bool {
        let write = self.unsettled.get_mut(&line);
        write.map(|(_, waiting)| waiting.push((core, done))).is_some()
    }

    /// Completes the waiters of a line's last write, which has reached this point.
    fn settle_write(&mut self, at: usize, id: Id, line: u32, point: Point) {
        if self.description.persist.point != point
            || self.unsettled.get(&line).is_none_or(|write| write.0 != id)
        {
            return;
        }
        let (_, waiting) = self.unsettled.remove(&line).expect("it is there");
        for (core, done) in waiting {
            let there = self.answer(at, core, Size::Control);
            self.notify(done, there);
        }
    }

    fn acknowledge(&mut self, at: usize, id: Id, point: Point) {
        let counts = self.description.persist.point == point;
        match self.pending.get(&id) {
            Some(&Pending::Ack { core, done }) if counts => {
                self.pending.remove(&id);
                let there = self.answer(at, core, Size::Control);
                self.notify(done, there);
            }
            Some(&Pending::Design { core, tag }) => {
                if point == Point::Media {
                    self.pending.remove(&id);
                }
                D::notified(self, at, core, tag, point);
            }
            _ => {}
        }
    }

    /// Returns the counters of all channels.
    pub fn channel_counts(&self) -> Vec<Counts> {
        self.channels.iter().map(|channel| channel.controller.counts(self.now)).collect()
    }

    /// Restarts the counters of all channels.
    pub fn restart_channel_counts(&mut self) {
        let now = self.now;
        self.channels.iter_mut().for_each(|channel| channel.controller.restart_counts(now));
    }

    /// The number of writes that are queued or in flight, over all persistent channels.
    pub fn writes_waiting(&self) -> u64 {
        let waiting = |channel: &Channel| {
            let (inside, outside) = channel.controller.queued();
            let coming = channel.inbox.things();
            let coming = coming.filter(|arrival| matches!(arrival, Arrival::Write { .. })).count();
            (inside + outside + coming) as u64
        };
        self.channels.iter().filter(|channel| channel.is_nvm).map(waiting).sum()
    }
}
