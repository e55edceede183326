//! Tests of the states that a crash of a recorded machine may leave. For each assumption of
//! docs/internals/crash-model.md every choice is explored, and the set of contents read is compared
//! with the set that the assumption allows.

mod files;
mod memory;
mod processes;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::ReadWriteFlags;
use system::{Handle, SimulatedMemory, System};

use super::{Ask, Model, PowerCut, Recorder, Scripted, every};
use crate::sync::{Mutex, lock};

const PATH: &str = "/file";
const DSYNC: ReadWriteFlags = ReadWriteFlags::DSYNC;

/// A part of a file as memory.
type Area = Box<dyn SimulatedMemory>;

/// Model without faults other than those of the test itself.
fn calm() -> Model {
    Model { crashes: 0, ..Model::default() }
}

/// Returns a machine whose chooser always picks the first option.
fn quiet(model: Model) -> Recorder {
    Recorder::new(model, Box::new(Scripted::default()))
}

/// The set of these.
fn set<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    all.into_iter().collect()
}

/// Runs `work`; returns whether the power failed meanwhile.
fn power_goes(work: impl FnOnce()) -> bool {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(()) => false,
        Err(panic) => {
            PowerCut::expect(panic);
            true
        }
    }
}

fn fence(area: &Area) {
    area.fence();
}

fn open(system: &System) -> Box<dyn Handle> {
    system.files().open(Path::new(PATH), OFlags::RDWR, Mode::empty()).unwrap()
}

fn create(system: &System, path: &str) -> Box<dyn Handle> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    system.files().open(Path::new(path), flags, Mode::empty()).unwrap()
}

/// A file of so many zero bytes, durable with its name.
fn durable(recorder: &Recorder, bytes: u64) -> Box<dyn Handle> {
    let system = recorder.system();
    let file = create(&system, PATH);
    file.allocate(0, bytes).unwrap();
    file.sync_all().unwrap();
    system.files().sync_directory(Path::new("/")).unwrap();
    file
}

/// A durable file whose creation nothing disturbs.
fn durable_for_sure(recorder: &Recorder) -> Box<dyn Handle> {
    let mut before = None;
    recorder.set_model(|model| before = Some(std::mem::replace(model, calm())));
    let file = durable(recorder, 4096);
    recorder.set_model(|model| *model = before.take().unwrap());
    file
}

/// Fills sectors from `first` on with these bytes.
fn write(file: &dyn Handle, first: u64, fill: &[u8], flags: ReadWriteFlags) -> bool {
    let bytes: Vec<u8> = fill.iter().flat_map(|byte| [*byte; 512]).collect();
    file.write(&[std::io::IoSlice::new(&bytes)], 512 * first, flags).is_ok()
}

/// Returns the fill bytes of the file's first sectors. A sector is always whole.
fn sectors<const N: usize>(file: &dyn Handle) -> [u8; N] {
    let mut bytes = vec![0; 512 * N];
    assert_eq!(file.read(&mut bytes, 0).unwrap(), bytes.len());
    std::array::from_fn(|sector| {
        let content = &bytes[512 * sector..][..512];
        assert!(content.iter().all(|byte| *byte == content[0]), "a sector is torn");
        content[0]
    })
}

/// The same, after the power went.
fn left<const N: usize>(recorder: &Recorder) -> [u8; N] {
    recorder.crash();
    sectors(&*open(&recorder.system()))
}

#[test]
fn all_choices_are_made_and_each_once() {
    let count = Mutex::new(0);
    let all = every(calm(), |recorder| {
        *lock(&count) += 1;
        let file = durable(recorder, 4096);
        write(&*file, 0, &[1, 1, 1], ReadWriteFlags::empty());
        left::<3>(recorder)
    });
    assert_eq!((all.len(), *lock(&count)), (8, 8));
}

#[test]
fn the_power_may_go_before_every_barrier_and_with_every_store_where_asked() {
    let points = |every_store| {
        let chooser = Scripted::default();
        let made = chooser.asked();
        let model = Model { every_store, ..Model::default() };
        let recorder = Recorder::new(model, Box::new(chooser));
        let file = durable(&recorder, 4096);
        let before = lock(&made).len();
        write(&*file, 0, &[1], ReadWriteFlags::empty());
        write(&*file, 1, &[1], ReadWriteFlags::empty());
        file.sync_data().unwrap();
        file.sync_data().unwrap(); // nothing can be lost that could not before
        write(&*file, 0, &[2], DSYNC);
        let area = file.memory(0, 4096, false).unwrap();
        area.store(100, &[1]);
        area.write_back(100);
        area.fence();
        area.fence();
        let made = lock(&made);
        assert!(made.iter().all(|question| question.ask == Ask::Crash));
        made.len() - before
    };
    assert_eq!(points(false), 3);
    assert_eq!(points(true), 4);
}
