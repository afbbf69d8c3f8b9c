//! Errors of a process that looks for its place in a cluster, or starts one.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use base::{BadEndpoint, DidYouMean, Endpoint};

/// An error of a process that looks for its place in a cluster, or starts one.
#[derive(thiserror::Error)]
pub enum Error {
    /// A variable that must be set.
    #[error("environment variable {name} is not set{}", or(.aliases))]
    MissingVariable {
        /// Its newest name.
        name: &'static str,
        /// Its older names.
        aliases: &'static [&'static str],
    },
    /// A variable whose value makes no sense.
    #[error("environment variable {name} is `{value}`, it must be {expected}")]
    BadVariable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values that it can have.
        expected: &'static str,
    },
    /// An invalid filter of log lines.
    #[error("environment variable {name}: {source}")]
    LogLevel {
        /// The variable.
        name: &'static str,
        /// The reason.
        source: logging::FilterError,
    },
    /// A variable that has another word than it can have.
    #[error("environment variable {name} is `{value}`, it must be one of {}.{near}", .known.join(", "))]
    UnknownChoice {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// The words that it can have.
        known: &'static [&'static str],
        /// The one that was perhaps meant.
        near: DidYouMean,
    },
    /// The environment of a scheduler that is not complete.
    #[error(
        "{seen} is set, so this is a process of {engine}; but {missing} is not set, which locates the other processes{}",
        how(.missing)
    )]
    HalfOf {
        /// The scheduler.
        engine: &'static str,
        /// The variable that shows it.
        seen: &'static str,
        /// The variable that must be set too.
        missing: &'static str,
    },
    /// Fewer processes than a job needs.
    #[error(
        "{engine} has started {n} process(es); a job with {n_servers} server(s) needs at least one trainer more"
    )]
    TooFew {
        /// The scheduler.
        engine: &'static str,
        /// How many there are.
        n: usize,
        /// How many of them would be servers.
        n_servers: usize,
    },
    /// A rendezvous to which only servers or only trainers came.
    #[error(
        "{n_servers} server(s) and {n_trainers} trainer(s) came to the rendezvous: a job needs both \
         (PADDLE_SERVER_NUM, PADDLE_TRAINER_NUM or TRAINING_ROLE says what a process is)"
    )]
    OneSided {
        /// How many servers.
        n_servers: usize,
        /// How many trainers.
        n_trainers: u32,
    },
    /// Neither trainer nor server.
    #[error("TRAINING_ROLE must be PSERVER or TRAINER, and {name} is `{value}`")]
    UnknownRole {
        /// The variable it was read from.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A server that is not among the servers.
    #[error("this server is {endpoint}, which is not one of the servers {}", list(.servers))]
    NotAServer {
        /// Its end point, from `POD_IP` and `PADDLE_PORT`.
        endpoint: Endpoint,
        /// All servers.
        servers: Vec<Endpoint>,
    },
    /// A number beyond the last trainer or server.
    #[error("{name} is {id}, there are {n}: it must be 0 to {}", .n - 1)]
    IdTooLarge {
        /// The variable it was read from.
        name: &'static str,
        /// The number.
        id: u32,
        /// How many there are.
        n: u32,
    },
    /// The environment of a PaddleCloud job does not fit together.
    #[error("something wrong with PaddleCloud, please check environment: {0}")]
    Cloud(Box<Error>),
    /// Trainers that work without servers must know one another.
    #[error("can't find PADDLE_TRAINER_ENDPOINTS")]
    NoTrainerEndpoints,
    /// Text that is not an end point.
    #[error(transparent)]
    Endpoint(#[from] wire::Error),
    /// A program that cannot be split over servers.
    #[error(transparent)]
    Transpile(#[from] transpile::Error),
    /// An error of training itself.
    #[error(transparent)]
    Train(#[from] train::Error),
    /// What a server complains of.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// The programs of a role do not exist before `minimize`.
    #[error("{0} is None, need invoke DistributedOptimizer.minimize first")]
    NotMinimized(&'static str),
    /// A call that only servers may make was made by a trainer, or the other way round.
    #[error("this process is a {actual}; only a {wanted} can {what}")]
    WrongRole {
        /// The role of the process.
        actual: &'static str,
        /// The role that the call needs.
        wanted: &'static str,
        /// The operation.
        what: &'static str,
    },
    /// A folder that does not exist.
    #[error("There is no directory named '{}'", .0.display())]
    NoDirectory(PathBuf),
    /// A program that belongs to no job.
    #[error("main_program is for local, may not use fleet.{0}")]
    LocalProgram(&'static str),
    /// A way to put numbers of trainers together that does not exist.
    #[error("mode is `{0}`, it must be sum, min or max")]
    UnknownReduction(String),
    /// Trainers that brought lists of different lengths.
    #[error("trainer {trainer} brought {actual} numbers, this one {expected}")]
    UnevenReduction {
        /// The other trainer.
        trainer: usize,
        /// How many this one brought.
        expected: usize,
        /// How many the other.
        actual: usize,
    },
    /// An empty list of end points.
    #[error("the length of {list} list must be greater than 0")]
    NoEndpoints {
        /// The argument.
        list: &'static str,
    },
    /// An end point given twice.
    #[error("{list} can't have duplicate elements: {endpoint} is there twice")]
    RepeatedEndpoint {
        /// The argument.
        list: &'static str,
        /// The end point.
        endpoint: Endpoint,
    },
    /// A negative number for a process.
    #[error("current_id must be greater than or equal to 0")]
    NegativeId,
    /// A server beyond the last.
    #[error(
        "if role is Role.SERVER, current_id must be less than or equal to len(server_endpoints) - 1"
    )]
    NoSuchServer,
    /// A trainer beyond the last.
    #[error("current_id must be less than or equal to len(worker_endpoints) - 1")]
    NoSuchTrainer,
    /// No trainers at all.
    #[error("worker_num must be greater than 0")]
    NoTrainers,
    /// A flag with a value of another kind.
    #[error("FLAGS_{name}={value} is {expected}")]
    BadFlag {
        /// The flag.
        name: &'static str,
        /// Its value.
        value: String,
        /// The reason.
        expected: &'static str,
    },
    /// A flag that does not exist.
    #[error("Flag {name} cannot {what} its value through this function.{near}")]
    UnknownFlag {
        /// The flag.
        name: String,
        /// `set` or `get`.
        what: &'static str,
        /// The flag that was perhaps meant.
        near: DidYouMean,
    },
    /// A setting that does not exist.
    #[error("{config} doesn't have key: {key}{}", sentence(.near))]
    UnknownSetting {
        /// The object with the settings.
        config: &'static str,
        /// The setting.
        key: String,
        /// The setting that was perhaps meant.
        near: DidYouMean,
    },
    /// A setting with a value that makes no sense.
    #[error("{config}.{key} is `{value}`, it must be {expected}")]
    BadSetting {
        /// The object with the settings.
        config: &'static str,
        /// The setting.
        key: &'static str,
        /// Its value.
        value: String,
        /// The values that it can have.
        expected: &'static str,
    },
    /// Servers that never answered.
    #[error(
        "servers not ready after {} s: {}; are they started, is the address right, \
         are http_proxy and https_proxy unset? (FLAGS_wait_server_ready_timeout says how long to wait){}",
        .waited.as_secs(), list(.endpoints), cannot_resolve(.unresolved)
    )]
    NotReady {
        /// Those that did not answer.
        endpoints: Vec<Endpoint>,
        /// How long they were waited for.
        waited: Duration,
        /// Those with a host name that cannot be resolved.
        unresolved: Vec<Endpoint>,
    },
    /// The user does not want to wait any longer.
    #[error("interrupted while waiting for {}", list(.endpoints))]
    Interrupted {
        /// The end points that it waited for.
        endpoints: Vec<Endpoint>,
    },
    /// A launcher's command line that makes no sense.
    #[error("{0}")]
    Usage(Usage),
    /// A port that another process uses.
    #[error("port {port} is in use: end the process that has it, or give another with {option}")]
    PortInUse {
        /// The port.
        port: u16,
        /// The option that sets it.
        option: &'static str,
    },
    /// A host name that cannot be resolved.
    #[error(
        "the host `{host}` cannot be resolved ({source}): check how it is written in {option}, or give \
         its address"
    )]
    UnknownHost {
        /// Its name.
        host: String,
        /// The option that named it.
        option: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Another machine, on which this launcher cannot start anything.
    #[error(
        "{host} (from {option}) is not an address of this machine, and a launcher starts processes on its \
         own machine only: give this machine's address with --node_ip, and start a launcher on each \
         machine of --cluster_node_ips"
    )]
    NotThisMachine {
        /// Its address.
        host: String,
        /// The option that named it.
        option: &'static str,
    },
    /// There are not this many free ports.
    #[error("no {n} free ports from {start} on: give others with --start_port or --started_port")]
    NoFreePorts {
        /// How many.
        n: usize,
        /// From where on.
        start: u16,
    },
    /// A file or folder of the launcher.
    #[error("cannot {what} {}: {source}", .path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A process that could not be started.
    #[error("cannot start {name}: {}: {source}", .program.display())]
    Start {
        /// Which of the job's processes.
        name: String,
        /// The program that was to run.
        program: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No Python.
    #[error(
        "scripts need Python, and {} cannot be asked for its modules: {said}. PADDLEWHEEL_PYTHON may name another one",
        .python.display()
    )]
    NoPython {
        /// The program.
        python: PathBuf,
        /// The reason.
        said: String,
    },
    /// A Python without our package.
    #[error(
        "scripts need a Python with the package paddlewheel, and {} has none: install it there (pip install \
         paddlewheel), or name another Python in PADDLEWHEEL_PYTHON",
        .0.display()
    )]
    NoPackage(PathBuf),
    /// A command of others that failed.
    #[error("{}: {said}", .program.display())]
    Tool {
        /// The command.
        program: PathBuf,
        /// Its last words, or the reason.
        said: String,
    },
    /// `mpirun` has not started any rank.
    #[error(
        "{} refused the job, no rank was started (--mpi_args passes options to it). It said:\n{said}",
        .program.display()
    )]
    Refused {
        /// Which `mpirun`.
        program: PathBuf,
        /// Its own words.
        said: String,
    },
    /// A job of an engine that did not end when it was asked to.
    #[error("{job} is left to its engine, which has been asked to end it")]
    Unfollowed {
        /// Which.
        job: String,
    },
    /// A folder of snapshots that cannot be used.
    #[error(transparent)]
    Snapshots(#[from] SnapshotError),
    /// A job whose number of servers could not be changed.
    #[error(transparent)]
    Scale(#[from] ScaleError),
    /// The system would not let signals be watched.
    #[error("cannot watch for signals: {0}")]
    Signals(io::Error),
}

impl From<BadEndpoint> for Error {
    fn from(bad: BadEndpoint) -> Self {
        Error::Endpoint(bad.into())
    }
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Why a job does not get another number of servers.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// The folder is none of a job.
    #[error(
        "scale {}: there are no snapshots of a job in it; name the folder of the job's snapshots (--snapshot_dir of \
         launch_ps, or the folder `snapshots` beside its logs)",
        .0.display()
    )]
    NoJob(PathBuf),
    /// No launcher would answer the request.
    #[error("no job runs with the snapshots in {}: start it with launch_ps --resume and the number of servers", .0.display())]
    NotRunning(PathBuf),
    /// The launchers of several machines would have to do it together.
    #[error(
        "the job with the snapshots in {} keeps its servers: it runs on several machines ({}), whose launchers \
         do not talk to each other, so that no list of new servers is theirs to choose; stop it, and start it \
         again on all machines with --resume and the number of servers",
        .folder.display(),
        .nodes.join(", ")
    )]
    SeveralMachines {
        /// The folder of snapshots.
        folder: PathBuf,
        /// The machines.
        nodes: Vec<String>,
    },
    /// The launcher cannot do it.
    #[error("the job keeps its servers: {0}")]
    Refused(String),
    /// The launcher says that it was done, and it was not.
    #[error("the job in {} has {n_found} servers, and not {n_wanted}: ask for them again", .folder.display())]
    NotDone {
        /// The folder of snapshots.
        folder: PathBuf,
        /// The servers that it has.
        n_found: usize,
        /// Those that were asked for.
        n_wanted: usize,
    },
    /// The launcher has not done it in time.
    #[error("the launcher of the job in {} did not answer within {seconds} s; look at its output", .folder.display())]
    NoAnswer {
        /// The folder of snapshots.
        folder: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
}

/// Why a folder of snapshots cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Another job has written there.
    #[error(
        "the snapshots in {} are those of another job ({theirs}), this one is {ours}: give another \
         folder with --snapshot_dir, or resume from them with --resume",
        .folder.display()
    )]
    OtherJob {
        /// The folder.
        folder: PathBuf,
        /// The job that has written there.
        theirs: String,
        /// This job.
        ours: String,
    },
    /// A job writes there now.
    #[error(
        "another job is running and writes its snapshots to {}: give another folder with \
         --snapshot_dir",
        .folder.display()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A version of Paddlewheel wrote it that comes after this one.
    #[error(
        "the snapshots in {} have format {version}, this version reads up to {known}",
        .folder.display()
    )]
    Newer {
        /// The folder.
        folder: PathBuf,
        /// The format of the folder.
        version: u32,
        /// The newest format that is known here.
        known: u32,
    },
    /// A file that says whose snapshots these are, and does not.
    #[error("{} is damaged: {problem}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        problem: &'static str,
    },
    /// The folder has no snapshots to resume from.
    #[error("--resume {}: there are no snapshots of a job in it", .folder.display())]
    Nothing {
        /// The folder.
        folder: PathBuf,
    },
    /// The disk is full, or the user has used up a share of it.
    #[error("no space is left for snapshots in {}: {source}", .folder.display())]
    NoSpace {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// It cannot be made or written to.
    #[error("snapshots cannot be written to {}: {source}", .folder.display())]
    NotWritable {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Errors in the command line of a launcher.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Usage {
    /// Two servers cannot listen on one port.
    #[error("--endpoints names {0} twice: give each server a port of its own")]
    EndpointTwice(Endpoint),
    /// A value of the wrong kind.
    #[error("{option} is `{value}`, it must be {expected}")]
    BadValue {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The values that it can have.
        expected: &'static str,
    },
    /// A machine that is not one of the cluster's.
    #[error("--node_ip {node} is not one of the nodes {}", .nodes.join(","))]
    NotANode {
        /// This machine.
        node: String,
        /// All machines.
        nodes: Vec<String>,
    },
    /// A number of servers that is not that of the end points.
    #[error("--server_num is {n_servers}, but --endpoints names {n_endpoints} for this machine")]
    ServerCount {
        /// As the option says.
        n_servers: usize,
        /// As the list says.
        n_endpoints: usize,
    },
    /// Pods need an image.
    #[error("--image is missing: pods need a container image with paddlewheel and the script")]
    NoImage,
    /// A certificate without its key or its authorities.
    #[error(
        "{given} is given, but {missing} is not: a certificate needs --tls_cert, --tls_key and --tls_ca"
    )]
    Incomplete {
        /// The option that is present.
        given: &'static str,
        /// The option that is missing.
        missing: &'static str,
    },
    /// A job without trainers or without servers.
    #[error("a job needs at least one {0}")]
    Nobody(&'static str),
}

impl From<Usage> for Error {
    fn from(usage: Usage) -> Self {
        Error::Usage(usage)
    }
}

/// Advice about missing variables.
fn how(missing: &str) -> &'static str {
    match missing {
        "SLURM_STEP_ID" => ": start the script with srun, not as the batch script itself",
        "PADDLE_NNODES" => ": set it to the number of all processes",
        "PADDLE_PSERVERS_NUM" | "PADDLE_TRAINERS_NUM" => ": set it in the manifest",
        "TRAINING_ROLE" => ": set it to PSERVER or TRAINER",
        _ => "",
    }
}

fn or(aliases: &[&str]) -> String {
    match aliases {
        [] => String::new(),
        _ => format!(" (nor is {}, which would do as well)", aliases.join(", ")),
    }
}

/// A guess behind a sentence that ends without a full stop.
fn sentence(near: &DidYouMean) -> String {
    if near.0.is_some() { format!(".{near}") } else { String::new() }
}

fn cannot_resolve(endpoints: &[Endpoint]) -> String {
    match endpoints {
        [] => String::new(),
        _ => format!(
            "; cannot resolve the host of {}: check how it is written in the list of servers, or give \
             its address",
            list(endpoints)
        ),
    }
}

fn list(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

/// The result of operations of this crate.
pub type Result<T> = std::result::Result<T, Error>;
