//! The parts that manifests share. Text is written as JSON writes it, which YAML reads.

use std::fmt::Write;

use super::options::RenderOptions;
use super::slurm::quoted as shell_word;
use crate::error::Result;
use crate::safety::full;
use crate::script::ScriptCommand;

/// Text between quotation marks.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

/// Lines, each this deep.
pub(super) fn indented(text: &str, depth: usize) -> String {
    let deeper = |line: &str| match line {
        "" => String::new(),
        line => format!("{}{line}", " ".repeat(depth)),
    };
    text.lines().map(|line| deeper(line) + "\n").collect()
}

/// The command that runs the script.
fn command(script: &ScriptCommand) -> String {
    let path = script.path.to_string_lossy().into_owned();
    let words = ["paddlewheel".to_string(), "run".to_string(), path];
    let words = words.iter().chain(&script.arguments).map(|word| quoted(word));
    format!("[{}]", words.collect::<Vec<_>>().join(", "))
}

/// A variable with a value.
pub(super) fn variable(name: &str, value: &str) -> String {
    format!("- {{name: {name}, value: {}}}\n", quoted(value))
}

/// Where pods find the files of their certificate.
const TLS_FOLDER: &str = "/etc/paddlewheel/tls";
/// Where servers find their snapshots.
pub(super) const SNAPSHOTS: &str = "- {name: snapshots, mountPath: /snapshots}\n";

/// The variables that servers and trainers share, and their role.
pub(super) fn variables(options: &RenderOptions, role: &str, servers: &str) -> Result<String> {
    let mut all = vec![
        variable("TRAINING_ROLE", role),
        variable("PADDLE_PSERVERS_IP_PORT_LIST", servers),
        variable("PADDLE_TRAINERS_NUM", &options.n_trainers.to_string()),
        variable("PYTHONUNBUFFERED", "1"),
    ];
    let words = options.words().into_iter().chain(options.safety.words());
    all.extend(words.map(|(name, value)| variable(name, &value)));
    for file in options.safety.certificate()? {
        all.push(variable(file.variable, &format!("{TLS_FOLDER}/{}", file.key)));
    }
    if !options.safety.has_no_secret() {
        all.push(format!(
            "- {{name: PADDLEWHEEL_SECRET, valueFrom: {{secretKeyRef: {{name: {}-secret, key: secret}}}}}}\n",
            options.name
        ));
    }
    Ok(all.concat())
}

/// Where a container sees disks and certificates; `own` are its other places.
pub(super) fn mounts(options: &RenderOptions, own: &[&str]) -> Result<String> {
    let tls = format!("- {{name: tls, mountPath: {TLS_FOLDER}, readOnly: true}}\n");
    let has_tls = !options.safety.certificate()?.is_empty();
    let all = own.concat() + if has_tls { &tls } else { "" };
    Ok(if all.is_empty() { all } else { format!("volumeMounts:\n{all}") })
}

/// What a pod brings for these places; `own` are its other disks.
pub(super) fn volumes(options: &RenderOptions, own: &str) -> Result<String> {
    let tls = format!("- {{name: tls, secret: {{secretName: {}-tls}}}}\n", options.name);
    let has_tls = !options.safety.certificate()?.is_empty();
    let all = own.to_string() + if has_tls { &tls } else { "" };
    Ok(if all.is_empty() { all } else { format!("volumes:\n{all}") })
}

/// The container of a process, without its mark in a list.
pub(super) fn container(options: &RenderOptions, name: &str, env: &str, more: &str) -> String {
    let (image, command) =
        (quoted(options.image.as_deref().unwrap_or_default()), command(&options.script));
    let (cpus, memory) = (options.cpus, &options.memory);
    format!(
        "- name: {name}\n  image: {image}\n  command: {command}\n  env:\n{}  resources:\n    \
         requests: {{cpu: \"{cpus}\", memory: {memory}}}\n    limits: {{memory: {memory}}}\n{}",
        indented(env, 2),
        indented(more, 2),
    )
}

/// What to do before: nobody takes part in the job who does not know its secret, or has no certificate.
pub(super) fn first_lines(options: &RenderOptions) -> Result<String> {
    let (name, safety) = (&options.name, &options.safety);
    let of_file = |key: &str, path| -> Result<String> {
        // A comment is one line.
        Ok(format!(
            "--from-file={}",
            shell_word(&format!("{key}={}", full(path)?)).replace('\n', " ")
        ))
    };
    let mut secrets = Vec::new();
    if let Some(path) = &safety.secret_file {
        secrets.push(format!("{name}-secret {}", of_file("secret", path)?));
    } else if !safety.insecure {
        let made = "--from-literal=secret=\"$(openssl rand -hex 32)\"";
        secrets.push(format!("{name}-secret {made}"));
    }
    let files = safety.certificate()?;
    if !files.is_empty() {
        let words: Result<Vec<_>> = files.iter().map(|file| of_file(file.key, file.path)).collect();
        secrets.push(format!("{name}-tls {}", words?.join(" ")));
    }
    let line = |secret: &String| format!("# First: kubectl create secret generic {secret}\n");
    Ok(secrets.iter().map(line).collect())
}

/// What is asked of a server: that it listens. It may fill large tables first.
pub(super) fn probes(options: &RenderOptions) -> String {
    let port = options.port();
    format!(
        "ports:\n- {{name: server, containerPort: {port}}}\n\
         startupProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 5, failureThreshold: 360}}\n\
         readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 5}}\n\
         livenessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 20, failureThreshold: 6}}\n"
    )
}

/// The variables of a server that keeps snapshots.
pub(super) fn server_variables(options: &RenderOptions, servers: &str) -> Result<String> {
    Ok(variables(options, "PSERVER", servers)?
        + &variable("PADDLE_PORT", &options.port().to_string())
        + &variable("FLAGS_snapshot_dir", "/snapshots")
        + &variable("FLAGS_snapshot_secs", &options.snapshot_secs().to_string())
        + "- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n")
}

/// What a claim for a disk says.
pub(super) fn claim(options: &RenderOptions, access: &str) -> String {
    let class = options
        .storage_class
        .as_deref()
        .map_or(String::new(), |class| format!("storageClassName: {}\n", quoted(class)));
    let storage = &options.storage;
    format!("accessModes: [{access}]\n{class}resources: {{requests: {{storage: {storage}}}}}\n")
}
