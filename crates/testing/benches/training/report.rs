//! One line per figure, and medians.

/// Prints `BENCH <name> ratio=<r> ours=<x> against=<what>=<y>`.
pub(crate) fn bench(name: &str, ours: f64, what: &str, against: f64) {
    println!("BENCH {name} ratio={:.3} ours={ours:.1} against={what}={against:.1}", ours / against);
}

/// Of rounds measured side by side: the median of their ratios, with the medians of both sides.
pub(crate) fn bench_rounds(name: &str, what: &str, rounds: &[(f64, f64)]) {
    let ratio = median(rounds.iter().map(|(ours, against)| ours / against));
    let ours = median(rounds.iter().map(|round| round.0));
    let against = median(rounds.iter().map(|round| round.1));
    println!("BENCH {name} ratio={ratio:.3} ours={ours:.0} against={what}={against:.0}");
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
