//! Servers and trainers die at any moment, and the job goes on as if they had not.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::{Net, Var};
use testing::linear::Linear;
use testing::recovery::{Death, Outcome, Plan, Victim, run};
use train::Feed;
use train::transpile::Config;

const N_STEPS: usize = 120;

const NET: Linear = Linear { table: true, is_distributed: false, halving: false };

fn build() -> (Net, Var) {
    NET.build()
}

fn feed(id: usize, step: usize) -> Feed {
    NET.feed(id, step)
}

fn plan(config: Config, deaths: &[Death]) -> Plan {
    Plan {
        n_servers: 2,
        n_trainers: 2,
        config,
        n_steps: vec![N_STEPS, N_STEPS],
        cut_every_ms: 20,
        deaths: deaths.to_vec(),
    }
}

fn death(by: usize, step: usize, n_cuts: u64, victim: Victim) -> Death {
    Death { by, step, n_cuts, victim }
}

/// The same files, and every trainer saw the same losses.
#[track_caller]
fn assert_same(disturbed: &Outcome, calm: &Outcome) {
    let log = || disturbed.lines.join("\n");
    assert_eq!(disturbed.losses, calm.losses, "{}", log());
    assert_eq!(disturbed.saved, calm.saved, "{}", log());
}

#[test]
fn an_undisturbed_job_makes_cuts() {
    let calm = run(&plan(Config::default(), &[]), build, feed);
    assert!(calm.lines.iter().any(|line| line.contains("is kept")), "{}", calm.lines.join("\n"));
    assert_eq!(calm.losses[0].len(), N_STEPS);
}

#[test]
fn a_killed_server_changes_nothing_in_sync() {
    let calm = run(&plan(Config::default(), &[]), build, feed);
    let deaths = [death(0, 10, 1, Victim::Server(1)), death(1, 60, 2, Victim::Server(0))];
    let disturbed = run(&plan(Config::default(), &deaths), build, feed);
    assert_same(&disturbed, &calm);
}
