//! The processes of each machine, and their variables.

use super::*;
use crate::Error;
use crate::env::tests::vars;

fn script(path: &str) -> ScriptCommand {
    ScriptCommand { path: path.into(), arguments: vec!["-x".into()] }
}

fn usual() -> PsOptions {
    PsOptions::new(script("train.py"))
}

fn endpoints(list: &[&str]) -> Vec<Endpoint> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

fn nodes(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn on(node: &str) -> Option<String> {
    Some(node.to_string())
}

fn told(job: &Job, name: &str, variable: &str) -> String {
    let process = job.processes.iter().find(|process| process.name == name);
    let process = process.unwrap_or_else(|| panic!("no {name} in {job:?}"));
    let found = process.variables.iter().find(|(known, _)| *known == variable);
    found.unwrap_or_else(|| panic!("{name} is not told {variable}")).1.clone()
}

fn names(job: &Job) -> Vec<&str> {
    job.processes.iter().map(|process| process.name.as_str()).collect()
}

#[test]
fn one_machine() {
    let (node, start_port) = (on("127.86.2.1"), Some(7100));
    let job = ps(PsOptions { node, start_port, n_trainers: 3, ..usual() }).unwrap();
    assert_eq!(names(&job), ["server 0", "server 1", "worker 0", "worker 1", "worker 2"]);
    for name in ["server 1", "worker 2"] {
        let list = told(&job, name, "PADDLE_PSERVERS_IP_PORT_LIST");
        assert_eq!(list, "127.86.2.1:7100,127.86.2.1:7101");
        assert_eq!(told(&job, name, "PADDLE_TRAINERS_NUM"), "3");
    }
    assert_eq!(told(&job, "server 1", "TRAINING_ROLE"), "PSERVER");
    assert_eq!(told(&job, "server 1", "PADDLE_PORT"), "7101");
    assert_eq!(told(&job, "server 1", "POD_IP"), "127.86.2.1");
    assert_eq!(told(&job, "worker 2", "TRAINING_ROLE"), "TRAINER");
    assert_eq!(told(&job, "worker 2", "PADDLE_TRAINER_ID"), "2");
    assert_eq!(job.processes[1].log, Some("logs/serverlog.1".into()));
    assert_eq!(job.processes[4].log, Some("logs/workerlog.2".into()));
    assert!(!job.is_wide);
}

#[test]
fn every_process_reads_its_role_back() {
    let endpoints = endpoints(&["127.86.2.2:7100", "127.86.2.2:7101"]);
    let job = ps(PsOptions { endpoints, ..usual() }).unwrap();
    for process in &job.processes {
        let list: Vec<_> = process.variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let role = crate::role::from_environment(&vars(&list)).unwrap();
        let name = if role.is_server() { "server" } else { "worker" };
        assert_eq!(format!("{name} {}", role.id), process.name);
    }
}

#[test]
fn several_machines() {
    let all = nodes(&["127.86.2.3", "127.86.2.4"]);
    let on_node = |node| {
        let nodes = all.clone();
        let node = on(node);
        let n_servers = Some(1);
        ps(PsOptions { nodes, node, n_servers, ..usual() }).unwrap()
    };
    let job = on_node("127.86.2.4");
    assert_eq!(names(&job), ["server 1", "worker 2", "worker 3"]);
    let list = told(&job, "worker 3", "PADDLE_PSERVERS_IP_PORT_LIST");
    assert_eq!(list, "127.86.2.3:6170,127.86.2.4:6170");
    assert_eq!(told(&job, "worker 3", "PADDLE_TRAINERS_NUM"), "4");
    assert!(job.is_wide);
    // The other machine comes to the same list.
    let other = on_node("127.86.2.3");
    assert_eq!(names(&other), ["server 0", "worker 0", "worker 1"]);
    assert_eq!(told(&other, "server 0", "PADDLE_PSERVERS_IP_PORT_LIST"), list);
}

#[test]
fn machines_named_by_end_points() {
    let endpoints = endpoints(&["127.86.2.5:7100", "127.86.2.6:7100", "127.86.2.6:7101"]);
    let asked = PsOptions { endpoints, n_trainers: 1, ..usual() };
    let job = ps(PsOptions { node: on("127.86.2.6"), ..asked.clone() }).unwrap();
    assert_eq!(names(&job), ["server 1", "server 2", "worker 1"]);
    drop(job); // Its ports are free again.
    // Without a word about machines, all are started here.
    let whole = ps(PsOptions { n_servers: Some(3), ..asked }).unwrap();
    assert_eq!(names(&whole), ["server 0", "server 1", "server 2", "worker 0"]);
}

#[test]
fn jobs_that_cannot_be() {
    let both = endpoints(&["127.86.2.7:1", "127.86.2.7:1"]);
    let twice = ps(PsOptions { endpoints: both, ..usual() }).unwrap_err();
    assert!(matches!(twice, Error::Usage(Usage::EndpointTwice(_))), "{twice}");
    let check = |asked: PsOptions, expected: Usage| match ps(asked) {
        Err(Error::Usage(usage)) => assert_eq!(usage, expected),
        other => panic!("{expected:?}: {other:?}"),
    };
    check(PsOptions { n_trainers: 0, ..usual() }, Usage::Nobody("trainer"));
    check(PsOptions { n_servers: Some(0), ..usual() }, Usage::Nobody("server"));
    let n = Usage::ServerCount { n_servers: 1, n_endpoints: 2 };
    let both = endpoints(&["127.86.2.7:1", "127.86.2.7:2"]);
    check(PsOptions { n_servers: Some(1), endpoints: both, ..usual() }, n);
    let nodes = nodes(&["a", "b"]);
    let away = Usage::NotANode { node: "c".into(), nodes: nodes.clone() };
    check(PsOptions { nodes, node: on("c"), ..usual() }, away);
    let start_port = Some(65535);
    let high = ps(PsOptions { node: on("127.86.2.8"), start_port, ..usual() }).unwrap_err();
    assert!(matches!(high, Error::Usage(Usage::BadValue { option: "--start_port", .. })), "{high}");
}

#[test]
fn trainers_alone() {
    let usual = || CollectiveOptions::new(script("x.py"));
    let (all, node) = (nodes(&["127.86.2.9", "127.86.2.10"]), on("127.86.2.10"));
    let (start_port, n_processes) = (Some(7200), 2);
    let asked = CollectiveOptions { nodes: all, node, start_port, n_processes, ..usual() };
    let job = collective(asked, &vars(&[])).unwrap();
    assert_eq!(names(&job), ["worker 2", "worker 3"]);
    assert_eq!(told(&job, "worker 3", "PADDLE_CURRENT_ENDPOINT"), "127.86.2.10:7201");
    assert_eq!(told(&job, "worker 3", "PADDLE_TRAINERS_NUM"), "4");
    assert_eq!(told(&job, "worker 3", "FLAGS_selected_gpus"), "1");
    assert_eq!(job.processes[0].log, None);
    let cloud = [("PADDLE_TRAINERS", "127.86.2.11,127.86.2.12"), ("POD_IP", "127.86.2.11")];
    let asked = CollectiveOptions { is_cloud: true, ..usual() };
    let job = collective(asked, &vars(&cloud)).unwrap();
    assert_eq!(names(&job), ["worker 0"]);
    assert_eq!(
        told(&job, "worker 0", "PADDLE_TRAINER_ENDPOINTS"),
        "127.86.2.11:6170,127.86.2.12:6170"
    );
}

#[test]
fn scripts_and_executables() {
    let host = Host { python: "/usr/bin/py".into(), alias: None, program: Vec::new() };
    let run = |path: &str| {
        let (program, arguments) = command(&script(path), &host);
        (program.to_string_lossy().into_owned(), arguments.join(" "))
    };
    assert_eq!(run("a/train.py"), ("/usr/bin/py".into(), "-u a/train.py -x".into()));
    assert_eq!(run("train"), ("./train".into(), "-x".into()));
    assert_eq!(run("/opt/train"), ("/opt/train".into(), "-x".into()));
}
