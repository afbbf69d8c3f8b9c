//! The variables that identify a process in a cluster: every name, and their precedence.
//!
//! Names changed with Fluid's versions, and scripts, launchers and platforms of all ages are about.
//! The newest name wins; an empty value counts as none. *Add a variable here, nowhere else.*

use std::ffi::OsString;
use std::path::PathBuf;

use base::Endpoint;

use crate::error::{Error, Result};

/// A server's port unless a variable says otherwise.
pub const PORT: u16 = 6174;

/// `ip:port,ip:port`, or, under the older names, addresses that share a port.
pub(crate) const SERVERS: &[&str] = &[
    "PADDLE_PSERVERS_IP_PORT_LIST",
    "PADDLE_PSERVERS",
    "PADDLE_PSERVER_IPS",
    "PADDLE_INIT_PSERVERS",
];
/// The port of servers. Each list of addresses has its own name for it; the others are used if it
/// is missing.
const PORTS: &[&str] = &["PADDLE_PORT", "PADDLE_PSERVER_PORT", "PADDLE_INIT_PORT"];
/// How many trainers there are.
pub(crate) const N_TRAINERS: &[&str] = &["PADDLE_TRAINERS_NUM", "PADDLE_TRAINERS", "TRAINERS"];
/// `TRAINER` or `PSERVER`.
pub(crate) const ROLE: &[&str] = &["TRAINING_ROLE", "PADDLE_TRAINING_ROLE"];
/// Trainers that work without servers, each on its own machine.
pub(crate) const TRAINER_IPS: &[&str] = &["PADDLE_TRAINER_IPS"];
/// Which trainer this is; a job of Kubernetes or Volcano numbers its pods.
pub(crate) const TRAINER_ID: &[&str] = &[
    "PADDLE_TRAINER_ID",
    "PADDLE_INIT_TRAINER_ID",
    "JOB_COMPLETION_INDEX",
    "VC_TASK_INDEX",
    "VK_TASK_INDEX",
];
/// Which server this is, by address.
pub(crate) const OWN_IP: &[&str] = &["POD_IP", "PADDLE_CURRENT_IP"];
/// Which server this is, by number.
pub(crate) const SERVER_ID: &[&str] = &["PADDLE_PSERVER_ID"];
/// Where trainers are reached.
pub(crate) const TRAINERS: &[&str] = &["PADDLE_TRAINER_ENDPOINTS"];
/// Which of them this is.
pub(crate) const OWN_ENDPOINT: &[&str] = &["PADDLE_CURRENT_ENDPOINT"];
/// How many servers there are, where an engine gives no addresses and no roles.
pub(crate) const N_SERVERS: &[&str] = &["PADDLE_PSERVERS_NUM"];
/// The name of this machine, as the others know it.
pub(crate) const HOST_NAME: &[&str] = &["POD_NAME", "HOSTNAME"];

/// Where processes meet that have no lists.
pub(crate) const MASTER: &[&str] = &["PADDLE_MASTER"];
/// How many processes meet there.
pub(crate) const N_NODES: &[&str] = &["PADDLE_NNODES"];
/// The name of their job.
pub(crate) const JOB_ID: &[&str] = &["PADDLE_JOB_ID"];
/// Servers in this pod.
pub(crate) const POD_SERVERS: &[&str] = &["PADDLE_SERVER_NUM"];
/// Trainers in this pod.
pub(crate) const POD_TRAINERS: &[&str] = &["PADDLE_TRAINER_NUM"];

/// Which pod of an indexed Job this is.
pub(crate) const COMPLETION_INDEX: &[&str] = &["JOB_COMPLETION_INDEX"];
/// The headless Service of a Job or JobSet; its own name if it is not set.
pub(crate) const SUBDOMAIN: &[&str] = &["JOB_SUBDOMAIN"];
/// The JobSet of this pod.
pub(crate) const JOBSET: &[&str] = &["JOBSET_NAME"];
/// Its replicated job in that JobSet.
pub(crate) const REPLICATED_JOB: &[&str] = &["REPLICATED_JOB_NAME"];
/// Which of the replicated jobs.
pub(crate) const JOB_INDEX: &[&str] = &["JOB_INDEX"];
/// How many pods each of them has.
pub(crate) const PODS_PER_JOB: &[&str] = &["PROCESSES_IN_JOB"];

/// Which pod of a task of Volcano this is.
pub(crate) const VOLCANO_INDEX: &[&str] = &["VC_TASK_INDEX", "VK_TASK_INDEX"];
/// The pods of the task that serves, by its usual names.
pub(crate) const VOLCANO_SERVERS: &[&str] = &["VC_PS_HOSTS", "VC_PSERVER_HOSTS", "VC_SERVER_HOSTS"];
/// The pods of the task that trains.
pub(crate) const VOLCANO_TRAINERS: &[&str] = &["VC_WORKER_HOSTS", "VC_TRAINER_HOSTS"];

/// The rank among the tasks of a Slurm step.
pub(crate) const SLURM_RANK: &[&str] = &["SLURM_PROCID"];
/// How many tasks there are.
pub(crate) const SLURM_SIZE: &[&str] = &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"];
/// The step: a batch script that is not started by `srun` has none.
pub(crate) const SLURM_STEP: &[&str] = &["SLURM_STEP_ID", "SLURM_STEPID"];
/// The job, for a port of its own.
pub(crate) const SLURM_JOB: &[&str] = &["SLURM_JOB_ID", "SLURM_JOBID"];
/// The machines, compressed.
pub(crate) const SLURM_NODES: &[&str] =
    &["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
/// How many tasks each machine has, compressed.
pub(crate) const SLURM_TASKS: &[&str] = &["SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"];
/// How tasks are spread over machines.
pub(crate) const SLURM_DISTRIBUTION: &[&str] = &["SLURM_DISTRIBUTION"];

/// The rank among all processes that Open MPI's `mpirun` started.
pub(crate) const OPEN_MPI_RANK: &[&str] = &["OMPI_COMM_WORLD_RANK"];
/// How many it started.
pub(crate) const OPEN_MPI_SIZE: &[&str] = &["OMPI_COMM_WORLD_SIZE"];
/// How many of them are on this machine.
pub(crate) const OPEN_MPI_LOCAL_SIZE: &[&str] = &["OMPI_COMM_WORLD_LOCAL_SIZE"];
/// The job, for a port of its own.
pub(crate) const OPEN_MPI_JOB: &[&str] = &["PMIX_NAMESPACE"];
/// The same of MPICH, Intel MPI and MVAPICH.
pub(crate) const PMI_RANK: &[&str] = &["PMI_RANK", "MV2_COMM_WORLD_RANK"];
/// How many processes there are.
pub(crate) const PMI_SIZE: &[&str] = &["PMI_SIZE", "MV2_COMM_WORLD_SIZE"];
/// How many of them are on this machine.
pub(crate) const PMI_LOCAL_SIZE: &[&str] = &["MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"];
/// How many processes `mpirun` started, under all names.
pub(crate) const MPI_SIZE: &[&str] = &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];
/// The servers, or the rendezvous, of an MPI job on several machines.
pub(crate) const MPI_SERVERS: &[&str] = &[
    "PADDLE_PSERVERS_IP_PORT_LIST",
    "PADDLE_PSERVERS",
    "PADDLE_PSERVER_IPS",
    "PADDLE_INIT_PSERVERS",
    "PADDLE_MASTER",
];
/// Proxies, which redirect connections.
pub(crate) const PROXIES: &[&str] = &["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"];
/// Where an object store is that is not Amazon's.
pub(crate) const S3_ENDPOINT: &[&str] = &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
/// Which region its buckets are in.
pub(crate) const S3_REGION: &[&str] = &["AWS_REGION", "AWS_DEFAULT_REGION"];
/// The credentials of the object store: a key, its secret, and the token of a temporary key.
pub(crate) const S3_KEY: &[&str] = &["AWS_ACCESS_KEY_ID"];
pub(crate) const S3_SECRET: &[&str] = &["AWS_SECRET_ACCESS_KEY"];
pub(crate) const S3_TOKEN: &[&str] = &["AWS_SESSION_TOKEN"];
/// Which of the user's profiles says so, and the files they are in.
pub(crate) const S3_PROFILE: &[&str] = &["AWS_PROFILE", "AWS_DEFAULT_PROFILE"];
pub(crate) const S3_CREDENTIALS: &[&str] = &["AWS_SHARED_CREDENTIALS_FILE"];
pub(crate) const S3_CONFIG: &[&str] = &["AWS_CONFIG_FILE"];
/// The role of a token file, the file, the name of the session, and the service that exchanges it for a key.
pub(crate) const S3_ROLE: &[&str] = &["AWS_ROLE_ARN"];
pub(crate) const S3_TOKEN_FILE: &[&str] = &["AWS_WEB_IDENTITY_TOKEN_FILE"];
pub(crate) const S3_SESSION: &[&str] = &["AWS_ROLE_SESSION_NAME"];
pub(crate) const S3_TOKEN_SERVICE: &[&str] = &["AWS_ENDPOINT_URL_STS"];
/// The agent of a container: a path or an address, and the token that it asks for.
pub(crate) const S3_CONTAINER_PATH: &[&str] = &["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"];
pub(crate) const S3_CONTAINER_URL: &[&str] = &["AWS_CONTAINER_CREDENTIALS_FULL_URI"];
pub(crate) const S3_CONTAINER_TOKEN: &[&str] = &["AWS_CONTAINER_AUTHORIZATION_TOKEN"];
pub(crate) const S3_CONTAINER_TOKEN_FILE: &[&str] = &["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"];
/// The agent of a machine, and whether it must not be asked.
pub(crate) const S3_INSTANCE: &[&str] = &["AWS_EC2_METADATA_SERVICE_ENDPOINT"];
pub(crate) const S3_NO_INSTANCE: &[&str] = &["AWS_EC2_METADATA_DISABLED"];
/// An emulator of Google's files, the file of a key, the folder of gcloud's settings, and the agent of a machine.
pub(crate) const GOOGLE_ENDPOINT: &[&str] = &["STORAGE_EMULATOR_HOST"];
pub(crate) const GOOGLE_KEY: &[&str] = &["GOOGLE_APPLICATION_CREDENTIALS"];
pub(crate) const GOOGLE_SETTINGS: &[&str] = &["CLOUDSDK_CONFIG"];
pub(crate) const GOOGLE_INSTANCE: &[&str] = &["GCE_METADATA_HOST"];
/// Azure's account, its key or signature, and both in one text.
pub(crate) const AZURE_ACCOUNT: &[&str] = &["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"];
pub(crate) const AZURE_KEY: &[&str] = &["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"];
pub(crate) const AZURE_SIGNATURE: &[&str] = &["AZURE_STORAGE_SAS_TOKEN"];
pub(crate) const AZURE_CONNECTION: &[&str] = &["AZURE_STORAGE_CONNECTION_STRING"];
/// An application of Azure's: its tenant, its name, its secret or token file, and the service that knows it.
pub(crate) const AZURE_TENANT: &[&str] = &["AZURE_TENANT_ID"];
pub(crate) const AZURE_CLIENT: &[&str] = &["AZURE_CLIENT_ID"];
pub(crate) const AZURE_SECRET: &[&str] = &["AZURE_CLIENT_SECRET"];
pub(crate) const AZURE_TOKEN_FILE: &[&str] = &["AZURE_FEDERATED_TOKEN_FILE"];
pub(crate) const AZURE_AUTHORITY: &[&str] = &["AZURE_AUTHORITY_HOST"];
/// The agent of one of Azure's machines.
pub(crate) const AZURE_INSTANCE: &[&str] = &["AZURE_POD_IDENTITY_AUTHORITY_HOST"];
/// A file with the certificates of trusted authorities.
pub(crate) const CERTIFICATES: &[&str] = &["AWS_CA_BUNDLE", "SSL_CERT_FILE"];
/// The user name for a Hadoop file system.
pub(crate) const HADOOP_USER: &[&str] = &["HADOOP_USER_NAME", "USER"];
/// The user's folder.
pub(crate) const HOME: &[&str] = &["HOME"];
/// Where commands are looked for.
pub(crate) const SEARCH_PATH: &[&str] = &["PATH"];
/// How many threads a process trains with.
pub(crate) const N_THREADS: &[&str] = &["CPU_NUM"];
/// How often a launcher has started this process again; ours.
pub(crate) const RESTARTS: &[&str] = &["PADDLE_RESTARTS"];

/// The file with the secret of the job; ours.
pub(crate) const SECRET_FILE: &[&str] = &["PADDLEWHEEL_SECRET_FILE"];
/// The secret itself; ours.
pub(crate) const SECRET: &[&str] = &["PADDLEWHEEL_SECRET"];
/// Whether other machines are spoken to without a secret; ours.
pub(crate) const INSECURE: &[&str] = &["PADDLEWHEEL_INSECURE"];
/// Whether other machines are never spoken to without a secret; ours.
pub(crate) const REQUIRE_SECRET: &[&str] = &["PADDLEWHEEL_REQUIRE_SECRET"];
/// The folder of files that programs keep between runs.
pub(crate) const STATE_HOME: &[&str] = &["XDG_STATE_HOME"];
/// The port at which this process answers HTTP requests of monitors; ours.
pub(crate) const METRICS_PORT: &[&str] = &["PADDLEWHEEL_METRICS_PORT"];
/// The address of that; this machine only without it.
pub(crate) const METRICS_HOST: &[&str] = &["PADDLEWHEEL_METRICS_HOST"];
/// The file that this process writes its last numbers to.
pub(crate) const LAST_STATE: &[&str] = &["PADDLEWHEEL_LAST_STATE"];
/// Which lines this process writes: levels, or levels of parts; ours.
pub(crate) const LOG: &[&str] = &["PADDLEWHEEL_LOG"];
/// Their form; ours.
pub(crate) const LOG_FORMAT: &[&str] = &["PADDLEWHEEL_LOG_FORMAT"];
/// How progress is shown; ours.
pub(crate) const PROGRESS: &[&str] = &["PADDLEWHEEL_PROGRESS"];
/// Seconds between two lines about progress in a log; ours.
pub(crate) const PROGRESS_SECS: &[&str] = &["PADDLEWHEEL_PROGRESS_SECS"];
/// Above 0, Fluid says more.
pub(crate) const GLOG_V: &[&str] = &["GLOG_v"];
/// Below it, Fluid says nothing.
pub(crate) const GLOG_MIN_LEVEL: &[&str] = &["GLOG_minloglevel"];
/// The kind of terminal.
pub(crate) const TERMINAL: &[&str] = &["TERM"];

/// The Python that runs scripts, where none has started us; ours.
pub(crate) const PYTHON: &[&str] = &["PADDLEWHEEL_PYTHON"];
/// Whether connections are encrypted with keys that are made for the job; ours.
pub(crate) const TLS: &[&str] = &["PADDLEWHEEL_TLS"];
/// The certificate of this process; ours.
pub(crate) const TLS_CERT: &[&str] = &["PADDLEWHEEL_TLS_CERT"];
/// Its private key; ours.
pub(crate) const TLS_KEY: &[&str] = &["PADDLEWHEEL_TLS_KEY"];
/// The authorities; ours.
pub(crate) const TLS_CA: &[&str] = &["PADDLEWHEEL_TLS_CA"];
/// The name that all certificates of a job have; ours.
pub(crate) const TLS_NAME: &[&str] = &["PADDLEWHEEL_TLS_NAME"];

/// Where files go that are not kept (`TMPDIR`).
pub fn temporary_folder() -> PathBuf {
    std::env::temp_dir()
}

/// How this process was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnProcess {
    /// Its program.
    pub program: PathBuf,
    /// The words behind the program.
    pub words: Vec<OsString>,
}

/// How this process was called.
pub fn own_process() -> OwnProcess {
    let mut words = std::env::args_os();
    let name = words.next().map(PathBuf::from);
    // Only a system without /proc does not know.
    let program = std::env::current_exe().ok().or(name).unwrap_or("paddlewheel".into());
    OwnProcess { program, words: words.collect() }
}

/// A variable of this process; one that is not valid Unicode counts as unset.
pub fn process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Variables by name, wherever they come from.
#[derive(Clone, Copy)]
pub(crate) struct EnvVars<'a>(pub(crate) &'a dyn Fn(&str) -> Option<String>);

/// A value and the name it was found under.
#[derive(Debug)]
pub(crate) struct FoundVar {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

impl FoundVar {
    /// The error about an invalid value.
    pub(crate) fn bad(&self, expected: &'static str) -> Error {
        Error::BadVariable { name: self.name, value: self.value.clone(), expected }
    }

    /// A number that is not negative.
    pub(crate) fn number(&self) -> Result<u32> {
        self.value.parse().map_err(|_| self.bad("a number, 0 or more"))
    }

    /// A number that is not 0.
    pub(crate) fn count(&self) -> Result<u32> {
        match self.value.parse() {
            Ok(0) | Err(_) => Err(self.bad("a number, 1 or more")),
            Ok(n) => Ok(n),
        }
    }

    /// The parts between commas.
    pub(crate) fn items(&self) -> impl Iterator<Item = &str> {
        self.value.split(',').map(str::trim).filter(|item| !item.is_empty())
    }

    /// A list of `host:port`.
    pub(crate) fn endpoints(&self) -> Result<Vec<Endpoint>> {
        let parse = |item: &str| item.parse().map_err(|_| self.bad("host:port,host:port,…"));
        let list: Vec<Endpoint> = self.items().map(parse).collect::<Result<_>>()?;
        let repeated = (1..list.len()).find(|&at| list[..at].contains(&list[at]));
        match repeated {
            None if !list.is_empty() => Ok(list),
            _ => Err(self.bad("host:port,host:port,… each once")),
        }
    }
}

impl EnvVars<'_> {
    /// The first of these names that is set.
    pub(crate) fn first(self, names: &'static [&'static str]) -> Option<FoundVar> {
        names.iter().find_map(|name| {
            let value = (self.0)(name)?.trim().to_string();
            (!value.is_empty()).then_some(FoundVar { name, value })
        })
    }

    /// The first of these variables that is set; it is an error if none is.
    pub(crate) fn need(self, names: &'static [&'static str]) -> Result<FoundVar> {
        self.first(names).ok_or(Error::MissingVariable { name: names[0], aliases: &names[1..] })
    }

    /// A variable that an engine sets together with `seen`; it is an error if it does not.
    pub(crate) fn with(
        self,
        names: &'static [&'static str],
        engine: &'static str,
        seen: &FoundVar,
    ) -> Result<FoundVar> {
        let (missing, seen) = (names[0], seen.name);
        self.first(names).ok_or(Error::HalfOf { engine, seen, missing })
    }

    /// The port of a server that shares its machine with no other.
    pub(crate) fn port(self) -> Result<Option<u16>> {
        let Some(found) = self.first(PORTS) else { return Ok(None) };
        found.value.parse().map(Some).map_err(|_| found.bad("a port, 0 to 65535"))
    }

    /// All servers, in the order that all processes share.
    pub(crate) fn servers(self) -> Result<Vec<Endpoint>> {
        let found = self.need(SERVERS)?;
        if found.name == SERVERS[0] {
            return found.endpoints();
        }
        let port = self.port_of(found.name)?.unwrap_or_else(|| vec![PORT]);
        let hosts: Vec<&str> = found.items().collect();
        if port.len() != 1 && port.len() != hosts.len() {
            return Err(found.bad("as many addresses as there are ports, or one port for all"));
        }
        let ports = port.iter().chain(std::iter::repeat(&port[0]));
        let with_port = |(host, port): (&str, &u16)| {
            if host.contains(':') { host.to_string() } else { format!("{host}:{port}") }
        };
        let list: Vec<String> = hosts.into_iter().zip(ports).map(with_port).collect();
        FoundVar { name: found.name, value: list.join(",") }.endpoints()
    }

    /// Trainers that work without servers, by the variables of the first Fluid: their addresses, and the
    /// port that each of them has. None if there is no such list.
    pub(crate) fn trainers_by_ip(self) -> Result<Option<Vec<Endpoint>>> {
        let Some(found) = self.first(TRAINER_IPS) else { return Ok(None) };
        let port = self.port_of("PADDLE_PSERVER_IPS")?.unwrap_or_else(|| vec![PORT]);
        let [port] = port[..] else { return Err(found.bad("addresses, with one port for all")) };
        let with_port = |host: &str| {
            if host.contains(':') { host.to_string() } else { format!("{host}:{port}") }
        };
        let list: Vec<String> = found.items().map(with_port).collect();
        FoundVar { name: found.name, value: list.join(",") }.endpoints().map(Some)
    }

    /// The port or ports that go with an address of this name, if any are set.
    pub(crate) fn port_of(self, name: &str) -> Result<Option<Vec<u16>>> {
        let own = match name {
            "PADDLE_PSERVER_IPS" | "PADDLE_CURRENT_IP" => &PORTS[1..2],
            "PADDLE_INIT_PSERVERS" => &PORTS[2..],
            _ => &PORTS[..1],
        };
        let Some(found) = self.first(own).or_else(|| self.first(PORTS)) else { return Ok(None) };
        let parse = |item: &str| item.parse().map_err(|_| found.bad("a port, 0 to 65535"));
        found.items().map(parse).collect::<Result<_>>().map(Some)
    }

    /// How many trainers there are. On some platforms `PADDLE_TRAINERS` lists their addresses.
    pub(crate) fn n_trainers(self) -> Result<u32> {
        let found = self.need(N_TRAINERS)?;
        let counted = || match found.name {
            "PADDLE_TRAINERS" if !found.value.starts_with('-') => Ok(found.items().count() as u32),
            _ => Err(found.bad("the number of trainers, 1 or more")),
        };
        match found.value.parse() {
            Ok(0) => Err(found.bad("the number of trainers, 1 or more")),
            Ok(n) => Ok(n),
            Err(_) => counted(),
        }
    }

    /// How many threads a process trains with.
    pub(crate) fn n_threads(self) -> Result<u32> {
        let Some(found) = self.first(N_THREADS) else { return Ok(1) };
        match found.number()? {
            0 => Err(found.bad("a number of threads, 1 or more")),
            n => Ok(n),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An environment of these variables.
    pub(crate) fn vars<'a>(
        list: &'a [(&'a str, &'a str)],
    ) -> impl Fn(&str) -> Option<String> + use<'a> {
        |name| list.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
    }

    #[track_caller]
    fn check(list: &[(&str, &str)], expected: &str) {
        let servers = EnvVars(&vars(list)).servers().unwrap();
        let servers: Vec<_> = servers.iter().map(Endpoint::to_string).collect();
        assert_eq!(servers.join(","), expected);
    }

    #[test]
    fn servers_under_every_name() {
        check(&[("PADDLE_PSERVERS_IP_PORT_LIST", "a:1, b:2")], "a:1,b:2");
        check(&[("PADDLE_PSERVERS", "a,b"), ("PADDLE_PORT", "7")], "a:7,b:7");
        check(&[("PADDLE_PSERVERS", "a,a"), ("PADDLE_PORT", "7,8")], "a:7,a:8");
        check(&[("PADDLE_PSERVERS", "a")], "a:6174");
        check(&[("PADDLE_PSERVER_IPS", "a,b"), ("PADDLE_PSERVER_PORT", "9")], "a:9,b:9");
        check(&[("PADDLE_PSERVER_IPS", "a"), ("PADDLE_PORT", "9")], "a:9");
        check(&[("PADDLE_INIT_PSERVERS", "a"), ("PADDLE_INIT_PORT", "3")], "a:3");
    }

    #[test]
    fn the_newest_name_wins_and_empty_is_none() {
        let both = [("PADDLE_PSERVERS_IP_PORT_LIST", "a:1"), ("PADDLE_PSERVER_IPS", "b")];
        check(&both, "a:1");
        check(&[("PADDLE_PSERVERS_IP_PORT_LIST", " "), ("PADDLE_PSERVER_IPS", "b")], "b:6174");
        let ports = [("PADDLE_PORT", "1"), ("PADDLE_PSERVER_PORT", "2")];
        check(&[&ports[..], &[("PADDLE_PSERVERS", "a")]].concat(), "a:1");
        check(&[&ports[..], &[("PADDLE_PSERVER_IPS", "a")]].concat(), "a:2");
    }

    #[test]
    fn refuses_lists_that_are_none() {
        for list in ["a", "a:x", ",", "a:1,a:1"] {
            let error = EnvVars(&vars(&[("PADDLE_PSERVERS_IP_PORT_LIST", list)])).servers();
            assert!(matches!(error, Err(Error::BadVariable { .. })), "{list}");
        }
        let uneven = [("PADDLE_PSERVERS", "a,b,c"), ("PADDLE_PORT", "1,2")];
        let error = EnvVars(&vars(&uneven)).servers();
        assert!(matches!(error, Err(Error::BadVariable { name: "PADDLE_PSERVERS", .. })));
    }

    #[test]
    fn a_missing_variable_is_named_with_its_aliases() {
        let error = EnvVars(&vars(&[])).servers().unwrap_err();
        let Error::MissingVariable { name, aliases } = error else { panic!("{error}") };
        assert_eq!((name, aliases), (SERVERS[0], &SERVERS[1..]));
    }

    #[test]
    fn trainers_are_counted() {
        let n = |name, value| EnvVars(&vars(&[(name, value)])).n_trainers();
        assert_eq!(n("PADDLE_TRAINERS_NUM", "4").unwrap(), 4);
        assert_eq!(n("PADDLE_TRAINERS", "2").unwrap(), 2);
        assert_eq!(n("PADDLE_TRAINERS", "10.0.0.1,10.0.0.2,10.0.0.3").unwrap(), 3);
        assert_eq!(n("TRAINERS", "1").unwrap(), 1);
        for (name, value) in [
            ("PADDLE_TRAINERS_NUM", "0"),
            ("PADDLE_TRAINERS_NUM", "a,b"),
            ("PADDLE_TRAINERS", "-1"),
        ] {
            assert!(matches!(n(name, value), Err(Error::BadVariable { .. })), "{name}={value}");
        }
    }
}
