//! Trainers exchange samples through their servers: one process, real sockets.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use data::{Dataset, DatasetKind, Slot};
use program::distributed::Mode;
use testing::fleets::job;
use train::Scope;
use wire::Refusal;
use wire::message::AllToAll;

/// A dataset in memory with one id a sample.
fn dataset(ids: std::ops::Range<i64>) -> Dataset {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text: String = ids.map(|id| format!("1 {id}\n")).collect();
    std::fs::write(file.path(), text).unwrap();
    let mut dataset = Dataset::new(DatasetKind::InMemory);
    let settings = dataset.settings_mut();
    settings.slots = vec![Slot::ids("id")];
    settings.files = vec![file.path().to_str().unwrap().to_string()];
    settings.batch_size = 64;
    settings.seed = 5;
    settings.n_per_exchange = 100;
    dataset.load().unwrap();
    dataset
}

fn ids(dataset: &mut Dataset) -> Vec<i64> {
    let mut reader = dataset.start(1).unwrap().remove(0);
    let mut ids = Vec::new();
    while let Some(batch) = reader.next().unwrap() {
        ids.extend_from_slice(batch.tensors().next().unwrap().data::<i64>().unwrap());
    }
    ids
}

/// The samples of each of three trainers after two shuffles of 3,000 samples that are unevenly
/// spread.
fn shuffled(n_servers: usize, mode: Mode) -> Vec<Vec<i64>> {
    let own = [0..100, 100..1000, 1000..3000];
    job(n_servers, 3, mode, |rank, fleet| {
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
        assert_eq!(held.len(), 1000, "shares are even");
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
    let n_bytes = 2 * AllToAll::part_bytes_max(2) + 5;
    job(2, 2, Mode::Async, |rank, fleet| {
        fleet.peers().unwrap().unwrap();
        // Only one of them has much to say, and only to the other.
        let part = |to: usize| match (rank, to) {
            (0, 1) => (0..n_bytes).map(|at| (at % 251) as u8).collect(),
            _ => vec![rank as u8, to as u8],
        };
        let got = fleet.trainer_job().all_to_all("test", &[part(0), part(1)]).unwrap();
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
    job(2, 2, Mode::Async, |rank, fleet| {
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
            Some(train::Error::Ps(wire::Error::Refused { refusal, .. })) => refusal,
            _ => panic!("{error}"),
        };
        assert_eq!(*refusal, Refusal::Absent { trainer: 1 });
        assert_eq!(ids(&mut dataset).len(), 10, "what was here stays");
    });
}

#[test]
fn other_samples_and_other_purposes_are_found_out() {
    job(1, 2, Mode::Async, |rank, fleet| {
        let (mut dataset, peers) = (dataset(0..10), fleet.peers().unwrap().unwrap());
        if rank == 1 {
            dataset.settings_mut().slots = vec![Slot::ids("id").dense(&[-1, 2])];
        }
        let exchanged = dataset.global_shuffle(Some(&peers));
        match rank {
            0 => exchanged.unwrap(),
            _ => assert!(
                matches!(exchanged, Err(data::Error::ForeignSamples { .. })),
                "{exchanged:?}"
            ),
        }
        let error = match rank {
            0 => dataset.global_shuffle(Some(&peers)).unwrap_err(),
            _ => dataset.n_rows(Some(&peers)).unwrap_err(),
        };
        assert!(error.to_string().contains("is out of step"), "{error}");
    });
}
