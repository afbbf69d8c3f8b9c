//! Whether the processes of a machine wait for its processors.
//!
//! The kernel says how long threads that could run did not (run delay). A process that waits so for much longer than it
//! runs is not slow by itself, and neither are messages to it.

use std::collections::BTreeMap;

use metrics::words::count;

use super::judge::{Cause, Judgement};
use super::shares::ProcessShares;

/// A process whose threads wait less than this, in seconds of a second, has what it needs.
const DELAY_MIN: f64 = 0.3;
/// One that waits so many times as long as it runs has too few. Two busy threads on one processor are not enough.
const DELAY_RATIO: f64 = 1.5;

/// How much of its processors a process had in the last seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorUse {
    /// Its machine.
    pub host: String,
    /// Processors that it used.
    pub used: f64,
    /// Threads of it that could run and did not, on average.
    pub delayed: f64,
    /// Processors that it may use; 0 if that is not known.
    pub available: f64,
}

impl ProcessShares {
    /// Whether it waits for processors much longer than it has them.
    pub(super) fn is_starved(&self) -> bool {
        let is_short =
            |own: &ProcessorUse| own.delayed >= DELAY_MIN && own.delayed >= DELAY_RATIO * own.used;
        self.processors.as_ref().is_some_and(is_short)
    }
}

/// A machine on which processes wait for processors much longer than they have them, all together.
pub(super) fn judge(all: &[ProcessShares]) -> Option<Judgement> {
    let mut hosts: BTreeMap<&str, Vec<(&ProcessShares, &ProcessorUse)>> = BTreeMap::new();
    for one in all {
        if let Some(processors) = &one.processors {
            hosts.entry(&processors.host).or_default().push((one, processors));
        }
    }
    let found = hosts.iter().find_map(|(host, those)| {
        let sum = |of: fn(&ProcessorUse) -> f64| those.iter().map(|(_, own)| of(own)).sum::<f64>();
        let (used, delayed) = (sum(|own| own.used), sum(|own| own.delayed));
        let is_short =
            delayed >= DELAY_RATIO * used && those.iter().any(|(one, _)| one.is_starved());
        is_short.then_some((host, those, used, delayed))
    });
    let (host, those, used, delayed) = found?;
    let available = those.iter().map(|(_, own)| own.available).fold(0.0, f64::max);
    let worst = those.iter().max_by(|(_, a), (_, b)| a.delayed.total_cmp(&b.delayed));
    let worst = worst.map_or("", |(one, _)| one.name.as_str());
    let among = if available > 0.0 {
        format!("may use {}", count(available))
    } else {
        "are not enough".to_string()
    };
    let why = format!(
        "On {host}, {} processes of the job used {used:.2} processors ({among}), and for each second of that their \
         threads waited {:.1} s for one, {worst} most of all. Give the machine or its container more processors, \
         or start fewer processes, fewer threads or less beside the job on it.",
        those.len(),
        delayed / used.max(0.01),
    );
    let who = "This machine has too few processors for its processes.";
    Some(Judgement::new(Cause::Processors, who, why))
}
