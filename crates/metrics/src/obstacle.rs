//! Obstacles to the work of a process at the moment: a full disk, a recovery, a wait for a cut. Any code that
//! meets one reports it here; the page of the job and the console show it before they judge speed.
//!
//! ```
//! use metrics::{Obstacle, clear_obstacle, obstacles, report_obstacle};
//!
//! let full = Obstacle::problem("disk", "cannot write a snapshot to /snapshots: no space", "free space there");
//! report_obstacle(full);
//! assert_eq!(obstacles()[0].name, "disk");
//! clear_obstacle("disk");
//! assert!(obstacles().is_empty());
//! ```

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;

/// An obstacle to the work of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Which one: a process has at most one of each name.
    pub name: &'static str,
    /// The problem, and its place.
    pub text: String,
    /// The remedy that a person can apply; empty if none is needed.
    pub remedy: String,
    /// It passes by itself: a recovery, a wait.
    pub is_passing: bool,
    /// Since when.
    pub since: Instant,
}

static ALL: Mutex<Vec<Obstacle>> = Mutex::new(Vec::new());

/// How long those have taken that are over, by name.
static PAST: Mutex<BTreeMap<&'static str, Duration>> = Mutex::new(BTreeMap::new());

impl Obstacle {
    /// One that stays until a person does something.
    pub fn problem(name: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (text, remedy) = (text.into(), remedy.into());
        Self { name, text, remedy, is_passing: false, since: Instant::now() }
    }

    /// One that passes.
    pub fn passing(name: &'static str, text: impl Into<String>) -> Self {
        Self { is_passing: true, ..Self::problem(name, text, "") }
    }

    /// Reports it until the answer is dropped.
    pub fn for_now(self) -> ObstacleGuard {
        let guard = ObstacleGuard { name: self.name };
        report_obstacle(self);
        guard
    }
}

/// An obstacle that ends when this is dropped.
#[derive(Debug)]
pub struct ObstacleGuard {
    name: &'static str,
}

impl Drop for ObstacleGuard {
    fn drop(&mut self) {
        clear_obstacle(self.name);
    }
}

/// From now on this keeps the process from its work. One of the same name gets the new text, and stands since it was
/// first reported.
pub fn report_obstacle(obstacle: Obstacle) {
    let mut all = ALL.lock().even_if_poisoned();
    match all.iter_mut().find(|known| known.name == obstacle.name) {
        Some(known) => *known = Obstacle { since: known.since, ..obstacle },
        None => all.push(obstacle),
    }
}

/// It does so no longer.
pub fn clear_obstacle(name: &str) {
    let mut all = ALL.lock().even_if_poisoned();
    let Some(at) = all.iter().position(|known| known.name == name) else { return };
    let over = all.remove(at);
    *PAST.lock().even_if_poisoned().entry(over.name).or_default() += over.since.elapsed();
}

/// How long this process was held up so far, by the name of the obstacle: many short ones take time as well.
pub fn obstacle_times() -> BTreeMap<&'static str, Duration> {
    let all = ALL.lock().even_if_poisoned();
    let mut times = PAST.lock().even_if_poisoned().clone();
    for one in all.iter() {
        *times.entry(one.name).or_default() += one.since.elapsed();
    }
    times
}

/// All of them: those that do not pass first, then the oldest.
pub fn obstacles() -> Vec<Obstacle> {
    let mut all = ALL.lock().even_if_poisoned().clone();
    all.sort_by_key(|one| (one.is_passing, one.since));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_stands_since_its_beginning() {
        let passing = Obstacle::passing("test_recovery", "goes back").for_now();
        report_obstacle(Obstacle::problem("test_disk", "is full", "make space"));
        let own = || -> Vec<Obstacle> {
            let is_own = |one: &Obstacle| ["test_disk", "test_recovery"].contains(&one.name);
            obstacles().into_iter().filter(is_own).collect()
        };
        let first = own();
        assert_eq!(
            first.iter().map(|one| one.name).collect::<Vec<_>>(),
            ["test_disk", "test_recovery"]
        );
        report_obstacle(Obstacle::problem("test_disk", "is still full", "make space"));
        let again = own();
        assert_eq!((again[0].text.as_str(), again[0].since), ("is still full", first[0].since));
        clear_obstacle("test_disk");
        drop(passing);
        assert_eq!(own(), []);
    }

    #[test]
    fn the_time_of_an_obstacle_grows_as_long_as_it_is_there() {
        let time = || obstacle_times().get("test_cut").copied().unwrap_or_default();
        assert_eq!(time(), Duration::ZERO);
        let start = Instant::now();
        for _ in 0..3 {
            let (before, held_up) = (time(), Obstacle::passing("test_cut", "waits").for_now());
            while time() < before + Duration::from_micros(50) {}
            drop(held_up);
        }
        let over = time();
        assert!(over >= Duration::from_micros(150) && over <= start.elapsed(), "{over:?}");
        assert_eq!(time(), over);
    }
}
