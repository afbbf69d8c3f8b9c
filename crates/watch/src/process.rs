//! What one process says of itself over HTTP: `/healthz`, `/readyz`, `/metrics` and `/state`.

use std::collections::BTreeMap;
use std::time::Instant;

use count::{NumberSource, Sample, is_ready, set_on};
use serde_json::{Map, Value, json};

use crate::http::{Answering, HttpAddress, HttpAnswer, HttpError, HttpRequest, HttpServer};
use crate::text::open_metrics;

/// Which process of a job this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessName {
    /// `trainer` or `server`.
    pub role: &'static str,
    /// Its number among those.
    pub id: u32,
    /// How often it was started again.
    pub n_restarts: u64,
    /// Where trainers reach this server.
    pub endpoint: Option<String>,
}

/// Answers until it is dropped.
#[derive(Debug)]
pub struct ProcessServer {
    server: HttpServer,
}

impl ProcessServer {
    /// Begins to answer at this address, with these numbers; from now on the process measures.
    pub fn start(
        address: &str,
        name: ProcessName,
        sources: Vec<&'static dyn NumberSource>,
    ) -> Result<Self, HttpError> {
        let start = Instant::now();
        let answer: Answering = Box::new(move |request: &HttpRequest| {
            let samples = || all_samples(&sources);
            match request.path() {
                "/healthz" => HttpAnswer::json(json!({ "status": "ok" })),
                "/readyz" => match is_ready() {
                    true => HttpAnswer::json(json!({ "status": "ready" })),
                    false => HttpAnswer::error(503, "it has not begun yet"),
                },
                "/metrics" => HttpAnswer::metrics(open_metrics(&samples())),
                "/state" => HttpAnswer::json(state_json(&name, start, &samples())),
                _ => HttpAnswer::error(404, "there are /healthz, /readyz, /metrics and /state"),
            }
        });
        let server = HttpServer::start(address, answer)?;
        set_on();
        Ok(Self { server })
    }

    /// Where it listens.
    pub fn address(&self) -> HttpAddress {
        self.server.address()
    }
}

fn all_samples(sources: &[&'static dyn NumberSource]) -> Vec<Sample> {
    let mut all: Vec<Sample> = sources.iter().flat_map(|source| source.samples()).collect();
    all.extend(system());
    all
}

/// What the system says of this process. A system that does not say it is no error.
fn system() -> Vec<Sample> {
    use count::NumberKind::{Counter, Gauge};
    // The name of the program, which may hold anything, is before the last parenthesis.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let cpu = Sample {
        name: "process_cpu_seconds",
        help: "Time of all processors that this process has used.",
        kind: Counter,
        label: None,
        value: (ticks(11) + ticks(12)) as f64 / rustix::param::clock_ticks_per_second() as f64,
    };
    let memory = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = memory.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    let memory = pages.map(|pages| Sample {
        name: "process_resident_bytes",
        help: "Memory of this process.",
        kind: Gauge,
        label: None,
        value: (pages * rustix::param::page_size() as u64) as f64,
    });
    std::iter::once(cpu).chain(memory).collect()
}

/// What `/state` answers: who it is, and its numbers by name.
pub fn state_json(name: &ProcessName, start: Instant, samples: &[Sample]) -> Value {
    let mut numbers = Map::new();
    let mut labelled: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for sample in samples {
        // JSON has no number for infinity and for what is none.
        let value = json!(sample.value);
        match &sample.label {
            None => drop(numbers.insert(sample.name.to_string(), value)),
            Some((_, who)) => {
                labelled.entry(sample.name).or_default().insert(who.clone(), value);
            }
        }
    }
    let ProcessName { role, id, n_restarts, endpoint } = name;
    json!({
        "role": role,
        "id": id,
        "restarts": n_restarts,
        "endpoint": endpoint,
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": start.elapsed().as_secs_f64(),
        "ready": is_ready(),
        "numbers": numbers,
        "labelled": labelled,
    })
}
