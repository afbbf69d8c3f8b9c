//! A JobSet: servers and trainers in one object, which is done when the trainers are.
//!
//! The pods of a Job have no disks of their own, so servers share one.

use super::options::RenderOptions;
use super::yaml::{
    ClaimRequest, SNAPSHOTS, before_containers, claim, container, first_lines, indented, mounts,
    namespace, output_claim, probes, server_variables, variables, volumes,
};
use crate::error::Result;

/// A replicated job may depend on another one from there on.
const NEEDS: &str = "Kubernetes 1.29 and JobSet 0.8, or newer";

pub(super) fn render(options: &RenderOptions) -> Result<String> {
    let name = &options.name;
    let servers = super::servers(options, |at| format!("{name}-server-0-{at}.{name}"));
    let disk = format!("{name}-snapshots");
    let disk = claim(options, ClaimRequest { name: &disk, access: "ReadWriteMany" });
    let env = server_variables(options, &servers)?;
    let more = probes(options) + &mounts(options, &[SNAPSHOTS])?;
    let server = container(options, "server", &env, &more);
    let env = variables(options, "TRAINER", &servers)?;
    let trainer = container(options, "trainer", &env, &mounts(options, &[])?);
    let own =
        format!("- {{name: snapshots, persistentVolumeClaim: {{claimName: {name}-snapshots}}}}\n");
    let (of_server, of_trainer) = (volumes(options, &own)?, volumes(options, "")?);
    let jobs = [
        replicated(options, "server", options.n_servers, &(server + &of_server)),
        "dependsOn:\n- {name: server, status: Ready}\n".to_string(),
        replicated(options, "trainer", options.n_trainers, &(trainer + &of_trainer)),
    ];
    let [server, depends, trainer] = jobs;
    let set = format!(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: {name}\n{}  labels: {{app: {name}}}\nspec:\n  \
         network: {{enableDNSHostnames: true, subdomain: {name}, publishNotReadyAddresses: true}}\n  \
         successPolicy: {{operator: All, targetReplicatedJobs: [trainer]}}\n  \
         failurePolicy: {{maxRestarts: {}}}\n  replicatedJobs:\n{}{}{}",
        namespace(options, 2),
        options.max_restarts,
        listed(&server),
        indented("- name: trainer", 2) + &indented(&depends, 4),
        indented(&without_name(&trainer), 4),
    );
    let objects: Vec<String> =
        [disk].into_iter().chain(output_claim(options)).chain([set]).collect();
    Ok(first_lines(options, NEEDS)? + &objects.join("---\n"))
}

/// One job of the set: `replicas` jobs of `n` pods.
fn replicated(options: &RenderOptions, name: &str, n: usize, containers: &str) -> String {
    let (grace, restarts) = (options.grace_secs(), options.max_restarts * n);
    format!(
        "name: {name}\nreplicas: 1\ntemplate:\n  spec:\n    completionMode: Indexed\n    \
         completions: {n}\n    parallelism: {n}\n    backoffLimit: {restarts}\n    template:\n      \
         metadata:\n        labels: {{app: {}, role: {name}}}\n      spec:\n        \
         restartPolicy: OnFailure\n        terminationGracePeriodSeconds: {grace}\n{}        containers:\n{}",
        options.name,
        indented(&before_containers(options), 8),
        indented(containers, 8),
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
