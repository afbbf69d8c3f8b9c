//! The obstacles of a job, in words: for the page and for the console.
//!
//! A process that is dead, held up, stopped or silent explains why the others wait. So it comes before any judgement of
//! speed ([`super::speed`]).

use metrics::words::{percent, time};

use super::members::Condition;
use super::shares::ProcessShares;
use super::speed;
use super::state::SeenObstacle;

/// An obstacle that passes is worth a word after so many seconds.
const PASSING_SECONDS: f64 = 1.0;
/// Many short ones are, if they take so much of the time.
const PASSING_SHARE: f64 = 0.2;

/// The cause of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No trainer has reported its work yet.
    Beginning,
    /// The trainers have finished.
    Through,
    /// No process slows the job.
    Nothing,
    /// A process has died, and stays dead.
    Dead,
    /// A process has a problem that stays until a person does something: its disk is full.
    Problem,
    /// A process is stopped by a signal or a debugger.
    Stopped,
    /// A process has died, and is started again.
    Restarting,
    /// A process does not answer.
    Silent,
    /// A process is held up for a while: it recovers, or waits for a cut.
    Passing,
    /// A machine has too few processors.
    Processors,
    /// A server is busy.
    Server,
    /// A trainer is slower than the others.
    Trainer,
    /// Messages between trainers and servers.
    Messages,
    /// Exchanges between trainers.
    Exchanges,
    /// Data come late.
    Reading,
    /// The script, between steps.
    Script,
    /// Threads of a trainer wait for each other.
    Threads,
}

impl Cause {
    /// Its name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Beginning => "beginning",
            Self::Through => "through",
            Self::Nothing => "nothing",
            Self::Dead => "dead",
            Self::Problem => "problem",
            Self::Stopped => "stopped",
            Self::Restarting => "restarting",
            Self::Silent => "silent",
            Self::Passing => "passing",
            Self::Processors => "processors",
            Self::Server => "server",
            Self::Trainer => "trainer",
            Self::Messages => "messages",
            Self::Exchanges => "exchanges",
            Self::Reading => "reading",
            Self::Script => "script",
            Self::Threads => "threads",
        }
    }

    /// How serious it is.
    pub fn concern(self) -> Concern {
        match self {
            Self::Beginning => Concern::Unknown,
            Self::Through | Self::Nothing => Concern::Good,
            Self::Dead | Self::Problem | Self::Stopped | Self::Restarting | Self::Silent => {
                Concern::Bad
            }
            _ => Concern::Slow,
        }
    }
}

/// How serious it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// There is nothing to say yet.
    Unknown,
    /// No process slows the job.
    Good,
    /// A process slows the job.
    Slow,
    /// A process has died, or is held up.
    Bad,
}

impl Concern {
    /// Its name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Good => "good",
            Self::Slow => "slow",
            Self::Bad => "bad",
        }
    }
}

/// The process that slows a job, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The cause.
    pub cause: Cause,
    /// The sentence that names the process.
    pub who: String,
    /// The reason, and the remedy.
    pub why: String,
}

impl Judgement {
    pub(super) fn new(cause: Cause, who: impl Into<String>, why: impl Into<String>) -> Self {
        Self { cause, who: who.into(), why: why.into() }
    }

    /// How serious it is.
    pub fn concern(&self) -> Concern {
        self.cause.concern()
    }

    /// The judgement in one line, with the remedy if it is serious.
    pub fn line(&self) -> String {
        match self.concern() {
            Concern::Bad if !self.why.is_empty() => format!("{} {}", self.who, self.why),
            _ => self.who.clone(),
        }
    }
}

/// How a process can be heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Presence {
    /// It answers.
    #[default]
    Heard,
    /// It has never answered, and is not expected to yet.
    Begins,
    /// It was started again, and does not do its work yet.
    StartsAgain,
    /// It does not answer.
    Silent {
        /// For so long.
        seconds: f64,
        /// Why, as the collector sees it.
        why: String,
    },
    /// A signal has stopped it.
    Stopped {
        /// Its number.
        pid: u64,
    },
}

/// Finds the process that slows a job, by the time use of its processes in the last seconds and
/// their state.
pub fn judge(all: &[ProcessShares]) -> Judgement {
    let causes = [dead, problem, stopped, restarting, silent, passing];
    causes.iter().find_map(|cause| cause(all)).unwrap_or_else(|| speed::judge(all))
}

fn with(all: &[ProcessShares], condition: Condition) -> Option<&ProcessShares> {
    all.iter().find(|one| one.condition == condition)
}

fn running(all: &[ProcessShares]) -> impl Iterator<Item = &ProcessShares> {
    all.iter().filter(|one| one.condition == Condition::Running)
}

/// A process has died, and the job with it.
fn dead(all: &[ProcessShares]) -> Option<Judgement> {
    let one = with(all, Condition::Failed)?;
    let who = format!("{} has died.", capital(&one.name));
    Some(Judgement::new(Cause::Dead, who, one.end.clone().unwrap_or_default()))
}

/// The obstacle of any process that this is true for, the oldest.
fn obstacle(
    all: &[ProcessShares],
    is_it: impl Fn(&SeenObstacle) -> bool,
) -> Option<(&ProcessShares, &SeenObstacle)> {
    let those = running(all).flat_map(|one| one.obstacles.iter().map(move |own| (one, own)));
    those.filter(|(_, own)| is_it(own)).max_by(|(_, a), (_, b)| a.seconds.total_cmp(&b.seconds))
}

/// A process needs help.
fn problem(all: &[ProcessShares]) -> Option<Judgement> {
    let (one, own) = obstacle(all, |own| !own.is_passing)?;
    let who = format!("{}: {}.", capital(&one.name), own.text.trim_end_matches('.'));
    let why = if own.remedy.is_empty() {
        format!("For {} now.", time(own.seconds))
    } else {
        let remedy = capital(own.remedy.trim_end_matches('.'));
        format!("{remedy}. For {} now.", time(own.seconds))
    };
    Some(Judgement::new(Cause::Problem, who, why))
}

/// A process is stopped.
fn stopped(all: &[ProcessShares]) -> Option<Judgement> {
    running(all).find_map(|one| {
        let Presence::Stopped { pid } = one.presence else { return None };
        let who = format!("{} is stopped.", capital(&one.name));
        let why = format!(
            "A signal (SIGSTOP, Ctrl-Z) or a debugger holds process {pid}, and the others wait for it. `kill -CONT \
             {pid}` lets it continue."
        );
        Some(Judgement::new(Cause::Stopped, who, why))
    })
}

/// A process is started again.
fn restarting(all: &[ProcessShares]) -> Option<Judgement> {
    let how = |one: &ProcessShares| one.end.clone().unwrap_or_default();
    if let Some(one) = with(all, Condition::Restarting) {
        let name = capital(&one.name);
        let who = format!("{name} has died and is started again; the others wait for it.");
        return Some(Judgement::new(Cause::Restarting, who, how(one)));
    }
    let one = running(all).find(|one| one.presence == Presence::StartsAgain)?;
    let who =
        format!("{} was started again and gets ready; the others wait for it.", capital(&one.name));
    Some(Judgement::new(Cause::Restarting, who, how(one)))
}

/// A process does not answer.
fn silent(all: &[ProcessShares]) -> Option<Judgement> {
    let seconds = |one: &&ProcessShares| match one.presence {
        // It is not silent by itself: it waits for a processor.
        Presence::Silent { seconds, .. } if !one.is_starved() => Some(seconds),
        _ => None,
    };
    let those = running(all).filter_map(|one| Some((one, seconds(&one)?)));
    let (one, seconds) = those.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let Presence::Silent { why, .. } = &one.presence else { return None };
    let who = format!("{} is silent.", capital(&one.name));
    let why = format!(
        "It has not answered for {} ({why}). Its machine may be gone or hang, or it waits for a disk that hangs. What \
         the others do is not judged meanwhile.",
        time(seconds)
    );
    Some(Judgement::new(Cause::Silent, who, why))
}

/// A process is held up for a while.
fn passing(all: &[ProcessShares]) -> Option<Judgement> {
    let words = |one: &ProcessShares, text: &str, how_long: String| {
        let who = format!("{}: {}.", capital(&one.name), text.trim_end_matches('.'));
        let why = format!("{how_long} The job continues by itself.");
        Judgement::new(Cause::Passing, who, why)
    };
    let long = obstacle(all, |own| own.is_passing && own.seconds >= PASSING_SECONDS);
    if let Some((one, own)) = long {
        return Some(words(one, &own.text, format!("For {} now.", time(own.seconds))));
    }
    let short = running(all).flat_map(|one| one.held_up.iter().map(move |part| (one, part)));
    let short = short.filter(|(_, part)| part.share >= PASSING_SHARE);
    let (one, part) = short.max_by(|(_, a), (_, b)| a.share.total_cmp(&b.share))?;
    let how_long = format!("That took {} of its last seconds.", percent(part.share));
    Some(words(one, &part.name, how_long))
}

pub(super) fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
