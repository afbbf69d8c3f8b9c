//! Command lines, and the options that they become.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use fleet::launch::options::{
    CollectiveOptions, PsOptions, RecoveryOptions, ScaleOptions, WatchedProcesses,
};
use fleet::launch::{EngineOptions, Target};

use super::*;
use crate::words::in_order;

type Parsed<T> = std::result::Result<T, clap::Error>;

fn parse(line: &str) -> Parsed<SubCommand> {
    let mut tree = crate::commands::tree::tree();
    tree.build();
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    SubCommand::from_arg_matches(&tree.try_get_matches_from_mut(in_order(&tree.clone(), &words))?)
}

fn ps(line: &str) -> Parsed<PsOptions> {
    match parse(&format!("launch_ps {line}"))? {
        SubCommand::LaunchPs(command) => Ok(command.options()),
        _ => panic!("{line}"),
    }
}

fn collective(line: &str) -> CollectiveOptions {
    match parse(&format!("launch {line}")) {
        Ok(SubCommand::Launch(command)) => command.options(),
        _ => panic!("{line}"),
    }
}

fn engine(line: &str) -> EngineOptions {
    match parse(&format!("launch_ps {line}")) {
        Ok(SubCommand::LaunchPs(command)) => {
            let target = command.engine_target().unwrap();
            command.engine_options(target)
        }
        _ => panic!("{line}"),
    }
}

fn scale(line: &str) -> ScaleOptions {
    match parse(&format!("scale {line}")) {
        Ok(SubCommand::Scale(command)) => command.options().unwrap(),
        _ => panic!("{line}"),
    }
}

fn watch(line: &str) -> WatchedProcesses {
    match parse(&format!("watch {line}")) {
        Ok(SubCommand::Watch(command)) => command.options(),
        _ => panic!("{line}"),
    }
}

/// The words are refused for this reason, with this text.
#[track_caller]
fn refused(line: &str, kind: ErrorKind, text: &str) {
    let error = parse(line).err().unwrap_or_else(|| panic!("{line} is taken"));
    assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{line}: {error}");
    assert!(error.to_string().contains(text), "{line}: {text} is not in {error}");
}

#[test]
fn defaults_are_fluids() {
    let options = ps("train.py --is_cloud=1 --worker_num 9 -- -h").unwrap();
    assert_eq!((options.n_trainers, options.n_servers, options.start_port), (2, None, None));
    assert!(options.is_verbose && options.nodes.is_empty() && options.node.is_none());
    assert_eq!(options.script.path, PathBuf::from("train.py"));
    assert_eq!(options.script.arguments, ["--is_cloud=1", "--worker_num", "9", "--", "-h"]);
    let options = ps("--worker_num 3 -- --train.py --worker_num 9").unwrap();
    assert_eq!((options.n_trainers, options.script.path), (3, PathBuf::from("--train.py")));
    assert_eq!(options.script.arguments, ["--worker_num", "9"]);
}

#[test]
fn a_page_may_have_an_address() {
    let web = |line: &str| ps(line).map(|options| options.watch.web);
    assert_eq!(web("train.py --web").unwrap(), None, "an option of the script");
    assert_eq!(web("--web train.py").unwrap(), Some(String::new()));
    assert_eq!(web("--web --worker_num 3 train.py").unwrap(), Some(String::new()));
    for line in ["--web 0.0.0.0:80 --worker_num 1 train.py", "--web=0.0.0.0:80 train.py"] {
        assert_eq!(web(line).unwrap(), Some("0.0.0.0:80".to_string()));
    }
    refused("launch_ps --web=here train.py", ErrorKind::ValueValidation, "it must be HOST:PORT");
    let is_on = |line: &str| ps(line).unwrap().watch.is_on;
    assert!(is_on("train.py") && !is_on("--metrics False train.py"));
    let is_on = |line: &str| collective(line).watch.is_on;
    assert!(!is_on("train.py") && is_on("--web train.py") && is_on("--metrics 1 train.py"));
}

#[test]
fn processes_to_watch_are_named() {
    let found = watch("--jsonl a.jsonl --web 127.0.0.1:1 a:7170 b:7170");
    assert_eq!(found.addresses, ["a:7170", "b:7170"]);
    assert_eq!(found.watch.web.as_deref(), Some("127.0.0.1:1"));
    refused("watch", ErrorKind::MissingRequiredArgument, "HOST:PORT");
    refused("watch train.py", ErrorKind::ValueValidation, "not an end point");
}

#[test]
fn options_in_both_spellings() {
    let line = "--worker_num=3 --server_num 7 --server_num 1 --endpoints a:1,b:2 --start_port 7000 \
                --cluster_node_ips 10.0.0.1,10.0.0.2 --node_ip=10.0.0.2 --log_dir /tmp/l \
                --print_config False ./train";
    let options = ps(line).unwrap();
    assert_eq!((options.n_trainers, options.n_servers), (3, Some(1)), "the last one counts");
    assert_eq!(options.start_port, Some(7000));
    assert_eq!(options.endpoints[1].to_string(), "b:2");
    assert_eq!(options.nodes, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(options.node.as_deref(), Some("10.0.0.2"));
    assert!(!options.is_verbose);
    let all = "--nproc_per_node 2 --selected_gpus=0,1,2 --use_paddlecloud --log_level 20 x.py";
    let options = collective(all);
    assert_eq!((options.n_processes, options.gpus.len(), options.is_cloud), (2, 3, true));
    let gpus = collective("--selected_gpus 0,1 x.py");
    assert_eq!((gpus.n_processes, gpus.log_dir), (2, None));
}

#[test]
fn what_happens_when_a_process_dies() {
    assert_eq!(ps("x.py").unwrap().recovery, RecoveryOptions::default());
    let line =
        "--snapshot_dir s --snapshot_secs 0.5 --resume=r --max_restarts 7 --grace_secs 0 x.py";
    let all = RecoveryOptions {
        max_restarts: Some(7),
        snapshot_dir: Some("s".into()),
        snapshot_every: Some(Duration::from_millis(500)),
        resume: Some("r".into()),
        grace: Some(Duration::ZERO),
    };
    assert_eq!(ps(line).unwrap().recovery, all);
}

#[test]
fn an_engine_is_named_before_the_script() {
    for line in ["--on slurm --worker_num 3 t.py --on x", "--worker_num 3 --on=slurm t.py --on x"] {
        let found = engine(line);
        assert_eq!((found.target, found.job.n_trainers), (Target::Slurm, 3), "{line}");
        assert_eq!(found.job.script.arguments, ["--on", "x"]);
        assert_eq!((found.job.name.as_str(), found.job.memory.as_str()), ("t", "2Gi"));
    }
    let found = engine("--on mpi --hosts a,b --mpirun /opt/mpirun --snapshot_dir s x.py");
    assert_eq!((found.hosts.len(), found.mpirun), (2, PathBuf::from("/opt/mpirun")));
    assert_eq!(found.snapshot_dir, Some(PathBuf::from("s")));
    refused("launch_ps --on slurn x.py", ErrorKind::InvalidValue, "'slurm'");
    refused("launch_ps --on", ErrorKind::InvalidValue, "--on <ENGINE>");
    refused("launch_ps --memory 1Gi x.py", ErrorKind::MissingRequiredArgument, "--on");
}

#[test]
fn options_of_one_place_are_refused_at_another() {
    let run = |line: &str| match parse(&format!("launch_ps {line}")) {
        Ok(SubCommand::LaunchPs(command)) => {
            command.run(&Caller::plain("paddlewheel".into())).unwrap_err().to_string()
        }
        _ => panic!("{line}"),
    };
    assert_eq!(run("--on slurm --web x.py"), "--web is not for jobs on slurm");
    assert_eq!(run("--on k8s --start_port 1 x.py"), "--start_port is not for jobs on k8s");
    assert_eq!(run("--on ray --image i x.py"), "--image is not for jobs on ray");
    for (on, options) in [
        (
            "slurm",
            &["--hosts a", "--mpirun m", "--image i", "--storage 1Gi", "--storage_class c"][..],
        ),
        ("slurm", &["--print_config False", "--resume r", "--metrics True"]),
        ("mpi", &["--cpus 2", "--memory 1Gi", "--time 1", "--partition p", "--image i"]),
        ("k8s", &["--hosts a", "--mpirun m", "--time 1", "--partition p", "--snapshot_dir s"]),
        ("ray", &["--name n", "--port 7", "--start_port 7", "--endpoints a:1", "--node_ip a"]),
    ] {
        for option in options {
            let name = option.split(' ').next().unwrap();
            let expected = format!("{name} is not for jobs on {on}");
            assert_eq!(run(&format!("--on {on} {option} x.py")), expected);
        }
    }
    let render = |line: &str| match parse(&format!("render {line}")) {
        Ok(SubCommand::Render(command)) => command.run().unwrap_err(),
        _ => panic!("{line}"),
    };
    let refused = render("slurm --image i x.py");
    assert!(refused.is_usage());
    assert_eq!(refused.to_string(), "--image is not for jobs on slurm");
    let refused = render("jobset --image i --time 1 x.py");
    assert_eq!(refused.to_string(), "--time is not for jobs on jobset");
}

#[test]
fn an_engine_is_told_about_logs_and_who_may_take_part() {
    let safety =
        "--log_format json --secret_file s --tls_cert c --tls_key k --tls_ca a --tls_name n";
    for on in ["slurm", "mpi", "k8s"] {
        let job = engine(&format!("--on {on} {safety} --save_root /a:/b x.py")).job;
        assert_eq!(job.log_format, Some(fleet::launch::options::LogFormat::Json));
        assert_eq!(job.safety.secret_file, Some("s".into()));
        assert_eq!(job.safety.tls_ca, Some("a".into()));
        assert_eq!(job.safety.tls_name.as_deref(), Some("n"));
        assert_eq!(job.safety.save_root.as_deref(), Some("/a:/b"));
    }
    assert!(engine("--on mpi --tls x.py").job.safety.tls);
    let printed = match parse(&format!("render slurm {safety} --insecure x.py")) {
        Ok(SubCommand::Render(command)) => command.options(),
        _ => panic!("{safety}"),
    };
    assert!(printed.safety.insecure && printed.log_format.is_some());
}

#[test]
fn a_job_is_scaled_by_its_folder() {
    let patience = Duration::from_secs(7);
    let wanted = ScaleOptions { folder: "snap".into(), n_servers: 3, patience };
    for line in ["snap --servers 3 --wait_secs 7", "--servers=3 --wait_secs 7 snap"] {
        assert_eq!(scale(line), wanted, "{line}");
    }
    refused("scale --servers 3", ErrorKind::MissingRequiredArgument, "<DIR>");
    refused("scale snap", ErrorKind::MissingRequiredArgument, "--servers <N>");
    refused("scale --servers 2 snap more", ErrorKind::UnknownArgument, "'more'");
}

#[test]
fn refusals_name_the_option() {
    use ErrorKind::{InvalidSubcommand, InvalidValue, UnknownArgument, ValueValidation};
    refused("launch_ps", ErrorKind::MissingRequiredArgument, "<SCRIPT>");
    refused("launch_ps --worker_num 2", ErrorKind::MissingRequiredArgument, "<SCRIPT>");
    refused("launch_ps --worker_num", InvalidValue, "--worker_num <N>");
    refused("launch_ps --threads 2 x.py", UnknownArgument, "--threads");
    refused("launch_ps --woker_num 2 x.py", UnknownArgument, "'--worker_num'");
    refused("launch_ps --max_restart 1 x.py", UnknownArgument, "'--max_restarts'");
    refused("launch --worker_num 2 x.py", UnknownArgument, "'--worker_num'");
    refused("lanch_ps x.py", InvalidSubcommand, "'launch_ps'");
    let number = "it must be a number from 0 to 10000";
    refused("launch_ps --worker_num two x.py", ValueValidation, number);
    refused("launch_ps --server_num 99999 x.py", ValueValidation, number);
    refused("launch_ps --max_restarts -1 x.py", ValueValidation, number);
    refused("launch_ps --start_port 0 x.py", ValueValidation, "a port from 1 to 65535");
    refused("launch_ps --print_config maybe x.py", ValueValidation, "True or False");
    refused("launch_ps --snapshot_secs -1 x.py", ValueValidation, "seconds above 0");
    refused("launch_ps --snapshot_secs 0 x.py", ValueValidation, "seconds above 0");
    refused("launch_ps --grace_secs nan x.py", ValueValidation, "seconds, 0 or more");
    refused("launch_ps --endpoints a x.py", ValueValidation, "not an end point");
    refused("render k9s x.py", InvalidValue, "'k8s'");
    refused("export m --to onx", InvalidValue, "'onnx'");
    refused("fit a.csv --target y --model deepfn", InvalidValue, "'deepfm'");
    refused("criteo-reader 0", ValueValidation, "0 is not in");
    refused("make-criteo a --files 0", ValueValidation, "0 is not in");
}

#[test]
fn options_of_fit_are_settings() {
    let fit = |line: &str| match parse(line) {
        Ok(SubCommand::Fit(command)) => command.command(),
        _ => panic!("{line}"),
    };
    let made = fit("fit a.csv --target y --model=fm --hidden 8,4 --column a=b=count");
    assert_eq!(made.settings.architecture, ctr::Architecture::Fm);
    assert_eq!(made.settings.hidden, [8, 4]);
    assert_eq!(made.settings.kinds["a=b"], ctr::FeatureKind::Count);
    // The defaults depend on the loss.
    let made = fit("fit a --epochs 3 --loss squared --target y --validation 0.2 --column a=number");
    assert_eq!((made.settings.epochs, made.settings.dim), (3, 16));
    assert_eq!((made.settings.validation, made.validation), (Some(0.2), None));
    let made = fit("fit a --target y --validation b.csv");
    assert_eq!((made.settings.validation, made.validation), (None, Some("b.csv".to_string())));
}

#[test]
fn a_reader_has_the_words_that_datasets_know() {
    // The values that a dataset's pipe command may have are those of the command.
    let tree = crate::commands::tree::tree();
    let reader = tree.find_subcommand("criteo-reader").unwrap();
    for (id, option) in [("hash", "--hash"), ("dense", "--dense")] {
        let arg = reader.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        for value in arg.get_possible_values() {
            let words = ["7", option, value.get_name()];
            data::Criteo::from_arguments(&words).unwrap();
        }
    }
}
