//! Waits until servers listen.

use std::sync::Once;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use base::{BadEndpoint, Endpoint};
use net::tcp::{self, Reach};
use train::remote::Locate;

use crate::access;
use crate::env;
use crate::error::{Error, Result};
use crate::lines;

/// How long one server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// How long until the next line about servers that are not there.
const RETRY: Duration = Duration::from_secs(3);
/// How often a wait looks whether it should end.
const GLANCE: Duration = Duration::from_millis(100);

/// The output of a wait for servers, and the way to end it.
pub struct Watch<'a> {
    /// Takes lines for stderr.
    pub on_line: &'a mut dyn FnMut(&str),
    /// Whether the user wants to stop waiting (Ctrl-C).
    pub stops: &'a mut dyn FnMut() -> bool,
}

/// Returns as soon as all servers accept connections. Every three seconds it lists those that do
/// not. It gives up after `timeout`, if there is one. Servers that would not be spoken to without a secret are not
/// waited for.
///
/// A job may get other servers meanwhile: `locate` says where they are, and then they are waited for.
pub fn wait_server_ready(
    endpoints: &[Endpoint],
    locate: Option<&Locate>,
    timeout: Option<Duration>,
    watch: &mut Watch<'_>,
) -> Result<()> {
    access::check_all(&access::current()?, endpoints)?;
    let start = Instant::now();
    let mut world = World {
        reach: &mut reach,
        sleep: &mut thread::sleep,
        elapsed: &mut || start.elapsed(),
        locate: &mut || locate.and_then(|locate| locate()),
    };
    wait(endpoints, timeout, watch, &mut world)
}

/// Whether the user has had enough.
type StopCheck<'a> = &'a mut dyn FnMut() -> bool;

/// Whether a server accepts a connection in time. The check runs on a thread of its own: a server
/// that neither accepts nor refuses must not hold up an interrupt.
fn reach(endpoint: &Endpoint, limit: Duration, stops: StopCheck<'_>) -> Reach {
    if limit <= GLANCE {
        return tcp::reach(endpoint, limit);
    }
    let (tell, told) = mpsc::sync_channel(1);
    let asked = endpoint.clone();
    thread::spawn(move || {
        // The receiver is gone if the wait has ended.
        let _ = tell.send(tcp::reach(&asked, limit));
    });
    loop {
        match told.recv_timeout(GLANCE) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) if !stops() => {}
            Err(_) => return Reach::Silent,
        }
    }
}

/// The environment of a wait; tests bring their own.
struct World<'a> {
    reach: &'a mut dyn FnMut(&Endpoint, Duration, StopCheck<'_>) -> Reach,
    sleep: &'a mut dyn FnMut(Duration),
    elapsed: &'a mut dyn FnMut() -> Duration,
    /// Where the servers of the job are, if they are others than at the start.
    locate: &'a mut dyn FnMut() -> Option<Vec<String>>,
}

impl World<'_> {
    /// Takes the servers that the job has now in place of others; whether they are others.
    fn refresh(&mut self, endpoints: &mut Vec<Endpoint>) -> bool {
        let Some(list) = (self.locate)() else { return false };
        let now = list
            .iter()
            .map(|text| text.parse())
            .collect::<std::result::Result<Vec<Endpoint>, BadEndpoint>>();
        match now {
            Ok(now) if now != *endpoints => {
                *endpoints = now;
                true
            }
            _ => false,
        }
    }
}

fn wait(
    endpoints: &[Endpoint],
    timeout: Option<Duration>,
    watch: &mut Watch<'_>,
    world: &mut World<'_>,
) -> Result<()> {
    let timeout = timeout.unwrap_or(Duration::MAX);
    let mut endpoints = endpoints.to_vec();
    // A signal is seen once.
    let mut is_stopped = false;
    let Watch { on_line, stops } = watch;
    let mut stops = || {
        is_stopped = is_stopped || stops();
        is_stopped
    };
    loop {
        if world.refresh(&mut endpoints) {
            on_line(&lines::other_servers(&endpoints));
        }
        let (mut missing, mut unresolved) = (Vec::new(), Vec::new());
        for endpoint in &endpoints {
            let left = timeout.saturating_sub((world.elapsed)()).max(GLANCE);
            let found = (world.reach)(endpoint, CONNECT.min(left), &mut stops);
            if found != Reach::Answers {
                missing.push(endpoint.clone());
            }
            if found == Reach::Unresolved {
                unresolved.push(endpoint.clone());
            }
            if stops() {
                return Err(Error::Interrupted { endpoints });
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let waited = (world.elapsed)();
        if waited >= timeout {
            return Err(Error::NotReady { endpoints: missing, waited, unresolved });
        }
        for line in lines::not_ready(&missing).into_iter().chain(lines::unresolved(&unresolved)) {
            on_line(&line);
        }
        let until = waited.saturating_add(RETRY).min(timeout);
        loop {
            let left = until.saturating_sub((world.elapsed)());
            if left.is_zero() {
                break;
            }
            if stops() {
                return Err(Error::Interrupted { endpoints: missing });
            }
            (world.sleep)(left.min(GLANCE));
            // The line promises a retry in three seconds; an earlier one does no harm.
            let answers = |found| found == Reach::Answers;
            let mut now = endpoints.clone();
            if world.refresh(&mut now)
                || missing.iter().all(|one| answers((world.reach)(one, GLANCE, &mut stops)))
            {
                break;
            }
        }
    }
}

static PROXIES: Once = Once::new();

/// Says once in a process that a proxy is set.
pub fn warn_of_proxies(var: &dyn Fn(&str) -> Option<String>, on_line: &mut dyn FnMut(&str)) {
    if let Some(line) = proxy_line(var) {
        PROXIES.call_once(|| on_line(&line));
    }
}

fn proxy_line(var: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let is_set = |name: &&&str| var(name).is_some_and(|value| !value.trim().is_empty());
    let names: Vec<&str> = env::PROXIES.iter().filter(is_set).copied().collect();
    (!names.is_empty()).then(|| lines::proxy(&names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::vars;

    /// A world in which servers answer from some second on, and nothing really sleeps.
    fn check(ready_at: [u64; 2], timeout: Option<u64>) -> (Result<()>, Vec<String>, Duration) {
        let endpoints: Vec<Endpoint> = vec!["a:1".parse().unwrap(), "b:2".parse().unwrap()];
        let now = std::cell::Cell::new(Duration::ZERO);
        let mut said = Vec::new();
        let mut reach = |endpoint: &Endpoint, limit, _: StopCheck<'_>| {
            let at = Duration::from_secs(ready_at[usize::from(endpoint.host == "b")]);
            let is_ready = now.get() >= at;
            now.set(now.get() + if is_ready { Duration::ZERO } else { limit });
            if is_ready { Reach::Answers } else { Reach::Silent }
        };
        let mut sleep = |time| now.set(now.get() + time);
        let mut elapsed = || now.get();
        let mut world = World {
            reach: &mut reach,
            sleep: &mut sleep,
            elapsed: &mut elapsed,
            locate: &mut || None,
        };
        let mut on_line = |line: &str| said.push(line.to_string());
        let mut watch = Watch { on_line: &mut on_line, stops: &mut || false };
        let timeout = timeout.map(Duration::from_secs);
        let result = wait(&endpoints, timeout, &mut watch, &mut world);
        (result, said, now.get())
    }

    #[test]
    fn ready_servers_are_not_talked_about() {
        let (result, said, took) = check([0, 0], None);
        result.unwrap();
        assert_eq!((said.len(), took), (0, Duration::ZERO));
    }

    #[test]
    fn late_servers_are_named_every_three_seconds() {
        let (result, said, _) = check([0, 6], None);
        result.unwrap();
        let wait = "server not ready, wait 3 sec to retry...";
        let list = "not ready endpoints:['b:2']";
        assert_eq!(said, [wait, list, wait, list]);
    }

    #[test]
    fn nobody_waits_longer_than_needed() {
        let (result, said, took) = check([0, 3], None);
        result.unwrap();
        assert_eq!(said.len(), 2);
        assert!(took < Duration::from_millis(3500), "{took:?}");
    }

    #[test]
    fn there_is_an_end_if_one_is_wished() {
        let (result, said, took) = check([0, 1000], Some(8));
        let Err(Error::NotReady { endpoints, waited, .. }) = result else { panic!("{result:?}") };
        assert_eq!(endpoints[0].to_string(), "b:2");
        assert_eq!(endpoints.len(), 1);
        assert!((8..10).contains(&waited.as_secs()) && took == waited, "{waited:?}");
        assert_eq!(said.len(), 4);
    }

    #[test]
    fn a_host_that_nobody_knows_is_named() {
        let endpoints: Vec<Endpoint> = vec!["no-such-host.invalid:1".parse().unwrap()];
        let mut said = Vec::new();
        let mut on_line = |line: &str| said.push(line.to_string());
        let mut watch = Watch { on_line: &mut on_line, stops: &mut || false };
        let result =
            wait_server_ready(&endpoints, None, Some(Duration::from_millis(500)), &mut watch);
        let Err(Error::NotReady { unresolved, .. }) = result else { panic!("{result:?}") };
        assert_eq!(unresolved, endpoints);
        assert!(
            said[2].starts_with("cannot resolve the host of ['no-such-host.invalid:1']"),
            "{said:?}"
        );
    }

    #[test]
    fn ctrl_c_ends_it() {
        let endpoints: Vec<Endpoint> = vec!["127.0.0.1:1".parse().unwrap()];
        let mut watch = Watch { on_line: &mut |_| {}, stops: &mut || true };
        let result = wait_server_ready(&endpoints, None, None, &mut watch);
        assert!(matches!(result, Err(Error::Interrupted { .. })));
    }

    /// A trainer that was started while the job got other servers has the list of the old ones.
    #[test]
    fn servers_that_take_the_place_of_others_are_waited_for() {
        let old: Vec<Endpoint> = vec!["old:1".parse().unwrap(), "old:2".parse().unwrap()];
        let now = std::cell::Cell::new(Duration::ZERO);
        let asked = std::cell::RefCell::new(Vec::new());
        let mut reach = |endpoint: &Endpoint, _, _: StopCheck<'_>| {
            asked.borrow_mut().push(endpoint.to_string());
            let is_ready = endpoint.host == "new" && now.get() >= Duration::from_secs(9);
            if is_ready { Reach::Answers } else { Reach::Silent }
        };
        let mut world = World {
            reach: &mut reach,
            sleep: &mut |time| now.set(now.get() + time),
            elapsed: &mut || now.get(),
            locate: &mut || {
                (now.get() >= Duration::from_secs(4)).then(|| vec!["new:7".to_string()])
            },
        };
        let mut said = Vec::new();
        let mut on_line = |line: &str| said.push(line.to_string());
        let mut watch = Watch { on_line: &mut on_line, stops: &mut || false };
        wait(&old, Some(Duration::from_secs(20)), &mut watch, &mut world).unwrap();
        assert!(now.get() < Duration::from_secs(10), "{:?}", now.get());
        assert_eq!(asked.borrow().last().unwrap(), "new:7");
        assert!(said.iter().any(|line| line.contains("'new:7'")), "{said:?}");
    }

    #[test]
    fn proxies_are_named() {
        assert_eq!(proxy_line(&vars(&[("http_proxy", "")])), None);
        let line = proxy_line(&vars(&[("http_proxy", "http://x"), ("https_proxy", "y")])).unwrap();
        assert!(line.starts_with("warning: http_proxy and https_proxy set: "), "{line}");
    }
}
