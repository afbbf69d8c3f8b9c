//! Ports for the processes of a job.
//!
//! A launcher holds a lock on each port it gives away, so that two launchers of one machine never
//! choose the same; the system drops the locks when the launcher ends, however it ends.

use std::fs::{self, File, TryLockError};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use base::Endpoint;
use net::tcp;

use crate::error::{Error, Result};

/// Fluid's first port.
pub(crate) const START: u16 = 6170;
/// The first port at which processes answer HTTP, if it is free.
pub(crate) const METRICS_START: u16 = 7170;
/// On one machine, an answer takes far less.
const ANSWER: Duration = Duration::from_millis(200);
/// Where locks lie: one file for each port ever used.
const FOLDER: &str = "paddlewheel-ports";

/// Ports that are ours as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    locks: Vec<File>,
}

impl Ports {
    /// Takes these end points; the complaint names the option that chose them.
    pub(crate) fn take(&mut self, endpoints: &[Endpoint], option: &'static str) -> Result<()> {
        for endpoint in endpoints {
            check_host(&endpoint.host, option)?;
            let port = endpoint.port;
            self.locks.extend(claim(endpoint).ok_or(Error::PortInUse { port, option })?);
        }
        Ok(())
    }

    /// Takes `n` ports of a host one after the other, from `start` on, or the first behind it that
    /// are free. Returns the first.
    pub(crate) fn choose(&mut self, host: &str, start: u16, n: usize) -> Result<u16> {
        /// Above these the system gives ports to outgoing connections.
        const LAST: u16 = 32_767;
        let none = || Error::NoFreePorts { n, start };
        check_host(host, "--node_ip")?;
        let mut first = start;
        loop {
            let last = u16::try_from(n).ok().and_then(|n| first.checked_add(n));
            let last = last.filter(|&last| last <= LAST).ok_or_else(none)?;
            match claim_all(host, first..last) {
                Ok(locks) => {
                    self.locks.extend(locks);
                    return Ok(first);
                }
                Err(taken) => first = taken + 1,
            }
        }
    }
}

/// Processes can be started on this machine only: another would look like one without free ports.
fn check_host(host: &str, option: &'static str) -> Result<()> {
    match tcp::is_of_this_machine(host) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::NotThisMachine { host: host.to_string(), option }),
        Err(source) => Err(Error::UnknownHost { host: host.to_string(), option, source }),
    }
}

/// Takes all of these ports, or returns the one that is not free.
fn claim_all(host: &str, ports: Range<u16>) -> std::result::Result<Vec<File>, u16> {
    let mut locks = Vec::new();
    for port in ports {
        locks.extend(claim(&Endpoint { host: host.to_string(), port }).ok_or(port)?);
    }
    Ok(locks)
}

/// Takes one port, unless it is taken. If no lock is possible (a full or foreign folder), an unused
/// port is taken without one.
fn claim(endpoint: &Endpoint) -> Option<Option<File>> {
    let lock = lock_file(endpoint);
    if let Some(file) = &lock
        && matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    {
        return None;
    }
    (!tcp::answers(endpoint, ANSWER)).then_some(lock)
}

fn lock_file(endpoint: &Endpoint) -> Option<File> {
    let folder: PathBuf = std::env::temp_dir().join(FOLDER);
    fs::create_dir_all(&folder).ok()?;
    let host = endpoint.host.replace(['/', ':'], "_");
    let path = folder.join(format!("{host}-{}", endpoint.port));
    File::open(&path).or_else(|_| File::create(&path)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loopback address of this test alone.
    const HOST: &str = "127.86.1.9";

    #[test]
    fn ports_are_given_once() {
        let (mut first, mut second) = (Ports::default(), Ports::default());
        let a = first.choose(HOST, 7000, 3).unwrap();
        let b = second.choose(HOST, 7000, 2).unwrap();
        assert!(b >= a + 3, "{a} {b}");
        let taken = [Endpoint { host: HOST.into(), port: a + 1 }];
        let error = second.take(&taken, "--start_port").unwrap_err();
        assert!(matches!(error, Error::PortInUse { port, .. } if port == a + 1), "{error}");
        drop(first);
        second.take(&taken, "--start_port").unwrap();
    }

    #[test]
    fn other_machines_are_told_from_taken_ports() {
        // An address for documents, which no machine has.
        let error = Ports::default().choose("192.0.2.7", 7000, 2).unwrap_err();
        assert!(
            matches!(&error, Error::NotThisMachine { host, .. } if host == "192.0.2.7"),
            "{error}"
        );
        let away = [Endpoint { host: "no-such-host.invalid".into(), port: 7000 }];
        let error = Ports::default().take(&away, "--endpoints").unwrap_err();
        assert!(matches!(error, Error::UnknownHost { option: "--endpoints", .. }), "{error}");
    }

    #[test]
    fn there_is_an_end_of_ports() {
        let error = Ports::default().choose(HOST, 32_766, 5).unwrap_err();
        assert!(matches!(error, Error::NoFreePorts { n: 5, start: 32_766 }), "{error}");
    }
}
