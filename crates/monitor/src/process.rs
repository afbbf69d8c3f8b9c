//! The HTTP endpoints of one process: `/healthz`, `/readyz`, `/metrics` and `/state`.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

use base::EvenIfPoisoned;
use metrics::{
    NumberKind, NumberSource, Obstacle, Sample, has_stepped, is_serving, obstacle_times, obstacles,
    set_on,
};
use serde_json::{Map, Value, json};

use crate::http::{Answering, HttpAddress, HttpAnswer, HttpError, HttpRequest, HttpServer};
use crate::kernel::{KernelState, RunDelays};
use crate::text::{TextForm, families};

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

/// How long a process was held up, by obstacle.
pub(crate) const HELD_UP: &str = "process_held_up_seconds";

/// The role of a server.
const SERVER: &str = "server";

impl ProcessName {
    /// Whether it does what it is there for: a server listens, a trainer has run a program. Servers run programs before
    /// they listen.
    pub fn is_ready(&self) -> bool {
        if self.role == SERVER { is_serving() } else { has_stepped() }
    }
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
                "/readyz" => match (name.is_ready(), name.role) {
                    (true, _) => HttpAnswer::json(json!({ "status": "ready" })),
                    (false, SERVER) => HttpAnswer::error(503, "this server does not listen yet"),
                    (false, _) => HttpAnswer::error(503, "this trainer has run no program yet"),
                },
                "/metrics" => TextForm::wanted(request).answer(&families(&samples())),
                "/state" => {
                    let samples = samples();
                    let mut state = state_json(&name, start, &samples);
                    if request.target.ends_with("?about") {
                        state["about"] = about_json(&samples);
                    }
                    HttpAnswer::json(state)
                }
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

static DELAYS: LazyLock<Mutex<RunDelays>> = LazyLock::new(Mutex::default);

/// The system's numbers of this process. A system that does not have them is not an error.
fn system() -> Vec<Sample> {
    use NumberKind::{Counter, Gauge};
    let sample = |name, help, kind, value| Sample { name, help, kind, label: None, value };
    let cpu = KernelState::of("self").map_or(0.0, |state| state.cpu_seconds);
    let mut all = vec![sample(
        "process_cpu_seconds",
        "Time of all processors that this process has used.",
        Counter,
        cpu,
    )];
    if let Some(delay) = DELAYS.lock().even_if_poisoned().look("self") {
        let help = "Time that threads of this process could run and waited for a processor.";
        all.push(sample("process_run_delay_seconds", help, Counter, delay));
    }
    if let Ok(n) = std::thread::available_parallelism() {
        let help = "Processors that this process may use.";
        all.push(sample("process_available_processors", help, Gauge, n.get() as f64));
    }
    let memory = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = memory.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    if let Some(pages) = pages {
        let n_bytes = (pages * rustix::param::page_size() as u64) as f64;
        all.push(sample("process_resident_bytes", "Memory of this process.", Gauge, n_bytes));
    }
    all.extend(obstacle_times().into_iter().map(|(by, time)| Sample {
        name: HELD_UP,
        help: "Time that something kept this process from its work: a wait for a cut, a recovery, a full disk.",
        kind: Counter,
        label: Some(("by", by.to_string())),
        value: time.as_secs_f64(),
    }));
    all
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The answer of `/state`: the name of the process, and its numbers by name.
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
        "host": host(),
        "pid": std::process::id(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": start.elapsed().as_secs_f64(),
        "ready": name.is_ready(),
        "obstacles": obstacles().iter().map(obstacle_json).collect::<Vec<_>>(),
        "numbers": numbers,
        "labelled": labelled,
    })
}

/// The meaning of each number, by name: for a page that shows the numbers of all processes.
fn about_json(samples: &[Sample]) -> Value {
    let mut all = Map::new();
    for Sample { name, help, kind, label, .. } in samples {
        let label = label.as_ref().map(|(label, _)| *label);
        let is_counter = *kind == NumberKind::Counter;
        let about = json!({ "help": help, "is_counter": is_counter, "label": label });
        all.insert(name.to_string(), about);
    }
    all.into()
}

fn obstacle_json(obstacle: &Obstacle) -> Value {
    let Obstacle { name, text, remedy, is_passing, since } = obstacle;
    json!({
        "name": name,
        "text": text,
        "remedy": remedy,
        "is_passing": is_passing,
        "seconds": since.elapsed().as_secs_f64(),
    })
}
