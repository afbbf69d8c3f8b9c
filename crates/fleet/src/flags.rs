//! Settings that come from the environment as `FLAGS_<name>`: read once, then typed.
//!
//! Flags that Fluid has and this crate does not know are ignored.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use base::{DidYouMean, EvenIfPoisoned};
use net::tcp::Patience;

use server::{Serving, SnapshotSettings, server_list};
use train::remote::Locate;

use crate::env;
use crate::error::{Error, Result};

/// The value of a flag.
#[derive(Clone, Debug, PartialEq)]
pub enum FlagValue {
    /// Yes or no.
    Bool(bool),
    /// A number of things, or of milliseconds or seconds.
    Count(u64),
    /// A number with a fraction.
    Float(f64),
    /// A path; empty: none.
    Text(String),
}

impl fmt::Display for FlagValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagValue::Bool(value) => write!(f, "{}", u8::from(*value)),
            FlagValue::Count(value) => write!(f, "{value}"),
            FlagValue::Float(value) => write!(f, "{value}"),
            FlagValue::Text(value) => write!(f, "{value}"),
        }
    }
}

impl FlagValue {
    /// Text as a value of the same kind.
    fn parse(&self, name: &'static str, text: &str) -> Result<Self> {
        let bad = |expected| Error::BadFlag { name, value: text.to_string(), expected };
        let trimmed = text.trim();
        match self {
            FlagValue::Bool(_) => match trimmed.to_lowercase().as_str() {
                "1" | "true" | "yes" | "on" | "t" | "y" => Ok(FlagValue::Bool(true)),
                "0" | "false" | "no" | "off" | "f" | "n" | "" => Ok(FlagValue::Bool(false)),
                _ => Err(bad("neither true nor false")),
            },
            FlagValue::Count(_) => match trimmed.parse() {
                Ok(value) => Ok(FlagValue::Count(value)),
                Err(_) if trimmed.parse::<f64>().is_ok() => {
                    Err(bad("not a whole number from 0 on"))
                }
                Err(_) => Err(bad("not a number")),
            },
            FlagValue::Float(_) => {
                trimmed.parse().map(FlagValue::Float).map_err(|_| bad("not a number"))
            }
            FlagValue::Text(_) => Ok(FlagValue::Text(trimmed.to_string())),
        }
    }
}

/// Every flag with its default, sorted.
const DEFAULTS: &[(&str, FlagValue)] = &[
    ("as_documented", FlagValue::Bool(false)),
    ("check_nan_inf", FlagValue::Bool(false)),
    ("communicator_fake_rpc", FlagValue::Bool(false)),
    ("communicator_independent_recv_thread", FlagValue::Bool(true)),
    ("communicator_is_sgd_optimizer", FlagValue::Bool(true)),
    ("communicator_max_merge_var_num", FlagValue::Count(20)),
    ("communicator_min_send_grad_num_before_recv", FlagValue::Count(20)),
    ("communicator_send_queue_size", FlagValue::Count(20)),
    ("communicator_send_wait_times", FlagValue::Count(5)),
    ("communicator_thread_pool_size", FlagValue::Count(5)),
    ("cpu_deterministic", FlagValue::Bool(false)),
    ("dist_threadpool_size", FlagValue::Count(0)),
    ("eager_delete_tensor_gb", FlagValue::Float(0.0)),
    ("inner_op_parallelism", FlagValue::Count(0)),
    ("journal_mb", FlagValue::Count(1024)),
    ("max_restarts", FlagValue::Count(5)),
    ("recovery_deadline_secs", FlagValue::Count(300)),
    ("recovery_memory_mb", FlagValue::Count(4096)),
    ("request_memory_mb", FlagValue::Count(0)),
    ("resume", FlagValue::Text(String::new())),
    ("rpc_deadline", FlagValue::Count(180_000)),
    ("rpc_disable_reuse_port", FlagValue::Bool(false)),
    ("rpc_get_thread_num", FlagValue::Count(12)),
    ("rpc_prefetch_thread_num", FlagValue::Count(12)),
    ("rpc_retry_bind_port", FlagValue::Count(3)),
    ("rpc_retry_times", FlagValue::Count(3)),
    ("rpc_send_thread_num", FlagValue::Count(12)),
    ("save_root", FlagValue::Text(String::new())),
    ("snapshot_dir", FlagValue::Text(String::new())),
    ("snapshot_run", FlagValue::Text(String::new())),
    ("snapshot_secs", FlagValue::Float(1.0)),
    ("standby", FlagValue::Bool(false)),
    ("tolerate_lost_trainers", FlagValue::Bool(false)),
    // Fluid waits for ever; this is after how long it calls a silent trainer dead.
    ("wait_server_ready_timeout", FlagValue::Count(900)),
    ("worker_update_interval_secs", FlagValue::Count(900)),
];

/// Trainers report at intervals. A shorter lease would end some that are alive.
const LEASE_MIN: Duration = Duration::from_secs(3);

/// Another spelling found in documents.
const SPELLINGS: &[(&str, &str)] =
    &[("communicator_max_send_grad_num_before_recv", "communicator_min_send_grad_num_before_recv")];

/// All flags.
#[derive(Clone, Debug, PartialEq)]
pub struct Flags {
    values: Vec<FlagValue>,
    /// The flags that were set.
    given: BTreeSet<&'static str>,
}

impl Default for Flags {
    fn default() -> Self {
        let values = DEFAULTS.iter().map(|(_, value)| value.clone()).collect();
        Self { values, given: BTreeSet::new() }
    }
}

impl Flags {
    /// The flags that an environment gives.
    pub fn from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let mut flags = Self::default();
        let others = SPELLINGS.iter().map(|(name, _)| *name);
        // Fluid's own spelling goes last: where both are set, it wins.
        for name in others.chain(DEFAULTS.iter().map(|(name, _)| *name)) {
            if let Some(text) = var(&format!("FLAGS_{name}")) {
                flags.set(name, &text)?;
            }
        }
        Ok(flags)
    }

    /// The names of all flags, sorted.
    pub fn names() -> impl Iterator<Item = &'static str> {
        DEFAULTS.iter().map(|(name, _)| *name)
    }

    /// Where a flag is, named with or without `FLAGS_` before it.
    fn place(name: &str, what: &'static str) -> Result<usize> {
        let short = name.strip_prefix("FLAGS_").unwrap_or(name);
        let own = SPELLINGS.iter().find(|(other, _)| *other == short).map_or(short, |(_, own)| own);
        let at = DEFAULTS.binary_search_by_key(&own, |(name, _)| name);
        at.map_err(|_| {
            let near = DidYouMean::among(short, Self::names()).0;
            let near = DidYouMean(near.map(|near| format!("FLAGS_{near}")));
            Error::UnknownFlag { name: name.to_string(), what, near }
        })
    }

    /// The value of a flag.
    pub fn get(&self, name: &str) -> Result<FlagValue> {
        Ok(self.values[Self::place(name, "get")?].clone())
    }

    /// Sets a flag from text.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let at = Self::place(name, "set")?;
        let (own, default) = &DEFAULTS[at];
        self.values[at] = default.parse(own, text)?;
        self.given.insert(own);
        Ok(())
    }

    /// The value of a flag, if it was set.
    pub fn given(&self, name: &str) -> Option<FlagValue> {
        let at = Self::place(name, "get").ok()?;
        self.given.contains(DEFAULTS[at].0).then(|| self.values[at].clone())
    }

    fn count(&self, name: &str) -> u64 {
        match self.get(name) {
            Ok(FlagValue::Count(value)) => value,
            other => panic!("`{name}` is a count of this table, not {other:?}"),
        }
    }

    /// How long an answer of a server may take (`rpc_deadline`).
    pub fn rpc_deadline(&self) -> Duration {
        Duration::from_millis(self.count("rpc_deadline"))
    }

    /// How often a call is repeated (`rpc_retry_times`).
    pub fn rpc_retry_times(&self) -> u64 {
        self.count("rpc_retry_times")
    }

    /// How often a server tries to bind its port (`rpc_retry_bind_port`).
    pub fn rpc_retry_bind_port(&self) -> u64 {
        self.count("rpc_retry_bind_port")
    }

    /// How long trainers wait for servers, if not for ever (`wait_server_ready_timeout`).
    pub fn wait_server_ready_timeout(&self) -> Option<Duration> {
        let seconds = self.count("wait_server_ready_timeout");
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// After how long a silent trainer is called dead (`worker_update_interval_secs`); servers use
    /// a shorter time of their own unless it was set.
    pub fn worker_update_interval(&self) -> Duration {
        Duration::from_secs(self.count("worker_update_interval_secs"))
    }

    /// Whether results are searched for numbers that are none (`check_nan_inf`).
    pub fn check_nan_inf(&self) -> bool {
        self.is_on("check_nan_inf")
    }

    /// Whether optimizers do what Fluid's documents say where its code differs (`as_documented`).
    pub fn as_documented(&self) -> bool {
        self.is_on("as_documented")
    }

    /// Whether a job continues without trainers that died (`tolerate_lost_trainers`).
    pub fn tolerate_lost_trainers(&self) -> bool {
        self.is_on("tolerate_lost_trainers")
    }

    /// How often a process that died is started again (`max_restarts`).
    pub fn max_restarts(&self) -> u64 {
        self.count("max_restarts")
    }

    /// Whether trainers without servers wait for one that died to be started again: `max_restarts` was set.
    pub fn lets_trainers_back(&self) -> bool {
        self.given("max_restarts").is_some() && self.max_restarts() > 0
    }

    /// How long a process that died is waited for, in a job that recovers (`recovery_deadline_secs`).
    pub fn recovery_deadline(&self) -> Duration {
        Duration::from_secs(self.count("recovery_deadline_secs"))
    }

    /// Bytes that a trainer holds at most to go back to the last cut (`recovery_memory_mb`).
    pub fn recovery_memory(&self) -> usize {
        let n_bytes = self.count("recovery_memory_mb").max(1).saturating_mul(1 << 20);
        usize::try_from(n_bytes).unwrap_or(usize::MAX)
    }

    /// Bytes of what a trainer's script fetched that servers keep at most (`journal_mb`).
    pub fn journal_bytes(&self) -> u64 {
        self.count("journal_mb").max(1).saturating_mul(1 << 20)
    }

    /// Bytes that a server holds at most of what trainers send and ask for, and a trainer without servers of what
    /// others send too early (`request_memory_mb`); none: half of the memory there is.
    pub fn request_memory(&self) -> Option<u64> {
        let megabytes = Some(self.count("request_memory_mb")).filter(|&n| n > 0);
        megabytes.map(|n| n.saturating_mul(1 << 20))
    }

    /// Where snapshots are written (`snapshot_dir`).
    pub fn snapshot_dir(&self) -> Option<PathBuf> {
        self.path("snapshot_dir")
    }

    /// How often snapshots are written (`snapshot_secs`).
    pub fn snapshot_every(&self) -> Result<Duration> {
        let value = self.get("snapshot_secs")?;
        let seconds = if let FlagValue::Float(seconds) = value { seconds } else { 0.0 };
        let every = Duration::try_from_secs_f64(seconds).ok().filter(|every| !every.is_zero());
        let expected = "not a number of seconds above 0";
        let (name, value) = ("snapshot_secs", value.to_string());
        every.ok_or(Error::BadFlag { name, value, expected })
    }

    /// The snapshots to resume from (`resume`).
    pub fn resume(&self) -> Option<PathBuf> {
        self.path("resume")
    }

    /// The folders below which a server writes what trainers save (`save_root`, with `:` between them):
    /// without the flag, its working directory, the folder of snapshots and the one for temporary files.
    pub fn save_roots(&self) -> Vec<PathBuf> {
        match self.path("save_root") {
            Some(roots) => std::env::split_paths(&roots).collect(),
            None => {
                let own = std::env::current_dir().ok();
                own.into_iter()
                    .chain(self.snapshot_dir())
                    .chain([env::temporary_folder()])
                    .collect()
            }
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.get(name) {
            Ok(FlagValue::Text(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    fn is_on(&self, name: &str) -> bool {
        matches!(self.get(name), Ok(FlagValue::Bool(true)))
    }

    /// How long a trainer waits for what.
    pub fn patience(&self) -> Patience {
        let answer_ms = millis(self.rpc_deadline());
        let usual = Patience::default();
        let recover_ms = millis(self.recovery_deadline());
        Patience { answer_ms, connect_ms: usual.connect_ms.min(answer_ms), recover_ms, ..usual }
    }

    /// Where and how often a server keeps cuts, if it does.
    pub fn keeping(&self) -> Result<Option<SnapshotSettings>> {
        let Some(folder) = self.snapshot_dir() else { return Ok(None) };
        Ok(Some(SnapshotSettings {
            every: self.snapshot_every()?,
            resume: self.resume(),
            stands_by: self.is_on("standby"),
            patience: self.recovery_deadline(),
            run: self.text("snapshot_run"),
            ..SnapshotSettings::new(folder)
        }))
    }

    /// Where a trainer finds its servers when they are others than at the start: in the folder of
    /// snapshots.
    pub fn locate(&self) -> Option<Locate> {
        let folder = self.snapshot_dir()?;
        Some(Arc::new(move || server_list::read(&folder)))
    }

    /// Tells a server the flags about it.
    pub fn configure(&self, serving: &mut Serving) {
        serving.check_finite = self.check_nan_inf();
        serving.bind_attempts = u32::try_from(self.rpc_retry_bind_port()).unwrap_or(u32::MAX);
        serving.go_on = self.tolerate_lost_trainers();
        serving.save_roots = self.save_roots();
        serving.request_bytes_max = self.request_memory();
        if self.given("worker_update_interval_secs").is_some() {
            serving.lease_ms = millis(self.worker_update_interval().max(LEASE_MIN));
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

static CURRENT: Mutex<Option<Flags>> = Mutex::new(None);

/// The flags of this process: read from the environment when first asked for.
pub fn current() -> Result<Flags> {
    Ok(held()?.clone().expect("read above"))
}

/// Whether results are searched for numbers that are none; asked before each run.
pub fn checks_nan_inf() -> Result<bool> {
    Ok(held()?.as_ref().is_some_and(Flags::check_nan_inf))
}

/// Whether optimizers of this process do what Fluid's documents say where its code differs.
pub fn is_as_documented() -> Result<bool> {
    Ok(current()?.as_documented())
}

/// Changes flags of this process.
pub fn change(name: &str, text: &str) -> Result<()> {
    held()?.as_mut().expect("read above").set(name, text)
}

fn held() -> Result<MutexGuard<'static, Option<Flags>>> {
    let mut held = CURRENT.lock().even_if_poisoned();
    if held.is_none() {
        *held = Some(Flags::from_environment(&env::process)?);
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::vars;

    #[test]
    fn the_table_is_sorted() {
        assert!(DEFAULTS.is_sorted_by_key(|(name, _)| name));
    }

    #[test]
    fn defaults_are_fluids() {
        let flags = Flags::from_environment(&vars(&[("FLAGS_of_nobody", "x")])).unwrap();
        assert_eq!(flags, Flags::default());
        assert_eq!(flags.rpc_deadline(), Duration::from_secs(180));
        assert_eq!((flags.rpc_retry_times(), flags.rpc_retry_bind_port()), (3, 3));
        assert_eq!(flags.wait_server_ready_timeout(), Some(Duration::from_secs(900)), "ours");
        assert_eq!(flags.worker_update_interval(), Duration::from_secs(900));
        assert!(!flags.check_nan_inf());
        assert_eq!(flags.given("rpc_deadline"), None);
    }

    #[test]
    fn the_environment_sets_them() {
        let given = [
            ("FLAGS_rpc_deadline", "5"),
            ("FLAGS_check_nan_inf", "True"),
            ("FLAGS_wait_server_ready_timeout", " 7 "),
            ("FLAGS_communicator_max_send_grad_num_before_recv", "3"),
        ];
        let flags = Flags::from_environment(&vars(&given)).unwrap();
        assert_eq!(flags.rpc_deadline(), Duration::from_millis(5));
        assert_eq!(flags.wait_server_ready_timeout(), Some(Duration::from_secs(7)));
        let for_ever = vars(&[("FLAGS_wait_server_ready_timeout", "0")]);
        let flags_for_ever = Flags::from_environment(&for_ever).unwrap();
        assert_eq!(flags_for_ever.wait_server_ready_timeout(), None);
        assert!(flags.check_nan_inf());
        let name = "FLAGS_communicator_min_send_grad_num_before_recv";
        assert_eq!(flags.given(name), Some(FlagValue::Count(3)));
    }

    #[test]
    fn servers_and_trainers_get_their_share() {
        let set = |list: &[(&str, &str)]| {
            let mut flags = Flags::default();
            list.iter().for_each(|(name, text)| flags.set(name, text).unwrap());
            let mut serving = Serving::default();
            flags.configure(&mut serving);
            (flags.patience(), serving)
        };
        let (usual, serving) = set(&[]);
        assert_eq!((usual.connect_ms, usual.answer_ms), (60_000, 180_000));
        assert_eq!((serving.go_on, serving.lease_ms, serving.bind_attempts), (false, 20_000, 3));
        let (patience, serving) = set(&[
            ("rpc_deadline", "1500"),
            ("worker_update_interval_secs", "40"),
            ("tolerate_lost_trainers", "1"),
            ("check_nan_inf", "1"),
        ]);
        assert_eq!((patience.connect_ms, patience.answer_ms), (1_500, 1_500));
        assert_eq!((serving.go_on, serving.check_finite, serving.lease_ms), (true, true, 40_000));
        let (_, serving) = set(&[("worker_update_interval_secs", "1")]);
        assert_eq!(serving.lease_ms, 3_000, "the living must have time to say so");
    }

    #[test]
    fn snapshots_have_a_folder_and_an_interval() {
        let flags = Flags::default();
        assert_eq!((flags.snapshot_dir(), flags.resume()), (None, None));
        let given = vars(&[("FLAGS_snapshot_dir", " /tmp/s "), ("FLAGS_snapshot_secs", "0.25")]);
        let mut flags = Flags::from_environment(&given).unwrap();
        assert_eq!(flags.snapshot_dir(), Some(PathBuf::from("/tmp/s")));
        assert_eq!(flags.snapshot_every().unwrap(), Duration::from_millis(250));
        let keeping = flags.keeping().unwrap().unwrap();
        assert_eq!((keeping.every, keeping.resume), (Duration::from_millis(250), None));
        for bad in ["-1", "0", "inf", "nan"] {
            flags.set("snapshot_secs", bad).unwrap();
            let error = flags.snapshot_every().unwrap_err();
            assert!(matches!(error, Error::BadFlag { name: "snapshot_secs", .. }), "{error}");
        }
    }

    #[test]
    fn refuses_values_of_another_kind() {
        let check = |name: &str, value: &str, text: &str| {
            assert_eq!(Flags::default().set(name, value).unwrap_err().to_string(), text);
        };
        check("check_nan_inf", "maybe", "FLAGS_check_nan_inf=maybe is neither true nor false");
        check("rpc_deadline", "soon", "FLAGS_rpc_deadline=soon is not a number");
        check("rpc_deadline", "-1", "FLAGS_rpc_deadline=-1 is not a whole number from 0 on");
        check("FLAGS_zz", "1", "Flag FLAGS_zz cannot set its value through this function.");
        let guess = "Flag FLAGS_chekc_nan_inf cannot set its value through this function. Did you mean \
                     `FLAGS_check_nan_inf`?";
        check("FLAGS_chekc_nan_inf", "1", guess);
    }
}
