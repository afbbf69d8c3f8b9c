//! Who slows a job and why, in words.
//!
//! The process that slows a job is one that is busy while others wait: a server that trainers wait for
//! and that is hardly idle, or the trainer that waits least. Where nobody is busy, messages take the time.

use super::members::Condition;
use super::shares::ProcessShares;
use count::words::percent;

/// Trainers wait noticeably.
const WAITS: f64 = 0.2;
/// A part of the time that is worth a sentence.
const LARGE: f64 = 0.3;
/// A server that works for so much of the time is busy.
const BUSY: f64 = 0.5;
/// A server with so many times the rows of the others has too many.
const UNEVEN: f64 = 1.5;

/// How serious it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// There is nothing to say yet.
    Unknown,
    /// Nobody slows the job.
    Good,
    /// Somebody does.
    Slow,
    /// Somebody has died.
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

/// Who slows a job, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// How serious it is.
    pub concern: Concern,
    /// Who.
    pub who: String,
    /// Why, and what helps.
    pub why: String,
}

impl Judgement {
    fn new(concern: Concern, who: impl Into<String>, why: impl Into<String>) -> Self {
        Self { concern, who: who.into(), why: why.into() }
    }
}

/// Who slows a job, by what its processes did in the last seconds and how they are.
pub fn judge(all: &[ProcessShares]) -> Judgement {
    dead(all).unwrap_or_else(|| of_living(all))
}

/// Somebody has died.
fn dead(all: &[ProcessShares]) -> Option<Judgement> {
    let died = |condition| all.iter().find(move |one| one.condition == condition);
    let how = |one: &ProcessShares| one.end.clone().unwrap_or_default();
    if let Some(one) = died(Condition::Failed) {
        let who = format!("{} has died.", capital(&one.name));
        return Some(Judgement::new(Concern::Bad, who, how(one)));
    }
    let one = died(Condition::Restarting)?;
    let who =
        format!("{} has died and is started again; the others wait for it.", capital(&one.name));
    Some(Judgement::new(Concern::Bad, who, how(one)))
}

fn of_living(all: &[ProcessShares]) -> Judgement {
    let alive = |one: &&ProcessShares| one.condition == Condition::Running && !one.parts.is_empty();
    let alive: Vec<&ProcessShares> = all.iter().filter(alive).collect();
    let (servers, trainers): (Vec<_>, Vec<_>) = alive.into_iter().partition(|one| one.is_server);
    if trainers.is_empty() {
        let ended = all.iter().any(|one| !one.is_server && one.condition == Condition::Ended);
        return match ended {
            true => Judgement::new(Concern::Good, "The trainers are through.", ""),
            false => Judgement::new(
                Concern::Unknown,
                "The job begins.",
                "No trainer has said yet what it does.",
            ),
        };
    }
    let all = Group { servers, trainers };
    match all.waiting() >= WAITS {
        true => all.of_waiting(),
        false => all.of_working(),
    }
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
        match self.servers.is_empty() {
            true => Judgement::new(
                Concern::Slow,
                "Exchanges between trainers slow the job.",
                format!(
                    "Every trainer waits {waits} of its time for the others. Larger batches, or fewer \
                     and larger exchanges, help."
                ),
            ),
            false => {
                let idle: f64 = self.servers.iter().map(|one| one.of("idle")).sum();
                let idle = percent(idle / self.servers.len() as f64);
                Judgement::new(
                    Concern::Slow,
                    "Messages slow the job.",
                    format!(
                        "Trainers wait {waits} of their time for servers that are idle {idle} of theirs. \
                         Larger batches, or a mode in which trainers do not wait (async, GEO), help."
                    ),
                )
            }
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
        match mean > 0.0 && server.rows_per_second >= UNEVEN * mean {
            true => {
                let times = server.rows_per_second / mean;
                why += &format!(
                    " It is asked for {times:.1} times as many rows as the others: spread the table by id."
                );
            }
            false => why += " More servers, or fewer trainers for each, help.",
        }
        Judgement::new(Concern::Slow, format!("{} slows the job.", capital(&server.name)), why)
    }

    /// The others wait for one that does not wait.
    fn of_slow_trainer(&self, slow: &ProcessShares) -> Judgement {
        let others = self.trainers.iter().filter(|one| one.name != slow.name);
        let others: Vec<f64> = others.map(|one| one.of("waiting")).collect();
        let waits = others.iter().sum::<f64>() / others.len().max(1) as f64;
        let (reads, computes, other) = (slow.of("reading"), slow.of("computing"), slow.of("other"));
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
        Judgement::new(Concern::Slow, format!("{} slows the job.", capital(&slow.name)), why)
    }

    /// Trainers hardly wait for others.
    fn of_working(&self) -> Judgement {
        let most = |kind: &'static str| {
            let of =
                move |a: &&&ProcessShares, b: &&&ProcessShares| a.of(kind).total_cmp(&b.of(kind));
            self.trainers.iter().max_by(of).map_or("", |one| one.name.as_str())
        };
        let (reading, other, threads) =
            (self.mean("reading"), self.mean("other"), self.mean("threads"));
        let computing = self.mean("computing");
        if reading >= LARGE && reading >= other {
            let why = format!(
                "Trainers wait {} of their time for data, {} most of all. More threads that read, a faster pipe \
                 command, or files that are read before, help.",
                percent(reading),
                most("reading"),
            );
            return Judgement::new(Concern::Slow, "Reading slows the job.", why);
        }
        if other >= LARGE {
            let why = format!(
                "Trainers are {} of their time outside of training, {} most of all: in the script between two \
                 steps, or in what comes before and after a pass.",
                percent(other),
                most("other"),
            );
            return Judgement::new(Concern::Slow, "The script slows the job.", why);
        }
        if threads >= LARGE {
            let why = format!(
                "The threads of a trainer wait {} of their time for each other: there are more of them than \
                 processors, or their batches differ.",
                percent(threads),
            );
            return Judgement::new(Concern::Slow, "Threads slow the job.", why);
        }
        let why = format!(
            "Trainers compute {} of their time and wait {} for servers. More trainers make it faster, if there \
             are processors for them.",
            percent(computing),
            percent(self.waiting()),
        );
        Judgement::new(Concern::Good, "Nobody slows the job.", why)
    }
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::shares::TimePart;
    use super::*;

    /// `trainer 0: reading 0.5, computing 0.5`; a server is named so.
    fn process(text: &str) -> ProcessShares {
        let (name, parts) = text.split_once(": ").unwrap_or((text, ""));
        let is_server = name.starts_with("server");
        let (mut rows_per_second, mut all) = (0.0, Vec::new());
        for part in parts.split(", ").filter(|part| !part.is_empty()) {
            let (what, share) = part.rsplit_once(' ').unwrap();
            let share: f64 = share.parse().unwrap();
            let kind = match what {
                "rows" => {
                    rows_per_second = share;
                    continue;
                }
                what if what.starts_with("waiting for") => "waiting",
                "reading" => "reading",
                "computing" => "computing",
                "threads" => "threads",
                "other" => "other",
                "finding rows" => "finding",
                "applying" => "applying",
                "saving" => "saving",
                _ => "idle",
            };
            all.push(TimePart { name: what.to_string(), kind, share });
        }
        let (name, parts) = (name.to_string(), all);
        ProcessShares { name, is_server, parts, rows_per_second, ..ProcessShares::default() }
    }

    #[track_caller]
    fn check(processes: &[&str], concern: Concern, who: &str, words: &[&str]) {
        let all: Vec<_> = processes.iter().map(|text| process(text)).collect();
        let found = judge(&all);
        assert_eq!((found.concern, found.who.as_str()), (concern, who), "{found:?}");
        for word in words {
            assert!(found.why.contains(word), "{word} in {}", found.why);
        }
    }

    #[test]
    fn a_job_that_begins() {
        check(&[], Concern::Unknown, "The job begins.", &[]);
        check(&["server 0: idle 1", "trainer 0"], Concern::Unknown, "The job begins.", &[]);
    }

    #[test]
    fn all_is_well() {
        check(
            &[
                "server 0: applying 0.1, idle 0.9",
                "trainer 0: computing 0.9, waiting for server 0 0.1",
            ],
            Concern::Good,
            "Nobody slows the job.",
            &["compute 90 %", "wait 10 %"],
        );
    }

    #[test]
    fn data_that_come_late() {
        check(
            &["trainer 0: reading 0.5, computing 0.5", "trainer 1: reading 0.7, computing 0.3"],
            Concern::Slow,
            "Reading slows the job.",
            &["60 %", "trainer 1 most of all"],
        );
    }

    #[test]
    fn a_script_between_steps() {
        check(
            &["trainer 0: computing 0.4, other 0.6"],
            Concern::Slow,
            "The script slows the job.",
            &["60 %"],
        );
    }

    #[test]
    fn threads_of_one_trainer() {
        let one = "trainer 0: computing 0.5, threads 0.4, other 0.1";
        check(&[one], Concern::Slow, "Threads slow the job.", &["40 %"]);
    }

    #[test]
    fn a_busy_server() {
        check(
            &[
                "server 0: applying 0.1, idle 0.9, rows 100",
                "server 1: applying 0.6, finding rows 0.2, idle 0.2, rows 100",
                "trainer 0: computing 0.5, waiting for server 0 0.1, waiting for server 1 0.4",
            ],
            Concern::Slow,
            "Server 1 slows the job.",
            &["40 %", "busy 80 %", "mostly applying", "More servers"],
        );
    }

    #[test]
    fn a_server_with_too_many_rows() {
        check(
            &[
                "server 0: finding rows 0.1, idle 0.9, rows 100",
                "server 1: finding rows 0.6, idle 0.4, rows 250",
                "trainer 0: computing 0.6, waiting for server 1 0.4",
            ],
            Concern::Slow,
            "Server 1 slows the job.",
            &["2.5 times as many rows", "mostly finding rows"],
        );
    }

    #[test]
    fn a_slow_trainer_holds_up_the_others() {
        let server = "server 0: applying 0.05, idle 0.95";
        let waits = "trainer 0: computing 0.3, waiting for server 0 0.7";
        let who = "Trainer 1 slows the job.";
        let computes = "trainer 1: computing 0.95, waiting for server 0 0.05";
        check(&[server, waits, computes], Concern::Slow, who, &["wait 70 %", "computes 95 %"]);
        let reads = "trainer 1: reading 0.8, computing 0.15, waiting for server 0 0.05";
        check(&[server, waits, reads], Concern::Slow, who, &["80 % for its data"]);
        let script = "trainer 1: computing 0.2, other 0.75, waiting for server 0 0.05";
        check(&[server, waits, script], Concern::Slow, who, &["outside of training"]);
    }

    #[test]
    fn nobody_is_busy_and_all_wait() {
        check(
            &[
                "server 0: applying 0.05, idle 0.95",
                "trainer 0: computing 0.4, waiting for server 0 0.6",
                "trainer 1: computing 0.5, waiting for server 0 0.5",
            ],
            Concern::Slow,
            "Messages slow the job.",
            &["55 %", "idle 95 %"],
        );
        check(
            &["trainer 0: computing 0.4, waiting for other trainers 0.6"],
            Concern::Slow,
            "Exchanges between trainers slow the job.",
            &["60 %"],
        );
    }

    #[test]
    fn the_dead_come_first() {
        let mut all = [process("server 0: idle 1"), process("trainer 0: reading 1")];
        all[0].condition = Condition::Restarting;
        all[0].end = Some("it was killed by SIGKILL".to_string());
        let found = judge(&all);
        assert_eq!((found.concern, found.why.as_str()), (Concern::Bad, "it was killed by SIGKILL"));
        assert!(found.who.contains("started again"), "{found:?}");
        all[1].condition = Condition::Failed;
        assert_eq!(judge(&all).who, "Trainer 0 has died.");
        (all[0].condition, all[1].condition) = (Condition::Running, Condition::Ended);
        assert_eq!(judge(&all).who, "The trainers are through.");
    }
}
