//! A short `make soak`: the same loops, with few seeds.

use testing::soak::{Target, targets};

/// Executions of all targets together.
const N: u64 = 20_000;

#[test]
fn nothing_panics_on_broken_bytes() {
    let mut failures = Vec::new();
    for target in targets() {
        failures.extend(target.run(0..(N * target.share).div_ceil(1000)));
    }
    let lines: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn good_inputs_are_read_and_shares_make_a_thousand() {
    let all = targets();
    assert_eq!(all.iter().map(|target| target.share).sum::<u64>(), 1000);
    for target in all {
        target.inputs.iter().for_each(|input| (target.read)(input));
        let seeds = (0..200).map(|seed| target.input(seed));
        let changed = seeds.filter(|input| !target.inputs.contains(input)).count();
        assert!(changed > 100, "{}: only {changed} of 200 inputs are broken", target.name);
        assert_eq!(target.input(7), target.input(7), "a seed repeats its input");
    }
}

#[test]
fn a_panic_is_found_and_its_line_repeats_it() {
    let canary = Target {
        name: "canary",
        inputs: vec![b"good".to_vec()],
        words: &[],
        read: Box::new(|bytes: &[u8]| assert!(bytes.starts_with(b"good"), "the canary sings")),
        share: 0,
    };
    let found = canary.run(0..500);
    let failure = found.first().expect("some inputs are broken");
    assert!(failure.panic.contains("the canary sings"), "{failure}");
    assert_eq!(canary.run(failure.seed..failure.seed + 1), std::slice::from_ref(failure));
    let again = format!("make soak TARGET=canary SEED={} N=1", failure.seed);
    assert!(failure.to_string().contains(&again), "{failure}");
}
