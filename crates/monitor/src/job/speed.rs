//! Finds the process that slows a job whose processes all run, and the reason, in words.
//!
//! The process that slows a job is one that is busy while others wait: a server that trainers wait for
//! and that is hardly idle, or the trainer that waits least. If no process is busy, messages take the
//! time, unless processes wait for processors.

use metrics::words::percent;

use super::judge::{Cause, Judgement, capital};
use super::members::Condition;
use super::processors;
use super::shares::ProcessShares;

/// Trainers wait noticeably.
const WAITS: f64 = 0.2;
/// A part of the time that is worth a sentence.
const LARGE: f64 = 0.3;
/// A server that works for so much of the time is busy.
const BUSY: f64 = 0.5;
/// A server with so many times the rows of the others has too many.
const UNEVEN: f64 = 1.5;

/// Finds the process that slows a job, by the time use of its processes in the last seconds.
pub(super) fn judge(all: &[ProcessShares]) -> Judgement {
    let alive = |one: &&ProcessShares| one.condition == Condition::Running && !one.parts.is_empty();
    let alive: Vec<&ProcessShares> = all.iter().filter(alive).collect();
    let (servers, trainers): (Vec<_>, Vec<_>) = alive.into_iter().partition(|one| one.is_server);
    if trainers.is_empty() {
        let ended = all.iter().any(|one| !one.is_server && one.condition == Condition::Ended);
        return if ended {
            Judgement::new(Cause::Through, "The trainers have finished.", "")
        } else {
            Judgement::new(
                Cause::Beginning,
                "The job begins.",
                "No trainer has said yet what it does.",
            )
        };
    }
    if let Some(found) = processors::judge(all) {
        return found;
    }
    let all = Group { servers, trainers };
    if all.waiting() >= WAITS { all.of_waiting() } else { all.of_working() }
}

/// Processes that run.
struct Group<'a> {
    servers: Vec<&'a ProcessShares>,
    trainers: Vec<&'a ProcessShares>,
}

impl<'a> Group<'a> {
    fn mean(&self, kind: &str) -> f64 {
        let sum: f64 = self.trainers.iter().map(|one| one.of(kind)).sum();
        sum / self.trainers.len() as f64
    }

    fn waiting(&self) -> f64 {
        self.mean("waiting")
    }

    /// How long trainers wait for this server, on average.
    fn waits_for(&self, server: &ProcessShares) -> f64 {
        let name = format!("waiting for {}", server.name);
        let parts = self.trainers.iter().flat_map(|one| &one.parts);
        let sum: f64 = parts.filter(|part| part.name == name).map(|part| part.share).sum();
        sum / self.trainers.len() as f64
    }

    /// Trainers wait: for a busy server, for a slower trainer, or for messages.
    fn of_waiting(&self) -> Judgement {
        let by_wait = |a: &&&ProcessShares, b: &&&ProcessShares| {
            self.waits_for(a).total_cmp(&self.waits_for(b))
        };
        let waited = self.servers.iter().max_by(by_wait);
        let is_cause = |server: &&&ProcessShares| {
            1.0 - server.of("idle") >= BUSY && self.waits_for(server) >= WAITS / 2.0
        };
        if let Some(server) = waited.filter(is_cause) {
            return self.of_server(server);
        }
        let by_waiting =
            |a: &&&ProcessShares, b: &&&ProcessShares| a.of("waiting").total_cmp(&b.of("waiting"));
        let least = self.trainers.iter().min_by(by_waiting);
        let most = self.trainers.iter().max_by(by_waiting);
        if let (Some(least), Some(most)) = (least, most)
            && most.of("waiting") - least.of("waiting") >= WAITS
        {
            return self.of_slow_trainer(least);
        }
        let waits = percent(self.waiting());
        if self.servers.is_empty() {
            Judgement::new(
                Cause::Exchanges,
                "Exchanges between trainers slow the job.",
                format!(
                    "Every trainer waits {waits} of its time for the others. Larger batches, or fewer \
                     and larger exchanges, help."
                ),
            )
        } else {
            let idle: f64 = self.servers.iter().map(|one| one.of("idle")).sum();
            let idle = percent(idle / self.servers.len() as f64);
            Judgement::new(
                Cause::Messages,
                "Messages slow the job.",
                format!(
                    "Trainers wait {waits} of their time for servers that are idle {idle} of theirs. \
                         Larger batches, or a mode in which trainers do not wait (async, GEO), help."
                ),
            )
        }
    }

    fn of_server(&self, server: &ProcessShares) -> Judgement {
        let busy = |one: &&&super::TimePart| one.kind != "idle";
        let does = server.parts.iter().filter(|part| busy(&part));
        let does = does.max_by(|a, b| a.share.total_cmp(&b.share));
        let does = does.map_or("working", |part| part.name.as_str());
        let mut why = format!(
            "Trainers wait {} of their time for it. It is busy {} of its own, mostly {does}.",
            percent(self.waits_for(server)),
            percent(1.0 - server.of("idle")),
        );
        let others = self.servers.iter().filter(|one| one.name != server.name);
        let others: Vec<f64> = others.map(|one| one.rows_per_second).collect();
        let mean = others.iter().sum::<f64>() / others.len().max(1) as f64;
        if mean > 0.0 && server.rows_per_second >= UNEVEN * mean {
            let times = server.rows_per_second / mean;
            why += &format!(
                " It is asked for {times:.1} times as many rows as the others: spread the table by id."
            );
        } else {
            why += " More servers, or fewer trainers for each, help."
        }
        Judgement::new(Cause::Server, format!("{} slows the job.", capital(&server.name)), why)
    }

    /// The others wait for one that does not wait.
    fn of_slow_trainer(&self, slow: &ProcessShares) -> Judgement {
        let others = self.trainers.iter().filter(|one| one.name != slow.name);
        let others: Vec<f64> = others.map(|one| one.of("waiting")).collect();
        let waits = others.iter().sum::<f64>() / others.len().max(1) as f64;
        let reads = slow.of("reading");
        let computes = slow.of("computing");
        let other = slow.of("other");
        let does = if reads >= computes.max(other) {
            format!("waits {} for its data", percent(reads))
        } else if other > computes {
            format!("is {} of it outside of training, in its script", percent(other))
        } else {
            format!("computes {}", percent(computes))
        };
        let why = format!(
            "The others wait {} of their time. It waits {}: of its time it {does}. It may have larger files, a \
             slower machine, or share its processors with others.",
            percent(waits),
            percent(slow.of("waiting")),
        );
        Judgement::new(Cause::Trainer, format!("{} slows the job.", capital(&slow.name)), why)
    }

    /// Trainers hardly wait for others.
    fn of_working(&self) -> Judgement {
        let most = |kind: &'static str| {
            let of =
                move |a: &&&ProcessShares, b: &&&ProcessShares| a.of(kind).total_cmp(&b.of(kind));
            self.trainers.iter().max_by(of).map_or("", |one| one.name.as_str())
        };
        let reading = self.mean("reading");
        let other = self.mean("other");
        let threads = self.mean("threads");
        let computing = self.mean("computing");
        if reading >= LARGE && reading >= other {
            let why = format!(
                "Trainers wait {} of their time for data, {} most of all. More threads that read, a faster pipe \
                 command, or files that are read before, help.",
                percent(reading),
                most("reading"),
            );
            return Judgement::new(Cause::Reading, "Reading slows the job.", why);
        }
        if other >= LARGE {
            let why = format!(
                "Trainers are {} of their time outside of training, {} most of all: in the script between two \
                 steps, or in what comes before and after a pass.",
                percent(other),
                most("other"),
            );
            return Judgement::new(Cause::Script, "The script slows the job.", why);
        }
        if threads >= LARGE {
            let why = format!(
                "The threads of a trainer wait {} of their time for each other: there are more of them than \
                 processors, or their batches differ.",
                percent(threads),
            );
            return Judgement::new(Cause::Threads, "Threads slow the job.", why);
        }
        let why = format!(
            "Trainers compute {} of their time and wait {} for servers. More trainers make it faster, if there \
             are processors for them.",
            percent(computing),
            percent(self.waiting()),
        );
        Judgement::new(Cause::Nothing, "No process slows the job.", why)
    }
}
