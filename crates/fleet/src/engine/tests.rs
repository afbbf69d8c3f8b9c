//! Environments of every engine. Those of Open MPI 4.1.4, MPICH 4.0.2 and Slurm 22.05 were captured.

use super::*;
use crate::env::tests::vars;

type Environment<'a> = &'a [(&'a str, &'a str)];

fn find(list: Environment<'_>, members: JobMembers) -> Result<Identity> {
    identity(&vars(list), members)
}

/// A role in a line: its kind, its number, the number of trainers, and where servers or trainers are.
fn told(role: &Role) -> String {
    let kind = if role.is_server() { "server" } else { "trainer" };
    let list = if role.servers.is_empty() { &role.trainers } else { &role.servers };
    let list: Vec<_> = list.iter().map(ToString::to_string).collect();
    format!("{kind} {} of {}: {}", role.id, role.n_trainers, list.join(","))
}

#[track_caller]
fn check(members: JobMembers, list: &[Environment<'_>], expected: &str) {
    let list = list.concat();
    match find(&list, members) {
        Ok(Identity::Known(role)) => assert_eq!(told(&role), expected),
        other => panic!("{expected}: {other:?}"),
    }
}

#[track_caller]
fn refused(list: &[Environment<'_>], expected: &str) {
    let error = find(&list.concat(), JobMembers::Both).expect_err(expected).to_string();
    assert!(error.contains(expected), "{expected}: {error}");
}

use JobMembers::{Both, Trainers};

/// `mpirun.openmpi -np 4`: the variables that this crate reads.
const OPEN_MPI: Environment<'_> = &[
    ("OMPI_APP_CTX_NUM_PROCS", "4"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
    ("OMPI_COMM_WORLD_NODE_RANK", "2"),
    ("OMPI_COMM_WORLD_RANK", "2"),
    ("OMPI_COMM_WORLD_SIZE", "4"),
    ("OMPI_MCA_orte_num_nodes", "1"),
    ("OMPI_UNIVERSE_SIZE", "2"),
    ("PMIX_HOSTNAME", "vm"),
    ("PMIX_NAMESPACE", "626524161"),
    ("PMIX_RANK", "2"),
];

/// `mpirun.mpich -np 4`, all of it.
const MPICH: Environment<'_> = &[
    ("GFORTRAN_UNBUFFERED_PRECONNECTED", "y"),
    ("MPIR_CVAR_CH3_INTERFACE_HOSTNAME", "vm"),
    ("MPI_LOCALNRANKS", "4"),
    ("MPI_LOCALRANKID", "3"),
    ("PMI_FD", "14"),
    ("PMI_RANK", "3"),
    ("PMI_SIZE", "4"),
];

/// `srun -n 4` on one machine.
const SLURM: Environment<'_> = &[
    ("SLURM_JOB_ID", "1"),
    ("SLURM_JOB_NODELIST", "vm"),
    ("SLURM_LOCALID", "2"),
    ("SLURM_NODEID", "0"),
    ("SLURM_NTASKS", "4"),
    ("SLURM_PROCID", "2"),
    ("SLURM_STEP_ID", "0"),
    ("SLURM_STEP_NODELIST", "vm"),
    ("SLURM_STEP_NUM_TASKS", "4"),
    ("SLURM_STEP_TASKS_PER_NODE", "4"),
    ("SLURM_TASKS_PER_NODE", "4"),
];

/// Six tasks on three machines; the job has more than this step.
const SLURM_NODES: Environment<'_> = &[
    ("SLURM_JOB_ID", "77"),
    ("SLURM_JOB_NODELIST", "gnode[08-12]"),
    ("SLURM_NTASKS", "10"),
    ("SLURM_PROCID", "3"),
    ("SLURM_STEP_ID", "4"),
    ("SLURM_STEP_NODELIST", "gnode[08-09,11]"),
    ("SLURM_STEP_NUM_TASKS", "6"),
    ("SLURM_STEP_TASKS_PER_NODE", "3,2,1"),
    ("SLURM_TASKS_PER_NODE", "2(x5)"),
    ("PADDLE_PORT", "7000"),
];

#[test]
fn open_mpi_and_mpich() {
    check(Both, &[OPEN_MPI], "server 1 of 2: 127.0.0.1:26352,127.0.0.1:26353");
    check(Both, &[MPICH], "trainer 1 of 2: 127.0.0.1:62544,127.0.0.1:62545");
    let port: Environment<'_> = &[("PADDLE_PORT", "9"), ("PADDLE_PSERVERS_NUM", "1")];
    check(Both, &[OPEN_MPI, port], "trainer 1 of 3: 127.0.0.1:9");
    check(
        Trainers,
        &[&port[..1], MPICH],
        "trainer 3 of 4: 127.0.0.1:9,127.0.0.1:10,127.0.0.1:11,127.0.0.1:12",
    );
    let machines: Environment<'_> = &[
        ("PADDLE_PSERVERS", "a,b"),
        ("PADDLE_PORT", "7"),
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
    ];
    check(Both, &[machines], "trainer 0 of 2: a:7,b:7");
    refused(&[&machines[2..]], "PADDLE_PSERVERS_IP_PORT_LIST is not set");
    refused(&[&machines[2..]], "PADDLE_MASTER");
    refused(&[&machines[2..3]], "OMPI_COMM_WORLD_SIZE is not set");
    refused(&[&[("PMI_SIZE", "4")]], "PMI_RANK is not set");
    refused(
        &[&[("PMI_SIZE", "1"), ("PMI_RANK", "0"), ("MPI_LOCALNRANKS", "1")]],
        "MPICH has started 1",
    );
    refused(&[OPEN_MPI, &[("PADDLE_TRAINERS_NUM", "3")]], "PADDLE_TRAINERS_NUM is `3`");
}

#[test]
fn slurm() {
    check(Both, &[SLURM], "server 1 of 2: vm:29040,vm:29041");
    let ranks = "gnode08:7000,gnode11:7000,gnode09:7000";
    check(Both, &[SLURM_NODES], "trainer 1 of 3: gnode08:7000,gnode08:7001,gnode09:7000");
    check(
        Both,
        &[&[("SLURM_DISTRIBUTION", "cyclic")], SLURM_NODES],
        &format!("trainer 1 of 3: {ranks}"),
    );
    check(
        Both,
        &[&[("PADDLE_PSERVERS_NUM", "2")], SLURM_NODES],
        "server 1 of 4: gnode08:7000,gnode09:7000",
    );
    check(
        Trainers,
        &[SLURM_NODES],
        "trainer 3 of 6: gnode08:7000,gnode08:7001,gnode08:7002,gnode09:7000,gnode09:7001,gnode11:7000",
    );
    // An `mpirun` inside of an allocation starts processes of its own.
    check(Both, &[OPEN_MPI, SLURM], "server 1 of 2: 127.0.0.1:26352,127.0.0.1:26353");
}

#[test]
fn half_of_slurm() {
    refused(&[&[("SLURM_PROCID", "0")]], "SLURM_NTASKS is not set");
    let batch: Environment<'_> =
        &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "2")];
    refused(
        &[batch],
        "SLURM_STEP_ID is not set, which locates the other processes: start the script with srun",
    );
    let step: Environment<'_> = &[("SLURM_STEP_ID", "0")];
    refused(&[batch, step], "SLURM_JOB_NODELIST is not set");
    refused(&[&batch[..2], step], "SLURM_JOB_ID is not set");
    let nodes: Environment<'_> = &[("SLURM_JOB_NODELIST", "n[1-2]")];
    refused(&[batch, step, nodes], "SLURM_TASKS_PER_NODE is not set");
    refused(&[batch, step, nodes, &[("SLURM_TASKS_PER_NODE", "3")]], "SLURM_TASKS_PER_NODE is `3`");
    let broken: Environment<'_> = &[("SLURM_JOB_NODELIST", "n[1-")];
    refused(&[batch, step, broken], "SLURM_JOB_NODELIST is `n[1-`");
    refused(
        &[&[("SLURM_DISTRIBUTION", "arbitrary")], SLURM_NODES],
        "SLURM_DISTRIBUTION is `arbitrary`",
    );
    refused(&[&[("SLURM_PROCID", "9")], SLURM], "SLURM_PROCID is 9");
}

const JOBSET: Environment<'_> = &[
    ("JOBSET_NAME", "ctr"),
    ("REPLICATED_JOB_NAME", "trainer"),
    ("JOB_COMPLETION_INDEX", "1"),
    ("PADDLE_PSERVERS_NUM", "2"),
    ("PADDLE_TRAINERS_NUM", "3"),
];

#[test]
fn jobsets() {
    let servers = "ctr-server-0-0.ctr:6174,ctr-server-0-1.ctr:6174";
    check(Both, &[JOBSET], &format!("trainer 1 of 3: {servers}"));
    let server: Environment<'_> = &[("REPLICATED_JOB_NAME", "server")];
    check(Both, &[server, JOBSET], &format!("server 1 of 3: {servers}"));
    let many: Environment<'_> = &[
        ("REPLICATED_JOB_NAME", "worker"),
        ("JOB_INDEX", "2"),
        ("PROCESSES_IN_JOB", "1"),
        ("JOB_COMPLETION_INDEX", "0"),
        ("JOB_SUBDOMAIN", "net"),
    ];
    check(Both, &[many, JOBSET], "trainer 2 of 3: ctr-ps-0-0.net:6174,ctr-ps-1-0.net:6174");
    check(
        Trainers,
        &[JOBSET],
        "trainer 1 of 3: ctr-trainer-0-0.ctr:6174,ctr-trainer-0-1.ctr:6174,ctr-trainer-0-2.ctr:6174",
    );
    for (at, name) in [
        (1, "REPLICATED_JOB_NAME"),
        (2, "JOB_COMPLETION_INDEX"),
        (3, "PADDLE_PSERVERS_NUM"),
        (4, "PADDLE_TRAINERS_NUM"),
    ] {
        refused(&[&JOBSET[..at], &JOBSET[at + 1..]], &format!("{name} is not set"));
    }
    refused(&[&[("REPLICATED_JOB_NAME", "db")], JOBSET], "REPLICATED_JOB_NAME is `db`");
    refused(&[&[("JOB_INDEX", "1")], JOBSET], "PROCESSES_IN_JOB is not set");
    refused(&[&[("JOB_COMPLETION_INDEX", "3")], JOBSET], "JOB_COMPLETION_INDEX is 3");
}

#[test]
fn indexed_jobs() {
    let one: Environment<'_> = &[
        ("JOB_COMPLETION_INDEX", "2"),
        ("HOSTNAME", "line-2"),
        ("PADDLE_PSERVERS_NUM", "1"),
        ("PADDLE_TRAINERS_NUM", "2"),
    ];
    check(Both, &[one], "trainer 1 of 2: line-0.line:6174");
    refused(&[&one[..2]], "PADDLE_TRAINERS_NUM is not set");
    refused(&[&one[..1], &one[2..]], "HOSTNAME is not set");
    refused(&[&[("HOSTNAME", "other")], one], "HOSTNAME is `other`");
    // The variables of `paddlewheel render k8s`: servers by name, trainers by number.
    let listed: Environment<'_> = &[
        ("PADDLE_PSERVERS_IP_PORT_LIST", "job-server-0.job:6174,job-server-1.job:6174"),
        ("PADDLE_TRAINERS_NUM", "2"),
    ];
    let list = "job-server-0.job:6174,job-server-1.job:6174";
    let trainer: Environment<'_> = &[("TRAINING_ROLE", "TRAINER"), ("JOB_COMPLETION_INDEX", "1")];
    check(Both, &[listed, trainer], &format!("trainer 1 of 2: {list}"));
    let server: Environment<'_> = &[("TRAINING_ROLE", "PSERVER"), ("HOSTNAME", "job-server-1")];
    check(Both, &[listed, server], &format!("server 1 of 2: {list}"));
    check(Both, &[listed, server, &[("POD_IP", "10.1.2.3")]], &format!("server 1 of 2: {list}"));
    refused(&[listed, &server[..1]], "POD_IP is not set");
    refused(&[listed, &trainer[..1]], "PADDLE_TRAINER_ID is not set");
}

#[test]
fn volcano() {
    let all: Environment<'_> = &[
        ("VC_TASK_INDEX", "1"),
        ("VK_TASK_INDEX", "1"),
        ("VC_PS_HOSTS", "ctr-ps-0.ctr,ctr-ps-1.ctr"),
        ("VC_PS_NUM", "2"),
        ("VC_WORKER_HOSTS", "ctr-worker-0.ctr,ctr-worker-1.ctr"),
        ("VC_WORKER_NUM", "2"),
        ("HOSTNAME", "ctr-worker-1"),
    ];
    let list = "ctr-ps-0.ctr:6174,ctr-ps-1.ctr:6174";
    check(Both, &[all], &format!("trainer 1 of 2: {list}"));
    check(Both, &[&[("HOSTNAME", "ctr-ps-1")], all], &format!("server 1 of 2: {list}"));
    check(Both, &[&[("TRAINING_ROLE", "PSERVER")], &all[..6]], &format!("server 1 of 2: {list}"));
    check(Trainers, &[all], "trainer 1 of 2: ctr-worker-0.ctr:6174,ctr-worker-1.ctr:6174");
    refused(&[&all[2..]], "VC_TASK_INDEX is not set");
    refused(&[&all[..2], &all[4..]], "VC_PS_HOSTS is not set");
    refused(&[&all[..4]], "VC_WORKER_HOSTS is not set");
    refused(&[&all[..6]], "HOSTNAME is not set");
    refused(&[&[("HOSTNAME", "elsewhere")], all], "HOSTNAME is `elsewhere`");
}

#[test]
fn the_operator_of_paddle() {
    // `PADDLE_TRAINER_ID` is on servers too, `PADDLE_TRAINERS` has addresses.
    let server: Environment<'_> = &[
        ("PADDLE_PSERVERS_IP_PORT_LIST", "10.0.0.3:2379,10.0.0.4:2379"),
        ("PADDLE_TRAINER_ENDPOINTS", "10.0.0.5:2379,10.0.0.6:2379"),
        ("PADDLE_TRAINERS", "10.0.0.5,10.0.0.6"),
        ("PADDLE_TRAINERS_NUM", "2"),
        ("PADDLE_PORT", "2379"),
        ("TRAINER_PORTS_NUM", "1"),
        ("PADDLE_WITH_GLOO", "0"),
        ("POD_IP", "10.0.0.4"),
        ("PADDLE_TRAINER_ID", "1"),
        ("TRAINING_ROLE", "PSERVER"),
        ("PADDLE_TRAINING_ROLE", "PSERVER"),
    ];
    check(Both, &[server], "server 1 of 2: 10.0.0.3:2379,10.0.0.4:2379");
    let trainer: Environment<'_> =
        &[("TRAINING_ROLE", "TRAINER"), ("POD_IP", "10.0.0.5"), ("PADDLE_TRAINER_ID", "0")];
    check(Both, &[trainer, server], "trainer 0 of 2: 10.0.0.3:2379,10.0.0.4:2379");
}

#[test]
fn paddles_own_variables_go_first() {
    let own: Environment<'_> = &[
        ("PADDLE_PSERVERS_IP_PORT_LIST", "a:1"),
        ("PADDLE_TRAINERS_NUM", "2"),
        ("TRAINING_ROLE", "TRAINER"),
        ("PADDLE_TRAINER_ID", "1"),
    ];
    for other in [SLURM, OPEN_MPI, MPICH, JOBSET, &[("PADDLE_MASTER", "m:1")]] {
        check(Both, &[own, other], "trainer 1 of 2: a:1");
    }
    refused(&[&[]], "PADDLE_PSERVERS_IP_PORT_LIST is not set");
}

/// The request of a process at the rendezvous.
fn asks(list: &[Environment<'_>], members: JobMembers) -> Rendezvous {
    match find(&list.concat(), members) {
        Ok(Identity::Asks(meeting)) => *meeting,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_of_kubeflow() {
    let all: Environment<'_> = &[
        ("PADDLE_JOB_ID", "ctr"),
        ("PADDLE_NNODES", "4"),
        ("PADDLE_MASTER", "ctr-master-0:36543"),
        ("HOSTNAME", "ctr-master-1"),
    ];
    let server = asks(&[all, &[("PADDLE_SERVER_NUM", "1")]], Both);
    assert_eq!(server.master.to_string(), "ctr-master-0:36543");
    let report = &server.report;
    assert_eq!((report.side, report.rank, report.n), (Side::Server, None, 4));
    assert_eq!((report.endpoint.port, report.is_fixed), (36544, false));
    let trainer = asks(&[all, &[("PADDLE_TRAINER_NUM", "1")]], Both).report;
    assert_eq!((trainer.side, trainer.endpoint.port), (Side::Trainer, 0));
    let alone = asks(&[all, &[("POD_IP", "10.0.0.9"), ("PADDLE_PORT", "7")]], Trainers).report;
    assert_eq!((alone.endpoint.to_string().as_str(), alone.is_fixed), ("10.0.0.9:7", true));
    refused(&[all], "TRAINING_ROLE is not set");
    refused(&[all, &[("PADDLE_SERVER_NUM", "2")]], "PADDLE_SERVER_NUM is `2`");
    refused(&[&all[2..], &[("PADDLE_SERVER_NUM", "1")]], "PADDLE_NNODES is not set");
    refused(&[&[("PADDLE_MASTER", "nowhere")]], "PADDLE_MASTER is `nowhere`");
}

#[test]
fn ranks_of_several_machines_meet() {
    let master: Environment<'_> = &[("PADDLE_MASTER", "a:1")];
    let far: Environment<'_> = &[("OMPI_COMM_WORLD_LOCAL_SIZE", "2")];
    for (engine, side, rank) in
        [(OPEN_MPI, Side::Server, 1), (MPICH, Side::Trainer, 1), (SLURM, Side::Server, 1)]
    {
        let report = asks(&[far, engine, master], Both).report;
        assert_eq!((report.side, report.rank, report.n), (side, Some(rank), 4));
        assert_eq!(report.n_servers, Some(2));
    }
    let report = asks(&[master, SLURM], Trainers).report;
    assert_eq!((report.rank, report.n, report.n_servers), (Some(2), 4, Some(0)));
}

#[test]
fn two_processes_a_machine() {
    let rank = |rank, more: Environment<'_>| {
        let own: Environment<'_> = &[("OMPI_COMM_WORLD_RANK", rank), ("OMPI_COMM_WORLD_SIZE", "4")];
        match mpi_identity(&vars(&[own, more].concat())) {
            Ok(Identity::Known(role)) => Ok(role),
            Err(error) => Err(error),
            Ok(other) => panic!("{other:?}"),
        }
    };
    let here: Environment<'_> = &[("OMPI_COMM_WORLD_LOCAL_SIZE", "4")];
    let (server, trainer) = (rank("2", here).unwrap(), rank("1", here).unwrap());
    assert_eq!((server.kind, server.id), (RoleKind::Server, 1));
    assert_eq!((trainer.kind, trainer.id, trainer.n_trainers), (RoleKind::Trainer, 0, 2));
    assert_eq!(server.servers, trainer.servers);
    let ports: Vec<_> = server.servers.iter().map(|server| server.port).collect();
    assert!(ports[0] != ports[1] && ports.iter().all(|port| (60_001..=64_000).contains(port)));
    let list: Environment<'_> = &[("PADDLE_PSERVERS", "a,b"), ("PADDLE_PORT", "9")];
    assert_eq!(rank("0", list).unwrap().endpoint().unwrap().to_string(), "a:9");
}

#[test]
fn mpi_that_does_not_fit() {
    let check = |given: Environment<'_>| mpi_identity(&vars(given)).unwrap_err();
    assert!(matches!(check(&[]), Error::MissingVariable { name: "OMPI_COMM_WORLD_SIZE", .. }));
    let odd = check(&[("PMI_RANK", "0"), ("PMI_SIZE", "3")]);
    assert!(matches!(odd, Error::BadVariable { name: "PMI_SIZE", .. }));
    let nowhere = check(&[("PMI_RANK", "0"), ("PMI_SIZE", "4")]);
    assert!(matches!(nowhere, Error::MissingVariable { name: "PADDLE_PSERVERS_IP_PORT_LIST", .. }));
    let short = check(&[("PMI_RANK", "0"), ("PMI_SIZE", "4"), ("PADDLE_PSERVERS", "a")]);
    assert!(matches!(short, Error::BadVariable { name: "PADDLE_PSERVERS", .. }));
}

#[test]
fn every_division_has_each_number_once() {
    for n in 2..12 {
        for n_servers in 1..n {
            let division = ranks::Division { n, n_servers };
            let ids = |server: bool| -> Vec<u32> {
                let ranks = (0..n).filter(|rank| division.is_server(*rank) == server);
                ranks.map(|rank| division.id(rank)).collect()
            };
            assert_eq!(ids(true), (0..n_servers as u32).collect::<Vec<_>>(), "{n_servers} of {n}");
            assert_eq!(ids(false), (0..(n - n_servers) as u32).collect::<Vec<_>>());
        }
    }
}

#[test]
fn ports_of_jobs_are_below_those_of_connections() {
    for job in ["", "1.0", "626524161", "a long name"] {
        assert!((20_000..30_000).contains(&ranks::port_of(job)), "{job}");
    }
}
