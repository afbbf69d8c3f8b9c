//! Options of jobs on Kubernetes.

use clap::Args;
use fleet::render::{ClaimMount, PodOptions, Toleration};

use super::job::first_given;
use crate::values::{self, KeyValue};

/// How the pods of a job are made.
#[derive(Args, Default)]
#[command(rename_all = "snake_case", next_help_heading = "Pods of Kubernetes")]
pub(crate) struct Pods {
    /// The namespace of all objects [default: that of kubectl]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// A label that nodes must have; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::key_value)]
    node_selector: Vec<KeyValue>,
    /// A taint of nodes that pods tolerate, KEY, KEY=VALUE or KEY=VALUE:EFFECT; may be given several times
    #[arg(long, value_name = "TAINT")]
    toleration: Vec<String>,
    /// A Secret with which the image is pulled; may be given several times
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Vec<String>,
    /// The number of the user that runs processes, not 0 [default: 1000]
    #[arg(long, value_name = "UID")]
    run_as_user: Option<u32>,
    /// The claim of a disk with the data, only read, at /data unless PATH is given
    #[arg(long, value_name = "CLAIM:PATH")]
    data: Option<String>,
    /// The claim of a disk that the script saves to, at /output unless PATH is given [default: NAME-output is made]
    #[arg(long, value_name = "CLAIM:PATH")]
    output: Option<String>,
}

impl Pods {
    /// The first of these options that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        first_given(&[
            (self.namespace.is_some(), "--namespace"),
            (!self.node_selector.is_empty(), "--node_selector"),
            (!self.toleration.is_empty(), "--toleration"),
            (!self.image_pull_secret.is_empty(), "--image_pull_secret"),
            (self.run_as_user.is_some(), "--run_as_user"),
            (self.data.is_some(), "--data"),
            (self.output.is_some(), "--output"),
        ])
    }

    pub(crate) fn options(self) -> PodOptions {
        let selectors = self.node_selector.into_iter().map(|pair| (pair.key, pair.value));
        PodOptions {
            namespace: self.namespace,
            node_selectors: selectors.collect(),
            tolerations: self.toleration.iter().map(|text| Toleration::from_text(text)).collect(),
            pull_secrets: self.image_pull_secret,
            user: self.run_as_user,
            data: self.data.map(|text| ClaimMount::from_text(&text, "/data")),
            output: self.output.map(|text| ClaimMount::from_text(&text, "/output")),
        }
    }
}
