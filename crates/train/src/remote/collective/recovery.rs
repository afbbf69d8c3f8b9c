//! Trainers without servers that let one back in which died: at cuts each keeps what all others have, and
//! whoever is started again gets it from one that lives.
//!
//! Cuts, journals and doing things again are those of jobs with servers ([`crate::recover`]); only who keeps
//! them is different. All trainers begin the same exchanges, so their number says to all where a cut is.

use std::time::{Duration, Instant};

use program::trainers::TrainerGroup;
use tensor::EvenIfPoisoned;

use super::Joined;
use super::kept::{self, KeptCut, Told};
use crate::error::{Error, Result};
use crate::recover::{ByteReader, ByteWriter, EventKind, EventPrint, Repeat, Uses};
use crate::remote::cuts::TrainerCuts;
use crate::remote::{Cluster, ScriptEvent};

/// The time between cuts grows by no more than this factor at once.
const GROWTH_MAX: u64 = 8;

/// The trainers that an event meets, and the sum of its program.
#[derive(Clone, Debug)]
pub(crate) struct EventTrainers {
    pub(crate) members: TrainerGroup,
    pub(crate) sum: Option<u64>,
}

/// What a trainer keeps, and when it keeps more.
#[derive(Debug)]
pub(in crate::remote) struct Keeping {
    every: Duration,
    meeting: Option<EventTrainers>,
    /// Oldest first. All trainers have the last one or the one before it.
    cuts: Vec<KeptCut>,
    /// The exchange before which there is a cut.
    next_at: u64,
    /// Where the last one was, and when.
    last_at: u64,
    last: Instant,
}

impl Keeping {
    fn new(every: Duration) -> Self {
        let (cuts, last) = (vec![KeptCut::default()], Instant::now());
        Self { every, meeting: None, cuts, next_at: 0, last_at: 0, last }
    }

    fn numbers(&self) -> Vec<u64> {
        self.cuts.iter().map(|cut| cut.number).collect()
    }

    /// All have gone back to a cut; the next one comes soon.
    fn begin(&mut self, cut: KeptCut, n_begun: u64) {
        self.cuts = vec![cut];
        (self.next_at, self.last_at, self.last) = (n_begun + 1, n_begun, Instant::now());
    }

    /// There is another cut, before exchange `at`; the next one is due when the time is over that trainer 0
    /// has measured.
    fn add(&mut self, cut: KeptCut, elapsed_ms: u64, at: CutPlace) {
        self.cuts.push(cut);
        if self.cuts.len() > 2 {
            self.cuts.remove(0);
        }
        let n_since = at.before.saturating_sub(self.last_at).max(1);
        let wanted = n_since.saturating_mul(self.every.as_millis() as u64) / elapsed_ms.max(1);
        self.next_at = at.after + wanted.clamp(1, n_since.saturating_mul(GROWTH_MAX));
        (self.last_at, self.last) = (at.after, Instant::now());
    }
}

/// Exchanges that had begun before and after a cut was made, which needs some itself.
#[derive(Clone, Copy, Debug)]
struct CutPlace {
    before: u64,
    after: u64,
}

impl Cluster {
    /// Lets trainers without servers come back that died and were started again. From the first meeting on, a
    /// cut of all trainers is made about this often.
    pub fn keep_each_other(&self, every: Duration) {
        self.0.trainers.lock().even_if_poisoned().keeping = Some(Keeping::new(every));
    }

    /// Whether trainers keep each other, and have met.
    pub(in crate::remote) fn is_kept_by_trainers(&self) -> bool {
        let met = self.0.trainers.lock().even_if_poisoned();
        met.keeping.as_ref().is_some_and(|keeping| keeping.meeting.is_some())
    }

    /// Whether trainers keep each other as soon as they have met.
    pub(in crate::remote) fn wants_meeting(&self) -> bool {
        self.0.trainers.lock().even_if_poisoned().keeping.is_some()
    }

    fn with_keeping<T>(&self, act: impl FnOnce(&mut Keeping) -> T) -> Result<T> {
        let mut met = self.0.trainers.lock().even_if_poisoned();
        met.keeping.as_mut().map(act).ok_or(Error::NoTrainers)
    }

    /// The first meeting of this process: is the job new, or was this trainer started again?
    pub(in crate::remote) fn meet(&self, meeting: EventTrainers) -> Result<()> {
        if meeting.members.endpoints.len() < 2 {
            self.0.trainers.lock().even_if_poisoned().keeping = None;
            return Ok(());
        }
        self.with_keeping(|keeping| keeping.meeting = Some(meeting))?;
        self.recovery().begin();
        match self.arrive_among() {
            Err(error) if self.may_go_back(&error) => self.go_back(&error),
            done => done,
        }
    }

    /// Meets all trainers, finds out where they go on, and gets what was kept.
    pub(in crate::remote) fn arrive_among(&self) -> Result<()> {
        let meeting = self.with_keeping(|keeping| keeping.meeting.clone())?;
        let EventTrainers { members, sum } = meeting.ok_or(Error::NoTrainers)?;
        let mut settings = self.mesh_settings();
        settings.patience = Self::patience_of_recovery(settings.patience);
        let joined = Joined::new(&members, sum, settings)?;
        let is_new = {
            let timeline = self.timeline();
            timeline.is_fresh() || timeline.is_replaying()
        };
        let own = if is_new { Vec::new() } else { self.with_keeping(|own| own.numbers())? };
        let mut to = ByteWriter::default();
        own.iter().for_each(|&number| to.u64(number));
        let lists = joined.gather("cuts", &to.0)?;
        let lists = lists.iter().map(|bytes| numbers(bytes)).collect::<Result<Vec<_>>>()?;
        let base = kept::base(lists.iter().map(Vec::as_slice));
        let giver = lists.iter().position(|list| !list.is_empty());
        if base.is_none() && giver.is_some() {
            return Err(Error::TooFarBack { event: 0 });
        }
        let number = base.unwrap_or(0);
        let known = self.with_keeping(|keeping| {
            keeping.cuts.iter().find(|cut| cut.number == number && !is_new).cloned()
        })?;
        let mut cut = known.unwrap_or_default();
        if let (Some(giver), true) = (giver, number > 0 && lists.iter().any(Vec::is_empty)) {
            let bytes = joined.broadcast("cut", giver, cut.to_bytes())?;
            if is_new {
                cut = KeptCut::from_bytes(&bytes)?;
            }
        }
        let (state, journal) = (cut.state(members.rank)?, cut.journal(members.rank));
        {
            let mut met = self.0.trainers.lock().even_if_poisoned();
            let n_begun = joined.mesh.n_begun();
            met.keeping.iter_mut().for_each(|keeping| keeping.begin(cut.clone(), n_begun));
            met.joined = Some(joined);
        }
        *self.cuts() = TrainerCuts::since(number);
        self.keep(number, state, &journal)
    }

    /// Whether there is a cut at this boundary.
    pub(in crate::remote) fn is_kept_here(&self) -> bool {
        let met = self.0.trainers.lock().even_if_poisoned();
        let (Some(joined), Some(keeping)) = (&met.joined, &met.keeping) else { return false };
        keeping.meeting.is_some() && joined.mesh.n_begun() >= keeping.next_at
    }

    /// A boundary between two steps: a cut, if there is one here.
    pub(in crate::remote) fn boundary_among(
        &self,
        inside: &mut dyn FnMut() -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        if self.ends() {
            self.break_off_trainers();
            return self.end(None);
        }
        if !self.is_kept_here() || self.timeline().is_replaying() {
            return Ok(());
        }
        let joined = self.trainers().ok_or(Error::NoTrainers)?;
        let before = joined.mesh.n_begun();
        let inside = inside()?;
        let (mut state, journal) = {
            let mut timeline = self.timeline();
            let mut state = timeline.state(inside);
            self.add_own(&mut state, &timeline);
            (state, self.journal_part(&mut timeline))
        };
        let position = state.position.clone();
        let all = joined.gather("variables of a cut", &kept::digests(&state))?;
        let common = kept::take_common(&mut state, &all)?;
        let elapsed_ms = self.with_keeping(|own| own.last.elapsed().as_millis() as u64)?;
        let told = Told { own: state.to_bytes(), journal, elapsed_ms };
        let all = joined.gather("states of a cut", &told.to_bytes())?;
        let told = all.iter().map(|bytes| Told::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
        let elapsed_ms = told.first().map_or(0, |told| told.elapsed_ms);
        let place = CutPlace { before, after: joined.mesh.n_begun() };
        let number = self.with_keeping(|keeping| {
            let first = KeptCut::default();
            let cut = keeping.cuts.last().unwrap_or(&first).next(common, told);
            let number = cut.number;
            keeping.add(cut, elapsed_ms, place);
            number
        })?;
        // Everybody has the cut before: it has begun with this one.
        let mut timeline = self.timeline();
        timeline.took_part(number, position);
        timeline.kept_at_home(number);
        timeline.kept_by_all(number - 1);
        Ok(())
    }

    /// Whether a cut was made since the first meeting.
    pub(in crate::remote) fn has_kept(&self) -> bool {
        self.with_keeping(|keeping| keeping.cuts.last().is_some_and(|cut| cut.number > 0))
            .unwrap_or(false)
    }

    /// Leaves the other trainers without a word: they meet again.
    pub(in crate::remote) fn break_off_trainers(&self) {
        let joined = self.0.trainers.lock().even_if_poisoned().joined.take();
        if let Some(joined) = joined {
            joined.mesh.break_off();
        }
    }

    /// This trainer's script has come to its end, in order. Where one that dies is let back in, waits until all
    /// have: until then the others may need this one.
    pub fn end_among_trainers(&self) -> Result<()> {
        let done = if self.recovers() && self.is_kept_by_trainers() && !self.ends() {
            self.do_event(&mut Through(self))
        } else {
            Ok(())
        };
        self.leave_trainers();
        done
    }
}

fn numbers(bytes: &[u8]) -> Result<Vec<u64>> {
    let (mut from, mut numbers) = (ByteReader::new(bytes), Vec::new());
    while !from.is_empty() {
        numbers.push(from.u64()?);
    }
    Ok(numbers)
}

/// The end of a script: all trainers come to it.
struct Through<'a>(&'a Cluster);

impl ScriptEvent for Through<'_> {
    fn print(&self) -> EventPrint {
        EventPrint::named(EventKind::Complete, "through")
    }

    fn label(&self) -> String {
        String::new()
    }

    fn uses(&self) -> Option<Uses<'_>> {
        None
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        let joined = self.0.trainers().ok_or(Error::NoTrainers)?;
        joined.gather("the end of all scripts", &[]).map(|_| Vec::new())
    }

    fn answer(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>> {
        None
    }
}
