//! Lines that users and scripts wait for, with their speakers and their words.
//!
//! Fluid writes them to stderr with a stamp before them, `I0318 21:47:01.298220  4242 file.cc:1] …`;
//! people search their logs for them, so words and form are kept and tested. Where Fluid names a file
//! of its C++, the part of ours that speaks is named: such a file does not exist here. Times are UTC.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use base::{Endpoint, EvenIfPoisoned};
use metrics::CalendarTime;
use protocol::Severity;

use wire::trainers_have;

/// Lines that are remembered in order to write them once.
const SAID_MAX: usize = 256;

/// A line of the log, without its stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// How serious it is.
    pub severity: Severity,
    /// The source of the line: a server, a trainer, its communicator.
    pub site: &'static str,
    /// The text.
    pub text: String,
}

impl Line {
    /// A line for information.
    pub fn info(site: &'static str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Info, site, text: text.into() }
    }

    /// A warning.
    pub fn warning(site: &'static str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, site, text: text.into() }
    }

    /// A line about an error.
    pub fn error(site: &'static str, text: impl Into<String>) -> Self {
        Self { severity: Severity::Error, site, text: text.into() }
    }

    /// The line as it is written to a log.
    pub fn stamped(&self, now: SystemTime, thread: u32) -> String {
        let Self { severity, site, text } = self;
        format!(
            "{}{} {thread:>5} {site}] {text}",
            severity.letter(),
            CalendarTime::new(now).stamp()
        )
    }

    /// Writes the line like [`Line::say`], unless this process has written it before.
    pub fn say_once(&self) {
        static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let mut said = SAID.lock().even_if_poisoned();
        if said.len() < SAID_MAX && said.insert(self.text.clone()) {
            self.say();
        }
    }

    /// A line without a stamp, as Fluid's Python writes them.
    pub fn said(severity: Severity, text: impl Into<String>) -> Self {
        Self { severity, site: SAID, text: text.into() }
    }

    /// Passes the line to the writer of this process's log. Without one, it goes to stderr in one piece; a closed stderr is
    /// ignored.
    pub fn say(&self) {
        if tracing::dispatcher::has_been_set() {
            return emit(self);
        }
        let line = match self.site {
            SAID => format!("{}\n", self.text),
            _ => format!("{}\n", self.stamped(SystemTime::now(), thread_id())),
        };
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// The source of lines without a stamp.
const SAID: &str = "said";

/// Each source of lines is a target of `tracing`, which must be known when the program is compiled.
macro_rules! sites {
    ($($site:literal),*) => {
        fn emit(line: &Line) {
            match line.site {
                $($site => match line.severity {
                    Severity::Info => tracing::info!(target: concat!("paddlewheel::", $site), "{}", line.text),
                    Severity::Warning => tracing::warn!(target: concat!("paddlewheel::", $site), "{}", line.text),
                    Severity::Error => tracing::error!(target: concat!("paddlewheel::", $site), "{}", line.text),
                },)*
                other => tracing::info!(target: "paddlewheel::said", "{other}] {}", line.text),
            }
        }
    };
}

sites!(
    "communicator",
    "network",
    "recovery",
    "said",
    "server",
    "train_from_dataset",
    "trainer",
    "watch"
);

/// The number of this thread as the system knows it; that of the process where it does not say.
fn thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").ok();
    let name = link.as_deref().and_then(|path| path.file_name()?.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or_else(std::process::id)
}

/// A server has bound its port: scripts and users wait for this line.
pub fn listening(endpoint: &Endpoint, port: u16) -> Line {
    let text = format!("Server listening on {endpoint} selected port: {port}");
    Line::info("server", text)
}

/// A server could not bind its port, and will try again.
pub fn bind_failed(endpoint: &Endpoint) -> Line {
    let text =
        format!("Server listening on {endpoint} failed, selected port: 0, retry after 3 seconds!");
    Line::warning("server", text)
}

/// The server's loop ends.
pub fn server_ends() -> Line {
    Line::warning("server", "get exit!rpc_processor break!")
}

/// A trainer connects to its servers for the first time.
pub fn client_starts(trainer: u32) -> Line {
    Line::info("trainer", format!("init rpc client with trainer_id {trainer}"))
}

/// The sender in the background starts.
pub fn communicator_starts() -> Line {
    Line::info("communicator", "Communicator start")
}

/// The sender in the background has been asked to stop.
pub fn communicator_stops() -> Line {
    Line::info("communicator", "Communicator stop")
}

/// Its sending thread has ended.
pub fn send_thread_ends() -> Line {
    Line::info("communicator", "communicator stopped, send thread exit")
}

/// Its receiving thread has ended.
pub fn recv_thread_ends() -> Line {
    Line::info("communicator", "communicator stopped, recv thread exit")
}

/// How many updates something lacked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ages {
    /// On average.
    pub mean: f64,
    /// At most.
    pub max: u64,
}

/// A pass is over: how many own steps the parameters of a step lacked, how many the rows lacked at
/// most, and how many updates of any trainer gradients lacked, as servers have counted.
pub fn staleness(n_steps: u64, own: Ages, rows_max: u64, servers: Ages) -> Line {
    let Ages { mean, max } = own;
    let own = format!("{mean:.2} own steps on average, {max} at most (of rows {rows_max})");
    let Ages { mean, max } = servers;
    let all = format!("on servers so far {mean:.2} updates on average, {max} at most");
    Line::info("train_from_dataset", format!("staleness of {n_steps} steps: {own}; {all}"))
}

/// A server is away, and is waited for: since when, for how long still, and what was last seen of it.
pub fn server_away(endpoint: &Endpoint, since_ms: u64, for_ms: u64, last: &str) -> Line {
    let (since, left) = (since_ms / 1000, for_ms / 1000);
    let text = format!(
        "server {endpoint} is away, for {since} s by now ({last}); it is waited for, for another {left} s"
    );
    Line::warning("trainer", text)
}

/// Trainers have not joined, and others wait for them: which, since when, and a server that says so.
pub fn trainers_absent(trainers: &[u32], waited_ms: u64, endpoint: &Endpoint) -> Line {
    let (have, waited) = (trainers_have(trainers), waited_ms / 1000);
    let text =
        format!("{have} not joined the job, for {waited} s by now; server {endpoint} is alive");
    Line::warning("trainer", text)
}

/// Other trainers are waited for: which, for what, and for how long by now.
pub fn trainers_late(names: &str, what: &str, waited: Duration) -> Line {
    let waited = waited.as_secs();
    Line::warning("trainer", format!("waiting for {names}, for {waited} s by now: {what}"))
}

/// The sender in the background has stopped.
pub fn communicator_stopped() -> Line {
    Line::info("communicator", "Communicator stop done")
}

/// A process of another user has the name by which processes of this machine find a server.
pub fn name_of_another_user(endpoint: &Endpoint, user: u32) -> Line {
    let text = format!(
        "the local name of {endpoint} is taken by a process of another user ({user}); it is reached over TCP"
    );
    Line::warning("network", text)
}

/// Other machines are spoken to without a secret.
pub fn insecure(endpoint: &Endpoint) -> Line {
    let text = format!(
        "INSECURE: the job has no secret; any process that reaches {endpoint} can read and change the model"
    );
    Line::warning("network", text)
}

/// Other machines of a private network are spoken to without a secret.
pub fn keyed() -> Line {
    let text = "the job has no secret: on private addresses each process shows a key of its own, servers keep the keys \
                of the first trainers and refuse all others, and the first process to come counts as a trainer; to close \
                it, run `(umask 077; openssl rand -hex 32 > secret)` once and give all processes this file with \
                PADDLEWHEEL_SECRET_FILE";
    Line::warning("network", text)
}

/// The key of this process, or keys that it knows, cannot be kept.
pub fn key_not_kept(path: Option<&std::path::Path>, error: &std::io::Error) -> Line {
    let place = path.map_or(String::new(), |path| format!(" in `{}`", path.display()));
    let text = format!(
        "keys are not kept{place} ({error}): if this process is started again, the others do not know it"
    );
    Line::warning("network", text)
}

/// Somebody comes from a public address to a job without a secret.
pub fn too_far(peer: &str) -> Line {
    refused(peer, "its address is not private, and the job has no secret")
}

/// Somebody guesses.
pub fn guesses(peer: &str) -> Line {
    let text = format!(
        "many wrong proofs of the secret came from {peer}: its connections are looked at one after the other, with pauses"
    );
    Line::warning("network", text)
}

/// Another process has the name by which processes of this machine would find this one.
pub fn name_taken(endpoint: &Endpoint) -> Line {
    let text = format!(
        "the local name of {endpoint} is taken by another process; processes of this machine come over TCP"
    );
    Line::warning("network", text)
}

/// Somebody does not prove to be of this job, or does not come to an encrypted connection.
pub fn refused(peer: &str, why: &str) -> Line {
    Line::warning("network", format!("a connection of {peer} was refused: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn check(line: Line, expected: &str) {
        let now = UNIX_EPOCH + Duration::new(1_584_568_021, 298_220_999);
        assert_eq!(line.stamped(now, 42), expected);
    }

    #[test]
    fn lines_are_in_fluids_words() {
        let endpoint: Endpoint = "127.0.0.1:36000".parse().unwrap();
        check(
            listening(&endpoint, 36000),
            "I0318 21:47:01.298220    42 server] \
             Server listening on 127.0.0.1:36000 selected port: 36000",
        );
        check(
            bind_failed(&endpoint),
            "W0318 21:47:01.298220    42 server] Server listening on \
             127.0.0.1:36000 failed, selected port: 0, retry after 3 seconds!",
        );
        check(
            client_starts(0),
            "I0318 21:47:01.298220    42 trainer] init rpc client with trainer_id 0",
        );
        check(
            communicator_starts(),
            "I0318 21:47:01.298220    42 communicator] Communicator start",
        );
        check(server_ends(), "W0318 21:47:01.298220    42 server] get exit!rpc_processor break!");
        check(Line::error("a.rs:1", "no"), "E0318 21:47:01.298220    42 a.rs:1] no");
    }

    #[test]
    fn stopping_is_told_step_by_step() {
        let lines =
            [communicator_stops(), send_thread_ends(), recv_thread_ends(), communicator_stopped()];
        let texts = lines.map(|line| line.text);
        let expected = [
            "Communicator stop",
            "communicator stopped, send thread exit",
            "communicator stopped, recv thread exit",
            "Communicator stop done",
        ];
        assert_eq!(texts, expected);
    }
}
