//! Errors of preparing or running a program.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use base::bytes::Malformed;
use base::{BadEndpoint, DidYouMean};
use program::Program;
use tensor::DType;
use wire::Interruption;

/// Everything that can go wrong in this crate.
#[derive(thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Error {
    /// Something inside the program.
    #[error(transparent)]
    Program(#[from] program::Error),

    #[error(transparent)]
    Tensor(#[from] tensor::Error),

    /// A program that cannot be split over servers.
    #[error(transparent)]
    Transpile(#[from] transpile::Error),

    /// `memory_optimize` at the wrong time or place.
    #[error(
        "memory_optimize {problem}: never call it in a parameter server; in a trainer, call it before transpile (and before fleet's minimize)"
    )]
    MemoryOrder {
        /// The fault.
        problem: &'static str,
    },

    #[error("skip_opt_set names {var}, which is not a variable of this program.{near}")]
    SkipUnknown { var: String, near: DidYouMean },

    #[error("The variable {var} is not found in program. It is not declared or is pruned.{near}")]
    FeedNotDeclared { var: String, near: DidYouMean },

    /// Fluid's wording; users search for it.
    #[error(
        "The fed Variable '{var}' should have dimensions = {}, shape = {}, but received fed shape \
         {fed:?} on each device", declared.len(), tuple(declared)
    )]
    FeedShape { var: String, declared: Vec<i64>, fed: Vec<i64> },

    #[error(
        "The data type of fed Variable '{var}' must be '{}', but received '{}'",
        declared.name(), fed.name()
    )]
    FeedDType { var: String, declared: DType, fed: DType },

    #[error("feed `{var}` holds {actual}; give it a tensor")]
    FeedEmpty { var: String, actual: &'static str },

    #[error("Input variable({var}) cannot be found in scope for operator 'Fetch'.{near}")]
    FetchUnknown { var: String, near: DidYouMean },

    #[error("fetch variable `{var}` is declared, but no op of the program writes it")]
    FetchNotComputed { var: String },

    #[error("fetch variable `{var}` holds {actual}, which cannot be fetched here")]
    FetchKind { var: String, actual: &'static str },

    /// Fluid's wording; users search for it.
    #[error(
        "The number({parts}) of samples[{var}] of current batch is less than the count({devices}) \
         of devices(CPU), currently, it is not allowed. You should set the environment variable \
         CPU_NUM in the system to determine the number of devices you need."
    )]
    TooFewSamples { var: String, parts: usize, devices: usize },

    #[error("Feed a list of tensor, the list should be the same size as places")]
    FeedCount { feeds: usize, devices: usize },

    #[error(
        "fetch variable `{var}` is {left:?} on one device and {right:?} on another; they cannot be \
         merged: set return_merged=False"
    )]
    CannotMerge { var: String, left: Vec<i64>, right: Vec<i64> },

    #[error("gradients of `{var}` cannot be added: one is {left}, another is {right}")]
    GradientsDiffer { var: String, left: String, right: String },

    #[error("reader `{reader}` was not started: call start() before the first run of a pass")]
    NoReader { reader: String },

    /// The error of a reader outside of this crate.
    #[error("{0}")]
    Reader(Box<dyn std::error::Error + Send + Sync>),

    /// Between this process and the others of its job.
    #[error(transparent)]
    Ps(wire::Error),

    /// A process of the job is lost, or the job has gone back: an answer does not come any more. A job that
    /// recovers goes back to a cut.
    #[error(transparent)]
    PeerLost(wire::Error),

    /// This process stopped waiting for a server. A job that recovers turns to other servers, if there are any.
    #[error(transparent)]
    WaitEnded(wire::Error),

    /// Servers could not be found. The function that waits for them gives the details.
    #[error(transparent)]
    NotReady(Box<dyn std::error::Error + Send + Sync>),

    #[error("this program talks to parameter servers but belongs to no job: transpile it first")]
    NoJob,

    #[error("this is not a server's program: it has no end point of its own to load the pieces of")]
    NoServerEndpoint,

    #[error("this trainer has completed its job: its servers may be gone")]
    JobOver,

    #[error("server {endpoint} gave an answer of another kind ({reply})")]
    Unexpected { endpoint: String, reply: &'static str },

    #[error("a server gave parts of {actual} trainers, there are {expected}")]
    UnevenExchange { expected: usize, actual: usize },

    #[error("`{var}` on server {endpoint} is {actual}, not a tensor")]
    NotDense { endpoint: String, var: String, actual: &'static str },

    #[error("what servers have kept of this trainer cannot be used: {0}")]
    BadState(&'static str),

    #[error(
        "later cuts are damaged, so the job goes back to event {event} of this script, which this process \
         does not remember: it ends, and can go on when it is started again"
    )]
    TooFarBack { event: u64 },

    #[error(
        "the servers of this job are {servers} now, and this process cannot turn to them ({why}): it ends, and can \
         go on when it is started again"
    )]
    CannotFollow { servers: String, why: String },

    #[error(
        "the journal of this trainer has reached its limit of {} MiB (FLAGS_journal_mb) at event {event}, so that a \
         trainer that is started again cannot repeat its script: start the job again from its last saved model, with a \
         larger FLAGS_journal_mb, or with a script that fetches less", n_bytes >> 20
    )]
    JournalFull { event: u64, n_bytes: u64 },

    #[error(
        "the servers have kept no cut since cut {cut}, and {} MiB are held here to go back to it: their logs say why \
         (a full disk?); mend that and start the job again, it goes on from cut {cut}", n_bytes >> 20
    )]
    NoCutIsKept { n_bytes: usize, cut: u64 },

    #[error(
        "the script does not repeat itself: event {event} was {was} before this process was started \
         again, and now it is {is}. A script that is started again must do the same as before: see \
         docs/guides/failures.md"
    )]
    OtherEvent { event: u64, was: String, is: String },

    #[error(
        "the script does not repeat itself: event {event}, {what}, is fed other values than before \
         this process was started again. A script must read the same data in the same order (fix the \
         seed of what it shuffles): see docs/guides/failures.md"
    )]
    OtherValues { event: u64, what: String },

    #[error("event {event} failed before this process was started again: {text}")]
    FailedBefore { event: u64, text: String },

    #[error(
        "op `{op}` reads batches from inside the program, which cannot be repeated after a death: feed \
         them (exe.run(feed=...)), or start the job without --snapshot_dir"
    )]
    ReadsInside { op: String },

    /// A server was asked to save its program.
    #[error(
        "nothing is saved to {}: this is the program of a server, and trainers save what servers hold (with the \
         program of a trainer)",
        .folder.display()
    )]
    SavedByServer { folder: PathBuf },

    /// SIGTERM came, and the whole job was made safe first: the process should end, in order.
    #[error("this trainer was asked to end, and its job can go on from here")]
    Ended,

    /// The job goes back to a cut. Handled by recovery; users do not see it.
    #[error("the job goes back to its last cut")]
    GoesBack,

    #[error(
        "waited {waited_ms} ms for a cut of the whole job: do all trainers still run, and can all servers \
         write to their folders?"
    )]
    NoCut { waited_ms: u64 },

    #[error(
        "a global shuffle in a job that survives deaths needs a folder for the samples that this \
         trainer gets: give FLAGS_snapshot_dir to trainers, too, or start them with launch_ps"
    )]
    NoShareFolder,

    #[error(
        "{n} trainers have lost the samples that a global shuffle gave them, so it cannot be repeated: a \
         trainer that is started again needs its folder trainer.N in the snapshot folder"
    )]
    ShareLost { n: u64 },

    #[error(transparent)]
    Data(#[from] data::Error),

    #[error("the pass over the dataset was stopped")]
    PassStopped,

    #[error(
        "threads of one trainer cannot step together in {mode} mode: an op that runs once for all of \
         them comes before others that each thread runs, or needs its batch; set one thread \
         (dataset.set_thread(1)), or train in async mode"
    )]
    ThreadsCannotSynchronize { mode: &'static str },

    #[error("the run was interrupted before op {index} (`{op}`) of block {block}")]
    Interrupted { block: usize, index: usize, op: String },

    #[error("cannot read {}: {source}", path.display())]
    ReadFile { path: PathBuf, source: io::Error },

    #[error("cannot write {}: {source}", path.display())]
    WriteFile { path: PathBuf, source: io::Error },

    /// Fluid's wording; users search for it.
    #[error(
        "Load operator fail to open file {}, please check whether the model file is complete or \
         damaged. ({source})", path.display()
    )]
    CannotLoad { path: PathBuf, source: io::Error },

    #[error(
        "Load operator fail to open file {}: the folder holds another model. The program needs \
         {missing}, and no file is there for it; the folder has {saved}. Load into the program that was \
         saved, or give missing=\"init\" to load what fits",
        path.display()
    )]
    OtherModel { path: PathBuf, missing: String, saved: String },

    #[error(
        "Load operator fail to open file {}: the folder {} has no such file. It has {found}. {advice}",
        path.display(),
        path.parent().unwrap_or(path).display()
    )]
    OtherFiles { path: PathBuf, found: String, advice: String },

    #[error(
        "LoadCombine operator fails to open file {}, please check whether the model file is \
         complete or damaged. ({source})", path.display()
    )]
    CannotLoadCombined { path: PathBuf, source: io::Error },

    /// Which file the inner error is about.
    #[error("{}: {source}", path.display())]
    InFile { path: PathBuf, source: Box<program::Error> },

    #[error("{}, byte {offset}: {problem}", path.display())]
    BadPickle { path: PathBuf, offset: usize, problem: &'static str },

    #[error("`{var}` is too large for a pickle (4 GiB); save it with save_persistables")]
    TooLargeToPickle { var: String },

    #[error("`{var}` cannot name a file below the model's directory")]
    UnsafeName { var: String },

    #[error(
        "Variable's shape does not match, the Program requires a parameter with the shape of \
         ({}), while the loaded parameter (namely [ {var} ]) has a shape of  ({}).",
        tuple(expected),
        tuple(found)
    )]
    LoadedShape { var: String, expected: Vec<i64>, found: Vec<i64> },

    #[error(
        "feed {index} (`{var}`) is not part of what computes the targets; check its name, or \
         leave it out"
    )]
    FeedNotUsed { index: usize, var: String },

    #[error("There is no directory named '{}'", path.display())]
    NoDirectory { path: PathBuf },

    #[error("Unsupported program version: {version} ({})", path.display())]
    ProgramVersion { path: PathBuf, version: i64 },

    #[error(
        "{} is not a model that can be loaded: op {index} of block {block} is `{op}`, which reads or writes files; a model that only computes needs none", path.display()
    )]
    FileOp { path: PathBuf, op: String, block: usize, index: usize },

    #[error("`{}` names no file; give directory/name", path.display())]
    NoFileName { path: PathBuf },

    #[error("Can not find [{var}] in model file [{}]", path.display())]
    NotInFile { var: String, path: PathBuf },

    #[error("Optimizer file [{}] not exits", path.display())]
    NoOptimizerFile { path: PathBuf },

    #[error("{}: nothing of this program was saved there. It has {wanted}; saved there: {saved}. Is it another model's?", path.display())]
    NothingFits { path: PathBuf, wanted: String, saved: String },

    #[error("Variable [ {var} ] Not found, Please make sure run startup program")]
    NotInScope { var: String },

    #[error(
        "Parameter's shape does not match, the Program requires a parameter with the shape of \
         ({}), while the loaded parameter (namely [ {var} ]) has a shape of  ({}).",
        tuple(expected),
        tuple(found)
    )]
    StateShape { var: String, expected: Vec<i64>, found: Vec<i64> },

    #[error(
        "Parameter's data type does not match, the Program requires a parameter with a dtype of \
         ({expected}), while the loaded parameter (namely [ {var} ]) has a dtype of  ({found})."
    )]
    StateDType { var: String, expected: DType, found: DType },

    #[error("{what} must be between 0 and 1, got {value}")]
    NotAProbability { what: &'static str, value: f64 },

    #[error("a label must be 0 or 1, got {value}")]
    NotALabel { value: f64 },

    #[error("{what} has {found} elements, {expected} are needed")]
    MetricLength { what: &'static str, expected: usize, found: usize },

    #[error(
        "this trainer has met no other trainers: run the startup program that transpile() or \
         fleet.distributed_optimizer(...).minimize(...) made, before the main program"
    )]
    NoTrainers,

    #[error(
        "this is trainer {rank} of {n}, but the program is for trainer {expected_rank} of {expected_n}: \
         num_trainers and trainer_id must be those of the job"
    )]
    OtherTrainers { rank: i64, n: i64, expected_rank: i64, expected_n: i64 },

    #[error("`{var}` cannot be exchanged with other trainers: {why}")]
    NotExchanged { var: String, why: &'static str },

    #[error(
        "several threads cannot exchange values with other trainers while they infer: give infer_from_dataset \
         one thread (dataset.set_thread(1)), or a program without exchanges (clone(for_test=True))"
    )]
    ThreadsExchange,

    #[error("{}: {problem}", path.display())]
    RowsFile { path: PathBuf, problem: Cow<'static, str> },

    #[error("{} holds several variables; say which (`var_list`)", path.display())]
    WhichVars { path: PathBuf },

    #[error(
        "{}: this folder was saved in format {found}, only format {known} is known here; use a newer \
         release to read it or to save into it", path.display()
    )]
    ManifestVersion { path: PathBuf, found: u32, known: u32 },

    #[error("{}, line {line}: {problem}", path.display())]
    BadManifest { path: PathBuf, line: usize, problem: &'static str },

    #[error(
        "{}: the list of saved files is damaged: its hash should be {expected:016x}, it is {found:016x}",
        path.display()
    )]
    ManifestHash { path: PathBuf, expected: u64, found: u64 },

    #[error(
        "{}: {expected} were saved, but {found} are there: the file was changed since. If that was on \
         purpose, remove .paddlewheel in its folder{}", path.display(), offered(offer)
    )]
    FileDiffers { path: PathBuf, expected: FileState, found: FileState, offer: Option<PathBuf> },

    /// Fluid's wording; users search for it.
    #[error(
        "Load operator fail to open file {}, please check whether the model file is complete or \
         damaged. ({expected} were saved, but nothing is there: the file was removed or not copied){}",
        path.display(), offered(offer)
    )]
    FileLost { path: PathBuf, expected: FileState, offer: Option<PathBuf> },

    #[error(
        "everything was saved, but {} could not be moved to its place ({source}); the next save does \
         it, and until then only Paddlewheel finds it", path.display()
    )]
    NotPlaced { path: PathBuf, source: io::Error },

    #[error("{}: another process has been saving into this folder for {secs} s", path.display())]
    FolderInUse { path: PathBuf, secs: u64 },

    #[error("{} is not the folder of a save under way", path.display())]
    NoStage { path: PathBuf },

    #[error("{}: one of {n} parts of a table is missing ({source})", path.display())]
    MissingPart { path: PathBuf, n: usize, source: io::Error },

    #[error(
        "{} looks like a part of table `{var}`, but it is not one of the {n} parts that were saved; \
         remove it if it is not needed", path.display()
    )]
    SurplusPart { path: PathBuf, var: String, n: usize },

    #[error("there is no complete checkpoint in {}", path.display())]
    NoCheckpoint { path: PathBuf },

    #[error("{} was written, but the save does not hold it", path.display())]
    NotSaved { path: PathBuf },
}

/// Tells a lost process apart from other errors, where the protocol reports it.
impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Error::BadState(error.0)
    }
}

impl From<wire::Error> for Error {
    fn from(error: wire::Error) -> Self {
        match error.interruption() {
            Some(Interruption::PeerLost) => Error::PeerLost(error),
            Some(Interruption::WaitEnded) => Error::WaitEnded(error),
            None => Error::Ps(error),
        }
    }
}

impl From<BadEndpoint> for Error {
    fn from(bad: BadEndpoint) -> Self {
        Error::Ps(bad.into())
    }
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// How large a file is, and the CRC-32 of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FileState {
    pub n_bytes: u64,
    pub checksum: u32,
}

impl std::fmt::Display for FileState {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} bytes with checksum {:08x}", self.n_bytes, self.checksum)
    }
}

fn offered(offer: &Option<PathBuf>) -> String {
    let text = |path: &PathBuf| format!("; {} holds an older save that is whole", path.display());
    offer.as_ref().map_or(String::new(), text)
}

/// A shape as Python shows it.
fn tuple(dims: &[i64]) -> String {
    match dims {
        [one] => format!("({one},)"),
        _ => format!("({})", dims.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Error {
    /// The error for a fed name that the program does not have, with the closest data variable.
    pub fn feed_not_declared(name: &str, program: &Program) -> Self {
        let data = program.list_vars().filter(|var| var.is_data);
        let near = DidYouMean::among(name, data.map(|var| var.name.as_str()));
        Error::FeedNotDeclared { var: name.to_string(), near }
    }

    /// That the program has no variable of that name to fetch.
    pub(crate) fn fetch_unknown(name: &str, program: &Program) -> Self {
        let near = DidYouMean::among(name, program.list_vars().map(|var| var.name.as_str()));
        Error::FetchUnknown { var: name.to_string(), near }
    }

    /// That nothing in `path` is the program's.
    pub(crate) fn nothing_fits<'a>(
        path: &Path,
        wanted: impl Iterator<Item = &'a str>,
        saved: &[String],
    ) -> Self {
        let wanted = some_of(wanted.collect());
        let saved = some_of(saved.iter().map(String::as_str).collect());
        Error::NothingFits { path: path.to_path_buf(), wanted, saved }
    }

    pub(crate) fn in_file(path: &Path, source: program::Error) -> Self {
        Error::InFile { path: path.to_path_buf(), source: Box::new(source) }
    }
}

/// The first names of a list in order, and how many there are.
fn some_of(mut names: Vec<&str>) -> String {
    const SHOWN: usize = 4;
    names.sort_unstable();
    names.dedup();
    match names.len() {
        0 => "nothing that is known".to_string(),
        n if n <= SHOWN => names.join(", "),
        n => format!("{}, … ({n} in all)", names[..SHOWN].join(", ")),
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
