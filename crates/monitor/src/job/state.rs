//! The answers of one process: its last states, and its work in the last seconds.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use serde_json::Value;

use super::shares::TimePart;
use crate::process::HELD_UP;

/// States that are kept: rates are those of about so many seconds.
const STATES_MAX: usize = 6;
/// Names of one process; more would be an answer that is none of ours.
const NAMES_MAX: usize = 2000;
/// Obstacles of one process.
const OBSTACLES_MAX: usize = 20;

/// An obstacle that a process reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenObstacle {
    /// Which one.
    pub name: String,
    /// The problem, and its place.
    pub text: String,
    /// The remedy that a person can apply.
    pub remedy: String,
    /// It passes by itself.
    pub is_passing: bool,
    /// For how long it has been there.
    pub seconds: f64,
}

impl SeenObstacle {
    fn read(value: &Value) -> Option<Self> {
        Some(Self {
            name: value["name"].as_str().unwrap_or("").to_string(),
            text: value["text"].as_str()?.to_string(),
            remedy: value["remedy"].as_str()?.to_string(),
            is_passing: value["is_passing"].as_bool()?,
            seconds: value["seconds"].as_f64()?,
        })
    }
}

/// One answer of `/state`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) role: String,
    pub(super) id: u64,
    pub(super) pid: u64,
    pub(super) endpoint: Option<String>,
    pub(super) uptime: f64,
    pub(super) is_ready: bool,
    pub(super) n_restarts: u64,
    pub(super) host: String,
    pub(super) obstacles: Vec<SeenObstacle>,
    /// The meaning of its numbers, if it was asked for.
    pub(super) about: Value,
    pub(super) numbers: BTreeMap<String, f64>,
    pub(super) labelled: BTreeMap<String, BTreeMap<String, f64>>,
}

impl State {
    /// Reads an answer; none if it is something else.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let numbers = |value: &Value| -> Option<BTreeMap<String, f64>> {
            let entries = value.as_object()?.iter().take(NAMES_MAX);
            Some(
                entries.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect(),
            )
        };
        let labelled = value["labelled"].as_object()?.iter().take(NAMES_MAX);
        Some(Self {
            role: value["role"].as_str()?.to_string(),
            id: value["id"].as_u64()?,
            pid: value["pid"].as_u64()?,
            endpoint: value["endpoint"].as_str().map(str::to_string),
            uptime: value["uptime_seconds"].as_f64()?,
            is_ready: value["ready"].as_bool()?,
            n_restarts: value["restarts"].as_u64().unwrap_or(0),
            host: value["host"].as_str().unwrap_or("").to_string(),
            obstacles: value["obstacles"].as_array().map_or(Vec::new(), |all| {
                all.iter().filter_map(SeenObstacle::read).take(OBSTACLES_MAX).collect()
            }),
            about: value["about"].clone(),
            numbers: numbers(&value["numbers"])?,
            labelled: labelled
                .filter_map(|(name, value)| Some((name.clone(), numbers(value)?)))
                .collect(),
        })
    }

    pub(super) fn number(&self, name: &str) -> f64 {
        self.numbers.get(name).copied().unwrap_or(0.0)
    }
}

#[derive(Clone, Debug)]
struct At {
    at: Instant,
    state: State,
}

/// The last states of one process, over all its incarnations.
#[derive(Clone, Debug, Default)]
pub(super) struct States {
    last: VecDeque<At>,
    /// The last counts of earlier incarnations.
    before: BTreeMap<String, f64>,
    /// The last texts of passing obstacles, by name.
    texts: BTreeMap<String, String>,
}

impl States {
    pub(super) fn add(&mut self, at: Instant, state: State) {
        if let Some(last) = self.last.back().map(|last| &last.state)
            && last.pid != state.pid
        {
            for (name, value) in &last.numbers {
                *self.before.entry(name.clone()).or_default() += value;
            }
            for (name, all) in &last.labelled {
                *self.before.entry(name.clone()).or_default() += all.values().sum::<f64>();
            }
            self.last.clear();
        }
        if self.last.len() == STATES_MAX {
            self.last.pop_front();
        }
        for one in state.obstacles.iter().filter(|one| one.is_passing) {
            if self.texts.len() < OBSTACLES_MAX || self.texts.contains_key(&one.name) {
                self.texts.insert(one.name.clone(), one.text.clone());
            }
        }
        self.last.push_back(At { at, state });
    }

    pub(super) fn state(&self) -> Option<&State> {
        self.last.back().map(|last| &last.state)
    }

    /// How long ago the process last answered, in seconds.
    pub(super) fn age(&self, now: Instant) -> Option<f64> {
        self.last.back().map(|last| now.saturating_duration_since(last.at).as_secs_f64())
    }

    /// A number now.
    pub(super) fn number(&self, name: &str) -> f64 {
        self.state().map_or(0.0, |state| state.number(name))
    }

    /// A counter over all incarnations.
    pub(super) fn total(&self, name: &str) -> f64 {
        self.number(name) + self.before.get(name).copied().unwrap_or(0.0)
    }

    /// All counters over all incarnations.
    pub(super) fn totals(&self) -> BTreeMap<String, f64> {
        let mut all = self.before.clone();
        for (name, value) in self.state().into_iter().flat_map(|state| &state.numbers) {
            *all.entry(name.clone()).or_default() += value;
        }
        all
    }

    /// A counter with labels, over all labels and all incarnations.
    pub(super) fn total_labelled(&self, name: &str) -> f64 {
        let all = self.state().and_then(|state| state.labelled.get(name));
        let now: f64 = all.map_or(0.0, |all| all.values().sum());
        now + self.before.get(name).copied().unwrap_or(0.0)
    }

    /// Seconds between the first and the last state that is kept; none if there are no two.
    pub(super) fn seconds(&self) -> Option<f64> {
        let (first, last) = (self.last.front()?, self.last.back()?);
        let seconds = last.at.saturating_duration_since(first.at).as_secs_f64();
        (seconds > 0.0).then_some(seconds)
    }

    /// How much a counter grew in that time.
    pub(super) fn growth(&self, name: &str) -> f64 {
        let (Some(first), Some(last)) = (self.last.front(), self.last.back()) else { return 0.0 };
        (last.state.number(name) - first.state.number(name)).max(0.0)
    }

    /// The same for a name with labels.
    pub(super) fn growths(&self, name: &str) -> BTreeMap<String, f64> {
        let (Some(first), Some(last)) = (self.last.front(), self.last.back()) else {
            return BTreeMap::new();
        };
        let before = first.state.labelled.get(name);
        let before = |who: &str| before.and_then(|all| all.get(who)).copied().unwrap_or(0.0);
        let now = last.state.labelled.get(name).into_iter().flatten();
        now.map(|(who, value)| (who.clone(), (value - before(who)).max(0.0))).collect()
    }

    /// The parts of that time that passing obstacles took, if their text is known.
    pub(super) fn held_up(&self) -> Vec<TimePart> {
        let times = self.growths(HELD_UP);
        let part = |(name, text): (&String, &String)| {
            let share = times.get(name)? / self.seconds()?;
            Some(TimePart { name: text.clone(), kind: "held up", share })
        };
        self.texts.iter().filter_map(part).collect()
    }

    /// Growth in a second.
    pub(super) fn rate(&self, name: &str) -> f64 {
        self.seconds().map_or(0.0, |seconds| self.growth(name) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn state(pid: u64, samples: f64, waited: f64) -> State {
        let value = json!({
            "role": "trainer", "id": 0, "pid": pid, "uptime_seconds": 1.0, "ready": true,
            "numbers": { "trainer_samples": samples },
            "labelled": { "trainer_waiting_seconds": { "a:1": waited } },
        });
        State::read(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn rates_and_totals_survive_a_restart() {
        let (mut states, start) = (States::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        states.add(at(0), state(1, 0.0, 0.0));
        assert_eq!((states.seconds(), states.rate("trainer_samples")), (None, 0.0));
        states.add(at(2), state(1, 100.0, 1.0));
        assert_eq!(states.rate("trainer_samples"), 50.0);
        assert_eq!(states.growths("trainer_waiting_seconds")["a:1"], 1.0);
        states.add(at(3), state(2, 7.0, 0.0));
        assert_eq!(states.total("trainer_samples"), 107.0);
        assert_eq!(states.total_labelled("trainer_waiting_seconds"), 1.0);
        assert_eq!(states.rate("trainer_samples"), 0.0, "another process");
        (4..40).for_each(|n| states.add(at(n), state(2, n as f64, 0.0)));
        assert_eq!((states.last.len(), states.seconds()), (6, Some(5.0)));
    }

    #[test]
    fn short_obstacles_add_up() {
        let (mut states, start) = (States::default(), Instant::now());
        let mut add = |seconds, held_up: f64, is_there: bool| {
            let mut state = state(1, 0.0, 0.0);
            let time = BTreeMap::from([("cut".to_string(), held_up)]);
            state.labelled.insert(HELD_UP.to_string(), time);
            let seen = SeenObstacle {
                name: "cut".to_string(),
                text: "waits for a cut".to_string(),
                is_passing: true,
                ..SeenObstacle::default()
            };
            state.obstacles.extend(is_there.then_some(seen));
            states.add(start + Duration::from_secs(seconds), state);
            states.held_up()
        };
        assert_eq!(add(0, 1.0, false), []);
        assert_eq!(add(1, 1.2, false), [], "nobody has seen what it was");
        assert_eq!(add(2, 1.5, true)[0].share, 0.25);
        let found = add(4, 2.0, false).remove(0);
        assert_eq!((found.name.as_str(), found.share), ("waits for a cut", 0.25));
    }

    #[test]
    fn what_is_no_state_is_none() {
        for text in ["", "[]", "{}", "{\"role\": 3}", "{\"role\": \"trainer\", \"id\": -1}"] {
            assert_eq!(State::read(text.as_bytes()), None, "{text}");
        }
    }
}
