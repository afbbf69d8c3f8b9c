//! Checkpoints: which are kept, which is taken, and where trainers continue.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests too.

use std::fs;
use std::path::Path;

use testing::saver::{Way, fill, values};
use train::Error;
use train::io::{Checkpoint, Checkpoints, StepsDone};

/// Saves what a trainer has after so many steps of passes of ten; every number of the model is `n_steps`.
fn save(dir: &Path, trainer_id: usize, n_steps: u64) -> u64 {
    let (program, scope) = Way::Checkpoint.program();
    fill(&program, &scope, n_steps as u32);
    let (epoch, step) = ((n_steps - 1) / 10, (n_steps - 1) % 10);
    let progress = StepsDone { n_steps, ..StepsDone::default() };
    let arguments = &progress.arguments(epoch, step);
    let (scope, program) = (&scope, &program);
    let what = Checkpoint { scope, program, trainer_id, arguments, n_kept: 2, time: "now" };
    Checkpoints::new(dir).save(&what).unwrap()
}

fn damage(dir: &Path, serial: u64) {
    let path = dir.join(format!("checkpoint_{serial}/__model__/var/1"));
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_newest_are_kept_and_others_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let points = Checkpoints::new(dir.path());
    assert_eq!(points.newest().unwrap().serial, None);
    for name in ["checkpoint_x", "checkpoint_", "notes", "checkpoint_1.removed"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    assert_eq!([1, 2, 3, 4].map(|n_steps| save(dir.path(), 0, n_steps)), [0, 1, 2, 3]);
    assert_eq!((points.serials(), points.complete()), (vec![2, 3], vec![2, 3]));
    let others = ["checkpoint_", "checkpoint_2", "checkpoint_3", "checkpoint_x", "notes"];
    assert_eq!(names(dir.path()), others, "what nobody came to remove is gone too");
    // One that has only a trainer's arguments is none, and goes when the next one is complete.
    assert_eq!(save(dir.path(), 1, 4), 4);
    assert_eq!((points.serials(), points.complete()), (vec![2, 3, 4], vec![2, 3]));
    assert_eq!(save(dir.path(), 0, 5), 4);
    assert_eq!(points.complete(), [3, 4]);
    assert_eq!(points.arguments(4, 1).unwrap()["n_steps"], "4");
    points.clean(1, false);
    assert_eq!(points.complete(), [3, 4], "only trainer 0 removes models");
    points.clean(0, true);
    assert_eq!(names(dir.path()), ["checkpoint_", "checkpoint_x", "notes"]);
}

#[test]
fn a_trainer_with_a_disk_of_its_own_keeps_its_newest() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!([1, 2, 3].map(|n_steps| save(dir.path(), 1, n_steps)), [0, 1, 2]);
    assert_eq!(Checkpoints::new(dir.path()).serials(), [1, 2]);
    Checkpoints::new(dir.path()).clean(1, false);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn one_that_is_not_whole_is_not_taken_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let points = Checkpoints::new(dir.path());
    assert_eq!([1, 2].map(|n_steps| save(dir.path(), 0, n_steps)), [0, 1]);
    damage(dir.path(), 1);
    let (program, scope) = Way::Checkpoint.program();
    let (taken, errors) = points.load(&scope, &program, None).unwrap();
    assert_eq!((taken, values(&program, &scope)), (0, [1].into()));
    assert!(matches!(&errors[..], [Error::FileDiffers { path, .. }] if path.ends_with("var/1")));
    let asked = points.load(&scope, &program, Some(1)).unwrap_err();
    assert!(matches!(&asked, Error::FileDiffers { offer: Some(_), .. }), "{asked}");
    let resumed = points.resume(&scope, &program, Some(0)).unwrap();
    assert_eq!((resumed.serial, resumed.progress.n_steps, resumed.errors.len()), (Some(0), 1, 1));
    // The next one has a number of its own.
    assert_eq!(save(dir.path(), 0, 2), 2);
    // A damaged list is damage too; where nothing is whole, no trainer begins anew over it.
    let list = |serial: u64| dir.path().join(format!("checkpoint_{serial}/.paddlewheel"));
    fs::write(list(2), "paddlewheel folder 1\n").unwrap();
    assert_eq!(points.newest().unwrap().serial, None, "the first was removed");
    let error = points.resume(&scope, &program, Some(0)).unwrap_err();
    assert!(matches!(error, Error::BadManifest { .. }), "{error}");
    // A format that is not known here is not damage, for which another one would be taken.
    assert_eq!(save(dir.path(), 0, 3), 3);
    assert_eq!(save(dir.path(), 0, 4), 4);
    fs::write(list(4), "paddlewheel folder 2\n").unwrap();
    let error = points.resume(&scope, &program, Some(0)).unwrap_err();
    assert!(matches!(error, Error::ManifestVersion { found: 2, .. }), "{error}");
    let error = Checkpoints::new(&dir.path().join("no")).load(&scope, &program, None).unwrap_err();
    assert!(matches!(error, Error::NoCheckpoint { .. }), "{error}");
}

#[test]
fn a_checkpoint_of_another_model_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    save(dir.path(), 0, 1);
    let (program, scope) = Way::Others.program();
    let error = Checkpoints::new(dir.path()).resume(&scope, &program, Some(0)).unwrap_err();
    assert!(
        matches!(&error, Error::CannotLoad { path, .. } if path.ends_with("other/0")),
        "{error}"
    );
}

/// Trainers that step together have all done what trainer 0 had done, whatever they wrote themselves and when.
#[test]
fn trainers_go_on_where_the_model_was() {
    let dir = tempfile::tempdir().unwrap();
    let points = Checkpoints::new(dir.path());
    save(dir.path(), 1, 6);
    save(dir.path(), 0, 11);
    // It came before the model was complete, and is of a later step.
    save(dir.path(), 1, 16);
    let progress = |trainer, together| points.progress(0, trainer, together).unwrap();
    let at = |done, n_more, n_steps| StepsDone { done, n_more, n_steps, ..StepsDone::default() };
    assert_eq!(progress(0, true), at(Some((1, 0)), 0, 11));
    assert_eq!(progress(1, true), at(Some((0, 5)), 5, 11));
    assert_eq!(progress(2, true), at(None, 11, 11), "a trainer that wrote nothing counts");
    assert_eq!(progress(1, false), at(Some((0, 5)), 0, 6), "what it wrote with this one");
    assert_eq!(progress(2, false), at(Some((1, 0)), 0, 11), "or else trainer 0");
    // The remains of a newer one are removed.
    let (program, scope) = Way::Checkpoint.program();
    assert_eq!(points.serials(), [0, 1]);
    points.resume(&scope, &program, Some(1)).unwrap();
    assert_eq!(points.serials(), [0, 1]);
    points.resume(&scope, &program, Some(0)).unwrap();
    assert_eq!(points.serials(), [0]);
}

#[test]
fn steps_that_a_checkpoint_has_seen_are_not_trained_again() {
    let mut progress =
        StepsDone { done: Some((1, 1)), n_more: 3, n_steps: 20, epochs: 2, steps: 2 };
    assert_eq!(progress.first_epoch(), 1);
    let steps: Vec<(u64, u64)> =
        (1..4).flat_map(|epoch| [0, 1, 2].map(|step| (epoch, step))).collect();
    let taken: Vec<_> = steps.iter().filter(|at| progress.takes(at.0, at.1)).copied().collect();
    assert_eq!(taken, [(2, 2), (3, 0), (3, 1), (3, 2)]);
    assert_eq!(progress.n_steps, 24);
    let next_cut: Vec<_> = steps.into_iter().filter(|at| progress.is_due(at.0, at.1)).collect();
    assert_eq!(next_cut, [(2, 0), (2, 2)]);
}
