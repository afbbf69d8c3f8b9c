//! Trainers trade samples through their servers: one process, real sockets.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use data::{Dataset, Kind, Slot};
use fleet::ready::Watch;
use fleet::role::{UserDefined, user_defined};
use fleet::{Flags, Fleet, Mode, Part, Role, Strategy};
use program::Net;
use program::backward::Limits;
use program::layers::{self, Data, Fc};
use program::optimizer::{Optimizer, Sgd};
use ps::Refusal;
use ps::message::Trade;
use testing::cluster::free_endpoints;
use train::{Cluster, Scope};

/// A process of a job, up to `minimize`.
fn start(role: Role, mode: Mode) -> Fleet {
    let flags = Flags::default();
    let strategy = Strategy::new(mode, &flags, 1);
    let quiet = Cluster::new(Default::default(), std::sync::Arc::new(|_| {}));
    let mut fleet = Fleet::init(role, flags, quiet);
    fleet.set_log(std::sync::Arc::new(|_| {}));
    let mut net = Net::with_seed(7);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
    let guess = layers::fc(&mut b, &[x], 1, Fc::default()).unwrap();
    let loss = layers::mean(&mut b, &guess).unwrap();
    let mut optimizer = Optimizer::new(Sgd, 0.1);
    let mut watch = Watch { on_line: &mut |_| {}, stops: &mut || false };
    let what = (&mut optimizer, &loss, &Limits::default());
    fleet.minimize(&mut b, what, strategy, &mut watch).unwrap();
    fleet
}

/// Runs `trainer` in every trainer of a job, by rank; what each returned.
fn job<R: Send>(
    (n_servers, n_trainers): (usize, usize),
    mode: Mode,
    trainer: impl Fn(usize, &mut Fleet) -> R + Sync,
) -> Vec<R> {
    let servers: Vec<String> = free_endpoints(n_servers).iter().map(ToString::to_string).collect();
    let role = |part, id| {
        let (servers, n_trainers) = (servers.clone(), n_trainers as i64);
        user_defined(&UserDefined { current_id: id as i64, part, n_trainers, servers }).unwrap()
    };
    thread::scope(|scope| {
        let serve = |id| {
            let role = role(Part::Server, id);
            scope.spawn(move || {
                let (mut fleet, scope) = (start(role, mode), Scope::new());
                fleet.init_server(&scope, None).unwrap();
                fleet.run_server(&scope).unwrap();
            })
        };
        let serving: Vec<_> = (0..n_servers).map(serve).collect();
        let trainer = &trainer;
        let train = |id| {
            let role = role(Part::Trainer, id);
            scope.spawn(move || {
                let mut fleet = start(role, mode);
                let done = trainer(id, &mut fleet);
                // One that told the others that it goes has no more to say.
                let _ = fleet.stop_worker(&Scope::new());
                done
            })
        };
        let training: Vec<_> = (0..n_trainers).map(train).collect();
        let done = training.into_iter().map(|trainer| trainer.join().unwrap()).collect();
        serving.into_iter().for_each(|server| server.join().unwrap());
        done
    })
}

/// A dataset in memory with one id a sample.
fn dataset(ids: std::ops::Range<i64>) -> Dataset {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = ids.map(|id| format!("1 {id}\n")).collect();
    std::fs::write(file.path(), text).unwrap();
    let mut dataset = Dataset::new(Kind::InMemory);
    let settings = dataset.settings_mut();
    settings.slots = vec![Slot::ids("id")];
    settings.files = vec![file.path().to_str().unwrap().to_string()];
    settings.batch_size = 64;
    settings.seed = 5;
    settings.n_trade = 100;
    dataset.load().unwrap();
    dataset
}

fn ids(dataset: &mut Dataset) -> Vec<i64> {
    let mut reader = dataset.start(1).unwrap().remove(0);
    let mut ids = Vec::new();
    while let Some(batch) = reader.next().unwrap() {
        ids.extend_from_slice(batch[0].1.data::<i64>().unwrap());
    }
    ids
}

/// What each of three trainers holds after two shuffles of 3,000 samples that are unevenly spread.
fn shuffled(n_servers: usize, mode: Mode) -> Vec<Vec<i64>> {
    let own = [0..100, 100..1000, 1000..3000];
    job((n_servers, 3), mode, |rank, fleet| {
        let mut dataset = dataset(own[rank].clone());
        let peers = fleet.peers().unwrap().unwrap();
        assert_eq!(dataset.n_rows(Some(&peers)).unwrap(), 3000);
        for _ in 0..2 {
            dataset.global_shuffle(Some(&peers)).unwrap();
            assert_eq!(dataset.n_shuffled(Some(&peers)).unwrap(), 3000);
        }
        assert_eq!(dataset.n_rows(None).unwrap(), dataset.n_shuffled(None).unwrap());
        ids(&mut dataset)
    })
}

#[test]
fn samples_change_trainers_and_none_is_lost_or_doubled() {
    let held = shuffled(2, Mode::Async);
    let all: BTreeSet<i64> = held.iter().flatten().copied().collect();
    assert_eq!((held.concat().len(), all.len()), (3000, 3000));
    for held in &held {
        assert!((850..1150).contains(&held.len()), "{}", held.len());
        let of_the_last = held.iter().filter(|&&id| id >= 1000).count() as f64;
        let share = of_the_last / held.len() as f64;
        assert!((0.6..0.74).contains(&share), "{share} instead of two thirds");
        assert!(held.windows(2).filter(|pair| pair[0] < pair[1]).count() < held.len() * 6 / 10);
    }
}

#[test]
fn a_seed_decides_whatever_the_servers_and_the_mode() {
    let held = shuffled(1, Mode::Sync);
    assert_eq!(shuffled(3, Mode::Async), held);
}

#[test]
fn large_parts_go_in_pieces() {
    let n_bytes = 2 * Trade::part_bytes_max(2) + 5;
    job((2, 2), Mode::Async, |rank, fleet| {
        fleet.peers().unwrap().unwrap();
        // Only one of them has much to say, and only to the other.
        let part = |to: usize| match (rank, to) {
            (0, 1) => (0..n_bytes).map(|at| (at % 251) as u8).collect(),
            _ => vec![rank as u8, to as u8],
        };
        let got = fleet.cluster().trade("test", &[part(0), part(1)]).unwrap();
        match rank {
            0 => assert_eq!(got, [[0, 0], [1, 0]]),
            _ => {
                assert_eq!((got[0].len(), &got[1]), (n_bytes, &vec![1, 1]));
                assert!(got[0].iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
            }
        }
    });
}

#[test]
fn a_trainer_that_ends_is_named_to_one_that_shuffles() {
    job((2, 2), Mode::Async, |rank, fleet| {
        let (mut dataset, peers) = (dataset(0..10), fleet.peers().unwrap().unwrap());
        fleet.barrier_worker().unwrap();
        if rank == 1 {
            return fleet.stop_worker(&Scope::new()).unwrap();
        }
        let start = Instant::now();
        let error = dataset.global_shuffle(Some(&peers)).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        let data::Error::Exchange { source } = &error else { panic!("{error}") };
        let refusal = match source.downcast_ref() {
            Some(train::Error::Ps(ps::Error::Refused { refusal, .. })) => refusal,
            _ => panic!("{error}"),
        };
        assert_eq!(*refusal, Refusal::Absent { trainer: 1 });
        assert_eq!(ids(&mut dataset).len(), 10, "what was here stays");
    });
}

#[test]
fn other_samples_and_other_purposes_are_found_out() {
    job((1, 2), Mode::Async, |rank, fleet| {
        let (mut dataset, peers) = (dataset(0..10), fleet.peers().unwrap().unwrap());
        if rank == 1 {
            dataset.settings_mut().slots = vec![Slot::ids("id").dense(&[-1, 2])];
        }
        let traded = dataset.global_shuffle(Some(&peers));
        match rank {
            0 => traded.unwrap(),
            _ => assert!(matches!(traded, Err(data::Error::ForeignSamples { .. })), "{traded:?}"),
        }
        let error = match rank {
            0 => dataset.global_shuffle(Some(&peers)).unwrap_err(),
            _ => dataset.n_rows(Some(&peers)).unwrap_err(),
        };
        assert!(error.to_string().contains("is out of step"), "{error}");
    });
}
