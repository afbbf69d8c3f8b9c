//! How a trainer of the simulation takes part in cuts and goes back to them, by the rules that shipping
//! trainers follow.

use std::collections::BTreeMap;

use protocol::link::Broken;
use protocol::server::Apply;
use wire::Millis;
use wire::message::{Given, Leave, Ready, Recollection, Reply, WantCut};
use wire::recovery::{Next, Term, common, next};

use super::seen::{Seen, number};
use super::survival::Bug;
use super::trainer::{Line, Outcome, Trainer};
use super::{Plan, Rng};

/// Trainers give state to cuts, and get it back, in pieces of so many bytes.
pub(super) const PIECE_BYTES: usize = 24;

/// A trainer's knowledge of cuts.
#[derive(Debug)]
pub struct GoingBack {
    phase: Phase,
    /// Whether gradients depend on what was fetched: where that is the same in every run.
    pub(super) feeds_back: bool,
    /// Whether what is computed again must be what it was.
    is_exact: bool,
    /// The last cut that it took part in, or that was given up.
    handled: u64,
    /// The greatest cut that all servers have kept.
    complete: u64,
    /// Where it was at each cut since then.
    cuts: BTreeMap<u64, usize>,
    /// The first step whose inputs it still has.
    redo_from: usize,
    /// Steps that are in journals.
    journaled: usize,
    /// Whether the last step's results were taken.
    has_seen: bool,
    wants_cut: bool,
    /// Of each server: how often it has wanted a cut, as far as the lead was told.
    told: Vec<u64>,
    has_left: bool,
    /// The difference between a step and its repetition.
    wrong: Option<String>,
    /// The state that it has got back so far.
    recollection: Recollection,
    pace_ms: u64,
    rng: Rng,
    bug: Option<Bug>,
    /// How often it went back, and how many steps it computed again.
    pub n_back: u64,
    /// Steps that were computed again.
    pub n_redone: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It has greeted all servers with this term.
    Joining(Term),
    /// It has asked for what it gave to a cut.
    Recalling {
        base: u64,
        id: u64,
    },
    Training,
    /// It waits until everything was served, to be ready for a cut.
    Settling(u64),
    /// It waits for the others.
    Asking {
        cut: u64,
        id: u64,
    },
}

impl GoingBack {
    /// The state of a process that has just started.
    pub fn new(plan: &Plan, incarnation: u64) -> Option<Self> {
        let survival = plan.survival.as_ref()?;
        let is_exact = plan.apply == Apply::ByRound { ahead: 0 };
        Some(Self {
            phase: Phase::Joining(Term::default()),
            feeds_back: is_exact,
            is_exact,
            handled: 0,
            complete: 0,
            cuts: BTreeMap::new(),
            redo_from: 0,
            journaled: 0,
            has_seen: true,
            wants_cut: false,
            told: Vec::new(),
            has_left: false,
            wrong: None,
            recollection: Recollection::default(),
            pace_ms: survival.pace_ms,
            rng: Rng::new(plan.seed ^ incarnation),
            bug: survival.bug,
            n_back: 0,
            n_redone: 0,
        })
    }

    pub(super) fn has_seen(&self) -> bool {
        self.has_seen
    }

    pub(super) fn begin_step(&mut self) {
        self.has_seen = false;
    }

    /// How long it computes before its next step.
    pub(super) fn pause(&mut self) -> u64 {
        self.rng.below(self.pace_ms)
    }

    /// Notes the results of a step. The script learns them once, even if the step is computed
    /// several times.
    pub(super) fn see(&mut self, steps: &mut Vec<Seen>, step: usize, seen: Seen) {
        self.has_seen = true;
        match steps.get(step) {
            None => steps.push(seen),
            Some(before) => {
                self.n_redone += 1;
                if self.is_exact && *before != seen {
                    self.wrong = Some(format!("step {step} saw {before:?}, and again {seen:?}"));
                }
            }
        }
    }

    /// Whether its end is in a cut that all servers have kept.
    fn is_released(&self, n_steps: usize) -> bool {
        self.cuts.range(..=self.complete).any(|(_, &at)| at == n_steps)
    }
}

fn back(trainer: &mut Option<GoingBack>) -> &mut GoingBack {
    trainer.as_mut().expect("asked before")
}

impl Trainer {
    /// Joins the term of the servers, and goes back to its base; returns whether it can continue its
    /// script.
    pub(super) fn go_back(&mut self, now: Millis) -> bool {
        let back = back(&mut self.back);
        if let Some(wrong) = back.wrong.take() {
            self.end(now, Outcome::Stranded(wrong));
            return false;
        }
        match back.phase {
            Phase::Joining(said) => self.join(now, said),
            _ if self.lines.iter().any(|line| line.link.broken().is_some()) => self.broken(now),
            Phase::Recalling { base, id } => return self.recall(now, base, id),
            _ => return true,
        }
        false
    }

    fn home(&self) -> usize {
        self.id as usize % self.lines.len()
    }

    /// A server is of another term, or refuses us.
    fn broken(&mut self, now: Millis) {
        if back(&mut self.back).is_released(self.script.len()) {
            return self.end(now, Outcome::Done);
        }
        let mut broken = self.lines.iter().filter_map(|line| line.link.broken());
        let refused = broken.find(|broken| !matches!(broken, Broken::OtherTerm(_)));
        match refused.cloned() {
            Some(Broken::Refused(refusal)) => self.end(now, Outcome::Refused(refusal)),
            Some(_) => self.end(now, Outcome::Restarted),
            None => self.greet(Term::default()),
        }
    }

    /// Begins to talk to servers that it has not talked to.
    pub(super) fn greet_anew(&mut self) {
        if self.back.is_some() {
            self.greet(Term::default());
        }
    }

    /// Restarts all conversations.
    fn greet(&mut self, term: Term) {
        back(&mut self.back).phase = Phase::Joining(term);
        self.waiting.clear();
        for line in &mut self.lines {
            line.link = line.link.of_term(term);
            line.old = line.old.or(line.conn.take());
        }
    }

    fn join(&mut self, now: Millis, said: Term) {
        let mut answers = Vec::new();
        for line in &self.lines {
            answers.push(match line.link.broken() {
                Some(Broken::OtherTerm(term_state)) => Some(term_state.clone()),
                Some(_) => return self.broken(now),
                None if line.link.is_up() => None,
                None => return,
            });
        }
        match next(said, &answers) {
            Ok(Next::Greet(term)) => self.greet(term),
            Ok(Next::Joined) => {
                let base = said.base.unwrap_or_default();
                back(&mut self.back).recollection = Recollection::default();
                self.ask_back(now, base);
            }
            other => self.end(now, Outcome::Stranded(format!("{other:?}"))),
        }
    }

    /// Asks for the next piece of what it gave to a cut.
    fn ask_back(&mut self, now: Millis, base: u64) {
        let (home, back) = (self.home(), back(&mut self.back));
        let id = self.lines[home].link.ask(now, back.recollection.next(base));
        back.phase = Phase::Recalling { base, id };
    }

    fn recall(&mut self, now: Millis, base: u64, id: u64) -> bool {
        let home = self.home();
        match self.lines[home].link.answer(id) {
            None => return false,
            Some(Ok(Reply::Recalled(recalled))) => {
                let Some(given) = back(&mut self.back).recollection.add(recalled) else {
                    self.ask_back(now, base);
                    return false;
                };
                if let Err(outcome) = self.restore(base, &given) {
                    self.end(now, outcome);
                }
            }
            Some(other) => self.end(now, Outcome::Stranded(format!("{other:?}"))),
        }
        self.outcome.is_none()
    }

    /// Is again what it was at a cut.
    fn restore(&mut self, base: u64, given: &Given) -> Result<(), Outcome> {
        let (mut state, mut journal) = (given.state.as_slice(), given.journal.as_slice());
        (self.at, self.memory) =
            if state.is_empty() { (0, 0) } else { (number(&mut state), number(&mut state) as u64) };
        let mut steps = Vec::new();
        while !journal.is_empty() {
            steps.push(Seen::read(&mut journal));
        }
        let (at, back) = (self.at, back(&mut self.back));
        if steps.len() != at {
            let why = format!("a journal of {} steps for {at}", steps.len());
            return Err(Outcome::Stranded(why));
        }
        if self.steps.is_empty() {
            self.steps = steps;
        } else if self.steps.get(..at) != Some(&steps) {
            let why = format!("the journal of {at} steps is not what the script was told");
            return Err(Outcome::Stranded(why));
        } else {
            back.n_back += 1;
            if at < back.redo_from {
                return Err(Outcome::TooFarBack);
            }
            if back.bug == Some(Bug::RedoSkipped) {
                self.at = self.steps.len();
            }
        }
        back.phase = Phase::Training;
        (back.handled, back.complete, back.journaled) = (base, base, at);
        (back.redo_from, back.cuts) = (at, BTreeMap::from([(base, at)]));
        (back.has_seen, back.wants_cut, back.has_left) = (true, false, false);
        back.told.clear();
        Ok(())
    }

    /// At a boundary: takes part in a cut, if one is due; returns whether it can continue its
    /// script.
    pub(super) fn stop_for_cut(&mut self, now: Millis) -> bool {
        let is_settled = self.lines.iter().all(|line| line.link.is_settled());
        let is_over = self.at == self.script.len();
        self.learn_complete();
        self.pass_wishes_on(now);
        let next_cut = self.lines[0].link.notice().next_cut;
        let round = self.lines.iter().map(|line| line.link.round()).min().unwrap_or(0);
        let back = back(&mut self.back);
        // A trainer that has left takes no part.
        let next_cut = next_cut.filter(|next_cut| next_cut.cut > back.handled && !back.has_left);
        let next_cut =
            next_cut.filter(|next_cut| next_cut.after == 0 || next_cut.after == round || is_over);
        if let (Phase::Training, Some(next_cut)) = (back.phase, next_cut) {
            back.phase = Phase::Settling(next_cut.cut);
        }
        match back.phase {
            Phase::Settling(cut) if is_settled => {
                let id = self.lines[0].link.ask(now, Ready { cut });
                back.phase = Phase::Asking { cut, id };
                false
            }
            Phase::Settling(_) => false,
            Phase::Asking { cut, id } => self.go_or_not(now, cut, id),
            _ => {
                if is_over && !std::mem::replace(&mut back.wants_cut, true) {
                    let _ = self.lines[0].link.ask(now, WantCut);
                }
                true
            }
        }
    }

    /// Tells the lead that another server wants a cut.
    fn pass_wishes_on(&mut self, now: Millis) {
        let requests = |line: &Line| line.link.notice().cut_requests;
        let wishes: Vec<u64> = self.lines.iter().map(requests).collect();
        let back = back(&mut self.back);
        let told = |server: usize| back.told.get(server).copied().unwrap_or(0);
        let is_new = wishes.iter().enumerate().any(|(server, &wishes)| wishes > told(server));
        if !is_new || back.has_left || back.bug == Some(Bug::WishNotPassedOn) {
            return;
        }
        back.told = wishes;
        let _ = self.lines[0].link.ask(now, WantCut);
    }

    /// Drops the inputs of steps before a cut that all servers have kept.
    fn learn_complete(&mut self) {
        let kept: Vec<_> = self.lines.iter().map(|line| line.link.notice().kept.clone()).collect();
        let back = back(&mut self.back);
        let complete = common(&kept).filter(|&cut| cut > back.complete);
        if let Some((cut, &at)) = complete.and_then(|cut| Some((cut, back.cuts.get(&cut)?))) {
            (back.complete, back.redo_from) = (cut, at);
            back.cuts.retain(|&other, _| other >= cut);
        }
    }

    fn go_or_not(&mut self, now: Millis, cut: u64, id: u64) -> bool {
        let answer = self.lines[0].link.answer(id);
        match answer {
            None => return false,
            Some(Ok(Reply::StartCut(_))) => self.take_part(now, cut),
            Some(Ok(Reply::CancelCut(_))) => {}
            Some(other) => self.end(now, Outcome::Stranded(format!("{other:?}"))),
        }
        let back = back(&mut self.back);
        (back.phase, back.handled) = (Phase::Training, cut);
        self.outcome.is_none()
    }

    fn take_part(&mut self, now: Millis, cut: u64) {
        let at = self.at;
        let home = self.home();
        let back = back(&mut self.back);
        let mut state = (at as u64).to_le_bytes().to_vec();
        state.extend_from_slice(&self.memory.to_le_bytes());
        let mut journal = Vec::new();
        self.steps[back.journaled..at].iter().for_each(|seen| seen.write(&mut journal));
        back.journaled = at;
        back.cuts.insert(cut, at);
        if back.bug == Some(Bug::ForgetsTooEarly) {
            back.redo_from = at;
        }
        let (complete, given) = (back.complete, Given { state, journal });
        for (server, line) in self.lines.iter_mut().enumerate() {
            let given = if server == home { given.clone() } else { Given::default() };
            for piece in given.pieces(cut, complete, PIECE_BYTES) {
                line.link.change(now, piece);
            }
        }
    }

    /// Whether no process will need it again: it takes leave first.
    pub(super) fn may_end(&mut self, now: Millis) -> bool {
        let Some(back) = &mut self.back else { return true };
        if !back.is_released(self.script.len()) {
            return false;
        }
        if std::mem::replace(&mut back.has_left, true) {
            return true;
        }
        for line in &mut self.lines {
            line.link.change(now, Leave);
        }
        false
    }
}
