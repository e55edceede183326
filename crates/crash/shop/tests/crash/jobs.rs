//! Crash tests of the queue: accepted jobs and results.

use lastword_crash::{Explorer, StepResult, World};
use shop::jobs::{Jobs, result};

use crate::finds;

/// The reply to a client.
#[derive(Clone, Debug)]
struct Accepted(u64);

/// The reply to a worker.
#[derive(Clone, Debug)]
struct Worked(u64);

const ACCEPTED: &str = "accepted jobs wait or are done";

fn jobs(
    accept: fn(&Jobs, u64, &World) -> StepResult,
    work: fn(&Jobs, &World) -> StepResult,
) -> Explorer<Jobs> {
    Explorer::new(|pool, _| Ok(Jobs::open(pool)?))
        .worker("client")
        .step("accept 2", move |jobs, world| accept(jobs, 2, world))
        .step("accept 3", move |jobs, world| accept(jobs, 3, world))
        .worker("worker")
        .step("work", move |jobs, world| work(jobs, world))
        .step("work", move |jobs, world| work(jobs, world))
        .invariant(ACCEPTED, |jobs, world| {
            for Accepted(job) in world.shown() {
                let (waiting, done) = jobs.find(job)?;
                assert_eq!(waiting + usize::from(done.is_some()), 1, "job {job}");
            }
            Ok(())
        })
        .invariant("results are right, and stay", |jobs, world| {
            for Worked(job) in world.shown() {
                assert_eq!(jobs.find(job)?, (0, Some(result(job))), "job {job}");
            }
            Ok(())
        })
}

fn accept(jobs: &Jobs, job: u64, world: &World) -> StepResult {
    jobs.accept(job)?.wait()?;
    world.show(Accepted(job));
    Ok(())
}

fn work(jobs: &Jobs, world: &World) -> StepResult {
    if let Some(job) = jobs.work()? {
        world.show(Worked(job));
    }
    Ok(())
}

#[test]
fn accepted_jobs_are_done_once() {
    jobs(accept, work).run();
}

#[test]
fn job_accepted_before_its_ticket_is_found() {
    let too_early = |jobs: &Jobs, job, world: &World| {
        let ticket = jobs.accept(job)?;
        world.show(Accepted(job));
        Ok(ticket.wait()?)
    };
    finds(&jobs(too_early, work), ACCEPTED, 1);
}

#[test]
fn work_in_two_transactions_is_found() {
    let in_two = |jobs: &Jobs, world: &World| {
        if let Some(job) = jobs.work_in_two()? {
            world.show(Worked(job));
        }
        Ok(())
    };
    finds(&jobs(accept, in_two), ACCEPTED, 2);
}
