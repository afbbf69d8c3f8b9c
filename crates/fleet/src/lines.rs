//! Lines a fleet writes for people, in Fluid's words.

use base::Endpoint;
use net::lines::Line;
use program::distributed::Mode;

use crate::role::repr;

/// A trainer that is up before its servers writes this to stderr every three seconds.
pub fn not_ready(endpoints: &[Endpoint]) -> [String; 2] {
    let list = format!("not ready endpoints:{}", repr(endpoints));
    ["server not ready, wait 3 sec to retry...".to_string(), list]
}

/// The job got other servers while a trainer waited for the old ones.
pub fn other_servers(endpoints: &[Endpoint]) -> String {
    format!("the servers of the job are others now: {}", repr(endpoints))
}

/// Why waiting longer will not help, if it is the name of a machine.
pub fn unresolved(endpoints: &[Endpoint]) -> Option<String> {
    let why = "check how it is written in the list of servers, or give its address";
    (!endpoints.is_empty())
        .then(|| format!("cannot resolve the host of {}: {why}", repr(endpoints)))
}

/// A process waits for others of its job to report.
pub fn meeting(master: &Endpoint, who: &str) -> String {
    format!("rendezvous at {master}: {who}")
}

/// A server was asked to end before its trainers had ended. A launcher looks for this in the
/// server's log.
pub const SIGNALLED: &str = "this server ends because it was told to by";

/// A server that ends because of this signal.
pub fn signalled(signal: &str) -> Line {
    Line::warning("server", format!("{SIGNALLED} {signal}"))
}

/// All trainers of a launched job have ended.
pub const WORKERS_EXIT: &str = "all workers exit, going to finish parameter server";

/// All servers of a launched job have ended.
pub const SERVERS_KILLED: &str = "all parameter server are killed";

/// The last line of a launcher whose job came to its end.
pub const JOB_FINISHED: &str = "the job has finished";

/// The last line of a launcher whose job was asked to end.
pub(crate) fn goes_on_later(code: i32) -> String {
    format!("the job has not finished (exit code {code}); the same command resumes it")
}

/// A second `init_worker` changes nothing.
pub const COMMUNICATOR_INITIALIZED: &str = "communicator has been initialized, skip";

/// The warning of a role maker without connections to other trainers, when it is asked for a
/// barrier.
pub const NO_BARRIER: &str = "warning: RoleMakerBase does not have barrier worker.";

/// A proxy would intercept the messages between trainers and servers.
pub fn proxy(names: &[&str]) -> String {
    format!(
        "warning: {} set: trainers and servers speak to each other directly, unset it if they \
         cannot reach one another",
        names.join(" and ")
    )
}

/// The lines that Fluid prints when the senders of a mode are ready, in order.
pub fn initialized(mode: Mode) -> impl Iterator<Item = Line> {
    let ready = |name: &&str| Line::info("communicator", format!("{name} Initialized"));
    mode.communicators().iter().map(ready)
}

/// A table of settings, as trainers print it when they start.
pub fn overview(settings: &[(&str, String)]) -> String {
    let rule = |sign: &str| sign.repeat(50);
    let mut lines = vec![String::new(), rule("=")];
    lines.push(format!("{:^45}{:<5}", "TrainerRuntimeConfig Overview", "Value"));
    lines.push(rule("-"));
    lines.extend(settings.iter().map(|(name, value)| format!("{name:<45}{value:<5}")));
    lines.push(rule("="));
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_sounds_as_in_fluid() {
        let endpoints = ["10.89.176.11:36000", "10.89.176.12:36000"];
        let endpoints = endpoints.map(|text| text.parse().unwrap());
        assert_eq!(
            not_ready(&endpoints),
            [
                "server not ready, wait 3 sec to retry...",
                "not ready endpoints:['10.89.176.11:36000', '10.89.176.12:36000']"
            ]
        );
    }

    #[test]
    fn the_overview_is_fluids() {
        let settings = [("communicator_thread_pool_size", "5".to_string())];
        assert_eq!(
            overview(&settings),
            "\n==================================================\
             \n        TrainerRuntimeConfig Overview        Value\
             \n--------------------------------------------------\
             \ncommunicator_thread_pool_size                5    \
             \n==================================================\n"
        );
    }

    #[test]
    fn a_sender_is_announced_by_its_mode() {
        let texts = |mode| initialized(mode).map(|line| line.text).collect::<Vec<_>>();
        assert_eq!(texts(Mode::Async), ["AsyncCommunicator Initialized"]);
        assert_eq!(texts(Mode::HalfAsync), ["HalfAsyncCommunicator Initialized"]);
        let sync = ["HalfAsyncCommunicator Initialized", "SyncCommunicator Initialized"];
        assert_eq!(texts(Mode::Sync), sync);
        let geo = Mode::Geo { push_every: 100 };
        assert_eq!(texts(geo), ["GeoSgdCommunicator Initialized"]);
    }
}
