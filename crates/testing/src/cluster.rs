//! Real processes on free ports, with logs to wait for; whatever happens, none is left behind.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base::Endpoint;
use fleet::RoleKind;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

/// How often a wait looks.
const GLANCE: Duration = Duration::from_millis(10);

/// How many of each.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Parameter servers.
    pub servers: usize,
    /// Trainers.
    pub trainers: usize,
}

/// Processes that a test has started. Each is the head of a process group of its own.
#[derive(Debug)]
pub struct Cluster {
    folder: TempDir,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    name: String,
    child: Child,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// A cluster without processes.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder for logs");
        Self { folder, members: Vec::new() }
    }

    /// Starts servers and trainers with the variables of their roles, on free ports of 127.0.0.1:
    /// `server.0`, `worker.0`, …
    #[track_caller]
    pub fn launch(size: Size, command: impl Fn() -> Command) -> Self {
        let mut cluster = Self::new();
        let servers = free_endpoints(size.servers);
        for id in 0..size.servers {
            let mut command = command();
            command.envs(role_variables(RoleKind::Server, id, &servers, size.trainers));
            // Files that a process saves in its working directory are removed with the cluster.
            command.current_dir(cluster.folder());
            cluster.start(&format!("server.{id}"), command);
        }
        for id in 0..size.trainers {
            let mut command = command();
            command.envs(role_variables(RoleKind::Trainer, id, &servers, size.trainers));
            command.current_dir(cluster.folder());
            cluster.start(&format!("worker.{id}"), command);
        }
        cluster
    }

    /// The folder of the logs; tests may put other files there.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a process; its output goes to its log. A name may be used again when its process has
    /// ended: the log grows.
    #[track_caller]
    pub fn start(&mut self, name: &str, mut command: Command) {
        let log = File::options().create(true).append(true).open(self.path(name));
        let log = log.expect("a log in our own folder");
        command.stdin(Stdio::null()).stderr(log.try_clone().expect("a second handle"));
        let child = command.stdout(log).process_group(0).spawn();
        let child = child.unwrap_or_else(|error| panic!("{name}: {command:?}: {error}"));
        self.members.retain(|member| member.name != name);
        self.members.push(Member { name: name.to_string(), child });
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.log"))
    }

    #[track_caller]
    fn member(&mut self, name: &str) -> &mut Member {
        let found = self.members.iter_mut().find(|member| member.name == name);
        found.unwrap_or_else(|| panic!("no process {name}"))
    }

    /// The output of a process so far.
    pub fn log(&self, name: &str) -> String {
        let bytes = fs::read(self.path(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The output of all, for the message of a failed test.
    pub fn logs(&self) -> String {
        let one = |member: &Member| format!("--- {}\n{}", member.name, self.log(&member.name));
        self.members.iter().map(one).collect::<Vec<_>>().join("\n")
    }

    /// The first line of a log with this text in it, as soon as it is there.
    #[track_caller]
    pub fn wait_for_line(&mut self, name: &str, text: &str, limit: Duration) -> String {
        let deadline = Instant::now() + limit;
        loop {
            // Asked before the log is read: the output of an ended process is complete.
            let has_ended = self.status(name).is_some();
            let log = self.log(name);
            if let Some(line) = log.lines().find(|line| line.contains(text)) {
                return line.to_string();
            }
            let is_late = Instant::now() >= deadline;
            assert!(!is_late && !has_ended, "no `{text}` of {name}:\n{}", self.logs());
            thread::sleep(GLANCE);
        }
    }

    /// How a process has ended, if it has.
    #[track_caller]
    pub fn status(&mut self, name: &str) -> Option<ExitStatus> {
        self.member(name).child.try_wait().expect("our own child")
    }

    /// How a process ends.
    #[track_caller]
    pub fn wait(&mut self, name: &str, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.status(name) {
                return status;
            }
            assert!(Instant::now() < deadline, "{name} goes on:\n{}", self.logs());
            thread::sleep(GLANCE);
        }
    }

    /// The number of a process.
    #[track_caller]
    pub fn pid(&mut self, name: &str) -> u32 {
        self.member(name).child.id()
    }

    /// `kill -9` of one process.
    #[track_caller]
    pub fn kill(&mut self, name: &str) {
        self.signal(name, Signal::KILL);
        self.member(name).child.wait().expect("our own child");
    }

    /// Sends a signal to one process.
    #[track_caller]
    pub fn signal(&mut self, name: &str, signal: Signal) {
        let pid = Pid::from_raw(self.pid(name).cast_signed()).expect("a process has a number");
        kill_process(pid, signal).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The group may outlive its head; a process ID that does not exist does no harm.
            if let Some(group) = Pid::from_raw(member.child.id().cast_signed()) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// Whether a process runs; one that has ended and was not asked for is gone.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        thread::sleep(GLANCE);
    }
}

/// The variables of the role of a process.
pub fn role_variables(
    kind: RoleKind,
    id: usize,
    servers: &[Endpoint],
    n_trainers: usize,
) -> Vec<(&'static str, String)> {
    let list: Vec<_> = servers.iter().map(Endpoint::to_string).collect();
    let mut variables = vec![
        ("PADDLE_PSERVERS_IP_PORT_LIST", list.join(",")),
        ("PADDLE_TRAINERS_NUM", n_trainers.to_string()),
    ];
    match kind {
        RoleKind::Trainer => {
            variables.push(("TRAINING_ROLE", "TRAINER".to_string()));
            variables.push(("PADDLE_TRAINER_ID", id.to_string()));
        }
        RoleKind::Server => {
            variables.push(("TRAINING_ROLE", "PSERVER".to_string()));
            variables.push(("POD_IP", servers[id].host.clone()));
            variables.push(("PADDLE_PORT", servers[id].port.to_string()));
        }
    }
    variables
}

/// Takes the name by which processes of this machine would find a server, as long as what is returned
/// lives: they connect over TCP then.
pub fn take_local_name(endpoint: &Endpoint) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};
    let name = SocketAddrUnix::new_abstract_name(format!("paddlewheel/{endpoint}").as_bytes());
    let taken = socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
    bind(&taken, &name.expect("a name")).expect("the name is free");
    taken
}

/// Free end points of 127.0.0.1.
pub fn free_endpoints(n: usize) -> Vec<Endpoint> {
    let endpoint = |port| Endpoint { host: "127.0.0.1".to_string(), port };
    free_ports(n).into_iter().map(endpoint).collect()
}

/// Free ports, below those that the system gives to outgoing connections. No two calls of a process
/// give the same, and processes begin at different places.
pub fn free_ports(n: usize) -> Vec<u16> {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(7919);
    let mut found = Vec::new();
    for _ in 0..COUNT {
        if found.len() == n {
            return found;
        }
        let at = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = (FIRST + at) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            found.push(port);
        }
    }
    panic!("no {n} free ports");
}
