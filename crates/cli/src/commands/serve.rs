//! `paddlewheel serve`: predictions over HTTP.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fleet::Signals;
use predict::{Limits, ModelFiles, PredictionServer, Predictor, Settings};

use super::print;
use crate::error::Result;
use crate::values::some_seconds;

/// Answers predictions of a saved model over HTTP.
///
/// On this machine only, unless another --host is named. Prints where it listens when the model is loaded. Ctrl-C and
/// SIGTERM end it: requests that have begun are answered.
#[derive(Args)]
#[command(
    rename_all = "snake_case",
    after_help = "\
Examples:
  paddlewheel serve model
  paddlewheel serve model --follow --host 0.0.0.0 --port 80 --threads 8"
)]
pub(crate) struct Serve {
    /// A folder that save_inference_model wrote
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take over newer models in the folder
    #[arg(long)]
    follow: bool,
    /// Seconds between two looks at the folder
    #[arg(long, value_name = "S", default_value = "1", value_parser = some_seconds)]
    every: Duration,
    /// The address to listen on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// The port; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8866)]
    port: u16,
    /// Threads that predict [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The file of the program [default: __model__]
    #[arg(long, value_name = "FILE")]
    model_filename: Option<String>,
    /// The file of all parameters, if there is one
    #[arg(long, value_name = "FILE")]
    params_filename: Option<String>,
    #[command(flatten)]
    limits: ServeLimits,
}

/// How much is too much.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "Limits")]
struct ServeLimits {
    /// Connections at the same time
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    connections: usize,
    /// Bytes of one request
    #[arg(long, value_name = "N", default_value_t = Limits::default().request_bytes)]
    request_bytes: usize,
    /// Bytes of all requests and answers in memory
    #[arg(long, value_name = "N", default_value_t = Limits::default().total_bytes)]
    total_bytes: usize,
    /// Samples that may wait
    #[arg(long, value_name = "N", default_value_t = Limits::default().queued_samples)]
    queued_samples: usize,
    /// Samples that are predicted at once
    #[arg(long, value_name = "N", default_value_t = Limits::default().batch_samples)]
    batch_samples: usize,
    /// Seconds that a request may wait for its prediction
    #[arg(long, value_name = "S", default_value = "1", value_parser = some_seconds)]
    deadline: Duration,
    /// Seconds that a client may take to send a whole request, and to read a whole answer
    #[arg(long, value_name = "S", default_value = "10", value_parser = some_seconds)]
    client_timeout: Duration,
    /// Seconds that requests have to be answered when the server is asked to end
    #[arg(long, value_name = "S", default_value = "20", value_parser = some_seconds)]
    grace_secs: Duration,
}

impl Serve {
    pub(crate) fn run(self: Box<Self>) -> Result<i32> {
        let limits = Limits {
            connections: self.limits.connections,
            request_bytes: self.limits.request_bytes,
            total_bytes: self.limits.total_bytes,
            queued_samples: self.limits.queued_samples,
            batch_samples: self.limits.batch_samples,
            deadline: self.limits.deadline,
            client: self.limits.client_timeout,
        };
        let threads = self.threads.unwrap_or(Settings::default().threads);
        let settings = Settings { host: self.host, port: self.port, threads, limits };
        let files = ModelFiles { model: self.model_filename, params: self.params_filename };
        // The usual way of ending a server is not an error.
        let signals = Signals::watch()?;
        // A large model takes long to load: the server already answers that it is not ready.
        let server = PredictionServer::listen(&settings)?;
        let predictor = Predictor::load_files(&self.dir, files)?;
        if self.follow {
            predictor.follow(self.every)?;
        }
        server.serve(predictor);
        print(&format!("serving on http://{}\n", server.address()))?;
        signals.wait();
        if !server.end(self.limits.grace_secs) {
            let patience = self.limits.grace_secs.as_secs_f64();
            print(&format!("some requests were not answered within {patience} s\n"))?;
        }
        Ok(0)
    }
}
