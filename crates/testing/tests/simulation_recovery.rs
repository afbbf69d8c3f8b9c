//! Laws of a job whose processes die: shipping servers and links on simulated machines, disks and networks.
//!
//! `SEED=n cargo test -p testing --test recovery whatever` repeats one run, `EVENT=n … every_event`
//! one crash; `SEEDS=n` tries so many runs (`make soak`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use protocol::server::Apply;
use testing::seeds::{is_one, seeds};
use testing::sim::{
    Bug, Death, Faults, Moment, Outcome, Plan, Report, Size, Step, Survival, Survived, Who,
    damaging_plan, surviving_plan, wishing_plan,
};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The common results of a job that was disturbed and one that was not.
fn check(plan: &Plan, report: &Report, expected: &Report) {
    for (id, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().map(|(outcome, _)| outcome);
        assert_eq!(outcome, Some(&Outcome::Done), "trainer {id}");
    }
    let is_exact = plan.apply != Apply::AtOnce;
    for (server, ((_, ledger), (_, expected))) in
        report.servers.iter().zip(&expected.servers).enumerate()
    {
        if is_exact {
            assert_eq!(ledger.applied, expected.applied, "server {server}");
            assert_eq!(ledger.rounds, expected.rounds, "server {server}");
            assert_eq!(ledger.params, expected.params, "server {server}");
        }
        ledger.check_once_and_in_order(&plan.scripts, &format!("server {server}"));
    }
    if plan.apply == (Apply::ByRound { ahead: 0 }) {
        assert_eq!(report.seen, expected.seen, "what scripts were told");
    }
}

/// Runs a job; returns the events that it survived, or why it did not.
fn survives(plan: &Plan, expected: &Report) -> Result<Survived, String> {
    let run = AssertUnwindSafe(|| {
        let report = plan.run();
        let checked = catch_unwind(AssertUnwindSafe(|| check(plan, &report, expected)));
        checked
            .map(|()| report.survived)
            .map_err(|why| format!("{}\n{:#?}\n{:?}", said(&*why), report.log, report.outcomes))
    });
    catch_unwind(run).unwrap_or_else(|why| Err(said(&*why)))
}

/// The message of a panic.
fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
}

fn total(sum: &mut Survived, one: Survived) {
    sum.deaths += one.deaths;
    sum.back += one.back;
    sum.redone += one.redone;
    sum.cuts += one.cuts;
    sum.wishes += one.wishes;
    sum.unmet += one.unmet;
    sum.damaged += one.damaged;
    sum.resized += one.resized;
}

/// Whatever dies, stands still, is cut off or torn: sync and bounded staleness end with the bits of an
/// undisturbed run, the other modes with every update counted once; and all of them end.
#[test]
fn a_job_survives_whatever_happens_to_it() {
    let mut sum = Survived::default();
    for seed in seeds(500) {
        let plan = surviving_plan(seed);
        let expected = plan.undisturbed().run();
        match survives(&plan, &expected) {
            Ok(survived) => total(&mut sum, survived),
            Err(why) => panic!(
                "SEED={seed} cargo test -p testing --test recovery whatever_happens\n{plan:#?}\n{why}"
            ),
        }
    }
    let is_hard = sum.deaths > 200 && sum.back > 100 && sum.redone > 200 && sum.cuts > 500;
    let is_proof = is_hard && sum.wishes > 40 && sum.resized > 20;
    assert!(is_proof || is_one(), "the world was too kind to prove anything: {sum:?}");
}

fn small_job() -> Plan {
    let rounds = (1..=3).flat_map(|round| [Step::Part(round, 1), Step::Fetch]);
    let script: Vec<Step> =
        [Step::Fetch].into_iter().chain(rounds).chain([Step::Complete]).collect();
    Plan {
        seed: 1,
        size: Size { servers: 2, trainers: 2 },
        apply: Apply::ByRound { ahead: 0 },
        scripts: vec![script; 2],
        faults: Faults { delay_ms_max: 3, work_ms_max: 2, ..Faults::default() },
        kill: None,
        survival: Some(Survival { cut_every_ms: 1, pace_ms: 60, ..Survival::default() }),
    }
}

/// A crash before every single event of a small job: of each server, of each trainer, and of both at once.
#[test]
fn a_crash_at_every_event_of_a_small_job_is_survived() {
    let plan = small_job();
    let (whole, expected) = (plan.run(), plan.undisturbed().run());
    check(&plan, &whole, &expected);
    let (servers, trainers) =
        ([Who::Server(0), Who::Server(1)], [Who::Trainer(0), Who::Trainer(1)]);
    let alone = servers.into_iter().chain(trainers).map(|who| vec![who]);
    let both = servers.into_iter().flat_map(|server| trainers.map(|trainer| vec![server, trainer]));
    let mut sum = Survived::default();
    for dead in alone.chain(both) {
        let events = number("EVENT").map_or(0..whole.n_events, |event| event..event + 1);
        for event in events {
            let death = |&who: &Who| Death { who, at: Moment::Event(event), back_ms: 40 };
            let deaths = dead.iter().map(death).collect();
            let survival = plan.survival.clone().map(|survival| Survival { deaths, ..survival });
            match survives(&Plan { survival, ..plan.clone() }, &expected) {
                Ok(survived) => total(&mut sum, survived),
                Err(why) => panic!(
                    "EVENT={event} cargo test -p testing --test recovery every_event\n{dead:?}: {why}"
                ),
            }
        }
    }
    let is_proof = sum.back > 100 && sum.redone > 100 && sum.cuts > 1000;
    let is_one = number("EVENT").is_some();
    assert!(is_proof || is_one, "{sum:?} of {} events", whole.n_events);
}

/// A job in which nothing goes wrong, with a server that is asked to end: whether it had a cut in time, if it had to
/// have one.
fn has_its_wish(seed: u64, bug: Option<Bug>) -> Result<Survived, String> {
    let mut plan = wishing_plan(seed);
    let expected = plan.undisturbed().run();
    plan.survival.as_mut().expect("it survives").bug = bug;
    let survived = survives(&plan, &expected)?;
    match survived.unmet {
        0 => Ok(survived),
        _ => Err(format!("no cut was made for a server that was asked to end\n{plan:#?}")),
    }
}

/// Only the lead gives notice of cuts: the wish of another server must come to it through trainers.
#[test]
fn a_server_that_is_asked_to_end_has_a_cut_first() {
    let mut sum = Survived::default();
    for seed in seeds(200) {
        match has_its_wish(seed, None) {
            Ok(survived) => total(&mut sum, survived),
            Err(why) => {
                panic!("SEED={seed} cargo test -p testing --test recovery asked_to_end\n{why}")
            }
        }
    }
    assert!(sum.wishes > 50 || is_one(), "{sum:?}");
    let is_found = |seed: u64| has_its_wish(seed, Some(Bug::WishNotPassedOn)).is_err();
    assert!((0..200).any(is_found), "a trainer that keeps a wish for itself was not found");
}

/// A job whose newest cuts are damaged, and nothing else: it goes back to one that is whole on all servers.
fn goes_back_behind_damage(seed: u64, bug: Option<Bug>) -> Result<Survived, String> {
    let mut plan = damaging_plan(seed);
    let expected = plan.undisturbed().run();
    plan.survival.as_mut().expect("it survives").bug = bug;
    let survived = survives(&plan, &expected)?;
    match survived.damaged {
        0 => Err(format!("no cut was damaged\n{plan:#?}")),
        _ => Ok(survived),
    }
}

#[test]
fn a_damaged_cut_is_not_the_end_of_a_job() {
    for seed in seeds(100) {
        if let Err(why) = goes_back_behind_damage(seed, None) {
            panic!("SEED={seed} cargo test -p testing --test recovery damaged_cut\n{why}");
        }
    }
    for bug in [Bug::LoadsAnother, Bug::RecallsInVain] {
        let is_found = |seed: u64| goes_back_behind_damage(seed, Some(bug)).is_err();
        assert!((0..100).any(is_found), "{bug:?} was not found");
    }
}

/// A planted mistake is found: otherwise these laws prove nothing.
#[test]
fn planted_bugs_are_found() {
    let bugs = [
        Bug::DurableTooEarly,
        Bug::TornUnnoticed,
        Bug::RedoSkipped,
        Bug::ForgetsTooEarly,
        Bug::LoadsAnother,
        Bug::ResizesFromNewest,
    ];
    for bug in bugs {
        let is_found = |seed: u64| {
            let mut plan = surviving_plan(seed);
            let expected = plan.undisturbed().run();
            plan.survival.as_mut().expect("it survives").bug = Some(bug);
            survives(&plan, &expected).is_err()
        };
        std::panic::set_hook(Box::new(|_| ()));
        let found = (0..2_000).find(|&seed| is_found(seed));
        drop(std::panic::take_hook());
        assert!(found.is_some(), "{bug:?} was not found");
    }
}
