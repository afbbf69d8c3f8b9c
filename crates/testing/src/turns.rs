//! Processes of a bench: this program, started again for each role, and told when to work.
#![allow(clippy::print_stdout)] // The other side reads it.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Says in the environment of a process what it is to do.
const ROLE: &str = "PADDLEWHEEL_BENCH_ROLE";

/// The task of this process, if it was started for one.
pub fn role() -> Option<Vec<String>> {
    let role = env::var(ROLE).ok()?;
    Some(role.split(' ').map(str::to_string).collect())
}

/// This program again, with a role.
fn start(role: &str) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process")
}

/// Works through a turn for every line of the other side ([`Workers::turn`]) until there is none.
pub fn work(mut turn: impl FnMut()) {
    println!("ready");
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        turn();
        println!("done");
    }
}

/// Processes that end with this one, whatever happens.
pub struct Servers(Vec<Child>);

impl Servers {
    /// One process for each role.
    pub fn start(roles: impl Iterator<Item = String>) -> Self {
        Self(roles.map(|role| start(&role)).collect())
    }

    /// A line of the system's status of each of them: `VmRSS:`, `VmHWM:`.
    pub fn bytes(&self, what: &str) -> Vec<f64> {
        self.0.iter().map(|server| status_bytes(server.id(), what)).collect()
    }

    /// Waits until they have ended by themselves.
    pub fn join(mut self) {
        for server in &mut self.0 {
            server.wait().expect("a server ends");
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn status_bytes(pid: u32, what: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(what));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// Processes that work in turns ([`work`]).
pub struct Workers(Vec<Worker>);

struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Workers {
    /// One process for each role; returns when all are ready.
    pub fn start(roles: impl Iterator<Item = String>) -> Self {
        let worker = |role: String| {
            let mut child = start(&role);
            let input = child.stdin.take().expect("piped");
            let output = BufReader::new(child.stdout.take().expect("piped"));
            Worker { child, input, output }
        };
        let mut workers = Self(roles.map(worker).collect());
        workers.wait();
        workers
    }

    /// All work through one turn at the same time.
    pub fn turn(&mut self) {
        for worker in &mut self.0 {
            worker.input.write_all(b"go\n").expect("a worker listens");
        }
        self.wait();
    }

    fn wait(&mut self) {
        for worker in &mut self.0 {
            let mut line = String::new();
            worker.output.read_line(&mut line).expect("a worker lives");
            assert!(!line.is_empty(), "a worker ended early");
        }
    }

    /// Tells them that there is no other turn, and waits for them.
    pub fn join(self) {
        for Worker { mut child, input, .. } in self.0 {
            drop(input);
            child.wait().expect("a worker ends");
        }
    }
}
