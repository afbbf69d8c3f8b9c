//! The parts that manifests share. Text is written as JSON writes it, which YAML reads.

use std::fmt::Write;

use super::options::RenderOptions;
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

/// The variables that servers and trainers share, and their role.
pub(super) fn variables(options: &RenderOptions, role: &str, servers: &str) -> String {
    [
        variable("TRAINING_ROLE", role),
        variable("PADDLE_PSERVERS_IP_PORT_LIST", servers),
        variable("PADDLE_TRAINERS_NUM", &options.n_trainers.to_string()),
        variable("PYTHONUNBUFFERED", "1"),
        format!(
            "- {{name: PADDLEWHEEL_SECRET, valueFrom: {{secretKeyRef: {{name: {}-secret, key: secret}}}}}}\n",
            options.name
        ),
    ]
    .concat()
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

/// What to do before: nobody takes part in the job who does not know its secret.
pub(super) fn secret_line(options: &RenderOptions) -> String {
    format!(
        "# First: kubectl create secret generic {}-secret --from-literal=secret=\"$(openssl rand -hex 32)\"\n",
        options.name
    )
}

/// What is asked of a server: that it listens. It may fill large tables first.
pub(super) fn probes(options: &RenderOptions) -> String {
    let port = options.port();
    format!(
        "ports:\n- {{name: server, containerPort: {port}}}\n\
         startupProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 5, failureThreshold: 360}}\n\
         readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 5}}\n\
         livenessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 20, failureThreshold: 6}}\n\
         volumeMounts:\n- {{name: snapshots, mountPath: /snapshots}}\n"
    )
}

/// The variables of a server that keeps snapshots.
pub(super) fn server_variables(options: &RenderOptions, servers: &str) -> String {
    variables(options, "PSERVER", servers)
        + &variable("PADDLE_PORT", &options.port().to_string())
        + &variable("FLAGS_snapshot_dir", "/snapshots")
        + &variable("FLAGS_snapshot_secs", &options.snapshot_secs().to_string())
        + "- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"
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
