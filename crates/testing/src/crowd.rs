//! Many trainers of a tiny job, in few threads, and what their servers use for them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use base::Endpoint;
use net::tcp::{Client, Patience};
use protocol::server::{Size, Store, Unit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tensor::{Tensor, Value};
use wire::message::{Barrier, Complete, Grad, Hello, LookUp, Pull, Push, Save, VarInfo};
use wire::{Refusal, TrainerId, VarId};

/// A store of one number, to which gradients are added.
#[derive(Debug)]
pub struct Sum {
    sum: Mutex<f64>,
    vars: Vec<VarInfo>,
}

impl Default for Sum {
    fn default() -> Self {
        Self { sum: Mutex::default(), vars: vars() }
    }
}

/// The only variable of the job.
pub fn vars() -> Vec<VarInfo> {
    vec![VarInfo::other("w")]
}

impl Sum {
    /// The number.
    pub fn value(&self) -> f64 {
        *self.sum.lock().expect("no addition fails")
    }
}

impl Store for Sum {
    fn vars(&self) -> &[VarInfo] {
        &self.vars
    }

    fn check(&self, _grad: &Grad) -> Result<(), Refusal> {
        Ok(())
    }

    fn apply(&self, _trainer: TrainerId, grad: Grad) -> Result<(), Refusal> {
        *self.sum.lock().expect("no addition fails") +=
            grad.value.tensor().map_or(0.0, |tensor| tensor.get_f64(0));
        Ok(())
    }

    fn begin_round(&self, grads: Vec<(TrainerId, Vec<Grad>)>) -> Result<Vec<Unit>, Refusal> {
        let all = grads.into_iter().flat_map(|(id, grads)| grads.into_iter().map(move |g| (id, g)));
        all.into_iter().try_for_each(|(id, grad)| self.apply(id, grad))?;
        Ok(Vec::new())
    }

    fn read(&self, _trainer: TrainerId, _pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal> {
        Ok(vec![Arc::new(Value::Tensor(Tensor::full([1], self.value())))])
    }

    fn look_up(&self, look_up: &LookUp) -> Result<Tensor, Refusal> {
        Err(Refusal::UnknownVar(self.name(look_up.table)))
    }

    fn save(&self, save: &Save) -> Result<(), Refusal> {
        Err(Refusal::UnknownVar(save.table.clone()))
    }

    fn size(&self) -> Size {
        Size { rows: 1, bytes: 8, ..Size::default() }
    }
}

/// The resources of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Open files and sockets.
    pub n_files: usize,
    /// Threads.
    pub n_threads: usize,
    /// Bytes of memory that are really there.
    pub n_bytes: u64,
    /// Processor time so far, in milliseconds.
    pub cpu_ms: u64,
}

impl Use {
    /// The usage of a process, by its number or `self`.
    pub fn of(process: &str) -> Self {
        let count = |what: &str| {
            fs::read_dir(format!("/proc/{process}/{what}")).expect("the process lives").count()
        };
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it lives");
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = memory.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        let n_bytes = 1024 * kilobytes.unwrap_or(0u64);
        let cpu_ms =
            cpu_ms(&fs::read_to_string(format!("/proc/{process}/stat")).expect("it lives"));
        Self { n_files: count("fd"), n_threads: count("task"), n_bytes, cpu_ms }
    }
}

/// The kernel's unit of processor time, for programs.
const TICK_MS: u64 = 10;

/// Processor time of a process, as `/proc/…/stat` says it: in its own code and in the kernel.
fn cpu_ms(stat: &str) -> u64 {
    // The name, in brackets, may have spaces.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let n_ticks: u64 = fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    n_ticks * TICK_MS
}

/// Asks for as many descriptors as this process may have: a crowd needs four for each connection.
pub fn allow_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If the limit stays low, a connection fails later, with a message.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// A server in a process of its own, ended when it is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub endpoint: Endpoint,
}

impl Server {
    /// Starts `program`, which is `src/bin/crowd_server.rs`.
    pub fn start(program: &str, n_trainers: usize, sync: bool) -> Self {
        let mode = if sync { "sync" } else { "async" };
        let mut child = Command::new(program)
            .args([&n_trainers.to_string(), mode])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut line = String::new();
        let output = child.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        Self { child, endpoint: line.trim().parse().expect("an end point") }
    }

    /// Its resources.
    pub fn used(&self) -> Use {
        Use::of(&self.child.id().to_string())
    }

    /// Waits until it has ended in order.
    pub fn join(mut self) {
        assert!(self.child.wait().expect("it was started").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Trainers, each with a client for every server.
#[derive(Debug)]
pub struct Trainers {
    clients: Vec<Vec<Arc<Client>>>,
    sync: bool,
}

/// Threads that work for all trainers of a process.
const N_THREADS: usize = 4;

impl Trainers {
    /// Trainers of these ranks that have met all servers.
    pub fn connect(ranks: Range<usize>, servers: &[Endpoint], sync: bool) -> Self {
        let trainer = |trainer: usize| {
            let connect = |at: &Endpoint| {
                let hello = Hello::new("", trainer as u32, 1, vars());
                Client::new(at.clone(), hello, Patience::default())
            };
            servers.iter().map(connect).collect()
        };
        let trainers = Self { clients: ranks.map(trainer).collect(), sync };
        trainers.share(|clients| {
            clients
                .iter()
                .flatten()
                .for_each(|client| client.ensure_connected().expect("a server answers"));
        });
        trainers
    }

    /// Some threads do something for some of the trainers each.
    fn share(&self, work: impl Fn(&[Vec<Arc<Client>>]) + Sync) {
        let n_each = self.clients.len().div_ceil(N_THREADS).max(1);
        thread::scope(|scope| {
            for some in self.clients.chunks(n_each) {
                let work = &work;
                scope.spawn(move || work(some));
            }
        });
    }

    /// Every trainer sends a gradient of 1 to every server, `n` times, and reads what became of it.
    pub fn rounds(&self, n: usize) {
        self.share(|clients| (0..n).for_each(|_| self.round(clients)));
    }

    fn round(&self, clients: &[Vec<Arc<Client>>]) {
        let asked: Vec<_> = clients
            .iter()
            .flatten()
            .map(|client| {
                let value = Value::Tensor(Tensor::full([1], 1f64));
                let grads = vec![Grad { var: VarId(0), value }];
                client.change_soon(Push::new(grads)).expect("it is there");
                let mut after = 0;
                if self.sync {
                    after = client.round() + 1;
                    client.change_soon(Barrier::new(after)).expect("it is there");
                }
                let pull = Pull::new(after, vec![VarId(0)]);
                (client, client.ask(pull).expect("it is there"))
            })
            .collect();
        for (client, ticket) in asked {
            client.wait(ticket, "parameters").expect("it answers");
        }
    }

    /// All trainers complete their job.
    pub fn complete(self) {
        self.share(|clients| {
            for client in clients.iter().flatten() {
                client.change(Complete).expect("it is there");
            }
            for client in clients.iter().flatten() {
                client.settle().expect("it has served everything");
            }
        });
    }
}
