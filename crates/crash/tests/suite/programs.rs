//! The explorer of users' programs: designs, media, mistakes in the test itself, injected bugs. The
//! mistakes of programs are in the user's crate `shop`: see `users_crate`.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use crash::{Cause, Explorer, StepResult, World};
use faults::mutants::{Mutant, inject};
use lastword::collections::HashMap;
use lastword::{
    Addr, Allocate, Decoupled, DecoupledSoftware, Design, Medium, Objects, Options, Place, Pool,
    Redo, Shadow, Snapshot, Undo, Words,
};

/// The value that the program has shown.
#[derive(Clone, Debug)]
struct Shown(u64);

const SHOWN: &str = "the last value that was shown is there";

/// Writes the next number to the root.
fn next<D: Design>(pool: &mut Arc<Pool<D>>, world: &World) -> StepResult {
    let done = pool.run(|tx| {
        let number = tx.root()? + 1;
        tx.set_root(number)?;
        Ok(number)
    })?;
    done.ticket.wait()?;
    world.show(Shown(done.value));
    Ok(())
}

/// A program of two workers that count in the root.
fn counting<D: Design>() -> Explorer<Arc<Pool<D>>> {
    Explorer::new_as(|pool: Arc<Pool<D>>, _| Ok(pool))
        .worker("one")
        .step("first", next)
        .step("second", next)
        .worker("other")
        .step("third", next)
        .invariant(SHOWN, |pool, world| {
            let number = pool.run(|tx| tx.root())?.value;
            let shown = world.shown::<Shown>().last().map_or(0, |shown| shown.0);
            assert!(number >= shown, "{shown} was shown, {number} is there");
            Ok(())
        })
        .executions(150)
}

/// Checks a design on each medium, and that power failures had both outcomes.
fn passes<D: Design>(options: fn(Options) -> Options) {
    for medium in [Medium::File, Medium::Dax, Medium::PersistentCache] {
        let explored = counting::<D>().medium(medium).options(options).explore();
        let explored = explored.unwrap_or_else(|failure| panic!("{medium:?}: {failure}"));
        assert!(explored.crash_points > 5 && explored.states > 2, "{medium:?}: {explored}");
        assert!(explored.kept > 0 && explored.lost > 0, "{medium:?}: {explored}");
    }
}

#[test]
fn programs_of_every_design_pass() {
    passes::<Decoupled>(|options| options);
    passes::<DecoupledSoftware>(|options| options.shadow(Shadow::Software).shadow_bytes(8 * 4096));
    passes::<Snapshot>(|options| options);
    passes::<Undo>(|options| options);
    passes::<Redo>(|options| options);
}

#[test]
fn injected_bugs_are_found_through_programs() {
    // Acknowledged while the write is in flight, before its fence, and without its header.
    let bugs = [
        (Mutant::TakenUnderWay, Medium::File),
        (Mutant::GroupNotWrittenBack, Medium::Dax),
        (Mutant::HeaderNotWrittenBack, Medium::Dax),
    ];
    for (bug, medium) in bugs {
        let explorer = counting::<Decoupled>().medium(medium).executions(1000);
        let injected = inject(Some(bug));
        let failure = explorer.explore().expect_err("the bug is found");
        let again = explorer.replay(failure.trace()).expect_err("the trace fails, too");
        drop(injected);
        assert!(matches!(failure.cause(), Cause::Lost { .. }), "{bug:?}: {failure}");
        assert_eq!(again.cause(), failure.cause(), "{bug:?}");
        assert_eq!(failure.steps().len(), 1, "{bug:?}: {failure}");
        let fixed = explorer.replay(failure.trace());
        assert!(fixed.is_ok(), "{bug:?}: without the bug the trace passes");
    }
}

/// A program without steps.
fn idle() -> Explorer<Arc<Pool>> {
    Explorer::new(|pool, _| Ok(pool)).executions(50)
}

fn cause<S: 'static>(explorer: &Explorer<S>) -> Cause {
    explorer.explore().expect_err("it fails").cause().clone()
}

#[test]
fn variable_outside_of_the_program_is_named() {
    let counter = Rc::new(Cell::new(0));
    let explorer = idle().step("write", next).step("count", move |pool, _| {
        counter.set(counter.get() + 1);
        pool.run(|tx| tx.set_root(counter.get()))?.ticket.wait()?;
        Ok(())
    });
    let failure = explorer.explore().expect_err("executions differ");
    let Cause::NotDeterministic { name, message } = failure.cause() else { panic!("{failure}") };
    assert_eq!((name.as_str(), message.as_str()), ("count", "wrote other bytes to the pool"));
    assert!(failure.to_string().contains("must not depend on a clock"), "{failure}");
}

#[test]
fn choice_outside_of_the_program_is_named() {
    // The plain executions are equal. A later one lacks the step before its power failure.
    let runs = Rc::new(Cell::new(0));
    let explorer = idle().step("first", next).step("second", move |pool, world| {
        runs.set(runs.get() + 1);
        if runs.get() < 30 { next(pool, world) } else { Ok(()) }
    });
    let explorer = explorer.executions(300);
    let cause = cause(&explorer);
    let Cause::NotDeterministic { name, message } = cause else { panic!("{cause}") };
    assert_eq!((name.as_str(), message.as_str()), ("second", "used the pool in another way"));
}

#[test]
fn panic_and_error_of_a_step_are_reported() {
    let panics = idle().step("first", next).step("panic", |_, _| panic!("no more paper"));
    let failure = panics.explore().expect_err("it panics");
    let Cause::Panic { name, message } = failure.cause() else { panic!("{failure}") };
    assert!(name == "panic" && message.starts_with("no more paper (crates/crash"), "{failure}");
    assert_eq!(failure.steps(), ["panic"]);

    let fails = idle().step("fail", |pool, _| {
        let _ = pool.run(|tx| tx.abort::<()>("no more ink"))?;
        Ok(())
    });
    let cause = cause(&fails);
    let Cause::Step { name, message } = &cause else { panic!("{cause}") };
    assert!(name == "fail" && message.contains("no more ink"), "{cause}");
}

#[test]
fn panic_beside_a_drop_that_flushes_is_reported() {
    /// Makes everything durable at its end, also while a panic unwinds.
    struct Flushes(Arc<Pool>);
    impl Drop for Flushes {
        fn drop(&mut self) {
            let _ = self.0.flush();
        }
    }
    for medium in [Medium::File, Medium::Dax] {
        let explorer = idle().medium(medium).step("write", next).step("panic", |pool, _| {
            let _flushes = Flushes(Arc::clone(pool));
            let _ = pool.run(|tx| tx.set_root(9))?;
            panic!("in the middle");
        });
        let cause = cause(&explorer);
        assert!(matches!(cause, Cause::Panic { .. }), "{cause}");
    }
    // A program that catches its own panic: the power does not fail while it unwinds, for a second
    // panic would abort the test.
    let catches = idle().step("catch", |pool, _| {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let flushes = Flushes(Arc::clone(pool));
            let _ = flushes.0.run(|tx| tx.set_root(9));
            panic!("in the middle");
        }));
        assert!(panicked.is_err());
        Ok(())
    });
    catches.explore().expect("the panic ends in the step");
    let flushes = |pool| Ok(Flushes(pool));
    let passes = Explorer::new(move |pool, _| flushes(pool))
        .step("write", |state, world| next(&mut state.0, world));
    passes.executions(50).explore().expect("a drop on a machine that is off ends");
}

#[test]
fn pool_with_another_owner_is_reported() {
    let leaks = idle().step("leak", |pool, _| {
        std::mem::forget(Arc::clone(pool));
        Ok(())
    });
    assert_eq!(cause(&leaks), Cause::Held);
}

#[test]
fn program_without_writes_is_reported() {
    let reads = idle().power_failures(0).step("read", |pool, _| {
        let _ = pool.run(|tx| tx.root())?;
        Ok(())
    });
    assert_eq!(cause(&reads), Cause::NothingExplored);
}

#[test]
fn set_up_that_breaks_an_invariant_is_reported() {
    let set_up = idle().set_up(|pool, world| {
        world.show(Shown(7));
        next(pool, world)
    });
    let explorer = set_up.step("next", next).invariant("the root is 0", |pool, world| {
        assert_eq!(world.shown::<Shown>().len(), 2);
        assert_eq!(pool.run(|tx| tx.root())?.value, 0);
        Ok(())
    });
    let failure = explorer.explore().expect_err("the set-up writes 1");
    assert!(failure.to_string().contains("left: 1"), "{failure}");
    assert!(failure.trace().is_empty() && failure.explored().executions == 0, "{failure}");
}

#[test]
fn interrupted_step_is_repeated_on_request() {
    let missing = "every request is done";
    let requests = |explorer: Explorer<Arc<Pool>>| {
        let end = explorer.step("first", next).step("second", next).step("end", |_, world| {
            world.show("all requests were sent");
            Ok(())
        });
        end.invariant(missing, |pool, world| {
            let is_over = !world.shown::<&str>().is_empty();
            assert!(!is_over || pool.run(|tx| tx.root())?.value >= 2);
            Ok(())
        })
    };
    requests(idle().repeat_interrupted()).explore().expect("a client repeats its request");
    let cause = cause(&requests(idle()));
    assert!(matches!(&cause, Cause::Invariant { name, .. } if name == missing), "{cause}");
}

/// A number that one step reads and the next one writes, so that a preemption breaks it.
#[test]
fn preemption_between_steps_is_found() {
    type State = (Arc<Pool>, Option<u64>);
    let read = |(pool, read): &mut State, _: &World| {
        *read = Some(pool.run(|tx| tx.root())?.value);
        Ok(())
    };
    let write = |(pool, read): &mut State, world: &World| {
        let Some(number) = read.take() else { return Ok(()) };
        pool.run(|tx| tx.set_root(number + 1))?.ticket.wait()?;
        world.show(Shown(number + 1));
        Ok(())
    };
    let explorer = Explorer::new(|pool: Arc<Pool>, _| Ok((pool, None)))
        .worker("one")
        .step("read", read)
        .step("write", write)
        .worker("other")
        .step("add", |(pool, _), world| next(pool, world))
        .power_failures(0)
        .invariant("no number is given twice", |_, world| {
            let shown = world.shown::<Shown>();
            assert!(shown.len() < 2 || shown[0].0 != shown[1].0);
            Ok(())
        });
    let failure = explorer.explore().expect_err("the workers write the same number");
    assert_eq!(failure.steps(), ["one: read", "one: write", "other: add"], "{failure}");
}

#[test]
fn trace_of_another_program_is_refused() {
    let wrong = |_: &mut Arc<Pool>, _: &World| Err("wrong".into());
    let (one, other) = (idle().step("one", wrong), idle().step("other", wrong));
    let trace = one.explore().expect_err("it fails").trace().to_owned();
    assert!(one.replay(&trace).is_err());
    let refused = catch_unwind(AssertUnwindSafe(|| other.replay(&trace)));
    let message = refused.expect_err("the steps have other names");
    let message = message.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("not a trace of this explorer"), "{message}");
}

#[test]
fn small_pool_is_a_readable_error() {
    let explorer = idle().step("fill", |pool, _| {
        let done = pool.run(|tx| (0..1000).try_for_each(|_| tx.alloc([0_u64; 64]).map(drop)))?;
        Ok(done.ticket.wait()?)
    });
    let cause = cause(&explorer).to_string();
    assert!(cause.contains("create the pool with more `log_bytes`"), "{cause}");
    let larger = |options: Options| options.bytes(4 << 20).log_bytes(4 << 20);
    explorer.executions(10).options(larger).explore().expect("a larger pool has room");
}

/// A program of so many steps. The last one sets two numbers that belong together, in one
/// transaction or in two.
fn many_steps(steps: u64, in_two: bool) -> Explorer<(Arc<Pool>, HashMap<u64, u64>)> {
    let start = |pool: Arc<Pool>, _: &World| {
        let numbers: HashMap<u64, u64> = pool.named("numbers")?;
        Ok((pool, numbers))
    };
    let explorer = Explorer::new(start).invariant("both are there", |(pool, numbers), _| {
        let both = pool.run(|tx| Ok((numbers.get(tx, 0)?, numbers.get(tx, 1)?)))?;
        let (one, other) = both.value;
        assert_eq!(one, other);
        Ok(())
    });
    let explorer = (1..steps).fold(explorer, |explorer, number| {
        explorer.step(format!("write {number}"), move |(pool, numbers), _| {
            Ok(pool.run(|tx| numbers.put(tx, 2, number))?.ticket.wait()?)
        })
    });
    explorer.step("both", move |(pool, numbers), _| {
        if in_two {
            let _ = pool.run(|tx| numbers.put(tx, 0, 7))?;
            return Ok(pool.run(|tx| numbers.put(tx, 1, 7))?.ticket.wait()?);
        }
        let both = pool.run(|tx| {
            numbers.put(tx, 0, 7)?;
            numbers.put(tx, 1, 7)
        })?;
        Ok(both.ticket.wait()?)
    })
}

#[test]
fn mistake_in_the_last_of_many_steps_is_found() {
    let failure = many_steps(60, true).explore().expect_err("the second transaction is lost");
    assert_eq!(failure.steps(), ["both"], "{failure}");
    let explored = many_steps(60, false).executions(100).explore().expect("no mistake");
    assert!(explored.skipped > 100, "{explored}");
    let text = explored.to_string();
    assert!(text.ends_with(" with one power failure were not run: raise `executions`"), "{text}");
    let explored = many_steps(1, false).executions(300).explore().expect("no mistake");
    assert_eq!(explored.skipped, 0, "{explored}");
}

#[test]
fn seed_decides_the_random_executions() {
    let explored = |seed| counting::<Decoupled>().executions(400).seed(seed).explore().unwrap();
    let [one, again, other] = [1, 1, 2].map(explored);
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn protect_without_a_write_passes() {
    let explorer = Explorer::new_as(|pool: Arc<Pool<Snapshot>>, _| Ok(pool))
        .set_up(|pool, _| {
            let _ = pool.run(|tx| {
                let at = tx.alloc([7_u64; 2])?;
                tx.set_root(at.addr().object)
            })?;
            Ok(())
        })
        .step("protect", |pool, world| {
            let _ = pool.run(|tx| {
                let at = tx.root()?;
                tx.protect(Addr::new(at, 0))
            })?;
            world.show("it was protected");
            Ok(())
        });
    let explored = explorer.executions(200).explore().unwrap_or_else(|failure| panic!("{failure}"));
    assert!(explored.power_failures > 0, "{explored}");
}

#[test]
fn change_split_over_a_group_of_snapshot_is_found() {
    let explorer = Explorer::new_as(|pool: Arc<Pool<Snapshot>>, _| Ok(pool))
        .options(|options| options.group(100))
        .step("both", |pool, _| {
            let _ = pool.run(|tx| tx.set_root(1))?;
            Ok(pool.run(|tx| tx.set_root(2))?.ticket.wait()?)
        })
        .invariant("the root is even", |pool, _| {
            assert_eq!(pool.run(|tx| tx.root())?.value % 2, 0);
            Ok(())
        });
    let cause = cause(&explorer);
    assert!(matches!(cause, Cause::Invariant { .. }), "{cause}");
}

#[test]
fn type_that_is_never_shown_is_named() {
    let shows = |explorer: Explorer<Arc<Pool>>| {
        explorer.step("write", |pool, world| {
            pool.run(|tx| tx.set_root(1))?.ticket.wait()?;
            world.show(1_u64);
            Ok(())
        })
    };
    let wrong = shows(idle()).invariant("shown numbers are there", |pool, world| {
        let number = pool.run(|tx| tx.root())?.value;
        assert!(world.shown::<i32>().iter().all(|shown| *shown as u64 == number));
        Ok(())
    });
    let failed = cause(&wrong);
    assert_eq!(failed, Cause::NeverShown { asked: "i32", shown: "u64" });
    let text = failed.to_string();
    assert!(text.contains("`i32`") && text.contains("`u64`"), "{text}");
    // A type that only a failure would show is no mistake, where the others are asked for.
    let right = wrong.invariant("both", |_, world| {
        assert!(world.shown::<u64>().len() < 2);
        Ok(())
    });
    right.explore().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn shortened_failure_keeps_its_power_failure() {
    let start = |pool: Arc<Pool>, _: &World| {
        let accounts: HashMap<u64, u64> = pool.named("accounts")?;
        Ok((pool, accounts))
    };
    let explorer = Explorer::new(start)
        .step("open account", |(pool, accounts), _| {
            let _ = pool.run(|tx| accounts.put(tx, 1, 100))?;
            Ok(())
        })
        .step("withdraw", |(pool, accounts), _| {
            let has = pool.run(|tx| accounts.get(tx, 1))?.value.ok_or("no such account")?;
            Ok(pool.run(|tx| accounts.put(tx, 1, has - 10))?.ticket.wait()?)
        });
    let failure = explorer.explore().expect_err("a crash has lost the account");
    assert_eq!(failure.steps().len(), 2, "{failure}");
    assert!(failure.events().iter().any(|event| event.trim() == "the power goes"), "{failure}");
}

#[test]
fn commit_of_a_destructor_counts_as_acknowledged() {
    struct Writes(Arc<Pool>);
    impl Drop for Writes {
        fn drop(&mut self) {
            let write = self.0.run(|tx| tx.set_root(7));
            let _ = write.and_then(|done| done.ticket.wait());
        }
    }
    let explorer = Explorer::new(|pool, _| Ok(Writes(pool))).medium(Medium::Dax).executions(300);
    let explorer = explorer.step("end", |_, _| Ok(()));
    let injected = inject(Some(Mutant::HeaderNotWrittenBack));
    let failure = explorer.explore().expect_err("the bug is found");
    drop(injected);
    assert!(matches!(failure.cause(), Cause::Lost { .. }), "{failure}");
    explorer.explore().unwrap_or_else(|failure| panic!("{failure}"));
}
