//! The programs of a job are split again when its servers are others.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::Net;
use program::distributed::Mode;
use serde_json::json;
use testing::nets;
use transpile::{Config, Dispatch, Job, Original, RoundRobin, Transpiled};

fn servers(n: usize) -> String {
    let list: Vec<String> = (0..n).map(|at| format!("127.0.0.1:{}", 7000 + at)).collect();
    list.join(",")
}

fn split(config: &Config, n_servers: usize, dispatch: &mut dyn Dispatch) -> (Net, Transpiled) {
    let case = json!({
        "net": {"kind": "fit", "features": 13, "hidden": [1300, 1300]},
        "optimizer": "adam",
        "trainers": 2,
    });
    let (mut net, _) = nets::build(&case).unwrap();
    let job = Job::new(1, &servers(n_servers), 2);
    let (main, startup) = (&mut net.main, &mut net.startup);
    let split = transpile::transpile(main, startup, config, &job, dispatch).unwrap();
    (net, split)
}

/// Programs that are split again are those that are split for the servers at first.
#[test]
fn a_job_is_split_again_for_other_servers() {
    let modes = [Mode::Sync, Mode::Async, Mode::HalfAsync, Mode::Geo { push_every: 4 }];
    let configs = modes.map(Config::of).into_iter().chain([Config::default()]);
    for config in configs {
        let (net, before) = split(&config, 2, &mut RoundRobin::default());
        let original = Original::of(before.job()).expect("round robin can do it again");
        let programs = original.before().unwrap();
        assert!(programs.main == net.main && programs.startup == net.startup);
        for n_servers in 1..4 {
            let list: Vec<String> = servers(n_servers).split(',').map(str::to_string).collect();
            let again = original.resplit(&list).unwrap();
            let (expected, split) = split(&config, n_servers, &mut RoundRobin::default());
            assert!(again.main == expected.main, "{config:?}, {n_servers} servers");
            assert!(again.startup == expected.startup, "{config:?}, {n_servers} servers");
            let job = again.main.distributed.as_ref().unwrap();
            assert_eq!((&**job, &job.digest), (split.job(), &split.job().digest));
        }
    }
}

/// A choice of servers from outside is one for the servers that there are.
#[test]
fn a_choice_of_servers_from_outside_is_not_made_again() {
    struct First;
    impl Dispatch for First {
        fn dispatch(&mut self, blocks: &[String], endpoints: &[String]) -> Vec<String> {
            blocks.iter().map(|_| endpoints[0].clone()).collect()
        }
    }
    let (_, split) = split(&Config::default(), 2, &mut First);
    assert!(Original::of(split.job()).is_none());
}
