//! Whether the system ended processes because there was no memory.

use std::fs;
use std::path::PathBuf;

/// Advice to the user.
pub(super) const ADVICE: &str = "There was not enough memory: give the job more (the limit of its container or control group), use more servers, \
     or smaller batches and tables";

/// How often the kernel has ended processes for lack of memory: in this control group, and on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OutOfMemoryKills {
    in_group: Option<u64>,
    on_machine: Option<u64>,
}

impl OutOfMemoryKills {
    /// Until now, as far as the system says.
    pub(super) fn now() -> Self {
        let events = group().and_then(|group| fs::read_to_string(group.join("memory.events")).ok());
        let in_group = events.and_then(|text| number(&text, "oom_kill"));
        let machine = fs::read_to_string("/proc/vmstat").ok();
        Self { in_group, on_machine: machine.and_then(|text| number(&text, "oom_kill")) }
    }

    /// Whether there were more since `before`.
    pub(super) fn is_more_than(&self, before: &Self) -> bool {
        let is_more = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).is_some_and(|(now, before)| now > before)
        };
        is_more(self.in_group, before.in_group) || is_more(self.on_machine, before.on_machine)
    }
}

/// The folder of the control group of this process.
fn group() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from("/sys/fs/cgroup").join(path))
}

/// The number behind a name that begins a line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_more_kills_count() {
        let text = "low 0\noom 3\noom_kill 2\noom_group_kill 0\n";
        assert_eq!(number(text, "oom_kill"), Some(2));
        assert_eq!(number(text, "absent"), None);
        let kills = |in_group, on_machine| OutOfMemoryKills { in_group, on_machine };
        assert!(kills(Some(3), None).is_more_than(&kills(Some(2), None)));
        assert!(kills(None, Some(1)).is_more_than(&kills(None, Some(0))));
        assert!(!kills(Some(2), Some(0)).is_more_than(&kills(Some(2), Some(0))));
        assert!(!kills(Some(2), None).is_more_than(&kills(None, None)));
    }
}
