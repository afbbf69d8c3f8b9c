//! Output of engines.

use super::job::log_variables;
use super::kubernetes::{JobEnd, JobState};
use super::mpi::{Family, is_of_rank, secret};
use super::slurm::JobView;
use super::tail::Tail;
use crate::env::tests::vars;
use crate::render::RenderOptions;
use crate::safety::SafetyOptions;
use crate::script::ScriptCommand;
use logging::LogFormat;

#[test]
fn what_slurm_says_of_a_job() {
    let text = "JobId=7 JobName=train\n   UserId=root(0) JobState=RUNNING Reason=None Dependency=(null)\n   \
                Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0\n   ReqNodeList=(null) NodeList=n[1-2]\n";
    let view = JobView::from_text(text).unwrap();
    assert!(!view.is_over());
    assert_eq!(view.words(), "runs on n[1-2]");
    let pending = text.replace("RUNNING Reason=None", "PENDING Reason=Resources");
    let pending = JobView::from_text(&pending.replace("Restarts=0", "Restarts=2")).unwrap();
    assert_eq!(
        pending.words(),
        "waits in the queue (Resources), put into the queue again 2 times by Slurm"
    );
    for (state, exit, is_over) in [
        ("COMPLETED", "0:0", true),
        ("FAILED", "3:0", true),
        ("CANCELLED", "0:15", true),
        ("NODE_FAIL", "0:0", true),
        ("COMPLETING", "0:0", false),
        ("REQUEUED", "0:0", false),
    ] {
        let text =
            text.replace("RUNNING", state).replace("ExitCode=0:0", &format!("ExitCode={exit}"));
        assert_eq!(JobView::from_text(&text).unwrap().is_over(), is_over, "{state}");
    }
    assert_eq!(JobView::from_text("slurm_load_jobs error: Invalid job id specified"), None);
}

#[test]
fn what_kubernetes_says_of_a_job() {
    let runs = JobState::from_text("pods 2  1");
    assert_eq!(runs, JobState::Runs("2 trainers run, 0 have finished, 1 failed".to_string()));
    let over = |words: &str, code| JobState::Over(JobEnd { words: words.to_string(), code });
    assert_eq!(
        JobState::from_text("SuccessCriteriaMet X\nComplete Y\npods  2 "),
        over("complete", 0)
    );
    let failed = JobState::from_text("FailureTarget A\nFailed BackoffLimitExceeded\npods   3");
    assert_eq!(failed, over("failed (BackoffLimitExceeded)", 1));
    assert_eq!(JobState::from_text(""), JobState::Runs(String::new()));
}

#[test]
fn lines_of_ranks_are_known_by_their_tags() {
    for line in ["[1,0]<stdout>:ready", "[1,13]<stderr>: no", "[0] ready"] {
        assert!(is_of_rank(line), "{line}");
    }
    for line in [
        "mpirun has detected",
        "[host:123] no slots",
        "[mpiexec@host] match",
        "[proxy:0:0@h] x",
        "",
    ] {
        assert!(!is_of_rank(line), "{line}");
    }
}

#[test]
fn both_families_of_mpirun() {
    assert_eq!(Family::from_version("mpirun (Open MPI) 4.1.4"), Some(Family::OpenMpi));
    assert_eq!(Family::from_version("HYDRA build details:\n Version: 4.0.2"), Some(Family::Hydra));
    assert_eq!(Family::from_version("something else"), None);
    let hosts = ["a".to_string(), "b".to_string()];
    let line = |family: Family, hosts: &[String]| family.words(3, hosts, &["X", "Y"]).join(" ");
    assert_eq!(line(Family::OpenMpi, &hosts), "-np 3 --tag-output --host a:2,b:2 -x X -x Y");
    assert_eq!(line(Family::Hydra, &hosts), "-np 3 -prepend-rank -hosts a,b -genvlist X,Y");
    assert_eq!(line(Family::Hydra, &[]), "-np 3 -prepend-rank -genvlist X,Y");
}

#[test]
fn ranks_are_told_what_this_command_was_told() {
    let given =
        vars(&[("PADDLEWHEEL_LOG", "debug"), ("PADDLEWHEEL_LOG_FORMAT", "text"), ("GLOG_v", "2")]);
    let script = ScriptCommand { path: "x.py".into(), arguments: Vec::new() };
    let mut options = RenderOptions::new(script);
    let names = |options: &RenderOptions| -> Vec<_> {
        log_variables(options, &given).into_iter().map(|(name, _)| name).collect()
    };
    assert_eq!(names(&options), ["PADDLEWHEEL_LOG", "PADDLEWHEEL_LOG_FORMAT", "GLOG_v"]);
    options.log_format = Some(LogFormat::Json);
    assert_eq!(names(&options), ["PADDLEWHEEL_LOG", "GLOG_v"], "the option goes first");
    assert_eq!(options.words(), [("PADDLEWHEEL_LOG_FORMAT", "json".to_string())]);

    let told = |safety: &SafetyOptions, given: &[(&'static str, &'static str)]| -> Vec<_> {
        let safety = safety.clone().or_environment(&vars(given)).unwrap();
        secret(&safety, &vars(given)).unwrap().into_iter().map(|(name, _)| name).collect()
    };
    let none = SafetyOptions::default();
    assert_eq!(told(&none, &[]), ["PADDLEWHEEL_SECRET"], "one is made");
    assert_eq!(told(&none, &[("PADDLEWHEEL_INSECURE", "1")]), ["PADDLEWHEEL_INSECURE"]);
    let file = [("PADDLEWHEEL_SECRET_FILE", "/s"), ("PADDLEWHEEL_TLS", "1")];
    assert_eq!(told(&none, &file), ["PADDLEWHEEL_SECRET_FILE", "PADDLEWHEEL_TLS"]);
    let tls = SafetyOptions { tls: true, secret_file: Some("/t".into()), ..none };
    assert_eq!(told(&tls, &file), ["PADDLEWHEEL_SECRET_FILE", "PADDLEWHEEL_TLS"]);
    assert!(tls.check_files().is_err(), "a file that is not there");
}

#[test]
fn a_log_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, "of another job\n").unwrap();
    let mut tail = Tail::new(path.clone());
    assert!(tail.lines().is_empty());
    let add = |text: &str| {
        use std::io::Write;
        let mut file = std::fs::File::options().append(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    add("one\ntw");
    assert_eq!(tail.lines(), ["one"]);
    add("o\nthree");
    assert_eq!(tail.lines(), ["two"]);
    assert_eq!(tail.last_lines(), ["three"]);
    assert!(tail.last_lines().is_empty());
}
