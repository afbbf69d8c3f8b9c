//! HTTP of this process, if it was told a port: `/healthz`, `/readyz`, `/metrics` and `/state`.

use std::path::Path;
use std::sync::{Once, OnceLock};
use std::time::Instant;

use durable::Access;
use metrics::NumberSource;
use monitor::{ProcessName, ProcessServer};
use net::lines::Line;
use protocol::counters::PsSource;
use train::counters::TrainSource;

use crate::env::{
    self, EnvVars, LAST_STATE, METRICS_HOST, METRICS_PORT, OWN_IP, RESTARTS, ROLE, SERVER_ID,
    TRAINER_ID,
};
use crate::role::Role;

/// Where HTTP is answered without a word about it.
pub(crate) const HERE: &str = "127.0.0.1";

/// The endpoint of this process for monitors.
struct ShownProcess {
    /// None if the port was taken, say; numbers are counted all the same.
    server: Option<ProcessServer>,
    name: ProcessName,
    start: Instant,
}

static SHOWN: OnceLock<Option<ShownProcess>> = OnceLock::new();

/// All numbers of a process of a job.
pub fn sources() -> Vec<&'static dyn NumberSource> {
    vec![&TrainSource, &PsSource]
}

/// Begins to answer, once, if the environment has a port. On an error it prints a warning, and the
/// process continues without.
pub fn begin(role: Option<&Role>) {
    SHOWN.get_or_init(|| {
        let vars = EnvVars(&env::process);
        let address = address(vars)?;
        let name = role.map_or_else(|| named(vars), |role| of_role(role, vars));
        let started = address.and_then(|address| {
            let started = ProcessServer::start(&address, name.clone(), sources());
            started.map_err(|error| error.to_string())
        });
        let problem = |problem: String| {
            let text = format!("{problem}; this process continues without monitoring");
            Line::warning("watch", text).say();
        };
        let server = started.map_err(problem).ok();
        metrics::set_on();
        Some(ShownProcess { server, name, start: Instant::now() })
    });
}

/// Says where this process answers, once. Called when its work begins, behind the first words of its script.
pub fn tell() {
    static TOLD: Once = Once::new();
    let shown = SHOWN.get().and_then(|shown| shown.as_ref()?.server.as_ref());
    if let Some(server) = shown {
        TOLD.call_once(|| {
            let text = format!("this process answers at http://{}/metrics", server.address());
            Line::info("watch", text).say();
        });
    }
}

/// This process has done its part: writes its last numbers, if the environment has a file for them.
pub fn end() {
    let vars = EnvVars(&env::process);
    let (Some(Some(shown)), Some(file)) = (SHOWN.get(), vars.first(LAST_STATE)) else { return };
    let samples: Vec<_> = sources().iter().flat_map(|source| source.samples()).collect();
    let text = monitor::state_json(&shown.name, shown.start, &samples).to_string();
    if let Err(error) = write(Path::new(&file.value), &text) {
        Line::warning("watch", format!("no last numbers in {}: {error}", file.value)).say();
    }
}

/// Writes the file atomically: a reader may read it at any time.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    durable::replace_with(path, Access::Umask, text.as_bytes())
}

/// The address that answers HTTP; none if the environment has no port.
fn address(vars: EnvVars<'_>) -> Option<std::result::Result<String, String>> {
    let found = vars.first(METRICS_PORT)?;
    let host = vars.first(METRICS_HOST).map_or(HERE.to_string(), |host| host.value);
    Some(match found.value.parse::<u16>() {
        Ok(port) if host.contains(':') && !host.starts_with('[') => Ok(format!("[{host}]:{port}")),
        Ok(port) => Ok(format!("{host}:{port}")),
        Err(_) => Err(found.bad("a port, 0 to 65535").to_string()),
    })
}

fn of_role(role: &Role, vars: EnvVars<'_>) -> ProcessName {
    ProcessName {
        role: if role.is_server() { "server" } else { "trainer" },
        id: role.id,
        n_restarts: restarts(vars),
        endpoint: role.endpoint().map(ToString::to_string),
    }
}

fn restarts(vars: EnvVars<'_>) -> u64 {
    vars.first(RESTARTS).and_then(|found| found.value.parse().ok()).unwrap_or(0)
}

/// The name of this process, as far as the environment tells it. Scripts without a role maker have read
/// it themselves.
fn named(vars: EnvVars<'_>) -> ProcessName {
    let is_server = vars.first(ROLE).is_some_and(|role| role.value == "PSERVER");
    let id = vars.first(if is_server { SERVER_ID } else { TRAINER_ID });
    let id = id.and_then(|found| found.value.parse().ok()).unwrap_or(0);
    let port = vars.port().ok().flatten().filter(|_| is_server);
    let host = vars.first(OWN_IP).map(|found| found.value);
    let endpoint = host.zip(port).map(|(host, port)| format!("{host}:{port}"));
    let role = if is_server { "server" } else { "trainer" };
    ProcessName { role, id, n_restarts: restarts(vars), endpoint }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::vars;

    #[test]
    fn a_port_is_enough_and_the_address_is_this_machine() {
        let at = |given: &[(&'static str, &'static str)]| address(EnvVars(&vars(given)));
        assert_eq!(at(&[]), None);
        let port = ("PADDLEWHEEL_METRICS_PORT", "7171");
        assert_eq!(at(&[port]), Some(Ok("127.0.0.1:7171".to_string())));
        let host = |host| [port, ("PADDLEWHEEL_METRICS_HOST", host)];
        assert_eq!(at(&host("0.0.0.0")), Some(Ok("0.0.0.0:7171".to_string())));
        assert_eq!(at(&host("::1")), Some(Ok("[::1]:7171".to_string())));
        let bad = at(&[("PADDLEWHEEL_METRICS_PORT", "web")]);
        assert!(bad.is_some_and(|bad| bad.unwrap_err().contains("PADDLEWHEEL_METRICS_PORT")));
    }

    #[test]
    fn a_process_without_a_role_maker_has_a_name() {
        let server = [
            ("TRAINING_ROLE", "PSERVER"),
            ("PADDLE_PSERVER_ID", "1"),
            ("POD_IP", "127.0.0.1"),
            ("PADDLE_PORT", "6171"),
        ];
        let name = named(EnvVars(&vars(&server)));
        let expected = ("server", 1, Some("127.0.0.1:6171"));
        assert_eq!((name.role, name.id, name.endpoint.as_deref()), expected);
        let name = named(EnvVars(&vars(&[("PADDLE_TRAINER_ID", "3"), ("PADDLE_RESTARTS", "2")])));
        assert_eq!((name.role, name.id, name.n_restarts), ("trainer", 3, 2));
    }
}
