//! Manifests and scripts for a cluster: `paddlewheel render k8s|jobset|slurm`.
//!
//! Prints, and changes nothing. The processes find their roles by `engine`.

mod jobset;
mod kubernetes;
mod options;
mod pods;
mod slurm;
mod yaml;

pub use options::{Engine, RenderOptions};
pub use pods::{ClaimMount, PodOptions, Toleration};

use crate::error::Result;

/// The text to submit to an engine.
pub fn render(engine: Engine, options: &RenderOptions) -> Result<String> {
    options.check(engine)?;
    Ok(match engine {
        Engine::Kubernetes => kubernetes::render(options)?,
        Engine::JobSet => jobset::render(options)?,
        Engine::Slurm => slurm::render(options)?,
    })
}

/// The batch script of a job on Slurm.
pub(crate) fn slurm_script(options: &RenderOptions) -> Result<String> {
    slurm::render(options)
}

/// The objects of a job on Kubernetes.
pub(crate) fn kubernetes_objects(options: &RenderOptions) -> Result<String> {
    kubernetes::render(options)
}

/// The end points of servers that have names, in order.
fn servers(options: &RenderOptions, name: impl Fn(usize) -> String) -> String {
    let all = (0..options.n_servers).map(|at| format!("{}:{}", name(at), options.port()));
    all.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
