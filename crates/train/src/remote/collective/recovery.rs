//! Recovery of jobs without servers: at cuts each trainer keeps the state of all others, and a restarted
//! one gets it from one that lives.
//!
//! Cuts, journals and doing things again are those of jobs with servers ([`crate::recover`]); only their
//! keeper is different. All trainers begin the same exchanges, so their number says to all where a cut is.

use std::time::{Duration, Instant};

use program::trainers::TrainerGroup;

use super::kept::{self, KeptCut, Told};
use super::{Group, Joined};
use crate::error::{Error, Result};
use crate::recover::{ByteReader, ByteWriter, EventKind, EventPrint, Repeat, Uses};
use crate::remote::exchange::{Exchange, Exchanges};
use crate::remote::links::{Arrival, Links, patience_of_recovery};
use crate::remote::recovery::{CutProtocol, EventState, Recovery, ended};
use crate::remote::{ScriptEvent, TrainerJob};

/// The time between cuts grows by no more than this factor at once.
const GROWTH_MAX: u64 = 8;

/// The trainers that an event meets, and the sum of its program.
#[derive(Clone, Debug)]
pub(crate) struct EventTrainers {
    pub(crate) members: TrainerGroup,
    pub(crate) sum: Option<u64>,
}

/// The state that a trainer keeps, and when it keeps more.
#[derive(Debug)]
pub(super) struct Keeping {
    every: Duration,
    pub(super) meeting: Option<EventTrainers>,
    /// Oldest first. All trainers have the last one or the one before it.
    cuts: Vec<KeptCut>,
    /// The exchange before which there is a cut.
    next_at: u64,
    /// Where the last one was, and when.
    last_at: u64,
    last: Instant,
}

impl Keeping {
    pub(super) fn new(every: Duration) -> Self {
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

/// Cuts of a job without servers: the trainers keep them.
pub(in crate::remote) struct GroupCuts<'a> {
    pub(in crate::remote) links: &'a Links,
    pub(in crate::remote) exchanges: &'a Exchanges,
    pub(in crate::remote) recovery: &'a Recovery,
}

impl GroupCuts<'_> {
    fn group(&self) -> &Group {
        &self.exchanges.group
    }

    /// Whether there is a cut at this boundary.
    fn is_here(&self) -> bool {
        let known = self.group().known();
        let (Some(joined), Some(keeping)) = (&known.joined, &known.keeping) else { return false };
        keeping.meeting.is_some() && joined.mesh.n_begun() >= keeping.next_at
    }

    fn make(&self, joined: &Joined, inside: Option<Vec<u8>>) -> Result<()> {
        let before = joined.mesh.n_begun();
        let (mut state, journal) = {
            let mut timeline = self.recovery.timeline();
            let mut state = timeline.state(inside);
            self.recovery.add_own(&mut state, &timeline, self.links, self.exchanges);
            (state, self.recovery.journal_part(&mut timeline, self.links))
        };
        let position = state.position.clone();
        let all = joined.gather("variables of a cut", &kept::digests(&state))?;
        let common = kept::take_common(&mut state, &all)?;
        let elapsed_ms = self.group().with_keeping(|own| own.last.elapsed().as_millis() as u64)?;
        let told = Told { own: state.to_bytes(), journal, elapsed_ms };
        let all = joined.gather("states of a cut", &told.to_bytes())?;
        let told = all.iter().map(|bytes| Told::from_bytes(bytes)).collect::<Result<Vec<_>>>()?;
        let elapsed_ms = told.first().map_or(0, |told| told.elapsed_ms);
        let place = CutPlace { before, after: joined.mesh.n_begun() };
        let number = self.group().with_keeping(|keeping| {
            let first = KeptCut::default();
            let cut = keeping.cuts.last().unwrap_or(&first).next(common, told);
            let number = cut.number;
            keeping.add(cut, elapsed_ms, place);
            number
        })?;
        // Everybody has the cut before: it has begun with this one.
        let mut timeline = self.recovery.timeline();
        timeline.took_part(number, position);
        timeline.kept_at_home(number);
        timeline.kept_by_all(number - 1);
        Ok(())
    }
}

impl CutProtocol for GroupCuts<'_> {
    /// Meets all trainers, finds out where they go on, and gets what was kept.
    fn arrive(&self) -> Result<Arrival> {
        let group = self.group();
        let meeting = group.with_keeping(|keeping| keeping.meeting.clone())?;
        let EventTrainers { members, sum } = meeting.ok_or(Error::NoTrainers)?;
        let mut settings = self.links.mesh_settings();
        settings.patience = patience_of_recovery(settings.patience);
        let joined = Joined::new(&members, sum, settings)?;
        let is_new = {
            let timeline = self.recovery.timeline();
            timeline.is_fresh() || timeline.is_replaying()
        };
        let own = if is_new { Vec::new() } else { group.with_keeping(|own| own.numbers())? };
        let mut to = ByteWriter::default();
        own.iter().fold(&mut to, |to, &number| to.u64(number));
        let lists = joined.gather("cuts", &to.0)?;
        let lists = lists.iter().map(|bytes| numbers(bytes)).collect::<Result<Vec<_>>>()?;
        let base = kept::base(lists.iter().map(Vec::as_slice));
        let giver = lists.iter().position(|list| !list.is_empty());
        if base.is_none() && giver.is_some() {
            return Err(Error::TooFarBack { event: 0 });
        }
        let number = base.unwrap_or(0);
        let known = group.with_keeping(|keeping| {
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
            let mut known = group.known();
            let n_begun = joined.mesh.n_begun();
            known.keeping.iter_mut().for_each(|keeping| keeping.begin(cut.clone(), n_begun));
            known.joined = Some(joined);
        }
        Ok(Arrival { base: number, state, journal })
    }

    fn is_due(&self) -> bool {
        self.links.ends() || self.is_here()
    }

    fn boundary(&self, inside: &mut EventState<'_>) -> Result<()> {
        if self.links.ends() {
            self.group().forget();
            return ended(self.links, None);
        }
        if !self.is_here() || self.recovery.timeline().is_replaying() {
            return Ok(());
        }
        let joined = self.group().joined().ok_or(Error::NoTrainers)?;
        self.make(&joined, inside()?)
    }

    fn has_kept(&self) -> bool {
        let is_kept = |keeping: &mut Keeping| keeping.cuts.last().is_some_and(|cut| cut.number > 0);
        self.group().with_keeping(is_kept).unwrap_or(false)
    }

    /// Trainers that keep each other make the next cut when its time comes, and not earlier.
    fn make_room(&self, limit: usize) -> Result<()> {
        if self.recovery.timeline().n_bytes() < limit {
            return Ok(());
        }
        self.recovery.free_room(self.links, limit)
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
pub(in crate::remote) struct Through<'a>(pub(in crate::remote) &'a TrainerJob);

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
        self.0.group().wait_for_end().map(|()| Vec::new())
    }

    fn answer(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        None
    }
}
