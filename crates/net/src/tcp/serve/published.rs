//! The state of a server's protocol, for watchers of the job.

use std::time::Instant;

use protocol::counters::{self, SERVER};
use wire::message::Stats;

/// Publishes the state of a server's state machine, about once a second.
#[derive(Debug, Default)]
pub(super) struct Published {
    last: Option<Instant>,
    /// When the number of cuts changed.
    cut: Option<Instant>,
}

impl Published {
    /// Whether it is time.
    pub(super) fn is_due(&self) -> bool {
        metrics::is_on() && self.last.is_none_or(|last| last.elapsed().as_millis() >= 900)
    }

    /// Takes over what a server knows.
    pub(super) fn publish(&mut self, stats: &Stats, n_trainers: usize) {
        counters::note_server();
        self.last = Some(Instant::now());
        let Stats { rounds, pushes, repeated, updates, staleness_sum, staleness_max, .. } = *stats;
        SERVER.rounds.set(rounds);
        SERVER.pushes.set(pushes);
        SERVER.repeated_pushes.set(repeated);
        SERVER.updates.set(updates);
        SERVER.staleness_sum.set(staleness_sum);
        SERVER.staleness_max.set(staleness_max);
        SERVER.trainers.set(n_trainers as u64);
        let Stats { rows, bytes, table_rows, table_bytes, waiting, dropped, .. } = *stats;
        SERVER.rows.set(rows);
        SERVER.held_bytes.set(bytes);
        SERVER.table_rows.set(table_rows);
        SERVER.table_bytes.set(table_bytes);
        SERVER.waiting_rows.set(waiting);
        SERVER.dropped_rows.set(dropped);
        let Stats { cuts, cut_bytes, cut_ms, .. } = *stats;
        if cuts > SERVER.cuts.get() {
            self.cut = Some(Instant::now());
            SERVER.last_cut_bytes.set(cut_bytes.saturating_sub(SERVER.cut_bytes.get()));
            SERVER.last_cut_seconds.set(cut_ms as f64 / 1e3);
        }
        SERVER.cuts.set(cuts);
        SERVER.cut_bytes.set(cut_bytes);
        let age = self.cut.map_or(0.0, |cut| cut.elapsed().as_secs_f64());
        SERVER.last_cut_age_seconds.set(age);
    }
}
