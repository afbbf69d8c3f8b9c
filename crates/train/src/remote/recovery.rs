//! What a trainer does when a process of its job has died: all go back to the last cut.
//!
//! There is one way, for whatever happened, and also for a trainer that was started again: leave all
//! servers, wait until all are there, join them in one term, get what they have kept of this trainer,
//! and go on from there. Whatever fails meanwhile is a reason to do the same again.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use count::Obstacle;
use data::FileRead;
use program::Distributed;
use program::distributed::{PlacedKind, Placement, ServerId};
use ps::SharedMemory;
use ps::collective::Failure;
use ps::message::{Given, Recollection, Reply};
use ps::tcp::{self, Client, LostProcess, Patience};
use tensor::EvenIfPoisoned;

use super::communicator::CommunicatorConfig;
use super::cuts::{REDO_BYTES, TrainerCuts};
use super::fetch::WholeFetch;
use super::geo::Geo;
use super::traffic::Traffic;
use super::{Cluster, Timeline, install, recovery_lines, unexpected};
use crate::counters::TRAINER;
use crate::error::{Error, Result};
use crate::recover::{Former, Left, LocalState, Passes, Redoing, ScriptPosition, Sender};

/// No server was talked to yet.
const UNKNOWN: u8 = 0;
/// A death ends the job.
const OFF: u8 = 1;
/// The job goes back to a cut.
const ON: u8 = 2;

/// Bytes of a journal, if nobody says otherwise.
const JOURNAL_BYTES: u64 = 1 << 30;

/// The obstacle of a trainer that repeats its script.
pub(super) const REPLAY: &str = "replay";

/// What a trainer has to know to go back.
pub(super) struct Recovery {
    term_state: AtomicU8,
    /// Held while servers are joined.
    pub(super) joining: Mutex<()>,
    /// Set when this process was asked to end: it does not wait for servers.
    hurries: Arc<AtomicBool>,
    timeline: Mutex<Timeline>,
    cuts: Mutex<TrainerCuts>,
    /// Who performs an event, and told when it is over.
    pub(super) acting: Mutex<Option<ThreadId>>,
    pub(super) acted: Condvar,
    /// How gradients are sent in the background, if they are.
    pub(super) sender: Mutex<Option<(Arc<Distributed>, CommunicatorConfig)>>,
    /// Whether this process was asked to end.
    ends: Mutex<Option<Ends>>,
    /// How often this process has gone back.
    n_back: AtomicU64,
    /// Passes that the script has made.
    n_passes: AtomicU64,
    /// How far they are, and those of trainers before.
    passes: Mutex<Passes>,
    former: Mutex<Former>,
    /// See [`Cluster::set_redo_bytes`].
    pub(super) redo_bytes: AtomicUsize,
    /// See [`Cluster::set_journal_bytes`].
    pub(super) journal_bytes: AtomicU64,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            term_state: AtomicU8::new(UNKNOWN),
            joining: Mutex::default(),
            hurries: Arc::default(),
            timeline: Mutex::default(),
            cuts: Mutex::default(),
            acting: Mutex::default(),
            acted: Condvar::default(),
            sender: Mutex::default(),
            ends: Mutex::default(),
            n_back: AtomicU64::default(),
            redo_bytes: AtomicUsize::new(REDO_BYTES),
            journal_bytes: AtomicU64::new(JOURNAL_BYTES),
            n_passes: AtomicU64::default(),
            passes: Mutex::default(),
            former: Mutex::default(),
        }
    }
}

/// Returns whether this process was asked to end.
pub type Ends = Arc<dyn Fn() -> bool + Send + Sync>;

impl Recovery {
    pub(super) fn is_unknown(&self) -> bool {
        self.term_state.load(Ordering::Relaxed) == UNKNOWN
    }

    /// From now on, or no longer, nobody waits for servers if this process was asked to end.
    pub(super) fn hurry(&self, is_on: bool) {
        self.hurries.store(is_on, Ordering::Relaxed);
    }

    /// The job goes back to a cut when a process dies.
    pub(super) fn begin(&self) {
        self.term_state.store(ON, Ordering::Relaxed);
    }

    /// The job is over for this trainer: what comes is no event. `is_kept`: a cut says so.
    pub(super) fn end(&self, is_kept: bool) {
        self.term_state.store(OFF, Ordering::Relaxed);
        let mut timeline = std::mem::take(&mut *self.timeline.lock().even_if_poisoned());
        if is_kept {
            timeline.end();
        }
    }

    /// Another job begins.
    pub(super) fn reset(&self) {
        self.term_state.store(UNKNOWN, Ordering::Relaxed);
        *self.timeline.lock().even_if_poisoned() = Timeline::default();
        *self.cuts.lock().even_if_poisoned() = TrainerCuts::default();
        *self.sender.lock().even_if_poisoned() = None;
        self.n_passes.store(0, Ordering::Relaxed);
        *self.passes.lock().even_if_poisoned() = Passes::default();
        *self.former.lock().even_if_poisoned() = Former::default();
    }
}

impl Cluster {
    /// Whether the job of this trainer recovers from deaths; `false` as long as that is not known.
    pub fn recovers(&self) -> bool {
        self.recovery().term_state.load(Ordering::Relaxed) == ON
    }

    /// Whether nothing is an event: a death ends the job.
    pub(crate) fn is_plain(&self) -> bool {
        self.recovery().term_state.load(Ordering::Relaxed) == OFF
    }

    /// In a job that recovers, this process leaves at the next boundary when `ends` returns true,
    /// with [`Error::Ended`].
    pub fn set_ends(&self, ends: Ends) {
        *self.recovery().ends.lock().even_if_poisoned() = Some(ends);
    }

    /// In a job that recovers, a trainer keeps the inputs of its steps since the last cut, at most so many
    /// bytes: 4 GiB unless this is called. A job whose servers keep no cut for so long ends.
    pub fn set_redo_bytes(&self, n_bytes: usize) {
        self.recovery().redo_bytes.store(n_bytes, Ordering::Relaxed);
    }

    /// In a job that recovers, servers keep what a trainer's script fetched, at most so many bytes: 1 GiB unless this is
    /// called. Behind that a trainer that dies cannot be started again.
    pub fn set_journal_bytes(&self, n_bytes: u64) {
        self.recovery().journal_bytes.store(n_bytes, Ordering::Relaxed);
    }

    pub(super) fn ends(&self) -> bool {
        self.recovery().ends.lock().even_if_poisoned().as_ref().is_some_and(|ends| ends())
    }

    /// Returns whether this process was asked to end.
    pub(super) fn asked_to_end(&self) -> Ends {
        let ends = self.recovery().ends.lock().even_if_poisoned().clone();
        ends.unwrap_or_else(|| Arc::new(|| false))
    }

    /// Whether nobody waits for servers now, because this process was asked to end.
    pub(super) fn ends_soon(&self) -> Ends {
        let ends = self.recovery().ends.lock().even_if_poisoned().clone();
        let hurries = self.recovery().hurries.clone();
        Arc::new(move || hurries.load(Ordering::Relaxed) && ends.as_ref().is_some_and(|it| it()))
    }

    pub(super) fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.recovery().timeline.lock().even_if_poisoned()
    }

    /// A dataset holds samples that are in this file as well, for a process that is started again.
    pub(crate) fn keeps_share(&self, file: Option<Arc<Path>>) {
        if let Some(file) = file.filter(|_| self.recovers()) {
            self.timeline().shares(file);
        }
    }

    pub(super) fn cuts(&self) -> MutexGuard<'_, TrainerCuts> {
        self.recovery().cuts.lock().even_if_poisoned()
    }

    /// Finds out whether the job recovers, and joins it.
    pub(super) fn find_out(&self) -> Result<()> {
        match self.client(ServerId(0)) {
            Err(error) if self.recovers() && self.may_go_back(&error) => self.go_back(&error),
            found => found.map(drop),
        }
    }

    /// The first connection of a job: does it recover? Joins all servers if so; the caller has locked
    /// out others who want to.
    pub(super) fn first_contact(&self, client: &Arc<Client>) -> Result<()> {
        match client.ensure_connected() {
            Ok(()) => {
                self.recovery().term_state.store(OFF, Ordering::Relaxed);
                self.agree_on_start(client)
            }
            Err(ps::Error::OtherTerm { .. }) => {
                client.close();
                self.recovery().term_state.store(ON, Ordering::Relaxed);
                self.arrive()
            }
            Err(error) => {
                self.pass_on(&error);
                Err(error.into())
            }
        }
    }

    /// Whether an error means that the job goes back, and not that it fails.
    pub(super) fn may_go_back(&self, error: &Error) -> bool {
        let goes_back = match error {
            Error::PeerLost(_) | Error::GoesBack => true,
            Error::WaitEnded(_) => self.must_follow(),
            _ => false,
        };
        self.recovers() && goes_back
    }

    /// Goes back to the last cut that all servers have, and does again what came after it. Returns
    /// when this trainer is where it was.
    pub(super) fn go_back(&self, why: &Error) -> Result<()> {
        let (log, start) = (self.log(), Instant::now());
        let _span = tracing::debug_span!(target: "paddlewheel::recovery", "going_back").entered();
        let limit = Duration::from_millis(self.state().patience.recover_ms);
        // One that turns to other servers says that.
        let held_up = if self.must_follow() {
            "turns to the new servers of the job".to_string()
        } else {
            log(&recovery_lines::goes_back(&told(why)));
            format!("goes back to the last cut with the others, because {}", told(why))
        };
        let _held_up = Obstacle::passing("recovery", held_up).for_now();
        loop {
            self.abandon();
            let tried = {
                let _turn = self.recovery().joining.lock().even_if_poisoned();
                self.follow().and_then(|()| self.arrive())
            };
            match tried.and_then(|()| self.do_again(start)) {
                Err(error) if self.may_go_back(&error) && start.elapsed() < limit => {
                    log(&recovery_lines::goes_back(&told(&error)));
                }
                // Nothing is lost: when the job is started again, it continues from the last cut.
                Err(_) if self.ends() => {
                    log(&recovery_lines::ends(None));
                    return Err(Error::Ended);
                }
                done => return done,
            }
        }
    }

    /// How often this process has gone back: what was asked before is not answered any more.
    pub(super) fn n_back(&self) -> u64 {
        self.recovery().n_back.load(Ordering::Relaxed)
    }

    /// Leaves all servers without a message, as a process that dies does. What was in flight is
    /// forgotten.
    pub fn abandon(&self) {
        self.recovery().n_back.fetch_add(1, Ordering::Relaxed);
        self.break_off_trainers();
        self.state().is_away = true;
        self.close();
        if let Some(sender) = self.communicator().take() {
            // Its servers are gone, and so is its work.
            let _ = sender.stop();
        }
        *self.traffic() = Traffic::default();
        *self.geo() = Geo::default();
        let mut state = self.state();
        state.lost = LostProcess::default();
        state.shared_memory = SharedMemory::default();
    }

    /// Joins all servers in one term, and gets what they have kept of this trainer.
    fn arrive(&self) -> Result<()> {
        if self.is_kept_by_trainers() {
            return self.arrive_among();
        }
        let clients = self.new_clients()?;
        self.recovery().hurry(true);
        let joined = tcp::join(&clients).map_err(Error::from).and_then(|term| {
            let base = term.and_then(|term| term.base).ok_or(Error::GoesBack)?;
            Ok((base, recall(&clients, base)?))
        });
        self.recovery().hurry(false);
        let (base, given) = match joined {
            Ok(joined) => joined,
            Err(error) => {
                clients.iter().for_each(|client| client.close());
                return Err(error);
            }
        };
        {
            let mut own = self.state();
            own.clients = clients.into_iter().map(Some).collect();
            own.is_away = false;
        }
        *self.cuts() = TrainerCuts::since(base);
        self.keep(base, LocalState::from_bytes(&given.state)?, &given.journal)
    }

    /// Takes note of what servers have kept; a process that was started again catches up with it.
    pub(super) fn keep(&self, base: u64, state: LocalState, journal: &[u8]) -> Result<()> {
        *self.recovery().former.lock().even_if_poisoned() = state.former.clone();
        let mut timeline = self.timeline();
        let is_new = timeline.is_fresh();
        if is_new && state.position.event == 0 && !state.position.is_at_start {
            return Ok(());
        }
        if is_new || timeline.is_replaying() {
            let n_events = state.position.event;
            timeline.begin_at(state, journal)?;
            if is_new && n_events > 0 {
                (self.log())(&recovery_lines::repeats(n_events, base));
                let text = "was started again, and repeats its script up to where it was";
                count::report_obstacle(Obstacle::passing(REPLAY, text));
            }
            return Ok(());
        }
        timeline.go_back_to(state);
        Ok(())
    }

    /// Restores the state at the cut, if this process was there, and does again what came after.
    fn do_again(&self, start: Instant) -> Result<()> {
        let Some(state) = self.timeline().gone_back_to() else { return Ok(()) };
        self.restore(&state)?;
        let mut undone = self.timeline().redo();
        let mut n_events = 0;
        let done = undone.repeat(self, &state.position, &mut |redoing| {
            match redoing {
                Redoing::Begins(event) => self.timeline().redo_event(event),
                Redoing::Ended(event) => {
                    n_events += 1;
                    self.timeline().redid_event(event);
                    self.boundary()?;
                }
            }
            Ok(())
        });
        self.timeline().redone(undone);
        done?;
        TRAINER.rollbacks.add(1);
        TRAINER.replayed_events.add(n_events);
        TRAINER.last_rollback_seconds.set(start.elapsed().as_secs_f64());
        (self.log())(&recovery_lines::went_back(self.cuts().base, n_events, start.elapsed()));
        Ok(())
    }

    /// Makes everything of this trainer what it was at a cut.
    pub(super) fn restore(&self, state: &LocalState) -> Result<()> {
        let of_job = {
            let mut timeline = self.timeline();
            timeline.restore(state)?;
            timeline.of_job()
        };
        {
            let mut own = self.state();
            (own.n_all_gathers, own.n_exchanges) = (state.n_all_gathers, state.n_exchanges);
        }
        self.cuts().has_completed = state.is_over;
        *self.recovery().passes.lock().even_if_poisoned() = state.passes.clone();
        let ScriptPosition { event, is_at_start, .. } = state.position;
        if let Some((job, scopes)) = of_job.filter(|_| event > 0 || is_at_start) {
            let job = self.followed(&job)?;
            let is_alone = job.mode.exchanges_every().is_some();
            let wanted = |placed: &Placement| {
                if is_alone {
                    placed.kind != PlacedKind::Optimizer
                } else {
                    placed.kind == PlacedKind::Param
                }
            };
            let fetch = WholeFetch::new(&job, wanted);
            let params = fetch.run(self, Vec::new())?;
            if let (Some(geo), Some(scope)) = (&state.geo, scopes.first()) {
                let params = fetch.names().iter().cloned().zip(params);
                self.geo().restore(&job, scope, params, geo);
            } else {
                for scope in &scopes {
                    install(fetch.names(), params.clone(), scope);
                }
            }
        }
        if state.sender != Sender::Stopped {
            self.restart_sender()?;
        }
        Ok(())
    }

    /// The number of the script's next pass that trains.
    pub(crate) fn n_passes(&self) -> u64 {
        self.recovery().n_passes.load(Ordering::Relaxed)
    }

    /// The script has made a pass.
    pub(crate) fn next_pass(&self) {
        self.recovery().n_passes.fetch_add(1, Ordering::Relaxed);
    }

    /// A pass is this far; `is_done`: it is over.
    pub(crate) fn note_pass(&self, number: u64, files: Option<Vec<FileRead>>, is_done: bool) {
        self.recovery().passes.lock().even_if_poisoned().note(number, files, is_done);
    }

    /// What trainers before have left of a pass; says so, if it is not everything.
    pub(crate) fn left_of_pass(&self, number: u64) -> Left {
        let left = self.recovery().former.lock().even_if_poisoned().left(number);
        recovery_lines::left(number, &left).into_iter().for_each(|line| (self.log())(&line));
        left
    }

    /// Adds what is known of passes to a state.
    pub(super) fn add_passes(&self, state: &mut LocalState) {
        state.passes = self.recovery().passes.lock().even_if_poisoned().clone();
        state.former = self.recovery().former.lock().even_if_poisoned().clone();
    }

    /// How gradients are sent, for a state.
    pub(super) fn sender_state(&self) -> Sender {
        let was_started = self.recovery().sender.lock().even_if_poisoned().is_some();
        match (self.communicator().is_some(), was_started) {
            (true, _) => Sender::Runs,
            (false, true) => Sender::Stopped,
            (false, false) => Sender::Never,
        }
    }

    fn restart_sender(&self) -> Result<()> {
        let sender = self.recovery().sender.lock().even_if_poisoned().clone();
        let Some((job, config)) = sender else { return Ok(()) };
        let job = self.followed(&job)?;
        self.start_communicator(&job, config);
        Ok(())
    }

    /// How long to wait for what in a job that recovers: servers are started again.
    pub(super) fn patience_of_recovery(patience: Patience) -> Patience {
        Patience { connect_ms: patience.recover_ms, ..patience }
    }
}

/// What servers have kept of this trainer. All are asked: a job that went on with another number of
/// servers has what was kept before where it was.
fn recall(clients: &[Arc<Client>], cut: u64) -> Result<Given> {
    let first = Recollection::default().next(cut);
    let asked: Vec<_> =
        clients.iter().map(|client| client.ask(first.clone())).collect::<ps::Result<_>>()?;
    let mut all = Given::default();
    for (client, mut ticket) in clients.iter().zip(asked) {
        let mut recollection = Recollection::default();
        let given = loop {
            match client.wait(ticket, "what was kept of this trainer")? {
                Reply::Recalled(piece) => match recollection.add(piece) {
                    Some(given) => break given,
                    None => ticket = client.ask(recollection.next(cut))?,
                },
                other => return Err(unexpected(client, &other)),
            }
        };
        all.journal.extend(given.journal);
        if all.state.is_empty() {
            all.state = given.state;
        }
    }
    Ok(all)
}

/// Why the job goes back. What a job does that does not recover is left out.
fn told(error: &Error) -> String {
    match error {
        Error::PeerLost(ps::Error::Trainers(Failure::Lost { trainer, endpoint, why })) => {
            format!("trainer {trainer} ({endpoint}) is gone: {why}")
        }
        error => error.to_string(),
    }
}
