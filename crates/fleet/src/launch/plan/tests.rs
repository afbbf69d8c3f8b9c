//! What is started where, and what it is told.

use super::*;
use crate::Error;
use crate::env::tests::vars;
use crate::launch::options;

fn plan(line: &str) -> Result<Job> {
    let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
    ps(options::ps(&words)?.expect("no help wanted"))
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
    let job = plan("--node_ip 127.86.2.1 --start_port 7100 --worker_num 3 train.py").unwrap();
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
    let job = plan("--endpoints 127.86.2.2:7100,127.86.2.2:7101 train.py").unwrap();
    for process in &job.processes {
        let list: Vec<_> = process.variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let role = crate::role::from_environment(&vars(&list)).unwrap();
        let name = if role.is_server() { "server" } else { "worker" };
        assert_eq!(format!("{name} {}", role.id), process.name);
    }
}

#[test]
fn several_machines() {
    let cluster = "--cluster_node_ips 127.86.2.3,127.86.2.4 --worker_num 2 --server_num 1 x.py";
    let job = plan(&format!("--node_ip 127.86.2.4 {cluster}")).unwrap();
    assert_eq!(names(&job), ["server 1", "worker 2", "worker 3"]);
    let list = told(&job, "worker 3", "PADDLE_PSERVERS_IP_PORT_LIST");
    assert_eq!(list, "127.86.2.3:6170,127.86.2.4:6170");
    assert_eq!(told(&job, "worker 3", "PADDLE_TRAINERS_NUM"), "4");
    assert!(job.is_wide);
    // The other machine comes to the same list.
    let other = plan(&format!("--node_ip 127.86.2.3 {cluster}")).unwrap();
    assert_eq!(names(&other), ["server 0", "worker 0", "worker 1"]);
    assert_eq!(told(&other, "server 0", "PADDLE_PSERVERS_IP_PORT_LIST"), list);
}

#[test]
fn machines_named_by_end_points() {
    let line = "--endpoints 127.86.2.5:7100,127.86.2.6:7100,127.86.2.6:7101 --worker_num 1 x.py";
    let job = plan(&format!("--node_ip 127.86.2.6 {line}")).unwrap();
    assert_eq!(names(&job), ["server 1", "server 2", "worker 1"]);
    drop(job); // Its ports are free again.
    // Without a word about machines, all are started here.
    let whole = plan(&format!("--server_num 3 {line}")).unwrap();
    assert_eq!(names(&whole), ["server 0", "server 1", "server 2", "worker 0"]);
}

#[test]
fn jobs_that_cannot_be() {
    let twice = plan("--endpoints 127.86.2.7:1,127.86.2.7:1 x.py").unwrap_err();
    assert!(matches!(twice, Error::Usage(Usage::EndpointTwice(_))), "{twice}");
    let check = |line: &str, expected: Usage| match plan(line) {
        Err(Error::Usage(usage)) => assert_eq!(usage, expected),
        other => panic!("{line}: {other:?}"),
    };
    check("--worker_num 0 x.py", Usage::Nobody("trainer"));
    check("--server_num 0 x.py", Usage::Nobody("server"));
    let n = Usage::ServerCount { n_servers: 1, n_endpoints: 2 };
    check("--server_num 1 --endpoints 127.86.2.7:1,127.86.2.7:2 x.py", n);
    let nodes = vec!["a".to_string(), "b".to_string()];
    let away = Usage::NotANode { node: "c".into(), nodes };
    check("--cluster_node_ips a,b --node_ip c x.py", away);
    let high = plan("--node_ip 127.86.2.8 --start_port 65535 x.py").unwrap_err();
    assert!(matches!(high, Error::Usage(Usage::BadValue { option: "--start_port", .. })), "{high}");
}

#[test]
fn trainers_alone() {
    let plan = |line: &str, given: &[(&str, &str)]| {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        collective(options::collective(&words).unwrap().unwrap(), &vars(given)).unwrap()
    };
    let line = "--cluster_node_ips 127.86.2.9,127.86.2.10 --node_ip 127.86.2.10 \
                --nproc_per_node 2 --started_port 7200 x.py";
    let job = plan(line, &[]);
    assert_eq!(names(&job), ["worker 2", "worker 3"]);
    assert_eq!(told(&job, "worker 3", "PADDLE_CURRENT_ENDPOINT"), "127.86.2.10:7201");
    assert_eq!(told(&job, "worker 3", "PADDLE_TRAINERS_NUM"), "4");
    assert_eq!(told(&job, "worker 3", "FLAGS_selected_gpus"), "1");
    assert_eq!(job.processes[0].log, None);
    let cloud = [("PADDLE_TRAINERS", "127.86.2.11,127.86.2.12"), ("POD_IP", "127.86.2.11")];
    let job = plan("--use_paddlecloud x.py", &cloud);
    assert_eq!(names(&job), ["worker 0"]);
    assert_eq!(
        told(&job, "worker 0", "PADDLE_TRAINER_ENDPOINTS"),
        "127.86.2.11:6170,127.86.2.12:6170"
    );
}

#[test]
fn scripts_and_executables() {
    let host = Host { python: "/usr/bin/py".into(), alias: None };
    let run = |path: &str| {
        let script = ScriptCommand { path: path.into(), arguments: vec!["-x".into()] };
        let (program, arguments) = command(&script, &host);
        (program.to_string_lossy().into_owned(), arguments.join(" "))
    };
    assert_eq!(run("a/train.py"), ("/usr/bin/py".into(), "-u a/train.py -x".into()));
    assert_eq!(run("train"), ("./train".into(), "-x".into()));
    assert_eq!(run("/opt/train"), ("/opt/train".into(), "-x".into()));
}
