//! Command lines of launchers.

use super::*;
use tensor::DidYouMean;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

#[test]
fn defaults_are_fluids() {
    let options = ps(&words("train.py --is_cloud=1 --worker_num 9")).unwrap().unwrap();
    assert_eq!((options.n_trainers, options.n_servers, options.start_port), (2, None, None));
    assert_eq!(options.log_dir, PathBuf::from("logs"));
    assert!(options.is_verbose && options.nodes.is_empty() && options.node.is_none());
    assert_eq!(options.script.path, PathBuf::from("train.py"));
    assert_eq!(options.script.arguments, ["--is_cloud=1", "--worker_num", "9"]);
}

#[test]
fn a_page_may_have_an_address() {
    let web = |line: &str| ps(&words(line)).map(|options| options.unwrap().watch.web);
    assert_eq!(web("train.py --web").unwrap(), None, "an option of the script");
    assert_eq!(web("--web train.py").unwrap(), Some(String::new()));
    for line in ["--web 0.0.0.0:80 train.py", "--web=0.0.0.0:80 train.py"] {
        assert_eq!(web(line).unwrap(), Some("0.0.0.0:80".to_string()));
    }
    let error = web("--web=here train.py").unwrap_err();
    assert!(matches!(error, Error::Usage(Usage::BadValue { option: "--web", .. })), "{error}");
    let is_on = |line: &str| ps(&words(line)).unwrap().unwrap().watch.is_on;
    assert!(is_on("train.py") && !is_on("--metrics False train.py"));
    let is_on = |line: &str| collective(&words(line)).unwrap().unwrap().watch.is_on;
    assert!(!is_on("train.py") && is_on("--web train.py") && is_on("--metrics 1 train.py"));
}

#[test]
fn processes_to_watch_are_named() {
    let found = watch(&words("--jsonl a.jsonl --web 127.0.0.1:1 a:7170 b:7170")).unwrap().unwrap();
    assert_eq!(found.addresses, ["a:7170", "b:7170"]);
    assert_eq!(found.watch.web.as_deref(), Some("127.0.0.1:1"));
    let error = watch(&[]).unwrap_err();
    assert!(matches!(error, Error::Usage(Usage::NoProcess)), "{error}");
    assert!(watch(&words("train.py")).is_err());
}

#[test]
fn options_in_both_spellings() {
    let line = "--worker_num=3 --server_num 1 --endpoints a:1,b:2 --start_port 7000 \
                --cluster_node_ips 10.0.0.1,10.0.0.2 --node_ip=10.0.0.2 --log_dir /tmp/l \
                --print_config False ./train";
    let options = ps(&words(line)).unwrap().unwrap();
    assert_eq!((options.n_trainers, options.n_servers), (3, Some(1)));
    assert_eq!(options.start_port, Some(7000));
    assert_eq!(options.endpoints[1].to_string(), "b:2");
    assert_eq!(options.nodes, ["10.0.0.1", "10.0.0.2"]);
    assert_eq!(options.node.as_deref(), Some("10.0.0.2"));
    assert!(!options.is_verbose);
    let all = "--nproc_per_node 2 --selected_gpus=0,1,2 --use_paddlecloud --log_level 20 x.py";
    let options = collective(&words(all)).unwrap().unwrap();
    assert_eq!((options.n_processes, options.gpus.len(), options.is_cloud), (2, 3, true));
    let gpus = collective(&words("--selected_gpus 0,1 x.py")).unwrap().unwrap();
    assert_eq!((gpus.n_processes, gpus.log_dir), (2, None));
}

#[test]
fn what_happens_when_a_process_dies() {
    let none = ps(&words("x.py")).unwrap().unwrap().recovery;
    assert_eq!(none, RecoveryOptions::default());
    let line = "--snapshot_dir s --snapshot_secs 0.5 --resume=r --max_restarts 7 \
                --grace_secs 0 x.py";
    let all = RecoveryOptions {
        max_restarts: Some(7),
        snapshot_dir: Some("s".into()),
        snapshot_every: Some(Duration::from_millis(500)),
        resume: Some("r".into()),
        grace: Some(Duration::ZERO),
    };
    assert_eq!(ps(&words(line)).unwrap().unwrap().recovery, all);
}

#[test]
fn a_job_is_scaled_by_its_folder() {
    let wanted =
        ScaleOptions { folder: "snap".into(), n_servers: 3, patience: Duration::from_secs(7) };
    for line in ["snap --servers 3 --wait_secs 7", "--servers=3 --wait_secs 7 snap"] {
        assert_eq!(scale(&words(line)).unwrap().unwrap(), wanted, "{line}");
    }
    assert_eq!(scale(&words("-h")).unwrap(), None);
    let refused = |line: &str| match scale(&words(line)) {
        Err(Error::Usage(usage)) => usage,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(refused("--servers 3"), Usage::NoFolder);
    assert_eq!(refused("snap"), Usage::NoValue("--servers".into()));
    assert_eq!(refused("snap --servers 0"), Usage::Nobody("server"));
    assert_eq!(refused("--servers 2 snap more"), Usage::Surplus("more".into()));
}

#[test]
fn help_is_no_job() {
    assert_eq!(ps(&words("--help")).unwrap(), None);
    assert_eq!(collective(&words("-h")).unwrap(), None);
}

#[test]
fn refusals_name_the_option() {
    let check = |line: &str, expected: Usage| match ps(&words(line)) {
        Err(Error::Usage(usage)) => assert_eq!(usage, expected),
        other => panic!("{line}: {other:?}"),
    };
    check("", Usage::NoScript);
    check("--worker_num 2", Usage::NoScript);
    check("--worker_num", Usage::NoValue("--worker_num".into()));
    let unknown = |option: &str, near: Option<&str>| {
        let near = DidYouMean(near.map(str::to_string));
        Usage::UnknownOption { option: option.into(), near }
    };
    check("--threads 2 x.py", unknown("--threads", None));
    check("--woker_num 2 x.py", unknown("--woker_num", Some("--worker_num")));
    let bad =
        |option, value: &str, expected| Usage::BadValue { option, value: value.into(), expected };
    let number = "a number from 0 to 10000";
    check("--worker_num two x.py", bad("--worker_num", "two", number));
    check("--server_num 99999 x.py", bad("--server_num", "99999", number));
    check("--start_port 0 x.py", bad("--start_port", "0", "a port from 1 to 65535"));
    check("--print_config maybe x.py", bad("--print_config", "maybe", "True or False"));
    check("--max_restarts -1 x.py", bad("--max_restarts", "-1", number));
    check("--snapshot_secs -1 x.py", bad("--snapshot_secs", "-1", ABOVE_ZERO));
    check("--snapshot_secs 0 x.py", bad("--snapshot_secs", "0", ABOVE_ZERO));
    check("--grace_secs nan x.py", bad("--grace_secs", "nan", FROM_ZERO));
    check("--max_restart 1 x.py", unknown("--max_restart", Some("--max_restarts")));
    assert!(matches!(ps(&words("--endpoints a x.py")), Err(Error::Endpoint(_))));
}
