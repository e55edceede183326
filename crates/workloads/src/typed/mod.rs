//! `typed`: a store of sessions in the typed collections: adds a session or replaces it, removes or
//! reads it, or removes those that expire first.
//!
//! ```text
//!   sessions   HashMap<str, str>               name -> text
//!   expiries   BTreeMap<(u64, String), u64>    expiry, name -> stamp          one for each session
//!   online     HashSet<u64>                    number                         one for each session
//!   lengths    BTreeSet<(u32, u32)>            length of the text, number     one for each session
//!   bytes      Counter                         sum of the lengths
//!   latest     HashMap<u64, u64>               worker -> stamp of its last transaction
//! ```
//!
//! The hash maps and the trees have both of their forms, pairs with an object of their own and
//! pairs without. All of them change in one transaction. A part of it that is lost therefore shows
//! in the check, and a transaction that sees such a part stops.
//!
//! 10 000 numbers times the scale are the sessions that there can be. One name of 32 and one text
//! of 16 are longer than an object holds. A session's text and expiry follow from its stamp and
//! number. Times are transactions of a worker. In turn a worker adds more sessions than it removes,
//! and removes more than it adds. Nodes and buckets therefore split and join.
//!
//! Each transaction that writes also leaves its stamp in `latest`, because the sessions that it
//! expires are not known before. `latest` has all workers from the beginning, so that two of them
//! rarely conflict there.

mod check;

use collections::{BTreeMap, BTreeSet, Counter, HashMap, HashSet};
use rand_xoshiro::Xoshiro256PlusPlus;
use words::{Allocate, Stop, Transact, Words, work};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::keys::{below, generator, mix};
use crate::root::{self, Build};
use crate::stamp::Stamp;
use crate::{CLIENTS_MAX, Options, Violation, Workload, lock, scaled, with_slack};

/// Numbers of sessions at scale 1, and fewest: the trees then have several leaves at times.
const NUMBERS: u64 = 10_000;
const NUMBERS_MIN: u64 = 128;

/// Most numbers: they have 32 bits in `lengths`.
const NUMBERS_MAX: u64 = 1 << 32;

/// Heap of a session at most: a text and two names in pieces, objects and slots.
const SESSION_BYTES: u64 = 6 << 10;

/// Numbers that one transaction of loading visits, workers that one adds, and pairs that one frees.
const STEP: u64 = 16;
const WORKERS_STEP: u64 = 64;
const FREED: u64 = 128;

/// Most sessions that one transaction expires.
const EXPIRED: usize = 3;

/// Transactions of a phase.
const PHASE: u64 = 128;

/// Bytes that long names have beside the others: a key of up to 512 lies in its entry.
const NAME_BYTES: usize = 520;

/// Hexadecimal digits of the stamp at the beginning of a text.
const STAMP_DIGITS: usize = 16;

/// The hash maps' seed: it is fixed, so that equal runs leave equal heaps.
const SEED: u64 = u64::from_le_bytes(*b"sessions");

/// The collections of the workload.
#[derive(Clone, Copy, Debug, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Tables {
    sessions: HashMap<str, str>,
    expiries: BTreeMap<(u64, String), u64>,
    online: HashSet<u64>,
    lengths: BTreeSet<(u32, u32)>,
    bytes: Counter,
    latest: HashMap<u64, u64>,
}

/// A store of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Typed {
    tables: Tables,
    /// Numbers of sessions are below this.
    numbers: u64,
}

/// One worker's transactions on the store.
#[derive(Clone, Debug)]
pub struct TypedClient {
    rng: Xoshiro256PlusPlus,
    worker: u64,
    stamp: Stamp,
    /// Transactions of its first phase that it leaves out.
    left_out: u64,
    action: Action,
}

/// A transaction, with the number of its session.
#[derive(Clone, Copy, Debug)]
enum Action {
    Put(u64),
    Remove(u64),
    /// Removes the first sessions that expire before this time.
    Expire(u64),
    /// Removes the session that expires first.
    Evict,
    Read(u64),
}

impl Build for Typed {
    const NAME: &'static str = "typed";
    type Parts = Tables;

    fn reserve<W: Allocate>(tx: &mut W, _size: u64) -> Result<Tables, Stop> {
        Ok(Tables {
            sessions: HashMap::with_seed(tx, SEED)?,
            expiries: BTreeMap::create(tx)?,
            online: HashSet::with_seed(tx, SEED)?,
            lengths: BTreeSet::create(tx)?,
            bytes: Counter::create(tx)?,
            latest: HashMap::with_seed(tx, SEED)?,
        })
    }

    /// Progress n: the n-th number is next, of which every second one is loaded; the workers follow
    /// the numbers.
    fn step<W: Allocate>(
        tables: Tables,
        tx: &mut W,
        size: u64,
        progress: u64,
    ) -> Result<Option<u64>, Stop> {
        if progress < size {
            let (store, end) = (Typed { tables, numbers: size }, (progress + STEP).min(size));
            for number in (progress..end).filter(|number| number % 2 == 0) {
                store.put(tx, 0, number, Stamp::LOADED)?;
            }
            return Ok(Some(end));
        }
        let (first, all) = (progress - size, CLIENTS_MAX as u64);
        let end = (first + WORKERS_STEP).min(all);
        for worker in first..end {
            tables.latest.put(tx, worker, Stamp::LOADED.value(worker))?;
        }
        Ok((end < all).then_some(size + end))
    }

    fn free<W: Allocate>(tables: Tables, tx: &mut W) -> Result<bool, Stop> {
        let Tables { sessions, expiries, online, lengths, bytes, latest } = tables;
        let is_empty = sessions.clear_step(tx, FREED)?
            && expiries.clear_step(tx, FREED)?
            && online.clear_step(tx, FREED)?
            && lengths.clear_step(tx, FREED)?
            && latest.clear_step(tx, FREED)?;
        if is_empty {
            sessions.free(tx)?;
            expiries.free(tx)?;
            online.free(tx)?;
            lengths.free(tx)?;
            bytes.free(tx)?;
            latest.free(tx)?;
        }
        Ok(is_empty)
    }
}

impl Workload for Typed {
    const NAME: &'static str = <Typed as Build>::NAME;
    const ABOUT: &'static str = "sessions by name and expiry in typed maps and sets";
    const READS: bool = true;
    type Client = TypedClient;

    fn heap_bytes(options: &Options) -> u64 {
        with_slack(Self::count(options) * SESSION_BYTES)
    }

    fn load<T: Transact>(worker: &mut T, options: &Options) -> Result<Typed, T::Error> {
        let numbers = Self::count(options);
        Ok(Typed { tables: root::load::<Typed, T>(worker, numbers)?, numbers })
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Typed>, T::Error> {
        let found = root::open::<Typed, T>(worker)?;
        // A damaged size may be anything.
        Ok(found.map(|(size, tables)| Typed { tables, numbers: size.clamp(1, NUMBERS_MAX) }))
    }

    fn client(&self, index: usize, seed: u64) -> TypedClient {
        let (mut rng, stamp) = (generator(index, seed), Stamp::first(index, seed));
        let left_out = below(&mut rng, 2 * PHASE);
        TypedClient { rng, worker: index as u64, stamp, left_out, action: Action::Evict }
    }

    fn next(&self, client: &mut TypedClient) {
        client.stamp.advance();
        let now = client.stamp.sequence();
        let adds = ((now + client.left_out) / PHASE).is_multiple_of(2);
        // Of 16 transactions: so many are of this kind, or of one before.
        let [put, remove, expire, evict] = if adds { [12, 13, 14, 14] } else { [2, 6, 10, 14] };
        let (kind, number) = (below(&mut client.rng, 16), below(&mut client.rng, self.numbers));
        client.action = match kind {
            kind if kind < put => Action::Put(number),
            kind if kind < remove => Action::Remove(number),
            kind if kind < expire => Action::Expire(now + self.numbers / 4),
            kind if kind < evict => Action::Evict,
            _ => Action::Read(number),
        };
    }

    fn reads_only(&self, client: &TypedClient) -> bool {
        matches!(client.action, Action::Read(_))
    }

    fn run<W: Allocate>(&self, client: &TypedClient, tx: &mut W) -> Result<(), Stop> {
        tx.compute(work::FRAME);
        tx.lock(lock::ALL)?;
        let (Tables { expiries, latest, .. }, worker) = (self.tables, client.worker);
        match client.action {
            Action::Read(number) => return self.read(tx, number),
            Action::Put(number) => self.put(tx, worker, number, client.stamp)?,
            Action::Remove(number) => {
                let name = name(number);
                if let Some(value) = self.close(tx, worker, &name)? {
                    expect(expiries.delete(tx, (self.expiry(value, number), name.as_str()))?)?;
                }
            }
            Action::Expire(end) => {
                let (first, _) = expiries.range(..(end, "")).page(tx, EXPIRED)?;
                for ((expiry, name), value) in first {
                    expect(expiries.delete(tx, (expiry, name.as_str()))?)?;
                    expect(self.close(tx, worker, &name)? == Some(value))?;
                }
            }
            Action::Evict => {
                if let Some(((_, name), value)) = expiries.pop_first(tx)? {
                    expect(self.close(tx, worker, &name)? == Some(value))?;
                }
            }
        }
        expect(!latest.put(tx, worker, client.stamp.value(worker))?)
    }

    fn is_present<W: Words>(&self, client: &TypedClient, tx: &mut W) -> Result<bool, Stop> {
        if self.reads_only(client) {
            return Ok(true);
        }
        tx.lock(lock::ALL)?;
        let (Tables { sessions, latest, .. }, worker) = (self.tables, client.worker);
        let is_latest = |found: u64| client.stamp.is_in(found, worker);
        if !latest.get(tx, worker)?.is_some_and(is_latest) {
            return Ok(false);
        }
        match client.action {
            // A session of another transaction that is there must be a later one's.
            Action::Put(number) | Action::Remove(number) => {
                let found = sessions.get(tx, name(number))?;
                let is_later = |found: String| {
                    value_of(&found, number).is_some_and(|value| client.stamp.is_in(value, number))
                };
                Ok(found.is_none_or(is_later))
            }
            Action::Expire(_) | Action::Evict | Action::Read(_) => Ok(true),
        }
    }

    fn check<T: Transact>(&self, worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        check::check(self, worker)
    }
}

impl Typed {
    fn count(options: &Options) -> u64 {
        scaled(NUMBERS, options, NUMBERS_MIN).min(NUMBERS_MAX)
    }

    /// Returns the time at which the session of a stamped value expires.
    fn expiry(&self, value: u64, number: u64) -> u64 {
        let opened = Stamp::of(value, number).map_or(0, Stamp::sequence);
        opened + mix(value) % (2 * self.numbers)
    }

    /// Adds the session of a number, or replaces it.
    fn put<W: Allocate>(
        &self,
        tx: &mut W,
        worker: u64,
        number: u64,
        stamp: Stamp,
    ) -> Result<(), Stop> {
        let Tables { sessions, expiries, online, lengths, bytes, .. } = self.tables;
        let (name, value) = (name(number), stamp.value(number));
        let text = text(value);
        let mut more = text.len() as i64;
        let before = sessions.insert(tx, &name, &text)?;
        if let Some(before) = &before {
            let value = value_of(before, number).ok_or(Stop::BadValue)?;
            let indexed = expiries.remove(tx, (self.expiry(value, number), name.as_str()))?;
            expect(indexed == Some(value))?;
            expect(lengths.remove(tx, length_key(before, number))?)?;
            more -= before.len() as i64;
        }
        let is_new = expiries.put(tx, (self.expiry(value, number), name.as_str()), value)?;
        expect(is_new && lengths.insert(tx, length_key(&text, number))?)?;
        expect(online.insert(tx, number)? == before.is_none())?;
        bytes.add_at(tx, worker, more)
    }

    /// Removes the session of a name from all but `expiries`. Returns its stamped value, if the
    /// session is there.
    fn close<W: Allocate>(&self, tx: &mut W, worker: u64, name: &str) -> Result<Option<u64>, Stop> {
        let Tables { sessions, online, lengths, bytes, .. } = self.tables;
        let number = number_of(name).ok_or(Stop::BadValue)?;
        let text = sessions.remove(tx, name)?;
        expect(online.remove(tx, number)? == text.is_some())?;
        let Some(text) = text else { return Ok(None) };
        expect(lengths.remove(tx, length_key(&text, number))?)?;
        bytes.add_at(tx, worker, -(text.len() as i64))?;
        value_of(&text, number).map(Some).ok_or(Stop::BadValue)
    }

    /// Reads the session of a number, which must be in all collections or in none.
    fn read<W: Words>(&self, tx: &mut W, number: u64) -> Result<(), Stop> {
        let Tables { sessions, expiries, online, lengths, .. } = self.tables;
        let name = name(number);
        let found = sessions.get(tx, &name)?;
        expect(online.contains(tx, number)? == found.is_some())?;
        let Some(found) = found else { return Ok(()) };
        let value = value_of(&found, number).ok_or(Stop::BadValue)?;
        let indexed = expiries.get(tx, (self.expiry(value, number), name.as_str()))?;
        expect(found == text(value) && indexed == Some(value))?;
        expect(lengths.contains(tx, length_key(&found, number))?)
    }
}

fn expect(holds: bool) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(Stop::BadValue) }
}

/// Returns the name of a session.
fn name(number: u64) -> String {
    let more = if number % 32 == 7 { NAME_BYTES } else { 0 };
    format!("session/{number}{}", "-".repeat(more))
}

/// Returns the number in a name; `None` if it is no session's.
fn number_of(found: &str) -> Option<u64> {
    let digits = found.strip_prefix("session/")?.trim_end_matches('-');
    digits.parse().ok().filter(|&number| name(number) == found)
}

/// Returns the text of a session with this stamped value.
fn text(value: u64) -> String {
    let random = mix(value);
    let more = match random % 16 {
        0 => 1000 + random / 16 % 1500,
        1..=4 => random / 16 % 400,
        _ => random / 16 % 64,
    };
    let letter = |at: u64| char::from(b'a' + (random.rotate_left(at as u32) % 26) as u8);
    format!("{value:0STAMP_DIGITS$x}").chars().chain((0..more).map(letter)).collect()
}

/// Returns the stamped value in the text of a session; `None` when no transaction wrote it there.
fn value_of(text: &str, number: u64) -> Option<u64> {
    let value = u64::from_str_radix(text.get(..STAMP_DIGITS)?, 16).ok()?;
    Stamp::of(value, number).map(|_| value)
}

/// Returns the key of a session in `lengths`. Numbers are below 2^32, and so are lengths.
fn length_key(text: &str, number: u64) -> (u32, u32) {
    (text.len() as u32, number as u32)
}

#[cfg(test)]
mod tests {
    use words::mock::Mock;

    use super::*;

    #[test]
    fn number_is_found_in_its_name_alone() {
        for number in (0..1000).chain([u64::MAX]) {
            assert_eq!(number_of(&name(number)), Some(number));
        }
        for wrong in
            ["", "session/", "session/-", "session/3-", "session/7", "session/03", "other/3"]
        {
            assert_eq!(number_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn texts_carry_their_stamp_in_every_length() {
        let mut stamp = Stamp::first(3, 1);
        let mut lengths = Vec::new();
        for number in 0..1000 {
            stamp.advance();
            let value = stamp.value(number);
            let text = text(value);
            assert_eq!(value_of(&text, number), Some(value));
            lengths.push(text.len());
        }
        assert_eq!(value_of("", 1), None);
        assert_eq!(value_of(&"x".repeat(STAMP_DIGITS), 1), None);
        lengths.sort_unstable();
        assert!(lengths[0] < 20 && lengths[999] > 2400, "{} to {}", lengths[0], lengths[999]);
        let long = lengths.iter().filter(|&&length| length > 1024).count();
        assert!((40..90).contains(&long), "{long} of 1000 are longer than an object");
    }

    /// The store is nearly empty at times, and so large at others that its trees have inner nodes.
    #[test]
    fn store_grows_and_shrinks() {
        let options = Options { scale: 0.0, ..Options::default() };
        let mut mock = Mock::new(Typed::heap_bytes(&options) as usize);
        let store = Typed::load(&mut mock, &options).unwrap();
        let Tables { sessions, expiries, bytes, .. } = store.tables;
        let (mut lens, mut expired, mut written) = ([u64::MAX, 0], 0, 0);
        let mut client = store.client(0, 1);
        for _ in 0..4000 {
            store.next(&mut client);
            let before = mock.transact(|tx| sessions.len(tx)).unwrap();
            mock.transact(|tx| store.run(&client, tx)).unwrap();
            written += mock.words_written();
            let len = mock.transact(|tx| expiries.len(tx)).unwrap();
            lens = [lens[0].min(len), lens[1].max(len)];
            if matches!(client.action, Action::Expire(_)) {
                expired += before - len;
            }
        }
        assert!(lens[0] < 8 && lens[1] > 64, "{lens:?} sessions");
        assert!(expired > 500, "{expired} sessions expired");
        assert!((30..80).contains(&(written / 4000)), "{} words a transaction", written / 4000);
        assert!(mock.transact(|tx| bytes.get(tx)).unwrap() > 0);
        assert_eq!(store.check(&mut mock).unwrap(), []);
    }

    type Change = fn(&Typed, &mut Mock) -> Result<(), Stop>;

    /// A crash between two transactions for one change would leave this.
    #[test]
    fn change_of_one_collection_alone_is_found() {
        let options = Options { scale: 0.0, ..Options::default() };
        let changes: [Change; 7] = [
            |store, tx| store.tables.sessions.delete(tx, name(4)).and_then(expect),
            |store, tx| {
                let value = Stamp::first(1, 1).value(4);
                store.tables.sessions.insert(tx, name(4), text(value)).map(drop)
            },
            |store, tx| store.tables.expiries.pop_first(tx).map(drop),
            |store, tx| store.tables.online.remove(tx, 4).and_then(expect),
            |store, tx| store.tables.lengths.pop_last(tx).map(drop),
            |store, tx| store.tables.bytes.add_at(tx, 0, 1),
            |store, tx| store.tables.latest.delete(tx, 9_u64).and_then(expect),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut mock = Mock::new(Typed::heap_bytes(&options) as usize);
            let store = Typed::load(&mut mock, &options).unwrap();
            assert_eq!(store.check(&mut mock).unwrap(), []);
            mock.transact(|tx| change(&store, tx)).unwrap();
            let found = store.check(&mut mock).unwrap();
            let is_count = |violation: &Violation| matches!(violation, Violation::Count { .. });
            assert!(found.iter().any(is_count), "change {number}: {found:?}");
        }
    }
}
