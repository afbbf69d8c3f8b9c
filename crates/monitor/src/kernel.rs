//! The kernel's view of processes of this machine. A system that does not have it is not an error.

use std::collections::BTreeMap;
use std::fs;

/// The state of a process, from `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KernelState {
    /// A signal or a debugger holds it.
    pub(crate) is_stopped: bool,
    /// Time of all processors that it has used.
    pub(crate) cpu_seconds: f64,
}

impl KernelState {
    /// Of a process, by its number or `self`.
    pub(crate) fn of(process: &str) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name of the program, which may hold anything, is before the last parenthesis.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
        let seconds = (ticks(11)? + ticks(12)?) as f64;
        Some(Self {
            is_stopped: matches!(fields.first(), Some(&"T" | &"t")),
            cpu_seconds: seconds / rustix::param::clock_ticks_per_second() as f64,
        })
    }
}

/// How long the threads of a process could run and did not, added up over the threads that it has had.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunDelays {
    /// Nanoseconds of each thread when it was last looked at.
    threads: BTreeMap<String, u64>,
    sum: u64,
    is_known: bool,
}

impl RunDelays {
    /// Looks again at a process, by its number or `self`; none if the kernel does not say it.
    pub(crate) fn look(&mut self, process: &str) -> Option<f64> {
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(format!("/proc/{process}/task")).ok()?.flatten() {
            // A thread may have ended meanwhile.
            let Ok(text) = fs::read_to_string(entry.path().join("schedstat")) else { continue };
            let delay = text.split_whitespace().nth(1);
            let delay = delay.and_then(|text| text.parse::<u64>().ok());
            if let (Some(delay), Ok(thread)) = (delay, entry.file_name().into_string()) {
                threads.insert(thread, delay);
            }
        }
        self.is_known |= !threads.is_empty();
        let before = |thread: &String| self.threads.get(thread).copied().unwrap_or(0);
        let grown = threads.iter().map(|(thread, delay)| delay.saturating_sub(before(thread)));
        self.sum += grown.sum::<u64>();
        self.threads = threads;
        self.is_known.then_some(self.sum as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_knows_this_process() {
        let state = KernelState::of("self").unwrap();
        assert!(!state.is_stopped && state.cpu_seconds >= 0.0, "{state:?}");
        assert_eq!(KernelState::of("0"), None);
        let mut delays = RunDelays::default();
        let first = delays.look("self").unwrap();
        // Time that ended threads have waited stays.
        std::thread::spawn(|| (0..1000).for_each(|_| std::thread::yield_now())).join().unwrap();
        assert!(delays.look("self").unwrap() >= first);
        assert_eq!(RunDelays::default().look("0"), None);
    }
}
