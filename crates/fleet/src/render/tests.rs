//! What is printed has what a cluster needs; python/tests/test_render.py compares it with schemas.

use super::*;
use crate::error::{Error, Usage};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

fn printed(line: &str) -> String {
    render(&words(line)).unwrap()
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found.trim() == *line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_job_of_kubernetes() {
    let line = "k8s --image registry/ctr:1 --server_num 2 --worker_num 3 --grace_secs 45 train_ctr.py --is_cloud=1";
    let text = printed(line);
    assert_eq!(text.matches("apiVersion: ").count(), 3);
    has(
        &text,
        &[
            "kind: Service",
            "clusterIP: None",
            "kind: StatefulSet",
            "replicas: 2",
            "volumeClaimTemplates:",
            "kind: Job",
            "completionMode: Indexed",
            "completions: 3",
            "terminationGracePeriodSeconds: 45",
            "command: [\"paddlewheel\", \"run\", \"train_ctr.py\", \"--is_cloud=1\"]",
            "- {name: PADDLE_PSERVERS_IP_PORT_LIST, value: \"train-ctr-server-0.train-ctr:6174,train-ctr-server-1.train-ctr:6174\"}",
            "- {name: FLAGS_snapshot_dir, value: \"/snapshots\"}",
            "- {name: PADDLEWHEEL_SECRET, valueFrom: {secretKeyRef: {name: train-ctr-secret, key: secret}}}",
        ],
    );
}

#[test]
fn a_jobset() {
    let text = printed("jobset --image i --name ctr --storage_class fast x.py");
    has(
        &text,
        &[
            "kind: JobSet",
            "- name: server",
            "- name: trainer",
            "- {name: server, status: Ready}",
            "storageClassName: \"fast\"",
            "- {name: PADDLE_PSERVERS_IP_PORT_LIST, value: \"ctr-server-0-0.ctr:6174,ctr-server-0-1.ctr:6174\"}",
        ],
    );
}

#[test]
fn a_script_of_slurm() {
    let text =
        printed("slurm --worker_num 6 --cpus 2 --memory 4Gi --partition gpu-1 train.py --name a'b");
    has(
        &text,
        &[
            "#SBATCH --ntasks=8",
            "#SBATCH --mem-per-cpu=2048M",
            "#SBATCH --partition=gpu-1",
            "export PADDLE_PSERVERS_NUM=2",
            "export PADDLEWHEEL_SECRET_FILE=\"$SLURM_SUBMIT_DIR/train-secret\"",
            "srun --label --kill-on-bad-exit=1 paddlewheel run train.py --name 'a'\\''b' && exit 0",
        ],
    );
}

#[test]
fn words_of_a_script_stay_what_they_are() {
    let mut line = words("k8s --image i x.py");
    line.push("say \"hi\"\n\\".to_string());
    let text = render(&line).unwrap();
    assert!(text.contains(r#""x.py", "say \"hi\"\n\\"]"#), "{text}");
}

#[test]
fn command_lines_that_make_no_sense() {
    let refused = |line: &str| match render(&words(line)) {
        Err(Error::Usage(usage)) => usage,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(refused(""), Usage::NoEngine);
    assert!(matches!(refused("k9s x.py"), Usage::UnknownEngine { .. }));
    assert_eq!(refused("k8s x.py"), Usage::NoImage);
    assert_eq!(refused("slurm"), Usage::NoScript);
    assert_eq!(refused("slurm --server_num 0 x.py"), Usage::Nobody("server"));
    for line in [
        "slurm --name Big x.py",
        "slurm --memory lots x.py",
        "slurm --memory 0 x.py",
        "slurm --time 1;rm x.py",
        "slurm 9.py",
    ] {
        assert!(matches!(refused(line), Usage::BadValue { .. }), "{line}");
    }
    assert!(printed("--help").starts_with("usage: render"));
    assert!(printed("k8s --help").starts_with("usage: render"));
}
