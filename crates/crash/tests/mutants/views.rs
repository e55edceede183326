//! Tests of mutants in views: a pool as of one transaction, while steps write pages of the heap
//! image.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use faults::mutants::{Mutant, inject};
use lastword::{
    Decoupled, Design, Medium, Objects, Options, Pool, PoolView, Ptr, Redo, Snapshot, Stop, Undo,
};
use medium::{FrozenImage, FrozenMemory, PAGE_WORDS, PoolFile, Prewrite};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::parts::machine;

/// Objects, on some fifty pages, and words of each.
const OBJECTS: usize = 200;
const WORDS: usize = 100;

type Values = [u64; OBJECTS];

/// The form of a heap image.
struct Form {
    medium: Medium,
    parts: usize,
    /// Memory for words that wait to be written; `None`: enough.
    gather_bytes: Option<u64>,
}

const FORMS: [Form; 6] = [
    Form { medium: Medium::File, parts: 1, gather_bytes: None },
    Form { medium: Medium::File, parts: 1, gather_bytes: Some(16 << 10) },
    Form { medium: Medium::File, parts: 3, gather_bytes: Some(16 << 10) },
    Form { medium: Medium::Dax, parts: 1, gather_bytes: None },
    Form { medium: Medium::Dax, parts: 2, gather_bytes: None },
    Form { medium: Medium::PersistentCache, parts: 2, gather_bytes: None },
];

/// Writes objects while steps run and views begin, read and end.
pub(crate) fn a_view_of_changing_pages(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    (0..).zip(&FORMS).find_map(|(seed, form)| {
        let found = viewed(seed, form).err()?;
        Some(format!("{found} (form {seed})"))
    })
}

fn viewed(seed: u64, form: &Form) -> Result<(), String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let recorder = machine();
    let options = Options::new().bytes(1 << 20).log_bytes(256 << 10).medium(form.medium);
    let options = options.background(false).reproduce_threads(form.parts);
    let options = match form.gather_bytes {
        Some(bytes) => options.gather_bytes(bytes),
        None => options,
    };
    let pool = Pool::<Decoupled>::create_as("/pool", options.system(recorder.system())).unwrap();
    let mut worker = pool.worker().unwrap();
    let objects: Vec<_> =
        (0..OBJECTS).map(|_| worker.run(|tx| tx.alloc([0; WORDS])).unwrap().value).collect();
    // The values after the transaction of each ID from here on.
    let first = pool.committed_id().0;
    let mut history = vec![[0; OBJECTS]];
    let mut views: Vec<PoolView<'_>> = Vec::new();
    for _ in 0..2000 {
        match random.next_u64() % 40 {
            0 if views.len() < 2 => views.push(pool.view().map_err(|error| error.to_string())?),
            1 if !views.is_empty() => {
                let view = views.swap_remove(random.next_u64() as usize % views.len());
                let expected = &history[(view.id().0 - first) as usize];
                (0..OBJECTS).try_for_each(|object| check(&view, &objects, object, expected))?;
                view.check().map_err(|error| error.to_string())?;
            }
            2..5 => {
                let object = random.next_u64() as usize % OBJECTS;
                for view in &views {
                    let expected = &history[(view.id().0 - first) as usize];
                    check(view, &objects, object, expected)?;
                }
            }
            5..9 => drop(pool.design().persist_step().unwrap()),
            9..12 => drop(pool.design().paced_step().unwrap()),
            12 => drop(pool.design().reproduce_step().unwrap()),
            _ => {
                let (object, value) = (random.next_u64() as usize % OBJECTS, history.len() as u64);
                let _ = worker.run(|tx| tx.set(objects[object], [value; WORDS])).unwrap();
                let mut values = *history.last().unwrap();
                values[object] = value;
                history.push(values);
            }
        }
    }
    Ok(())
}

fn check(
    view: &PoolView<'_>,
    objects: &[Ptr<[u64; WORDS]>],
    object: usize,
    expected: &Values,
) -> Result<(), String> {
    let found = view.read(|tx| tx.get(objects[object])).map_err(|error| error.to_string())?;
    if found != [expected[object]; WORDS] {
        let (id, expected) = (view.id(), expected[object]);
        return Err(format!("torn: view {id} has {} and not {expected}", found[0]));
    }
    let written = view.read(|tx| tx.set(objects[object], found));
    assert!(matches!(written, Err(lastword::Error::ReadOnly)), "{written:?}");
    assert_eq!(view.read(|_| -> Result<(), Stop> { Ok(()) }).map_err(drop), Ok(()));
    Ok(())
}

/// Begins views while a transaction of a design is open whose workers write the heap image.
pub(crate) fn a_view_beside_a_transaction(bug: Option<Mutant>) -> Option<String> {
    let media = [Medium::File, Medium::Dax, Medium::PersistentCache];
    media.into_iter().find_map(|medium| {
        let found = beside::<Snapshot>(bug, medium)
            .and_then(|()| beside::<Undo>(bug, medium))
            .and_then(|()| beside::<Redo>(bug, medium));
        Some(format!("{} ({})", found.err()?, medium.name()))
    })
}

/// Two views begin while a transaction has written objects and keeps the words of a later one from
/// the heap. One view is read before that transaction commits, and the other one after it.
fn beside<D: Design>(bug: Option<Mutant>, medium: Medium) -> Result<(), String> {
    let _injected = inject(bug);
    let recorder = machine();
    let options = Options::new().bytes(1 << 20).log_bytes(512 << 10).medium(medium);
    let options = options.background(false).system(recorder.system());
    let pool = Pool::<D>::create_as("/pool", options).unwrap();
    let objects: Vec<Ptr<[u64; WORDS]>> =
        (0..OBJECTS).map(|_| pool.run(|tx| tx.alloc([0; WORDS])).unwrap().value).collect();
    let set = |object: usize, value| {
        let done = pool.run(|tx| tx.set(objects[object], [value; WORDS]));
        done.map(drop).map_err(|error| error.to_string())
    };
    let shows = |view: &PoolView<'_, D>| {
        let expected = |object| if object == 60 { 3 } else { 0 };
        (0..OBJECTS).try_for_each(|object| {
            let found = view.read(|tx| tx.get(objects[object])).map_err(|error| error.to_string());
            match found? == [expected(object); WORDS] {
                true => Ok(()),
                false => Err(format!("torn: view {} of object {object}", view.id())),
            }
        })
    };
    let mut worker = pool.worker().unwrap();
    let mut open = worker.begin(false).unwrap();
    (0..5).for_each(|object| open.tx().set(objects[object], [2; WORDS]).unwrap());
    let later = thread::scope(|scope| {
        // Another thread, since this one is in a transaction.
        let meanwhile = scope.spawn(|| -> Result<PoolView<'_, D>, String> {
            let _injected = inject(bug);
            set(60, 3)?;
            let view = || pool.view().map_err(|error| error.to_string());
            let (first, second) = (view()?, view()?);
            set(61, 4)?;
            shows(&first)?;
            Ok(second)
        });
        meanwhile.join().unwrap_or_else(|_| Err("a panic".into()))
    })?;
    open.commit().map_err(|error| error.to_string())?;
    set(62, 5)?;
    shows(&later)
}

/// Stores to a page as soon as it is watched, while an image of the memory begins. The image must
/// have the page.
pub(crate) fn a_store_beside_a_new_view(bug: Option<Mutant>) -> Option<String> {
    /// So many that the watch over them takes a while.
    const PAGES: usize = 1 << 16;
    let _injected = inject(bug);
    let dir = tempfile::tempdir().unwrap();
    let bytes = (PAGES * PAGE_WORDS * 8) as u64;
    let file = PoolFile::create(dir.path().join("image"), bytes, Prewrite::No).unwrap();
    let file = Arc::new(file);
    for round in 0..100 {
        let image = Arc::new(FrozenImage::new(Arc::clone(&file), 0, bytes).unwrap());
        let (memory, begins) = (FrozenMemory::new(PAGES * PAGE_WORDS), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                begins.store(true, Ordering::Relaxed);
                while !memory.is_watched(0) {
                    std::hint::spin_loop();
                }
                memory.first_store(0, &|_, out| {
                    out.fill(0);
                    Ok(())
                });
            });
            while !begins.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            memory.freeze(&image);
        });
        if !image.is_copied(0) {
            return Some(format!("missing: the page in the image of round {round}"));
        }
    }
    None
}
