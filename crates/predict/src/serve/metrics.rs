//! The counts of a server, as OpenMetrics text.

use std::fmt::Write;
use std::time::Duration;

use metrics::Counter;

use super::ServerState;
use crate::predictor::Predictor;

/// Upper ends of the ranges that durations of requests are counted in, in microseconds.
const BOUNDS: [u64; 14] = [
    50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000,
];

const STATUSES: [u16; 13] = [200, 400, 404, 405, 408, 413, 417, 431, 500, 501, 503, 504, 0];

#[derive(Debug, Default)]
pub(super) struct Metrics {
    pub(super) samples: Counter,
    pub(super) batches: Counter,
    /// Requests that were refused because there was no room.
    pub(super) refused: Counter,
    /// Answers that were not read in time.
    pub(super) cut_off: Counter,
    by_status: [Counter; STATUSES.len()],
    durations: [Counter; BOUNDS.len() + 1],
    micros: Counter,
}

impl Metrics {
    pub(super) fn answered(&self, status: u16, took: Duration) {
        let last = STATUSES.len() - 1;
        let at = STATUSES.iter().position(|&known| known == status).unwrap_or(last);
        self.by_status[at].add(1);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.durations[BOUNDS.partition_point(|&bound| bound < micros)].add(1);
        self.micros.add(micros);
    }

    pub(super) fn text(&self, shared: &ServerState) -> String {
        let mut out = String::new();
        let mut family = |name: &str, kind: &str, help: &str, lines: &[(String, String)]| {
            let _ = writeln!(out, "# TYPE paddlewheel_{name} {kind}");
            let _ = writeln!(out, "# HELP paddlewheel_{name} {help}");
            for (suffix, value) in lines {
                let _ = writeln!(out, "paddlewheel_{name}{suffix} {value}");
            }
        };
        let one = |suffix: &str, value: u64| vec![(suffix.to_string(), value.to_string())];
        let statuses = STATUSES.iter().zip(&self.by_status).filter(|(_, n)| n.get() > 0);
        let statuses: Vec<_> = statuses
            .map(|(status, n)| (format!("_total{{status=\"{status}\"}}"), n.get().to_string()))
            .collect();
        family("requests", "counter", "Answers by status.", &statuses);
        family("samples", "counter", "Samples predicted for.", &one("_total", self.samples.get()));
        family("batches", "counter", "Runs of the model.", &one("_total", self.batches.get()));
        let refused = one("_total", self.refused.get());
        family("refused", "counter", "Requests for which there was no room.", &refused);
        let cut_off = one("_total", self.cut_off.get());
        family("cut_off", "counter", "Answers that a client did not read in time.", &cut_off);
        let held = one("", shared.budget.n_held() as u64);
        family("held_bytes", "gauge", "Bytes of requests and answers in memory.", &held);
        let predictor = shared.predictor.get();
        let (n_loaded, error) = predictor.map(Predictor::loads).unwrap_or_default();
        family("models", "counter", "Models that were loaded.", &one("_total", n_loaded));
        let failed = one("", error.is_some().into());
        family("reload_failed", "gauge", "1 if the newest model cannot be loaded.", &failed);
        let n_bytes = one("", predictor.map_or(0, Predictor::n_bytes) as u64);
        family("model_bytes", "gauge", "Bytes of the parameters.", &n_bytes);
        let n_queued = one("", shared.queue.n_samples() as u64);
        family("queued_samples", "gauge", "Samples that wait.", &n_queued);
        let n_connections = shared.connections.len() as u64;
        family("connections", "gauge", "Open connections.", &one("", n_connections));
        let mut lines = Vec::new();
        let mut n = 0;
        for (at, counter) in self.durations.iter().enumerate() {
            n += counter.get();
            let bound = BOUNDS.get(at).map(|&micros| (micros as f64 / 1e6).to_string());
            let bound = bound.unwrap_or_else(|| "+Inf".to_string());
            lines.push((format!("_bucket{{le=\"{bound}\"}}"), n.to_string()));
        }
        lines.push(("_count".to_string(), n.to_string()));
        lines.push(("_sum".to_string(), (self.micros.get() as f64 / 1e6).to_string()));
        family("request_seconds", "histogram", "From a read request to its answer.", &lines);
        out.push_str("# EOF\n");
        out
    }
}
