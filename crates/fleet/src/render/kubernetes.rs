//! A StatefulSet for servers, an indexed Job for trainers, a headless Service for their names.

use super::options::RenderOptions;
use super::yaml::{
    SNAPSHOTS, claim, container, first_lines, indented, mounts, probes, server_variables,
    variables, volumes,
};
use crate::error::Result;

pub(super) fn render(options: &RenderOptions) -> Result<String> {
    let name = &options.name;
    let servers = super::servers(options, |at| format!("{name}-server-{at}.{name}"));
    let objects = [service(options), stateful_set(options, &servers)?, job(options, &servers)?];
    Ok(first_lines(options)? + &objects.join("---\n"))
}

/// Pods have names before they are ready: servers and trainers look for each other while they start.
fn service(options: &RenderOptions) -> String {
    let (name, port) = (&options.name, options.port());
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  labels: {{app: {name}}}\nspec:\n  \
         clusterIP: None\n  publishNotReadyAddresses: true\n  selector: {{app: {name}}}\n  ports:\n  \
         - {{name: server, port: {port}}}\n"
    )
}

fn stateful_set(options: &RenderOptions, servers: &str) -> Result<String> {
    let (name, n, grace) = (&options.name, options.n_servers, options.grace_secs());
    let env = server_variables(options, servers)?;
    let more = probes(options) + &mounts(options, &[SNAPSHOTS])?;
    let containers = container(options, "server", &env, &more) + &volumes(options, "")?;
    Ok(format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: {name}-server\n  \
         labels: {{app: {name}}}\nspec:\n  serviceName: {name}\n  replicas: {n}\n  \
         podManagementPolicy: Parallel\n  selector:\n    matchLabels: {{app: {name}, role: server}}\n  \
         template:\n    metadata:\n      labels: {{app: {name}, role: server}}\n    spec:\n      \
         terminationGracePeriodSeconds: {grace}\n      containers:\n{}  volumeClaimTemplates:\n  \
         - metadata: {{name: snapshots}}\n    spec:\n{}",
        indented(&containers, 6),
        indented(&claim(options, "ReadWriteOnce"), 6),
    ))
}

fn job(options: &RenderOptions, servers: &str) -> Result<String> {
    let (name, n, grace) = (&options.name, options.n_trainers, options.grace_secs());
    let env = variables(options, "TRAINER", servers)?;
    let containers =
        container(options, "trainer", &env, &mounts(options, &[])?) + &volumes(options, "")?;
    let restarts = options.max_restarts;
    Ok(format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}-trainer\n  \
         labels: {{app: {name}}}\nspec:\n  completionMode: Indexed\n  completions: {n}\n  \
         parallelism: {n}\n  backoffLimitPerIndex: {restarts}\n  podFailurePolicy:\n    rules:\n    \
         - action: Ignore\n      onPodConditions:\n      - {{type: DisruptionTarget}}\n  template:\n    \
         metadata:\n      labels: {{app: {name}, role: trainer}}\n    spec:\n      \
         subdomain: {name}\n      restartPolicy: Never\n      \
         terminationGracePeriodSeconds: {grace}\n      containers:\n{}",
        indented(&containers, 6),
    ))
}
