//! What to submit to a cluster: `paddlewheel render k8s|jobset|slurm`.
//!
//! Prints, and changes nothing. The processes find their roles by `engine`.

mod jobset;
mod kubernetes;
mod options;
mod slurm;
mod yaml;

pub(crate) use options::{Engine, OPTIONS, RenderOptions, made};

use crate::error::Result;

pub use options::USAGE;

/// What the command line asks for; the usage if it asks for help.
pub fn render(arguments: &[String]) -> Result<String> {
    let Some((engine, options)) = options::read(arguments)? else {
        return Ok(format!("{USAGE}\n"));
    };
    Ok(match engine {
        options::Engine::Kubernetes => kubernetes::render(&options),
        options::Engine::JobSet => jobset::render(&options),
        options::Engine::Slurm => slurm::render(&options),
    })
}

/// The batch script of a job on Slurm.
pub(crate) fn slurm_script(options: &RenderOptions) -> String {
    slurm::render(options)
}

/// The objects of a job on Kubernetes.
pub(crate) fn kubernetes_objects(options: &RenderOptions) -> String {
    kubernetes::render(options)
}

/// The end points of servers that have names, in order.
fn servers(options: &RenderOptions, name: impl Fn(usize) -> String) -> String {
    let all = (0..options.n_servers).map(|at| format!("{}:{}", name(at), options.port));
    all.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
