//! A JobSet: servers and trainers in one object, which is done when the trainers are.
//!
//! The pods of a Job have no disks of their own, so servers share one.

use super::options::RenderOptions;
use super::yaml::{
    SNAPSHOTS, claim, container, first_lines, indented, mounts, probes, server_variables,
    variables, volumes,
};
use crate::error::Result;

pub(super) fn render(options: &RenderOptions) -> Result<String> {
    let name = &options.name;
    let servers = super::servers(options, |at| format!("{name}-server-0-{at}.{name}"));
    let disk = format!(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: {name}-snapshots\nspec:\n{}",
        indented(&claim(options, "ReadWriteMany"), 2)
    );
    let env = server_variables(options, &servers)?;
    let more = probes(options) + &mounts(options, &[SNAPSHOTS])?;
    let server = container(options, "server", &env, &more);
    let env = variables(options, "TRAINER", &servers)?;
    let trainer = container(options, "trainer", &env, &mounts(options, &[])?);
    let own =
        format!("- {{name: snapshots, persistentVolumeClaim: {{claimName: {name}-snapshots}}}}\n");
    let (of_server, of_trainer) = (volumes(options, &own)?, volumes(options, "")?);
    let jobs = [
        replicated(
            options,
            "server",
            options.n_servers,
            &format!("containers:\n{server}{of_server}"),
        ),
        "dependsOn:\n- {name: server, status: Ready}\n".to_string(),
        replicated(
            options,
            "trainer",
            options.n_trainers,
            &format!("containers:\n{trainer}{of_trainer}"),
        ),
    ];
    let [server, depends, trainer] = jobs;
    let set = format!(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: {name}\nspec:\n  \
         network: {{enableDNSHostnames: true, subdomain: {name}, publishNotReadyAddresses: true}}\n  \
         successPolicy: {{operator: All, targetReplicatedJobs: [trainer]}}\n  \
         failurePolicy: {{maxRestarts: {}}}\n  replicatedJobs:\n{}{}{}",
        options.max_restarts,
        listed(&server),
        indented("- name: trainer", 2) + &indented(&depends, 4),
        indented(&without_name(&trainer), 4),
    );
    Ok(first_lines(options)? + &[disk, set].join("---\n"))
}

/// One job of the set: `replicas` jobs of `n` pods.
fn replicated(options: &RenderOptions, name: &str, n: usize, spec: &str) -> String {
    let (grace, restarts) = (options.grace_secs(), options.max_restarts * n);
    format!(
        "name: {name}\nreplicas: 1\ntemplate:\n  spec:\n    completionMode: Indexed\n    \
         completions: {n}\n    parallelism: {n}\n    backoffLimit: {restarts}\n    template:\n      \
         metadata:\n        labels: {{app: {}, role: {name}}}\n      spec:\n        \
         restartPolicy: OnFailure\n        terminationGracePeriodSeconds: {grace}\n{}",
        options.name,
        indented(spec, 8),
    )
}

/// An element of a list.
fn listed(text: &str) -> String {
    let deep = indented(text, 4);
    format!("  - {}", deep.trim_start())
}

fn without_name(text: &str) -> String {
    text.split_once('\n').map_or(String::new(), |(_, rest)| rest.to_string())
}
