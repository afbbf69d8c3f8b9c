//! A Job and a disk for each server, an indexed Job for trainers, a headless Service for their names.
//!
//! Servers are Jobs because these have an end: a server ends when its trainers have finished. Their pods have
//! fixed host names, so that a pod that takes the place of another is found where that was.

use super::options::RenderOptions;
use super::yaml::{
    ClaimRequest, SNAPSHOTS, before_containers, claim, container, first_lines, indented, mounts,
    namespace, output_claim, probes, server_variables, variable, variables, volumes,
};
use crate::error::Result;

/// `backoffLimitPerIndex` is on by default from here.
const NEEDS: &str = "Kubernetes 1.29 or newer";

pub(super) fn render(options: &RenderOptions) -> Result<String> {
    let name = &options.name;
    let servers = super::servers(options, |at| format!("{name}-server-{at}.{name}"));
    let mut objects = vec![service(options)];
    objects.extend(output_claim(options));
    for at in 0..options.n_servers {
        let disk = format!("{name}-snapshots-{at}");
        objects.push(claim(options, ClaimRequest { name: &disk, access: "ReadWriteOnce" }));
        objects.push(server(options, &servers, at)?);
    }
    objects.push(trainers(options, &servers)?);
    Ok(first_lines(options, NEEDS)? + &objects.join("---\n"))
}

/// Pods have names before they are ready: servers and trainers look for each other while they start.
fn service(options: &RenderOptions) -> String {
    let name = &options.name;
    let port = options.port();
    let namespace = namespace(options, 2);
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n{namespace}  labels: {{app: {name}}}\nspec:\n  \
         clusterIP: None\n  publishNotReadyAddresses: true\n  selector: {{app: {name}}}\n  ports:\n  \
         - {{name: server, port: {port}}}\n"
    )
}

fn server(options: &RenderOptions, servers: &str, at: usize) -> Result<String> {
    let (name, restarts) = (&options.name, options.max_restarts);
    let env = server_variables(options, servers)? + &variable("PADDLE_PSERVER_ID", &at.to_string());
    let disk = format!(
        "- {{name: snapshots, persistentVolumeClaim: {{claimName: {name}-snapshots-{at}}}}}\n"
    );
    let more = probes(options) + &mounts(options, &[SNAPSHOTS])?;
    let containers = container(options, "server", &env, &more) + &volumes(options, &disk)?;
    let job = format!("{name}-server-{at}");
    let pod = format!("hostname: {job}\n") + &pod(options, &containers);
    Ok(format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {job}\n{}  labels: {{app: {name}}}\nspec:\n  \
         backoffLimit: {restarts}\n{}{}",
        namespace(options, 2),
        FAILURES,
        template(options, "server", &pod),
    ))
}

fn trainers(options: &RenderOptions, servers: &str) -> Result<String> {
    let name = &options.name;
    let n = options.n_trainers;
    let restarts = options.max_restarts;
    let env = variables(options, "TRAINER", servers)?;
    let containers =
        container(options, "trainer", &env, &mounts(options, &[])?) + &volumes(options, "")?;
    let pod = pod(options, &containers);
    Ok(format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {name}-trainer\n{}  \
         labels: {{app: {name}}}\nspec:\n  completionMode: Indexed\n  completions: {n}\n  \
         parallelism: {n}\n  backoffLimitPerIndex: {restarts}\n{}{}",
        namespace(options, 2),
        FAILURES,
        template(options, "trainer", &pod),
    ))
}

/// A pod that the cluster moved elsewhere has not failed.
const FAILURES: &str = "  podFailurePolicy:\n    rules:\n    - action: Ignore\n      onPodConditions:\n      \
                        - {type: DisruptionTarget}\n";

fn template(options: &RenderOptions, role: &str, pod: &str) -> String {
    let name = &options.name;
    format!(
        "  template:\n    metadata:\n      labels: {{app: {name}, role: {role}}}\n    spec:\n{}",
        indented(pod, 6)
    )
}

fn pod(options: &RenderOptions, containers: &str) -> String {
    let (name, grace) = (&options.name, options.grace_secs());
    format!(
        "subdomain: {name}\nrestartPolicy: Never\nterminationGracePeriodSeconds: {grace}\n{}containers:\n{containers}",
        before_containers(options),
    )
}
