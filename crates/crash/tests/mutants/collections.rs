//! Tests of mutants in the collections that one thread shows: leaked memory, and the types that the
//! catalog compares.

use faults::mutants::{Mutant, inject};
use lastword::collections::catalog::{self, Converted, Opened};
use lastword::collections::{BTreeMap, Counter, HashMap, Vec};
use words::mock::{Mock, Refused};
use words::{Allocate, Objects, Stop, Transact};

/// Pairs of each map, and pairs that a step frees.
const PAIRS: u64 = 600;
const STEP: u64 = 7;

/// A short value; every ninth is too long for one object.
fn text(number: u64) -> String {
    "text".repeat(if number.is_multiple_of(9) { 400 } else { number as usize % 9 })
}

/// Uses a collection and frees it. Returns whether it was sound in between.
type Run = fn(&mut Mock) -> Result<bool, Refused>;

/// Fills collections, removes some of the content, checks them, frees them in steps, and compares
/// the memory.
pub(crate) fn filled_and_freed_collections(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let mut mock = Mock::forgiving(16 << 20);
    let _ = mock.transact(|tx| catalog::open::<Counter, _>(tx, "the first name")).unwrap();
    let runs: [(&str, Run); 4] = [
        ("an ordered map", ordered),
        ("a hash map", hashed),
        ("a name", named),
        ("a conversion", converted),
    ];
    runs.into_iter().find_map(|(name, run)| {
        let before = mock.live();
        match run(&mut mock) {
            Err(refused) => Some(format!("failed: {name}: {refused}")),
            Ok(false) => Some(format!("damaged: {name}")),
            Ok(true) if mock.live() != before => Some(format!("leak: {name}")),
            Ok(true) => None,
        }
    })
}

fn ordered(mock: &mut Mock) -> Result<bool, Refused> {
    let map: BTreeMap<u64, str> = mock.transact(BTreeMap::create)?;
    for number in 0..PAIRS {
        mock.transact(|tx| map.put(tx, number * 7 % PAIRS, text(number)))?;
    }
    let mut is_sound = mock.transact(|tx| map.check(tx))?.damage.is_empty();
    for number in (0..PAIRS).filter(|number| number % 8 > 0) {
        mock.transact(|tx| map.remove(tx, number))?;
    }
    is_sound &= mock.transact(|tx| map.check(tx))?.damage.is_empty();
    while !mock.transact(|tx| map.drop_step(tx, STEP))? {}
    Ok(is_sound)
}

fn hashed(mock: &mut Mock) -> Result<bool, Refused> {
    let map: HashMap<u64, str> = mock.transact(|tx| HashMap::with_seed(tx, 1))?;
    for number in 0..PAIRS {
        mock.transact(|tx| map.put(tx, number, text(number)))?;
    }
    let mut is_sound = mock.transact(|tx| map.check(tx))?.damage.is_empty();
    for number in (0..PAIRS).filter(|number| number % 8 > 4) {
        mock.transact(|tx| map.remove(tx, number))?;
    }
    is_sound &= mock.transact(|tx| map.check(tx))?.damage.is_empty();
    while !mock.transact(|tx| map.drop_step(tx, STEP))? {}
    Ok(is_sound)
}

/// A type without a definition.
mod plain {
    use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    pub(super) struct Point {
        words: [u64; 2],
    }
}

/// The same type with its definition.
mod defined {
    #[lastword::persist]
    pub(super) struct Point {
        x: u64,
        y: u64,
    }
}

/// Another type of the same name.
mod larger {
    use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
    #[repr(C)]
    pub(super) struct Point {
        words: [u64; 3],
    }
}

type Places<T> = HashMap<u64, T>;

/// The type of a named collection gets its definition.
fn named(mock: &mut Mock) -> Result<bool, Refused> {
    let created = mock.transact(|tx| catalog::open::<Places<plain::Point>, _>(tx, "places"))?;
    assert!(matches!(created, Opened::Created(_)));
    mock.transact(|tx| {
        let found = catalog::open::<Places<defined::Point>, _>(tx, "places")?;
        assert!(matches!(found, Opened::Found(_)));
        let places = catalog::remove::<Places<defined::Point>, _>(tx, "places")?;
        places.ok_or(Stop::BadValue)?.free(tx)
    })?;
    Ok(true)
}

/// Returns whether all elements were converted.
fn converted(mock: &mut Mock) -> Result<bool, Refused> {
    type Old = Vec<u64>;
    type New = Vec<str>;
    let opened = mock.transact(|tx| catalog::open::<Old, _>(tx, "numbers"))?;
    let Opened::Created(old) = opened else { return Ok(false) };
    mock.transact(|tx| old.extend(tx, 0..PAIRS))?;
    let mut change = text;
    let new = loop {
        let step = |tx: &mut _| {
            catalog::convert_step::<Old, New, _>(tx, "numbers", STEP as usize, &mut change)
        };
        match mock.transact(step)? {
            Converted::Unfinished => {}
            Converted::Finished(new) => break new,
            _ => return Ok(false),
        }
    };
    let elements = mock.transact(|tx| new.iter(tx).collect::<Result<std::vec::Vec<_>, _>>())?;
    mock.transact(|tx| {
        catalog::remove::<New, _>(tx, "numbers")?;
        new.free(tx)
    })?;
    Ok(elements.into_iter().eq((0..PAIRS).map(text)))
}

/// Opens a name with a type of another length, and a name in a pool with a root of its own.
pub(crate) fn a_refused_name(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let mut mock = Mock::new(1 << 16);
    let opened = mock.transact(|tx| {
        let _ = catalog::open::<Places<plain::Point>, _>(tx, "places")?;
        catalog::open::<Places<larger::Point>, _>(tx, "places")
    });
    if !matches!(opened.unwrap(), Opened::Other(_)) {
        return Some("permitted: opening a collection with a type of another size".to_owned());
    }
    let mut mock = Mock::new(1 << 16);
    let (root, opened) = mock
        .transact(|tx| {
            let root = tx.alloc(5_u64)?;
            tx.set_root(root.to_bits())?;
            let opened = catalog::open::<Counter, _>(tx, "visits")?;
            Ok((root, opened))
        })
        .unwrap();
    let is_kept = mock.transact(|tx| tx.root()).unwrap() == root.to_bits();
    let is_refused = matches!(opened, Opened::OwnRoot);
    (!is_kept || !is_refused)
        .then(|| "permitted: a catalog in a pool with the program's own root".to_owned())
}
