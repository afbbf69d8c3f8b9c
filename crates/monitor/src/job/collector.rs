//! Asks all processes of a job about once a second, and keeps their answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;

use super::alarm::Alarm;
use super::files::{Moment, NumberFiles};
use super::history::History;
use super::judge::{Judgement, judge};
use super::member::{SILENT_SECONDS, WatchedMember};
use super::members::{Board, Condition, Told};
use super::metrics::{self, Dictionary};
use super::page;
use super::shares::ProcessShares;
use super::state::State;
use crate::http::{HttpAddress, HttpAnswer, HttpRequest, HttpServer, ask_all};

/// How often processes are asked.
const EVERY: Duration = Duration::from_secs(1);
/// How long they have to answer.
const PATIENCE: Duration = Duration::from_millis(700);
/// Events that are kept.
const EVENTS_MAX: usize = 50;
/// Processes that are watched.
const MEMBERS_MAX: usize = 1000;
/// Problems with files that are kept until they are printed.
const PROBLEMS_MAX: usize = 10;

/// Settings of a collector.
#[derive(Clone, Debug, Default)]
pub struct CollectorSettings {
    /// The title of the page.
    pub title: String,
    /// The processes.
    pub board: Board,
    /// Where the page is, `host:port`; port 0 for any that is free.
    pub web: Option<String>,
    /// The page may be at another port of that host, if its own is taken.
    pub any_port: bool,
    /// The file for numbers.
    pub jsonl: Option<PathBuf>,
    /// The folder for TensorBoard.
    pub tensorboard: Option<PathBuf>,
}

/// Watches a job until it is dropped.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Mutex<Watched>>,
    web: Option<HttpServer>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The work of a job, when it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// One line for each process, and one for all together.
    pub lines: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    /// Seconds since the beginning.
    pub(super) at: f64,
    pub(super) text: String,
}

/// All that is known of a job.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) title: String,
    start: Instant,
    board: Board,
    pub(super) members: Vec<WatchedMember>,
    /// The counts of processes that have left the job.
    of_those_who_left: BTreeMap<String, f64>,
    /// The meaning of their numbers.
    pub(super) dictionary: Dictionary,
    /// The obstacle that the console has printed, and its start.
    alarm: Option<Alarm>,
    pub(super) history: History,
    pub(super) values: BTreeMap<String, f64>,
    pub(super) shares: Vec<ProcessShares>,
    pub(super) judgement: Judgement,
    pub(super) events: VecDeque<Happened>,
    files: NumberFiles,
    problems: Vec<String>,
}

impl Collector {
    /// Begins to watch. Returns the problems of parts that cannot be started, and starts the
    /// others.
    pub fn start(settings: CollectorSettings) -> (Self, Vec<String>) {
        let CollectorSettings { title, board, web, any_port, jsonl, tensorboard } = settings;
        let (files, mut problems) = NumberFiles::open(jsonl.as_deref(), tensorboard.as_deref());
        let shared = Arc::new(Mutex::new(Watched::new(title, board, files)));
        let serve = |address: &str| {
            let shared = shared.clone();
            let answer = move |request: &HttpRequest| answer(request, &shared);
            HttpServer::start(address, Box::new(answer))
        };
        let web = web.and_then(|address| {
            let other = address.rsplit_once(':').map(|(host, _)| format!("{host}:0"));
            let served = match (serve(&address), other.filter(|_| any_port)) {
                (Err(_), Some(other)) => serve(&other),
                (served, _) => served,
            };
            served.map_err(|error| problems.push(format!("there is no page: {error}"))).ok()
        });
        let stops = Arc::new(AtomicBool::new(false));
        let (told, watched) = (stops.clone(), shared.clone());
        let thread = thread::Builder::new().name("collector".to_string());
        let thread = thread.spawn(move || watch(&watched, &told));
        if let Err(error) = &thread {
            problems.push(format!("the job is not monitored: {error}"));
        }
        (Self { shared, web, stops, thread: thread.ok() }, problems)
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.shared.lock().even_if_poisoned()
    }

    /// Where the page is.
    pub fn address(&self) -> Option<HttpAddress> {
        self.web.as_ref().map(HttpServer::address)
    }

    /// The problems since the last call.
    pub fn take_problems(&self) -> Vec<String> {
        std::mem::take(&mut self.watched().problems)
    }

    /// Processes that have not answered yet, and why.
    pub fn unheard(&self) -> Vec<String> {
        let watched = self.watched();
        let unheard = watched.members.iter().filter(|member| member.states.state().is_none());
        let why = |member: &WatchedMember| {
            let problem = member.problem.clone().unwrap_or_else(|| "it was not asked".to_string());
            format!("{} does not answer: {problem}", member.told.address)
        };
        unheard.map(why).collect()
    }

    /// How far the job is, in one line; none before there are numbers.
    pub fn line(&self) -> Option<String> {
        page::line(&self.watched())
    }

    /// The share of the present pass that the slowest trainer has done, from 0 to 1, if it is known.
    pub fn share(&self) -> Option<f64> {
        page::share(&self.watched())
    }

    /// The work of each process, for the end of a job.
    pub fn summary(&self) -> Summary {
        Summary { lines: page::summary(&self.watched()) }
    }

    /// Asks all processes at once, now.
    pub fn look(&self) {
        look(&self.shared);
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.watched().finish();
    }
}

fn answer(request: &HttpRequest, shared: &Mutex<Watched>) -> HttpAnswer {
    match request.path() {
        "/" => HttpAnswer::new("text/html; charset=utf-8", page::HTML.as_bytes().to_vec()),
        "/job.json" => HttpAnswer::json(page::view(&shared.lock().even_if_poisoned())),
        "/metrics" => metrics::answer(request, &shared.lock().even_if_poisoned()),
        "/healthz" => HttpAnswer::json(serde_json::json!({ "status": "ok" })),
        _ => HttpAnswer::error(404, "there are /, /job.json, /metrics and /healthz"),
    }
}

fn watch(shared: &Mutex<Watched>, stops: &AtomicBool) {
    let mut next = Instant::now();
    while !stops.load(Ordering::Relaxed) {
        look(shared);
        next = (next + EVERY).max(Instant::now());
        while Instant::now() < next && !stops.load(Ordering::Relaxed) {
            thread::park_timeout(next.saturating_duration_since(Instant::now()));
        }
    }
}

/// Asks all processes once. Nothing is locked meanwhile: the page is answered.
fn look(shared: &Mutex<Watched>) {
    let (told, mute, path) = {
        let watched = shared.lock().even_if_poisoned();
        (watched.board.get(), watched.mute(), watched.path())
    };
    let is_asked = |told: &&Told| told.condition == Condition::Running && !told.address.is_empty();
    let mut addresses: Vec<String> =
        told.iter().filter(is_asked).map(|told| told.address.clone()).collect();
    // Those that did not answer the last time do not take time from the others.
    addresses.sort_by_key(|address| mute.contains(address));
    let asked = ask_all(&addresses, path, PATIENCE);
    let answers = addresses.into_iter().zip(asked).map(|(address, asked)| {
        let state = asked.map_err(|error| error.to_string()).and_then(|asked| {
            State::read(&asked.body).ok_or_else(|| "its answer is not a state".to_string())
        });
        (address, state)
    });
    let mut answers: BTreeMap<String, Result<State, String>> = answers.collect();
    // A process that has ended has written its last numbers.
    for ended in told.iter().filter(|told| told.condition != Condition::Running) {
        let bytes = ended.last_state.as_ref().and_then(|file| std::fs::read(file).ok());
        if let Some(state) = bytes.and_then(|bytes| State::read(&bytes)) {
            answers.insert(ended.address.clone(), Ok(state));
        }
    }
    shared.lock().even_if_poisoned().take(told, answers, Instant::now());
}

impl Watched {
    pub(super) fn new(title: String, board: Board, files: NumberFiles) -> Self {
        Self {
            title,
            start: Instant::now(),
            board,
            members: Vec::new(),
            of_those_who_left: BTreeMap::new(),
            dictionary: Dictionary::default(),
            alarm: None,
            history: History::default(),
            values: BTreeMap::new(),
            shares: Vec::new(),
            judgement: judge(&[]),
            events: VecDeque::new(),
            files,
            problems: Vec::new(),
        }
    }

    /// Seconds since the beginning.
    pub(super) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Where processes are that did not answer the last time.
    fn mute(&self) -> BTreeSet<String> {
        let mute = self.members.iter().filter(|member| member.problem.is_some());
        mute.map(|member| member.told.address.clone()).collect()
    }

    /// The path to ask processes for: with the meaning of their numbers, if that is not known.
    fn path(&self) -> &'static str {
        let mut states = self.members.iter().filter_map(|member| member.states.state());
        let is_known = states.all(|state| self.dictionary.has_all(state));
        if is_known { "/state" } else { "/state?about" }
    }

    /// Takes in new answers.
    pub(super) fn take(
        &mut self,
        told: Vec<Told>,
        mut answers: BTreeMap<String, Result<State, String>>,
        now: Instant,
    ) {
        let seconds = now.saturating_duration_since(self.start).as_secs_f64();
        self.forget_those_who_left(&told, seconds);
        for told in told.into_iter().take(MEMBERS_MAX) {
            let answer = answers.remove(&told.address);
            let at = self.members.iter().position(|member| member.told.address == told.address);
            let at = at.unwrap_or_else(|| {
                self.members.push(WatchedMember { told: told.clone(), ..WatchedMember::default() });
                self.members.len() - 1
            });
            if let Some(Ok(state)) = &answer {
                self.dictionary.read(&state.about);
            }
            let happened = self.members[at].take(told, answer, now);
            happened.into_iter().for_each(|text| self.note(seconds, text));
        }
        self.measure(now);
        for (name, value) in &self.values {
            self.history.add(seconds, name, *value);
        }
        let (values, processes) = (&self.values, self.shares.as_slice());
        let step = self.total("trainer_batches") as u64;
        let moment = Moment { seconds, step, values, processes };
        let problems = self.files.add(&moment, self.history.width());
        self.problems.extend(problems);
        self.problems.truncate(PROBLEMS_MAX);
    }

    /// Removes processes that are no longer listed: others have taken their place. Their counts stay.
    fn forget_those_who_left(&mut self, told: &[Told], seconds: f64) {
        let stays =
            |member: &WatchedMember| told.iter().any(|told| told.address == member.told.address);
        let (stay, left) = std::mem::take(&mut self.members).into_iter().partition(stays);
        self.members = stay;
        let left: Vec<WatchedMember> = left;
        for member in left {
            for (name, total) in member.states.totals() {
                *self.of_those_who_left.entry(name).or_default() += total;
            }
            self.note(seconds, format!("{} has left the job", member.name()));
        }
    }

    fn note(&mut self, at: f64, text: String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Happened { at, text });
    }

    /// Works out shares and values of the last seconds.
    fn measure(&mut self, now: Instant) {
        let mut names = BTreeMap::new();
        for member in self.members.iter().filter(|member| member.is_server()) {
            if let Some(endpoint) = member.states.state().and_then(|state| state.endpoint.clone()) {
                names.insert(endpoint, member.name());
            }
        }
        self.shares = self.members.iter().map(|member| member.shares(&names, now)).collect();
        self.judgement = judge(&self.shares);
        let said = Alarm::follow(&mut self.alarm, &self.judgement, now);
        self.problems.extend(said);
        self.values = self.now(now);
    }

    pub(super) fn trainers(&self) -> impl Iterator<Item = &WatchedMember> {
        self.members.iter().filter(|member| !member.is_server())
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = &WatchedMember> {
        self.members.iter().filter(|member| member.is_server())
    }

    /// A counter of all processes, over all incarnations.
    pub(super) fn total(&self, name: &str) -> f64 {
        let left = self.of_those_who_left.get(name).copied().unwrap_or(0.0);
        left + self.members.iter().map(|member| member.states.total(name)).sum::<f64>()
    }

    /// The present values of the curves.
    fn now(&self, now: Instant) -> BTreeMap<String, f64> {
        let is_heard = |member: &&WatchedMember| {
            member.told.condition == Condition::Running
                && member.states.age(now).is_some_and(|age| age < SILENT_SECONDS)
        };
        let heard: Vec<&WatchedMember> = self.members.iter().filter(is_heard).collect();
        let rate = |name: &str| heard.iter().map(|member| member.states.rate(name)).sum::<f64>();
        let sum = |name: &str| heard.iter().map(|member| member.states.number(name)).sum::<f64>();
        let mut values = BTreeMap::new();
        let mut set = |name: &str, value: f64| {
            values.insert(name.to_string(), value);
        };
        if heard.iter().any(|member| !member.is_server() && member.states.seconds().is_some()) {
            set("samples_per_second", rate("trainer_samples"));
            let bytes = rate("network_sent_bytes") + rate("network_lent_bytes");
            set("bytes_per_second", bytes);
        }
        if heard.iter().any(|member| member.is_server()) {
            set("rows", sum("server_table_rows"));
            set("waiting_rows", sum("server_waiting_rows"));
            let updates = rate("server_updates");
            if updates > 0.0 {
                set("staleness", rate("server_staleness_sum") / updates);
            }
            set("new_rows_per_second", rate("server_table_rows"));
        }
        for (name, mean) in fetched(&heard) {
            set(&name, mean);
        }
        values
    }

    /// Writes the rest.
    fn finish(&mut self) {
        let (seconds, step) = (self.seconds(), self.total("trainer_batches") as u64);
        let (values, processes) = (&self.values, self.shares.as_slice());
        let _ = self.files.write(&Moment { seconds, step, values, processes });
    }
}

/// The means of fetched numbers over trainers.
fn fetched(heard: &[&WatchedMember]) -> BTreeMap<String, f64> {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for member in heard {
        let state = member.states.state();
        let fetched = state.and_then(|state| state.labelled.get("trainer_fetched"));
        for (name, value) in fetched.into_iter().flatten() {
            all.entry(name.clone()).or_default().push(*value);
        }
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    all.into_iter().map(|(name, values)| (name, mean(values))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HttpReply;
    use serde_json::{Value, json};

    fn state(role: &str, pid: u64, numbers: Value) -> Result<State, String> {
        let value = json!({
            "role": role, "id": 0, "pid": pid, "uptime_seconds": 1.0, "ready": true, "restarts": 0,
            "endpoint": (role == "server").then_some("127.0.0.1:6170"),
            "numbers": numbers,
            "labelled": {
                "trainer_waiting_seconds": { "127.0.0.1:6170": 0.1 },
                "trainer_fetched": { "loss": 0.5 },
            },
        });
        State::read(value.to_string().as_bytes()).ok_or_else(String::new)
    }

    fn watched() -> Watched {
        Watched::new("a job".to_string(), Board::default(), NumberFiles::default())
    }

    fn told() -> Vec<Told> {
        let named =
            |name: &str, address: &str| Told { name: Some(name.to_string()), ..Told::at(address) };
        vec![named("server 0", "a:1"), named("worker 0", "b:1")]
    }

    fn answers(pid: u64, n: f64) -> BTreeMap<String, Result<State, String>> {
        let server = state(
            "server",
            1,
            json!({ "server_table_rows": 10.0 * n, "server_busy_seconds": n / 2.0 }),
        );
        let trainer =
            state("trainer", pid, json!({ "trainer_samples": 100.0 * n, "trainer_batches": n }));
        BTreeMap::from([("a:1".to_string(), server), ("b:1".to_string(), trainer)])
    }

    #[test]
    fn a_restart_is_noted_and_counts_go_on() {
        let (mut watched, start) = (watched(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        watched.take(told(), answers(2, 0.0), at(0));
        watched.take(told(), answers(2, 1.0), at(1));
        assert_eq!(watched.values["samples_per_second"], 100.0);
        assert_eq!((watched.values["loss"], watched.values["rows"]), (0.5, 10.0));
        assert_eq!(watched.shares[1].name, "trainer 0");
        let mut dead = told();
        dead[1].condition = Condition::Restarting;
        dead[1].end = Some("worker 0 was killed by SIGKILL".to_string());
        watched.take(dead, BTreeMap::new(), at(2));
        assert_eq!(watched.judgement.why, "worker 0 was killed by SIGKILL");
        let mut again = told();
        again[1].n_restarts = 1;
        watched.take(again, answers(3, 2.0), at(3));
        assert_eq!(watched.total("trainer_samples"), 300.0);
        let texts: Vec<&str> = watched.events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(texts, ["worker 0 was killed by SIGKILL", "trainer 0 was started again"]);
    }

    #[test]
    fn silence_and_garbage_are_no_numbers() {
        let (mut watched, start) = (watched(), Instant::now());
        let silent =
            BTreeMap::from([("b:1".to_string(), Err("it did not answer in time".to_string()))]);
        watched.take(told(), silent, start);
        assert_eq!(watched.members[1].problem.as_deref(), Some("it did not answer in time"));
        assert!(watched.values.is_empty() && watched.shares[1].parts.is_empty());
        (0..200).for_each(|n| watched.note(f64::from(n), "again".to_string()));
        assert_eq!(watched.events.len(), EVENTS_MAX);
    }

    /// The page and its numbers, from a process that answers.
    #[test]
    fn the_page_is_served_and_a_taken_port_is_said() {
        let name = crate::ProcessName { role: "trainer", id: 3, n_restarts: 0, endpoint: None };
        let process = crate::ProcessServer::start("127.0.0.1:0", name, Vec::new()).unwrap();
        let board =
            Board::new(vec![Told::at(&process.address().to_string()), Told::at("127.0.0.1:1")]);
        let settings = CollectorSettings {
            title: "a job".to_string(),
            board,
            web: Some("127.0.0.1:0".to_string()),
            ..CollectorSettings::default()
        };
        let (collector, problems) = Collector::start(settings.clone());
        assert_eq!(problems, Vec::<String>::new());
        collector.look();
        let address = collector.address().unwrap().to_string();
        let get = |path: &str| -> HttpReply {
            ask_all(std::slice::from_ref(&address), path, Duration::from_secs(20))
                .remove(0)
                .unwrap()
        };
        let view: Value = serde_json::from_slice(&get("/job.json").body).unwrap();
        assert_eq!(
            (&view["title"], &view["processes"][0]["name"]),
            (&json!("a job"), &json!("trainer 3"))
        );
        assert!(String::from_utf8(get("/").body).unwrap().starts_with("<!doctype html>"));
        assert_eq!(get("/etc/passwd").status, 404);
        let (_, problems) =
            Collector::start(CollectorSettings { web: Some(address.clone()), ..settings });
        assert!(
            problems[0].starts_with(&format!("there is no page: cannot listen on {address}")),
            "{problems:?}"
        );
    }
}
