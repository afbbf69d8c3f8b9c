//! The output has all that a cluster needs; python/tests/test_render.py compares it with schemas.

use std::time::Duration;

use super::*;
use logging::LogFormat;

use crate::error::{Error, Usage};
use crate::safety::SafetyOptions;
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
    // The Service, the disk of the script, a disk and a Job for each server, the Job of the trainers.
    assert_eq!(text.matches("apiVersion: ").count(), 7);
    assert!(!text.contains("StatefulSet"), "its pods have no end");
    has(
        &text,
        &[
            "kind: Service",
            "clusterIP: None",
            "# Needs Kubernetes 1.29 or newer. Files that the script saves below /output are kept.",
            "name: train-ctr-server-1",
            "hostname: train-ctr-server-1",
            "- {name: snapshots, persistentVolumeClaim: {claimName: train-ctr-snapshots-1}}",
            "- {name: output, persistentVolumeClaim: {claimName: train-ctr-output}}",
            "- {name: output, mountPath: \"/output\"}",
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
            "srun --label --kill-on-bad-exit=1 paddlewheel run train.py --name 'a'\\''b' && touch \"$finished\" && exit 0",
            "exit 75",
        ],
    );
}

#[test]
fn certificates_and_the_form_of_lines_go_to_every_process() {
    let safety = SafetyOptions {
        tls_cert: Some("/c/my cert.pem".into()),
        tls_key: Some("/c/key.pem".into()),
        tls_ca: Some("/c/ca.pem".into()),
        tls_name: Some("job".to_string()),
        ..SafetyOptions::default()
    };
    let log_format = Some(LogFormat::Json);
    let variables = vec![("PADDLEWHEEL_LOG", "debug".to_string())];
    let mut asked = RenderOptions { safety, log_format, variables, ..in_image("x.py", "i") };
    asked.n_servers = 1;
    for engine in [Engine::Kubernetes, Engine::JobSet] {
        let text = render(engine, &asked).unwrap();
        for line in [
            "- {name: PADDLEWHEEL_TLS_CERT, value: \"/etc/paddlewheel/tls/tls.crt\"}",
            "- {name: PADDLEWHEEL_TLS_KEY, value: \"/etc/paddlewheel/tls/tls.key\"}",
            "- {name: PADDLEWHEEL_TLS_CA, value: \"/etc/paddlewheel/tls/ca.crt\"}",
            "- {name: PADDLEWHEEL_TLS_NAME, value: \"job\"}",
            "- {name: PADDLEWHEEL_LOG_FORMAT, value: \"json\"}",
            "- {name: PADDLEWHEEL_LOG, value: \"debug\"}",
            "- {name: tls, mountPath: /etc/paddlewheel/tls, readOnly: true}",
            "- {name: tls, secret: {secretName: x-tls}}",
        ] {
            let n = text.lines().filter(|found| found.trim() == line).count();
            assert_eq!(n, 2, "servers and trainers: {line} in\n{text}");
        }
        has(
            &text,
            &["# First: kubectl create secret generic x-tls --from-file='tls.crt=/c/my cert.pem' \
               --from-file=tls.key=/c/key.pem --from-file=ca.crt=/c/ca.pem"],
        );
    }
    let text = render(Engine::Slurm, &asked).unwrap();
    has(
        &text,
        &[
            "export PADDLEWHEEL_TLS_CERT='/c/my cert.pem'",
            "export PADDLEWHEEL_TLS_KEY=/c/key.pem",
            "export PADDLEWHEEL_LOG_FORMAT=json",
            "export PADDLEWHEEL_LOG=debug",
        ],
    );
}

#[test]
fn who_may_take_part_is_as_asked() {
    let engines = [Engine::Kubernetes, Engine::JobSet, Engine::Slurm];
    let text_of = |engine, safety: &SafetyOptions| {
        let asked = RenderOptions { safety: safety.clone(), ..in_image("x.py", "i") };
        render(engine, &asked)
    };
    let made = SafetyOptions { tls: true, ..SafetyOptions::default() };
    let open = SafetyOptions { insecure: true, ..SafetyOptions::default() };
    let file = SafetyOptions { secret_file: Some("/s/one".into()), ..SafetyOptions::default() };
    for engine in engines {
        let text = text_of(engine, &made).unwrap();
        assert!(text.contains("PADDLEWHEEL_TLS") && text.contains("PADDLEWHEEL_SECRET"), "{text}");
        let text = text_of(engine, &open).unwrap();
        assert!(text.contains("PADDLEWHEEL_INSECURE") && !text.contains("_SECRET"), "{text}");
        assert!(!text.contains("create secret"), "{text}");
        let text = text_of(engine, &file).unwrap();
        assert!(text.contains("/s/one") && !text.contains("rand"), "{text}");
        // Half of a certificate is none.
        let half = SafetyOptions { tls_cert: Some("/c".into()), ..SafetyOptions::default() };
        let (given, missing) = ("--tls_cert", "--tls_key");
        let refused = text_of(engine, &half).unwrap_err();
        assert!(matches!(refused, Error::Usage(Usage::Incomplete { given: g, missing: m })
            if (g, m) == (given, missing)));
    }
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

#[test]
fn where_pods_run_and_as_who() {
    let pods = PodOptions {
        namespace: Some("team".to_string()),
        node_selectors: vec![("disk/kind".to_string(), "ssd".to_string())],
        tolerations: vec![
            Toleration::from_text("batch"),
            Toleration::from_text("pool=train:NoSchedule"),
        ],
        pull_secrets: vec!["registry".to_string()],
        user: Some(1234),
        data: Some(ClaimMount::from_text("clicks", "/data")),
        output: Some(ClaimMount::from_text("models:/models", "/output")),
    };
    let asked = RenderOptions { n_servers: 1, pods: pods.clone(), ..in_image("x.py", "i") };
    for (engine, n_objects) in [(Engine::Kubernetes, 4), (Engine::JobSet, 2)] {
        let text = render(engine, &asked).unwrap();
        assert_eq!(text.matches("\n  namespace: team\n").count(), n_objects, "{text}");
        for line in [
            "disk/kind: \"ssd\"",
            "- {key: \"batch\", operator: Exists}",
            "- {key: \"pool\", operator: Equal, value: \"train\", effect: NoSchedule}",
            "- {name: registry}",
            "- {name: data, mountPath: \"/data\", readOnly: true}",
            "- {name: output, mountPath: \"/models\"}",
            "- {name: output, persistentVolumeClaim: {claimName: models}}",
            "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}",
            "securityContext: {runAsNonRoot: true, runAsUser: 1234, runAsGroup: 1234, fsGroup: 1234, \
             seccompProfile: {type: RuntimeDefault}}",
        ] {
            let n = text.lines().filter(|found| found.trim() == line).count();
            assert_eq!(n, 2, "servers and trainers: {line} in\n{text}");
        }
        assert!(text.contains("--namespace team") && text.contains("saves below /models are kept"));
    }
    for bad in [
        PodOptions { user: Some(0), ..PodOptions::default() },
        PodOptions { namespace: Some("A b".to_string()), ..PodOptions::default() },
        PodOptions { data: Some(ClaimMount::from_text("c:rel", "/data")), ..PodOptions::default() },
        PodOptions { tolerations: vec![Toleration::from_text("a:Never")], ..PodOptions::default() },
        PodOptions {
            node_selectors: vec![("a b".to_string(), "c".to_string())],
            ..PodOptions::default()
        },
    ] {
        let asked = RenderOptions { pods: bad, ..in_image("x.py", "i") };
        let refused = render(Engine::Kubernetes, &asked);
        assert!(matches!(refused, Err(Error::Usage(Usage::BadValue { .. }))), "{asked:?}");
    }
}
