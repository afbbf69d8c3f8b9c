//! What is printed has what a cluster needs; python/tests/test_render.py compares it with schemas.

use std::time::Duration;

use super::*;
use crate::error::{Error, Usage};
use crate::script::ScriptCommand;

/// A job that runs these words.
fn job(line: &str) -> RenderOptions {
    let mut words = line.split_whitespace().map(str::to_string);
    let path = words.next().unwrap_or_default().into();
    RenderOptions::new(ScriptCommand { path, arguments: words.collect() })
}

fn in_image(line: &str, image: &str) -> RenderOptions {
    RenderOptions { image: Some(image.to_string()), ..job(line) }
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|found| found.trim() == *line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_job_of_kubernetes() {
    let asked = in_image("train_ctr.py --is_cloud=1", "registry/ctr:1");
    let asked = RenderOptions { n_trainers: 3, grace: Duration::from_secs(45), ..asked };
    let text = render(Engine::Kubernetes, &asked).unwrap();
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
    let class = Some("fast".to_string());
    let asked = in_image("x.py", "i");
    let asked = RenderOptions { name: "ctr".to_string(), storage_class: class, ..asked };
    let text = render(Engine::JobSet, &asked).unwrap();
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
    let (memory, partition) = ("4Gi".to_string(), Some("gpu-1".to_string()));
    let asked = job("train.py --name a'b");
    let asked = RenderOptions { n_trainers: 6, cpus: 2, memory, partition, ..asked };
    let text = render(Engine::Slurm, &asked).unwrap();
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
    let mut asked = in_image("x.py", "i");
    asked.script.arguments.push("say \"hi\"\n\\".to_string());
    let text = render(Engine::Kubernetes, &asked).unwrap();
    assert!(text.contains(r#""x.py", "say \"hi\"\n\\"]"#), "{text}");
}

#[test]
fn jobs_that_make_no_sense() {
    let refused = |engine, asked: &RenderOptions| match render(engine, asked) {
        Err(Error::Usage(usage)) => usage,
        other => panic!("{asked:?}: {other:?}"),
    };
    assert_eq!(refused(Engine::Kubernetes, &job("x.py")), Usage::NoImage);
    let nobody = RenderOptions { n_servers: 0, ..job("x.py") };
    assert_eq!(refused(Engine::Slurm, &nobody), Usage::Nobody("server"));
    for bad in [
        RenderOptions { name: "Big".to_string(), ..job("x.py") },
        RenderOptions { memory: "lots".to_string(), ..job("x.py") },
        RenderOptions { memory: "0".to_string(), ..job("x.py") },
        RenderOptions { time: "1;rm".to_string(), ..job("x.py") },
        job("9.py"),
    ] {
        assert!(matches!(refused(Engine::Slurm, &bad), Usage::BadValue { .. }), "{bad:?}");
    }
}
