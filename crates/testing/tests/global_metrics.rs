//! Figures of quality over all trainers: those of one process that saw all samples.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use fleet::Error;
use fleet::metrics::ClickVars;
use program::distributed::Mode;
use tensor::Tensor;
use testing::fleets::job;
use testing::sim::Rng;
use train::Scope;
use train::metrics::{Auc, ScoredBatch, ScoredSamples, set_zero};

const N_BUCKETS: usize = 4096;

/// Predictions and clicks of a trainer; the more it predicts, the more is clicked.
fn samples(rank: usize) -> Vec<(f64, bool)> {
    let mut rng = Rng::new(rank as u64 + 5);
    let mut uniform = move || rng.below(1 << 20) as f64 / (1 << 20) as f64;
    (0..500 * (rank + 1)).map(|_| (uniform(), uniform())).map(|(p, x)| (p, x < p)).collect()
}

/// The histograms and sums that a program would have collected.
fn collected(samples: &[(f64, bool)]) -> Scope {
    let mut counts = [vec![0i64; N_BUCKETS + 1], vec![0; N_BUCKETS + 1]];
    let mut sums = [0.0f32; 6];
    for &(p, clicked) in samples {
        counts[usize::from(!clicked)][(p * N_BUCKETS as f64) as usize] += 1;
        let label = f64::from(u8::from(clicked));
        let one = [(p - label).powi(2), (p - label).abs(), p, 1.0 / (1.0 + (-p).exp()), label, 1.0];
        sums.iter_mut().zip(one).for_each(|(sum, x)| *sum += x as f32);
    }
    let scope = Scope::new();
    for (name, counts) in ["pos", "neg"].iter().zip(&counts) {
        scope.set(name, Tensor::new([1, N_BUCKETS + 1], counts).unwrap());
    }
    for (name, sum) in SUMS.iter().zip(sums) {
        scope.set(name, Tensor::full([1], sum));
    }
    scope
}

const SUMS: [&str; 6] = ["sqrerr", "abserr", "prob", "q", "clicks", "total"];
const VARS: ClickVars<'static> = ClickVars { histograms: ["pos", "neg"], sums: SUMS };

/// The share of pairs of a click and none in which the click was predicted higher; ties by halves.
fn exact_area(samples: &[(f64, bool)]) -> f64 {
    let (mut wins, mut n_pairs) = (0.0, 0.0);
    for (p, _) in samples.iter().filter(|(_, clicked)| *clicked) {
        for (other, _) in samples.iter().filter(|(_, clicked)| !*clicked) {
            n_pairs += 1.0;
            wins += if p > other { 1.0 } else { 0.5 * f64::from(u8::from(p == other)) };
        }
    }
    wins / n_pairs
}

#[test]
fn an_area_is_that_of_all_samples() {
    let all: Vec<(f64, bool)> = (0..3).flat_map(samples).collect();
    let bucketed: Vec<_> =
        all.iter().map(|&(p, clicked)| ((p * N_BUCKETS as f64).trunc(), clicked)).collect();
    let found = job(2, 3, Mode::Async, |rank, fleet| {
        let scope = collected(&samples(rank));
        let auc = fleet.global_auc(&scope, ["pos", "neg"]).unwrap();
        assert_eq!(auc.n_samples(), 3000);
        let clicks = fleet.global_clicks(&scope, &VARS).unwrap();
        assert_eq!((clicks.auc, clicks.n), (auc.area(), 3000.0));
        // A new phase begins: only what comes now counts.
        set_zero(&scope, "pos").unwrap();
        set_zero(&scope, "neg").unwrap();
        let fresh = fleet.global_auc(&scope, ["pos", "neg"]).unwrap();
        assert_eq!((fresh.n_samples(), fresh.area_or_half()), (0, 0.5));
        clicks
    });
    assert!(found.iter().all(|other| *other == found[0]), "the same bits for all: {found:?}");
    assert!((found[0].auc - exact_area(&bucketed)).abs() < 1e-12);
    assert!((found[0].auc - exact_area(&all)).abs() < 1e-3, "up to the width of a bucket");
    let mut metric = Auc::new(N_BUCKETS);
    let (predicted, labels): (Vec<f64>, Vec<f64>) =
        all.iter().map(|&(p, clicked)| (p, f64::from(u8::from(clicked)))).unzip();
    metric.update(&predicted, &labels).unwrap();
    assert_eq!(metric.area(), found[0].auc, "fluid.metrics.Auc agrees");
    let error = all.iter().map(|&(p, clicked)| (p - f64::from(u8::from(clicked))).abs());
    let mae = error.sum::<f64>() / 3000.0;
    assert!((found[0].mae - mae).abs() < 1e-5, "{} instead of {mae}", found[0].mae);
    assert!((found[0].copc - 1.0).abs() < 0.1 && found[0].bucket_error < 0.2, "{:?}", found[0]);
}

#[test]
fn histograms_that_differ_are_refused() {
    job(1, 2, Mode::Sync, |rank, fleet| {
        let scope = collected(&samples(rank));
        if rank == 1 {
            scope.set("pos", Tensor::full([1, 8], 1i64));
            scope.set("neg", Tensor::full([1, 8], 1i64));
        }
        let error = fleet.global_auc(&scope, ["pos", "neg"]).unwrap_err();
        assert!(matches!(error, Error::UnevenReduction { .. }), "{error}");
        let error = fleet.global_auc(&scope, ["pos", "nowhere"]).unwrap_err();
        let named =
            matches!(&error, Error::Train(train::Error::NotInScope { var }) if var == "nowhere");
        assert!(named, "{error}");
    });
}

/// Samples of a trainer; users and slices are the same on all of them.
fn scored(samples: &[(f64, bool)]) -> ScoredSamples {
    let mut scored = ScoredSamples::default();
    for (at, &(p, clicked)) in samples.iter().enumerate() {
        let (user, slice) = ([(p * 1e6) as i64 % 29], [at as i64 % 2]);
        let label = [f64::from(u8::from(clicked))];
        let (users, slices) = (Some(&user[..]), Some(&slice[..]));
        let batch = ScoredBatch { predictions: &[p], labels: &label, users, slices };
        scored.add(&batch).unwrap();
    }
    scored
}

#[test]
fn figures_of_samples_are_those_of_one_process_that_saw_all() {
    let mut all = ScoredSamples::default();
    (0..3).for_each(|rank| all.join(scored(&samples(rank))).unwrap());
    let found = job(2, 3, Mode::Async, |rank, fleet| {
        let gathered = fleet.global_samples(&scored(&samples(rank))).unwrap();
        (gathered.quality(), gathered.by_slice())
    });
    assert!(found.iter().all(|one| *one == (all.quality(), all.by_slice())));
    let flat: Vec<(f64, bool)> = (0..3).flat_map(samples).collect();
    let quality = all.quality();
    assert!((quality.auc.unwrap() - exact_area(&flat)).abs() < 1e-12);
    assert!(quality.gauc.is_some() && quality.n_users == 29, "{quality:?}");
}

#[test]
fn one_trainer_needs_nobody() {
    job(1, 1, Mode::Sync, |_, fleet| {
        let mine = samples(0);
        let auc = fleet.global_auc(&collected(&mine), ["pos", "neg"]).unwrap();
        assert_eq!(auc.n_samples(), 500);
        assert!(fleet.peers().unwrap().is_none());
    });
}
