//! The parts that manifests share. Text is written as JSON writes it, which YAML reads.

use std::fmt::Write;

use super::options::RenderOptions;
use super::pods::{ClaimMount, Toleration, USER};
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
    let mut all = own.concat();
    if !options.safety.certificate()?.is_empty() {
        all += &format!("- {{name: tls, mountPath: {TLS_FOLDER}, readOnly: true}}\n");
    }
    if let Some(data) = &options.pods.data {
        all += &format!("- {{name: data, mountPath: {}, readOnly: true}}\n", quoted(&data.path));
    }
    all += &format!("- {{name: output, mountPath: {}}}\n", quoted(&output(options).path));
    Ok(format!("volumeMounts:\n{all}"))
}

/// The volumes of a pod for these mounts; `own` are its other disks.
pub(super) fn volumes(options: &RenderOptions, own: &str) -> Result<String> {
    let disk = |name: &str, claim: &str, more: &str| {
        format!("- {{name: {name}, persistentVolumeClaim: {{claimName: {claim}{more}}}}}\n")
    };
    let mut all = own.to_string();
    if !options.safety.certificate()?.is_empty() {
        all += &format!("- {{name: tls, secret: {{secretName: {}-tls}}}}\n", options.name);
    }
    if let Some(data) = &options.pods.data {
        all += &disk("data", &data.claim, ", readOnly: true");
    }
    Ok(format!("volumes:\n{all}{}", disk("output", &output(options).claim, "")))
}

/// The container of a process, without its mark in a list.
pub(super) fn container(options: &RenderOptions, name: &str, env: &str, more: &str) -> String {
    let (image, command) =
        (quoted(options.image.as_deref().unwrap_or_default()), command(&options.script));
    let (cpus, memory) = (options.cpus, &options.memory);
    format!(
        "- name: {name}\n  image: {image}\n  command: {command}\n  env:\n{}  resources:\n    \
         requests: {{cpu: \"{cpus}\", memory: {memory}}}\n    limits: {{memory: {memory}}}\n{}{}",
        indented(env, 2),
        indented(CONTAINER_SECURITY, 2),
        indented(more, 2),
    )
}

/// The requirements of the cluster, the steps before the first start (the secret of the job and its
/// certificates), and the way to run it again.
pub(super) fn first_lines(options: &RenderOptions, needs: &str) -> Result<String> {
    let (name, safety) = (&options.name, &options.safety);
    let in_namespace = options.pods.namespace.as_ref();
    let of_namespace = in_namespace.map_or(String::new(), |name| format!(" --namespace {name}"));
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
    let line = |secret: &String| {
        format!("# First: kubectl create secret generic {secret}{of_namespace}\n")
    };
    let secrets: String = secrets.iter().map(line).collect();
    let output = output(options).path;
    Ok(format!(
        "# Needs {needs}. Files that the script saves below {output} are kept.\n{secrets}\
         # Again: kubectl delete {} --selector app={name}{of_namespace}, then apply. An unfinished job resumes, a\n\
         # finished one begins anew.\n",
        if needs.contains("JobSet") { "jobset" } else { "job" },
    ))
}

/// The probes of a server: it must listen. It may fill large tables first.
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
        + &save_root(options)
        // The Job that this pod is of: another one is another run, and a finished job is not gone on with.
        + "- {name: FLAGS_snapshot_run, valueFrom: {fieldRef: {fieldPath: \
           \"metadata.labels['batch.kubernetes.io/controller-uid']\"}}}\n")
}

/// Servers save to the disk of the job as well.
fn save_root(options: &RenderOptions) -> String {
    match &options.safety.save_root {
        Some(_) => String::new(),
        None => variable("FLAGS_save_root", &format!("{}:/snapshots:/tmp:.", output(options).path)),
    }
}

/// The disk that the script saves to, if it is made for the job.
pub(super) fn output_claim(options: &RenderOptions) -> Option<String> {
    let name = output(options).claim;
    let made = || claim(options, ClaimRequest { name: &name, access: "ReadWriteMany" });
    options.pods.output.is_none().then(made)
}

/// A disk to be made.
pub(super) struct ClaimRequest<'a> {
    pub(super) name: &'a str,
    /// The pods that may use it: those of one machine, or of several.
    pub(super) access: &'a str,
}

/// A claim for a disk.
pub(super) fn claim(options: &RenderOptions, wanted: ClaimRequest<'_>) -> String {
    let ClaimRequest { name, access } = wanted;
    let class = options
        .storage_class
        .as_deref()
        .map_or(String::new(), |class| format!("storageClassName: {}\n", quoted(class)));
    let storage = &options.storage;
    let spec = format!(
        "accessModes: [{access}]\n{class}resources: {{requests: {{storage: {storage}}}}}\n"
    );
    format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: {name}\n{}  labels: {{app: {}}}\nspec:\n{}",
        namespace(options, 2),
        options.name,
        indented(&spec, 2)
    )
}

/// The rights of a container: those of an ordinary process of a user.
const CONTAINER_SECURITY: &str =
    "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}\n";

/// The part of a pod before its containers: its nodes and its user. It passes the standard "restricted" of
/// Kubernetes, together with [`CONTAINER_SECURITY`].
pub(super) fn before_containers(options: &RenderOptions) -> String {
    let pods = &options.pods;
    let user = pods.user.unwrap_or(USER);
    let mut text = format!(
        "securityContext: {{runAsNonRoot: true, runAsUser: {user}, runAsGroup: {user}, fsGroup: {user}, \
         seccompProfile: {{type: RuntimeDefault}}}}\n"
    );
    let mut add = |name: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text += &format!("{name}:\n{}", lines.concat());
        }
    };
    let selectors = pods.node_selectors.iter();
    let selectors = selectors.map(|(key, value)| format!("  {key}: {}\n", quoted(value)));
    add("nodeSelector", selectors.collect());
    add("tolerations", pods.tolerations.iter().map(toleration).collect());
    let secrets = pods.pull_secrets.iter().map(|name| format!("- {{name: {name}}}\n"));
    add("imagePullSecrets", secrets.collect());
    text
}

fn toleration(toleration: &Toleration) -> String {
    let Toleration { key, value, effect } = toleration;
    let how = match value {
        Some(value) => format!("operator: Equal, value: {}", quoted(value)),
        None => "operator: Exists".to_string(),
    };
    let effect = effect.as_ref().map_or(String::new(), |effect| format!(", effect: {effect}"));
    format!("- {{key: {}, {how}{effect}}}\n", quoted(key))
}

/// A line of the metadata of an object, this deep.
pub(super) fn namespace(options: &RenderOptions, depth: usize) -> String {
    let line = options.pods.namespace.as_ref().map(|name| format!("namespace: {name}"));
    line.map_or(String::new(), |line| indented(&line, depth))
}

/// Where pods see the disk that the script saves to.
fn output(options: &RenderOptions) -> ClaimMount {
    let (claim, path) = (format!("{}-output", options.name), "/output".to_string());
    options.pods.output.clone().unwrap_or(ClaimMount { claim, path })
}
