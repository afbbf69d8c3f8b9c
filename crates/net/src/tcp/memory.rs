//! How much memory there is.

/// Half of the memory that this process may use: that of the machine, or of its container.
pub fn half_of_memory() -> u64 {
    const UNKNOWN: u64 = 8 << 30;
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let of_container = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = of_container.iter().filter_map(|path| read(path).trim().parse().ok());
    limits.chain(machine_bytes(&read("/proc/meminfo"))).min().unwrap_or(UNKNOWN) / 2
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_machine_is_read() {
        assert_eq!(machine_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16 << 10));
        assert_eq!(machine_bytes("nothing"), None);
        assert!(half_of_memory() > 1 << 20);
    }
}
