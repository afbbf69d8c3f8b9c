//! Laws of a job, whatever the network does: shipping servers and links on a simulated network.
//!
//! `SEED=n cargo test -p testing --test protocol simulation::` replays one run of each law.

use protocol::server::{Apply, End};
use testing::seeds::{is_one, seeds};
use testing::sim::{Faults, GRACE_MS, Kill, Outcome, Plan, Report, Rng, SHARED, Size, Step, own};
use wire::Refusal;

fn size(rng: &mut Rng) -> Size {
    Size { servers: 1 + rng.below(3) as usize, trainers: 1 + rng.below(4) as u32 }
}

fn faults(rng: &mut Rng) -> Faults {
    let loose = rng.per_mille(500);
    Faults {
        loose,
        drop_per_mille: rng.below(200),
        double_per_mille: rng.below(200),
        cut_per_mille: if rng.per_mille(700) { rng.below(60) } else { 0 },
        delay_ms_max: [1, 10, 100, 400][rng.below(4) as usize],
        replay_per_mille: if rng.per_mille(300) { rng.below(30) } else { 0 },
        stall_ms: if rng.per_mille(100) { 500 + rng.below(10_000) } else { 0 },
        work_ms_max: [0, 1, 20, 300][rng.below(4) as usize],
    }
}

/// Rounds with a fetch after each, all-gathers at either end, and some gradients without a fetch.
fn sync_scripts(rng: &mut Rng, size: Size) -> Vec<Vec<Step>> {
    let n_rounds = 1 + rng.below(5);
    let n_grads = rng.below(4);
    let n_all_gathers = rng.below(3);
    let fetch_often = rng.per_mille(800);
    let script = |_| {
        let mut script: Vec<_> = (0..n_all_gathers).map(Step::AllGather).collect();
        for round in 1..=n_rounds {
            script.push(Step::Part(round, n_grads));
            if fetch_often {
                script.push(Step::Fetch);
            }
        }
        script.extend([Step::AllGather(n_all_gathers), Step::Complete]);
        script
    };
    (0..size.trainers).map(script).collect()
}

/// A job for a law; laws have their own jobs for the same seed.
fn sync_plan(law: u64, seed: u64) -> Plan {
    let mut rng = Rng::new(seed.wrapping_mul(7919) ^ (law << 40));
    let size = size(&mut rng);
    let scripts = sync_scripts(&mut rng, size);
    Plan {
        seed,
        size,
        apply: Apply::ByRound { ahead: 0 },
        scripts,
        faults: faults(&mut rng),
        kill: None,
        survival: None,
    }
}

fn async_plan(seed: u64) -> Plan {
    let mut rng = Rng::new(seed.wrapping_mul(104_729));
    let size = size(&mut rng);
    let (n_steps, n_grads) = (1 + rng.below(5), 1 + rng.below(3));
    let (leaves, n_exchanges) = (rng.per_mille(200), rng.below(4));
    let script = |_| {
        let mut script = vec![Step::AllGather(0)];
        script.extend((1..=n_exchanges).map(Step::AllToAll));
        for step in 1..=n_steps {
            script.extend([Step::Push(step, n_grads), Step::Fetch, Step::News]);
        }
        script.extend([Step::AllGather(1), Step::AllGather(2), Step::News]);
        script.push(if leaves { Step::Leave } else { Step::Complete });
        script
    };
    let scripts = (0..size.trainers).map(script).collect();
    Plan {
        seed,
        size,
        apply: Apply::AtOnce,
        scripts,
        faults: faults(&mut rng),
        kill: None,
        survival: None,
    }
}

/// Each gradient that the script sends is applied, once, and in the trainer's order.
#[track_caller]
fn check_once_and_in_order(plan: &Plan, report: &Report) {
    for (server, (_, ledger)) in report.servers.iter().enumerate() {
        let context = format!("server {server}: SEED={}", plan.seed);
        ledger.check_once_and_in_order(&plan.scripts, &context);
    }
}

/// Each round has the parts of all trainers, in the order of ranks, and nothing of another round.
#[track_caller]
fn check_rounds(plan: &Plan, report: &Report) {
    let everybody: Vec<u32> = (0..plan.size.trainers).collect();
    for (_, ledger) in &report.servers {
        for trainers in &ledger.rounds {
            assert_eq!(*trainers, everybody, "SEED={}", plan.seed);
        }
        for one in &ledger.applied {
            let round = (one.tag / 100 % 10_000) as u64;
            assert_eq!(one.round, round, "{one:?}: SEED={}", plan.seed);
        }
    }
}

/// Each trainer got what each other had for it, once, in the order of exchanges, servers and ranks.
#[track_caller]
fn check_exchanges(plan: &Plan, report: &Report) {
    for (to, (seen, script)) in report.seen.iter().zip(&plan.scripts).enumerate() {
        let turns = script.iter().filter_map(|step| match step {
            Step::AllToAll(turn) => Some(*turn as u8),
            _ => None,
        });
        let parts = |turn, server| {
            (0..plan.size.trainers as u8).map(|from| vec![from, to as u8, turn, server]).collect()
        };
        let n_servers = plan.size.servers as u8;
        let given = turns.flat_map(|turn| (0..n_servers).map(move |server| parts(turn, server)));
        let given: Vec<Vec<Vec<u8>>> = given.collect();
        assert_eq!(seen.exchanged, given, "trainer {to}: SEED={}", plan.seed);
    }
}

#[track_caller]
fn check_done(plan: &Plan, report: &Report) {
    for (id, outcome) in report.outcomes.iter().enumerate() {
        let outcome = outcome.as_ref().map(|(outcome, _)| outcome);
        let (seed, log) = (plan.seed, &report.log);
        assert_eq!(outcome, Some(&Outcome::Done), "trainer {id}: SEED={seed}, {plan:?}\n{log:#?}");
    }
}

/// Sync: the same parameters, bit for bit, as on a perfect network, at the end and in every round.
#[test]
fn rounds_are_exact() {
    let mut n_repeated = 0;
    for seed in seeds(3000) {
        let plan = sync_plan(1, seed);
        let (report, expected) = (plan.run(), plan.undisturbed().run());
        for report in [&report, &expected] {
            check_done(&plan, report);
            check_once_and_in_order(&plan, report);
            check_rounds(&plan, report);
        }
        assert_eq!(report.seen, expected.seen, "SEED={seed}");
        for ((end, ledger), (_, expected)) in report.servers.iter().zip(&expected.servers) {
            assert_eq!(*end, Some(End::Completed), "SEED={seed}");
            assert_eq!(ledger.params, expected.params, "SEED={seed}");
        }
        n_repeated += report.n_repeated;
    }
    assert!(n_repeated > 0 || is_one(), "the network was too kind to prove anything");
}

/// Sync: the units of a round are applied in any order, and heard of in any order; the results are those
/// of one order.
#[test]
fn units_of_a_round_are_applied_in_any_order() {
    let (mut n_in_order, mut n_shuffled) = (0, 0);
    for seed in seeds(1000) {
        let mut plan = sync_plan(5, seed);
        plan.size.trainers = 2 + seed as u32 % 4;
        plan.scripts = sync_scripts(&mut Rng::new(seed), plan.size);
        plan.faults = Faults { work_ms_max: 50, ..Faults::default() };
        let (report, expected) = (plan.run(), plan.undisturbed().run());
        check_done(&plan, &report);
        check_rounds(&plan, &report);
        assert_eq!(report.seen, expected.seen, "SEED={seed}");
        for ((_, ledger), (_, expected)) in report.servers.iter().zip(&expected.servers) {
            assert_eq!(ledger.applied, expected.applied, "SEED={seed}");
            assert_eq!(ledger.params, expected.params, "SEED={seed}");
            let n_units = 1 + plan.size.trainers as usize;
            for (units, in_order) in
                ledger.units.chunks(n_units).zip(expected.units.chunks(n_units))
            {
                // A round does not begin before the one before it has ended.
                let mut sorted = units.to_vec();
                sorted.sort_unstable();
                assert_eq!(sorted, in_order, "SEED={seed}");
                n_in_order += usize::from(units == in_order);
                n_shuffled += usize::from(units != in_order);
            }
        }
    }
    assert!(n_shuffled > n_in_order || is_one(), "{n_shuffled} of {n_in_order}");
}

/// SSP: no trainer is further ahead of the slowest than allowed, and some are ahead. The rounds are
/// those of sync, to the bit.
#[test]
fn nobody_is_further_ahead_than_allowed() {
    let mut n_ahead = [0; 4];
    for seed in seeds(800) {
        let ahead = (seed % 4) as usize;
        let mut plan = sync_plan(4, seed);
        plan.apply = Apply::ByRound { ahead: ahead as u32 };
        let n_rounds = 3 + seed % 6;
        let rounds = (1..=n_rounds).flat_map(|round| [Step::Part(round, 2), Step::Fetch]);
        let script: Vec<Step> = rounds.chain([Step::AllGather(0), Step::Complete]).collect();
        plan.scripts = vec![script; plan.size.trainers as usize];
        let (report, expected) = (plan.run(), plan.undisturbed().run());
        check_done(&plan, &report);
        check_once_and_in_order(&plan, &report);
        check_rounds(&plan, &report);
        for ((_, ledger), (_, expected)) in report.servers.iter().zip(&expected.servers) {
            assert_eq!(ledger.params, expected.params, "SEED={seed}");
        }
        for (id, seen) in report.seen.iter().enumerate() {
            for (round, params) in (1..).zip(&seen.params) {
                // A look-up is answered with the number of rounds that all trainers have closed.
                let closed =
                    params.chunks(3).map(|of_server| f32::from_bits(of_server[2]) as usize);
                let slowest = closed.min().unwrap_or(round);
                assert!(
                    slowest + ahead >= round,
                    "trainer {id} in {round}, {slowest}: SEED={seed}"
                );
                n_ahead[ahead] += usize::from(slowest < round);
            }
        }
    }
    assert_eq!(n_ahead[0], 0, "sync is never ahead");
    let is_proof = n_ahead[1..].iter().all(|&n| n > 100);
    assert!(is_proof || is_one(), "{n_ahead:?}: trainers were in step by themselves");
}

/// Async: everything is applied once and in its trainer's order. A trainer that asks for changes
/// learns each change once.
#[test]
fn pushes_are_applied_once_and_news_are_told_once() {
    for seed in seeds(2000) {
        let plan = async_plan(seed);
        let (report, expected) = (plan.run(), plan.undisturbed().run());
        check_done(&plan, &report);
        check_once_and_in_order(&plan, &report);
        check_exchanges(&plan, &report);
        for (id, seen) in (0..).zip(&report.seen) {
            for (server, (_, ledger)) in report.servers.iter().enumerate() {
                let others = ledger.applied.iter().filter(|one| one.trainer != id);
                let others: Vec<_> = others.map(|one| (server, one.tag)).collect();
                let told = seen.news.iter().filter(|(from, _)| *from == server);
                let told: Vec<_> = told.copied().collect();
                assert_eq!(told, others, "trainer {id}, server {server}: SEED={seed}");
                let mine = |report: &Report| report.servers[server].1.params.get(&own(id)).copied();
                assert_eq!(mine(&report), mine(&expected), "SEED={seed}");
                // A stream keeps the order, so a trainer reads what it wrote.
                if !plan.faults.loose && plan.faults.replay_per_mille == 0 {
                    let own_at = |params: &[u32]| params[3 * server];
                    let of = |report: &Report| -> Vec<u32> {
                        let params = &report.seen[id as usize].params;
                        params.iter().map(|params| own_at(params)).collect()
                    };
                    assert_eq!(of(&report), of(&expected), "SEED={seed}");
                }
            }
        }
        assert!(report.servers.iter().all(|(_, ledger)| ledger.params.contains_key(SHARED)));
    }
}

/// Sync: a trainer that is killed is named to all others, in time; no round is applied without it.
#[test]
fn a_killed_trainer_is_named() {
    let mut n_named = 0;
    for seed in seeds(1000) {
        let mut plan = sync_plan(2, seed);
        // Whether or not trainers may be ahead of each other.
        plan.apply = Apply::ByRound { ahead: (seed % 3) as u32 };
        let mut rng = Rng::new(seed);
        let trainer = rng.below(u64::from(plan.size.trainers)) as u32;
        let at_ms = 30 + rng.below(400);
        plan.kill = Some(Kill { trainer, at_ms, back_ms: None });
        let report = plan.run();
        check_rounds(&plan, &report);
        let patience = GRACE_MS + 12 * plan.faults.delay_ms_max + plan.faults.stall_ms + 3_000;
        for (id, outcome) in report.outcomes.iter().enumerate() {
            match outcome {
                None => assert_eq!(id as u32, trainer, "SEED={seed}"),
                Some((Outcome::Done, _)) => {}
                Some((Outcome::Refused(Refusal::TrainerLost { trainer: who, .. }), at)) => {
                    assert_eq!(*who, trainer, "SEED={seed}");
                    let since = at.since(report.killed.expect("somebody was killed"));
                    assert!(since < patience, "{since} ms: SEED={seed}");
                    n_named += 1;
                }
                Some((other, _)) => panic!("{other:?}: SEED={seed}, {:#?}", report.log),
            }
        }
        for (end, ledger) in &report.servers {
            let all_came = !ledger.rounds.is_empty();
            assert!(end.is_some() || !all_came, "a server stays: SEED={seed}");
        }
    }
    assert!(n_named > 100 || is_one(), "{n_named} were told");
}

/// Sync: a trainer that is killed and started again in time continues where the first process
/// stopped, and the result is that of an undisturbed job.
#[test]
fn a_trainer_that_comes_back_goes_on() {
    for seed in seeds(1000) {
        let mut plan = sync_plan(3, seed);
        let mut rng = Rng::new(seed);
        let trainer = rng.below(u64::from(plan.size.trainers)) as u32;
        let (at_ms, back_ms) = (30 + rng.below(400), 200 + rng.below(500));
        plan.kill = Some(Kill { trainer, at_ms, back_ms: Some(back_ms) });
        let (report, expected) = (plan.run(), plan.undisturbed().run());
        check_done(&plan, &report);
        check_once_and_in_order(&plan, &report);
        check_rounds(&plan, &report);
        for ((_, ledger), (_, expected)) in report.servers.iter().zip(&expected.servers) {
            assert_eq!(ledger.params, expected.params, "SEED={seed}");
        }
    }
}
