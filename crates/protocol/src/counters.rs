//! Counters while a job runs: the work of a server, and how long trainers wait for it. docs/guides/watching.md lists all
//! names.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use base::EvenIfPoisoned;
use metrics::{Busy, Labelled, NumberKind, NumberSource, Sample};
use wire::counters::NETWORK;

use crate::hot_keys::HotKeys;

metrics::counters! {
    /// The work of a server.
    pub struct ServerCounters = "server" {
        /// Time of all threads that found rows and parameters for trainers.
        finding_seconds: Seconds,
        /// Time of all threads that checked and applied gradients.
        applying_seconds: Seconds,
        /// Time of all threads that saved tables, and wrote and read snapshots.
        saving_seconds: Seconds,
        /// Look-ups of trainers.
        look_ups: Counter,
        /// Rows that they asked for.
        looked_up_rows: Counter,
        /// Share of the looked-up rows that went to the 16 hottest keys; from a part of the look-ups.
        hottest_keys_share: Gauge,
        /// Rounds that were applied (sync).
        rounds: Counter,
        /// Pushes that were applied.
        pushes: Counter,
        /// Pushes that came a second time and were not applied again.
        repeated_pushes: Counter,
        /// Steps that were applied when they arrived.
        updates: Counter,
        /// The staleness of all updates, added up.
        staleness_sum: Counter,
        /// The largest staleness of an update.
        staleness_max: Level,
        /// Rows of all parameters and tables.
        rows: Level,
        /// Bytes of all parameters and tables, with the states of their optimizers.
        held_bytes: Level,
        /// Rows of sparse tables.
        table_rows: Level,
        /// Bytes of sparse tables, with their index.
        table_bytes: Level,
        /// Rows that gradients named, and that entry rules have not admitted.
        waiting_rows: Level,
        /// Rows of gradients that were dropped because their table had not admitted them.
        dropped_rows: Counter,
        /// Trainers that are there.
        trainers: Level,
        /// Snapshots that were kept.
        cuts: Counter,
        /// Bytes that were written for them.
        cut_bytes: Counter,
        /// Bytes of the last snapshot.
        last_cut_bytes: Level,
        /// How long writing the last snapshot took.
        last_cut_seconds: Gauge,
        /// How long ago the last snapshot was kept.
        last_cut_age_seconds: Gauge,
    }
}

/// The server of this process.
pub static SERVER: ServerCounters = ServerCounters::new();
/// How long at least one thread of the server worked.
pub static BUSY: Busy = Busy::new();
/// How long steps of this process waited for each server, or for other trainers.
pub static WAITING: Labelled = Labelled::new(
    "trainer_waiting_seconds",
    "server",
    "Time that steps waited for a server, for what is sent in the background, or for other trainers.",
);
/// Which keys trainers ask for.
static HOT: Mutex<HotKeys> = Mutex::new(HotKeys::new());
static HAS_SERVER: AtomicBool = AtomicBool::new(false);

/// All numbers of the protocol, those of its connections included.
#[derive(Debug)]
pub struct PsSource;

impl NumberSource for PsSource {
    fn samples(&self) -> Vec<Sample> {
        let mut all = NETWORK.samples();
        all.extend(WAITING.samples());
        if HAS_SERVER.load(Ordering::Relaxed) {
            let busy = Sample {
                name: "server_busy_seconds",
                help: "Time in which at least one thread found rows, applied gradients or saved.",
                kind: NumberKind::Counter,
                label: None,
                value: BUSY.value(),
            };
            SERVER.hottest_keys_share.set(HOT.lock().even_if_poisoned().share());
            all.push(busy);
            all.extend(SERVER.samples());
        }
        all
    }
}

/// A trainer asks for these keys.
pub fn looked_up(keys: &[i64]) {
    SERVER.look_ups.add(1);
    SERVER.looked_up_rows.add(keys.len() as u64);
    // Nobody waits: what another thread counts at this moment is enough.
    if let Ok(mut hot) = HOT.try_lock() {
        hot.see(keys);
    }
}

/// This process has a server.
pub fn note_server() {
    HAS_SERVER.store(true, Ordering::Relaxed);
}
