//! The time of a process in the last seconds, as parts that add up to one.

use std::collections::BTreeMap;

use super::judge::Presence;
use super::members::Condition;
use super::processors::ProcessorUse;
use super::state::{SeenObstacle, States};

/// A part of the time of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct TimePart {
    /// The activity.
    pub name: String,
    /// The kind of that, which has a colour: `reading`, `computing`, `waiting`, `threads`, `other`,
    /// `finding`, `applying`, `saving`, `idle`.
    pub kind: &'static str,
    /// Its part of the time, from 0 to 1.
    pub share: f64,
}

/// The time of a process in the last seconds, and its state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessShares {
    /// Its name.
    pub name: String,
    /// Whether it is a server.
    pub is_server: bool,
    /// The parts of its time; empty if they are not known.
    pub parts: Vec<TimePart>,
    /// Rows that a server was asked for, in a second.
    pub rows_per_second: f64,
    /// How it is.
    pub condition: Condition,
    /// How it ended, if it did.
    pub end: Option<String>,
    /// How it can be heard.
    pub presence: Presence,
    /// The obstacles that it reports.
    pub obstacles: Vec<SeenObstacle>,
    /// The parts of its time that passing obstacles took, by their text.
    pub held_up: Vec<TimePart>,
    /// How much of its processors it had, if that is known.
    pub processors: Option<ProcessorUse>,
}

impl ProcessShares {
    /// The time of all parts of a kind.
    pub fn of(&self, kind: &str) -> f64 {
        self.parts.iter().filter(|part| part.kind == kind).map(|part| part.share).sum()
    }
}

/// The shares of a trainer; `names` has the names of servers by end point.
pub(super) fn of_trainer(states: &States, names: &BTreeMap<String, String>) -> Vec<TimePart> {
    let Some(seconds) = states.seconds() else { return Vec::new() };
    let threads = states.number("trainer_threads").max(1.0);
    let share = |time: f64| time / (seconds * threads);
    let part =
        |name: &str, kind, time| TimePart { name: name.to_string(), kind, share: share(time) };
    let mut parts = vec![
        part("reading", "reading", states.growth("trainer_reading_seconds")),
        part("computing", "computing", states.growth("trainer_computing_seconds")),
    ];
    for (who, time) in states.growths("trainer_waiting_seconds") {
        // A process that has left the job is not waited for.
        if time == 0.0 && !names.contains_key(&who) {
            continue;
        }
        let who = names.get(&who).cloned().unwrap_or(who);
        parts.push(part(&format!("waiting for {who}"), "waiting", time));
    }
    let threads = states.growth("trainer_threads_waiting_seconds");
    parts.push(part("waiting for its own threads", "threads", threads));
    completed(parts, "outside of training", "other")
}

/// The shares of a server. Threads that work at the same time count once.
pub(super) fn of_server(states: &States) -> Vec<TimePart> {
    let Some(seconds) = states.seconds() else { return Vec::new() };
    let busy = (states.growth("server_busy_seconds") / seconds).min(1.0);
    let kinds = [
        ("finding rows", "finding", "server_finding_seconds"),
        ("applying", "applying", "server_applying_seconds"),
        ("saving", "saving", "server_saving_seconds"),
    ];
    let all: f64 = kinds.iter().map(|(_, _, name)| states.growth(name)).sum();
    let parts = kinds.map(|(name, kind, counter)| {
        let share = busy * states.growth(counter) / all.max(f64::MIN_POSITIVE);
        TimePart { name: name.to_string(), kind, share }
    });
    completed(parts.to_vec(), "idle", "idle")
}

/// Adds the rest of the time; parts that are more than all of it are made smaller.
fn completed(mut parts: Vec<TimePart>, name: &str, kind: &'static str) -> Vec<TimePart> {
    let sum: f64 = parts.iter().map(|part| part.share).sum();
    if sum > 1.0 {
        parts.iter_mut().for_each(|part| part.share /= sum);
    }
    parts.push(TimePart { name: name.to_string(), kind, share: (1.0 - sum).max(0.0) });
    parts
}

#[cfg(test)]
mod tests {
    use super::super::state::State;
    use super::*;
    use std::time::{Duration, Instant};

    fn states(numbers: &[(&str, f64)], waits: &[(&str, f64)]) -> States {
        let start = Instant::now();
        let mut states = States::default();
        states.add(start, State::default());
        let mut state = State::default();
        state.numbers.extend(numbers.iter().map(|(name, value)| (name.to_string(), *value)));
        let waits = waits.iter().map(|(who, value)| (who.to_string(), *value)).collect();
        state.labelled.insert("trainer_waiting_seconds".to_string(), waits);
        states.add(start + Duration::from_secs(2), state);
        states
    }

    fn shown(parts: &[TimePart]) -> Vec<String> {
        parts.iter().map(|part| format!("{} {:.2}", part.name, part.share)).collect()
    }

    #[test]
    fn the_time_of_a_trainer_adds_up() {
        let numbers = [
            ("trainer_threads", 2.0),
            ("trainer_reading_seconds", 1.0),
            ("trainer_computing_seconds", 2.0),
        ];
        let states = states(&numbers, &[("a:1", 0.4), ("b:2", 0.2)]);
        let names = BTreeMap::from([("a:1".to_string(), "server 0".to_string())]);
        let expected = [
            "reading 0.25",
            "computing 0.50",
            "waiting for server 0 0.10",
            "waiting for b:2 0.05",
            "waiting for its own threads 0.00",
            "outside of training 0.10",
        ];
        assert_eq!(shown(&of_trainer(&states, &names)), expected);
    }

    #[test]
    fn the_time_of_a_server_adds_up() {
        let numbers = [
            ("server_busy_seconds", 1.0),
            ("server_finding_seconds", 1.0),
            ("server_applying_seconds", 3.0),
        ];
        let parts = of_server(&states(&numbers, &[]));
        let expected = ["finding rows 0.12", "applying 0.38", "saving 0.00", "idle 0.50"];
        assert_eq!(shown(&parts), expected);
        let sum: f64 = parts.iter().map(|part| part.share).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        assert_eq!(of_server(&States::default()), []);
    }

    #[test]
    fn clocks_that_disagree_do_not_make_more_than_all() {
        let states =
            states(&[("trainer_computing_seconds", 3.0), ("trainer_reading_seconds", 1.0)], &[]);
        let parts = of_trainer(&states, &BTreeMap::new());
        assert_eq!(shown(&parts[..2]), ["reading 0.25", "computing 0.75"]);
        assert_eq!(parts.last().unwrap().share, 0.0);
    }
}
