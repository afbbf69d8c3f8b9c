use std::sync::{Barrier, Mutex};
use std::thread;

use super::*;
use crate::error::ExchangeError;
use crate::settings::DatasetKind;
use crate::slot::Slot;

/// Trainers of one process: each puts its parts on a table and takes its own from there.
struct Table {
    parts: Mutex<Vec<Vec<Vec<u8>>>>,
    all_here: Barrier,
}

const N: usize = 2;

const NONE: SampleCounts = SampleCounts { n_samples: 0, n_unmerged: 0 };

struct Seat<'a> {
    table: &'a Table,
    rank: usize,
    /// So many exchanges, then no more.
    left: Mutex<usize>,
}

impl Exchange for Seat<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn n_trainers(&self) -> usize {
        N
    }

    fn all_to_all(
        &self,
        _: &str,
        parts: Vec<Vec<u8>>,
    ) -> std::result::Result<Vec<Vec<u8>>, ExchangeError> {
        let mut left = self.left.lock().unwrap();
        *left = left.checked_sub(1).ok_or("another term")?;
        self.table.parts.lock().unwrap()[self.rank] = parts;
        self.table.all_here.wait();
        let parts = self.table.parts.lock().unwrap();
        let got = parts.iter().map(|parts| parts[self.rank].clone()).collect();
        drop(parts);
        self.table.all_here.wait();
        Ok(got)
    }
}

/// Runs trainers that have loaded `10 * (rank + 1)` lines.
fn trainers<T: Send>(
    n_exchanges: usize,
    act: impl Fn(&mut Dataset, &Seat<'_>) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let table = Table { parts: Mutex::new(vec![Vec::new(); N]), all_here: Barrier::new(N) };
    thread::scope(|scope| {
        let run = |rank: usize| {
            let (table, act) = (&table, &act);
            scope.spawn(move || {
                let seat = Seat { table, rank, left: Mutex::new(n_exchanges) };
                act(&mut loaded(rank), &seat)
            })
        };
        let threads: Vec<_> = (0..N).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn loaded(rank: usize) -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part");
    let line = |at: usize| format!("1 {}\n", 100 * rank + at);
    std::fs::write(&path, (0..10 * (rank + 1)).map(line).collect::<String>()).unwrap();
    let mut dataset = Dataset::new(DatasetKind::InMemory);
    let settings = dataset.settings_mut();
    settings.slots = vec![Slot::ids("c")];
    settings.files = vec![path.to_str().unwrap().to_string()];
    (settings.batch_size, settings.n_per_exchange) = (4, 7);
    dataset.load().unwrap();
    // The name of the file is part of what a share is kept with.
    dataset.settings_mut().files = vec!["part".to_string()];
    dataset
}

fn held(dataset: &mut Dataset) -> Vec<i64> {
    let mut reader = dataset.start(1).unwrap().remove(0);
    let mut all = Vec::new();
    while let Some(batch) = reader.next().unwrap() {
        all.extend(batch.tensors().next().unwrap().data::<i64>().unwrap());
    }
    all
}

#[test]
fn a_share_is_kept_and_taken_again_without_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |rank: usize| folder.path().join(format!("trainer.{rank}/shuffle"));
    let plain = trainers(99, |dataset, seat| {
        dataset.global_shuffle(Some(seat))?;
        dataset.local_shuffle()?;
        Ok(held(dataset))
    });
    let kept = trainers(99, |dataset, seat| {
        dataset.global_shuffle_kept(Some(seat), &path(seat.rank))?;
        dataset.local_shuffle()?;
        Ok(held(dataset))
    });
    for rank in 0..N {
        let mut again = loaded(rank);
        again.take_kept(&path(rank), NONE).unwrap();
        assert_eq!(again.n_shuffled(None).unwrap(), again.n_rows(None).unwrap());
        again.local_shuffle().unwrap();
        let found = held(&mut again);
        assert_eq!(&found, kept[rank].as_ref().unwrap());
        assert_eq!(&found, plain[rank].as_ref().unwrap());
        let mut twice = loaded(rank);
        twice.local_shuffle().unwrap();
        let error = twice.take_kept(&path(rank), NONE).unwrap_err();
        assert!(matches!(error, Error::OtherData { .. }), "{error}");
    }
}

/// Trainers are interrupted after every number of exchanges, and do the whole again.
#[test]
fn an_interrupted_shuffle_is_done_again() {
    let expected = trainers(99, |dataset, seat| {
        dataset.global_shuffle(Some(seat))?;
        Ok(held(dataset))
    });
    let expected: Vec<_> = expected.into_iter().map(Result::unwrap).collect();
    let mut n_interrupted = 0;
    for n_exchanges in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = |rank: usize| folder.path().join(format!("{rank}"));
        let first = trainers(n_exchanges, |dataset, seat| {
            dataset.global_shuffle_kept(Some(seat), &path(seat.rank))
        });
        n_interrupted += usize::from(first.iter().any(Result::is_err));
        if n_exchanges % 3 == 0 {
            // One of them was not as far as the other.
            let _ = std::fs::remove_file(path(1));
        }
        let again = trainers(99, |dataset, seat| {
            dataset.global_shuffle_kept(Some(seat), &path(seat.rank))?;
            Ok(held(dataset))
        });
        let again: Vec<_> = again.into_iter().map(Result::unwrap).collect();
        assert_eq!(again, expected, "after {n_exchanges} exchanges");
    }
    assert!(n_interrupted > 5, "{n_interrupted}");
}

#[test]
fn a_trainer_alone_keeps_its_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shuffle");
    let (mut plain, mut kept) = (loaded(0), loaded(0));
    plain.global_shuffle(None).unwrap();
    kept.global_shuffle_kept(None, &path).unwrap();
    assert_eq!(held(&mut kept), held(&mut plain));
    let mut again = loaded(0);
    again.take_kept(&path, NONE).unwrap();
    assert_eq!(held(&mut again), held(&mut plain));
}

#[test]
fn a_damaged_share_is_refused_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shuffle");
    let mut dataset = loaded(0);
    dataset.global_shuffle_kept(None, &path).unwrap();
    let (good, expected) = (std::fs::read(&path).unwrap(), held(&mut dataset));
    let again = folder.path().join("shuffle.again");
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        // The second copy takes its place.
        std::fs::write(&again, &good).unwrap();
        let mut other = loaded(0);
        other.take_kept(&path, NONE).unwrap();
        assert_eq!(held(&mut other), expected);
        // It was put right, so both are damaged now.
        [&path, &again].into_iter().for_each(|copy| std::fs::write(copy, bytes).unwrap());
        let error = loaded(0).take_kept(&path, NONE).unwrap_err();
        assert!(matches!(error, Error::BadShare { .. }), "{error}");
    };
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes);
        refused(&good[..at]);
    }
    refused(&[&good[..], &[0]].concat());
    let mut again = loaded(0);
    again.global_shuffle_kept(None, &path).unwrap();
    assert_eq!((held(&mut again), std::fs::read(&path).unwrap()), (expected, good));
}

/// A script that is started again after its second shuffle: the first one's file was removed.
#[test]
fn samples_that_nobody_needs_are_only_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |at: usize| folder.path().join(format!("shuffle-{at}"));
    let mut first = loaded(0);
    first.global_shuffle_kept(None, &path(1)).unwrap();
    let held_then = first.held();
    first.local_shuffle().unwrap();
    let digest = first.digest();
    let before = first.share().unwrap();
    assert_eq!((&*before, Arc::strong_count(&before)), (path(1).as_path(), 2));
    first.global_shuffle_kept(None, &path(2)).unwrap();
    assert_eq!(Arc::strong_count(&before), 1, "this may be removed now");
    std::fs::remove_file(path(1)).unwrap();
    let mut again = loaded(0);
    again.take_kept(&path(1), held_then).unwrap();
    assert_eq!((again.n_rows(None).unwrap(), again.held()), (10, held_then));
    again.local_shuffle().unwrap();
    assert_eq!(again.digest(), digest, "a pass between both is the same event");
    for error in [again.start(1).err().unwrap(), again.global_shuffle(None).unwrap_err()] {
        assert!(matches!(error, Error::ShareGone), "{error}");
    }
    again.take_kept(&path(2), first.held()).unwrap();
    assert_eq!((held(&mut again), again.held()), (held(&mut first), first.held()));
}
