//! Tests of mutants in conversions of named collections: a power failure at each point of a
//! conversion, after which a second call continues it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use faults::mutants::{Mutant, inject};
use faults::recording::{Image, Model, PowerCut, Recorder};
use lastword::collections::catalog::{self, Converted};
use lastword::collections::{BTreeMap, Convert, Named, Vec};
use lastword::{Decoupled, Design, Error, Medium, NamedError, Options, Pool, Snapshot};

use crate::migrations::CrashAt;
use crate::parts::machine;

/// More than one transaction converts.
const VALUES: u64 = 100;

type Old = BTreeMap<u64, u64>;
type New = BTreeMap<u64, [u64; 4]>;

fn options(medium: Medium) -> Options {
    let options = Options::new().bytes(256 << 10).log_bytes(256 << 10).medium(medium);
    options.background(false)
}

pub(crate) fn an_interrupted_conversion(bug: Option<Mutant>) -> Option<String> {
    let _injected = inject(bug);
    let decoupled = crashed_at_every_point::<Decoupled>(Medium::Dax);
    decoupled.and_then(|()| crashed_at_every_point::<Snapshot>(Medium::File)).err()
}

fn crashed_at_every_point<D: Design>(medium: Medium) -> Result<(), String> {
    let recorder = machine();
    let create = options(medium).system(recorder.system());
    let pool = Pool::<D>::create_as("/pool", create).unwrap();
    let map = pool.named::<Old>("map").unwrap();
    let list = pool.named::<Vec<u64>>("list").unwrap();
    let filled = pool.run(|tx| {
        map.extend(tx, (0..VALUES).map(|n| (n, n)))?;
        list.extend(tx, 0..VALUES)
    });
    filled.unwrap().ticket.wait().unwrap();
    pool.close().unwrap();
    recorder.rest();
    let image = recorder.image();
    let mut points = 0;
    while crash_at::<D>(points, &image, medium)? {
        points += 1;
    }
    assert!(points > 20, "only {points} crash points");
    Ok(())
}

/// Converts in steps that are durable one after the other.
fn convert_durably<C: Convert<N>, N: Named, D: Design>(
    pool: &Pool<D>,
    name: &str,
    mut change: impl FnMut(C::Old) -> C::New,
) -> Result<(), Error> {
    loop {
        let step = pool.run(|tx| catalog::convert_step::<C, N, _>(tx, name, 20, &mut change))?;
        let is_last = !matches!(step.value, Converted::Unfinished);
        step.ticket.wait()?;
        if is_last {
            return Ok(());
        }
    }
}

fn convert<D: Design>(pool: &Pool<D>) -> Result<(New, Vec<[u64; 4]>), Error> {
    let map = pool.convert::<Old, New>("map", |n| [n + 1; 4])?;
    Ok((map, pool.convert::<Vec<u64>, Vec<[u64; 4]>>("list", |n| [n + 1; 4])?))
}

/// Crashes at this point of a conversion, and checks the recovered pool. Returns false if the
/// conversion has no such point.
fn crash_at<D: Design>(point: usize, image: &Image, medium: Medium) -> Result<bool, String> {
    let refused = |error: Error| format!("refused: {error}");
    let mut crashed = false;
    for is_kept in [false, true] {
        let choices = CrashAt { points_before: point, is_kept };
        let model = Model { crashes: 1, ..Model::default() };
        let recorder = Recorder::from_image(image, model, Box::new(choices));
        let now = || options(medium).system(recorder.system());
        let first = catch_unwind(AssertUnwindSafe(|| {
            let pool = Pool::<D>::open_as("/pool", now())?;
            convert_durably::<Old, New, D>(&pool, "map", |n| [n + 1; 4])?;
            convert_durably::<Vec<u64>, Vec<[u64; 4]>, D>(&pool, "list", |n| [n + 1; 4])?;
            pool.close()
        }));
        recorder.set_model(Model::calm);
        match first {
            Ok(converted) => converted.map_err(refused)?,
            Err(panic) if panic.is::<PowerCut>() => crashed = true,
            Err(_) => return Err("panic: a conversion panicked".into()),
        }
        let pool = Pool::<D>::open_as("/pool", now()).map_err(refused)?;
        match pool.named::<New>("map") {
            Err(Error::Named(NamedError::Converting { .. } | NamedError::OtherTypes { .. })) => {}
            Ok(map) => {
                let found = pool.run(|tx| map.len(tx)).unwrap().value;
                if found != VALUES {
                    return Err(format!("lost: {found} values after point {point}"));
                }
            }
            Err(error) => return Err(refused(error)),
        }
        let (map, list) = convert(&pool).map_err(refused)?;
        let is_whole = pool.run(|tx| {
            let expected = |n: u64| [n + 1; 4];
            let pairs = map.range(..).collect(tx)?;
            let elements = list.iter(tx).collect::<Result<std::vec::Vec<_>, _>>()?;
            let are_pairs = pairs.into_iter().eq((0..VALUES).map(|n| (n, expected(n))));
            Ok(are_pairs && elements.into_iter().eq((0..VALUES).map(expected)))
        });
        if !is_whole.unwrap().value {
            return Err(format!("lost: values differ after point {point}"));
        }
    }
    Ok(crashed)
}
