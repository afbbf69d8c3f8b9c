//! One connection: request, answer, request, answer.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use monitor::http::{HttpAnswer, HttpRequest, JSON, NoRequest, Requests};
use tensor::Tensor;

use super::body::{Allowed, BadBody, samples_of};
use super::budget::{Held, NoMemory};
use super::connections::{ClientConn, ConnStage};
use super::queue::{NotPredicted, Predicted};
use super::send::{AnswerHead, Pieces, TimedStream, close, cut_off, is_late};
use super::{ServerState, json, probes, raw};
use crate::model::Model;

/// Raw columns, both ways.
pub(super) const COLUMNS: &str = "application/x-paddlewheel-columns";

/// Answers until the client goes or does something wrong.
pub(super) fn serve(conn: &ClientConn, shared: &ServerState) {
    let (stream, limits) = (&conn.stream, &shared.limits);
    let _ = stream.set_nodelay(true);
    let n_bytes_max = limits.request_bytes.min(shared.budget.n_large());
    let mut requests = Requests::new(stream, limits.client, n_bytes_max);
    while !shared.has_stopped() && conn.enter(ConnStage::Idle) {
        if requests.begin().is_err() || !conn.enter(ConnStage::Reads) {
            return;
        }
        let mut held = shared.budget.hold();
        let request = requests.next(|n_bytes| held.take(n_bytes).is_ok());
        if !conn.enter(ConnStage::Answers) {
            return;
        }
        let started = Instant::now();
        let (answer, mut head) = match request {
            Ok(request) => {
                let head = AnswerHead {
                    kind: JSON,
                    n_bytes: None,
                    closes: request.closes || shared.is_ending(),
                    is_old: request.is_old,
                };
                (answer(request, held, shared), head)
            }
            Err(NoRequest::Gone) => return,
            Err(NoRequest::Bad(answer)) => {
                let head = AnswerHead { kind: JSON, n_bytes: None, closes: true, is_old: true };
                (ServerAnswer::Plain(answer), head)
            }
        };
        let status = answer.status();
        shared.metrics.answered(status, started.elapsed());
        shared.metrics.refused.add((status == 503).into());
        let out = TimedStream::new(stream, Instant::now() + limits.client);
        match answer.send(out, &mut head) {
            Ok(false) => {}
            Ok(true) => return close(stream),
            Err(error) => {
                if is_late(&error) {
                    shared.metrics.cut_off.add(1);
                    cut_off(stream);
                }
                return;
            }
        }
    }
}

/// The answer to a request.
enum ServerAnswer {
    Plain(HttpAnswer),
    /// The inputs and outputs of the model.
    Description(Arc<Model>),
    Predictions(Predictions),
}

struct Predictions {
    model: Arc<Model>,
    outputs: Vec<Tensor>,
    n_samples: usize,
    is_raw: bool,
    /// The memory of the outputs, until they are sent.
    _held: Held,
}

impl ServerAnswer {
    fn error(status: u16, problem: &str) -> Self {
        Self::Plain(HttpAnswer::error(status, problem))
    }

    fn no_memory(no_memory: NoMemory) -> Self {
        match no_memory {
            NoMemory::Full => {
                Self::error(503, "other requests and answers fill the memory; try again")
            }
            NoMemory::TooLarge => Self::error(
                413,
                "the request or its answer needs more memory than there is for all: send fewer samples, or raise \
                 --total_bytes",
            ),
        }
    }

    fn status(&self) -> u16 {
        match self {
            Self::Plain(answer) => answer.status(),
            Self::Description(_) | Self::Predictions(_) => 200,
        }
    }

    /// Sends it; whether the connection ends with it.
    fn send(self, mut out: TimedStream<'_>, head: &mut AnswerHead) -> io::Result<bool> {
        match self {
            Self::Plain(answer) => {
                let answer = if head.closes { answer.closing() } else { answer };
                out.write_all(&answer.to_bytes())?;
                Ok(answer.closes())
            }
            Self::Description(model) => {
                let mut pieces = Pieces::new(out, *head);
                json::write_description(&mut pieces, &model)?;
                pieces.finish()
            }
            Self::Predictions(Predictions { model, outputs, n_samples, is_raw: true, .. }) => {
                let names = model.outputs();
                (head.kind, head.n_bytes) = (COLUMNS, Some(raw::n_bytes(names, &outputs)));
                let mut pieces = Pieces::new(out, *head);
                raw::write(&mut pieces, names, &outputs, n_samples)?;
                pieces.finish()
            }
            Self::Predictions(Predictions { model, outputs, .. }) => {
                let mut pieces = Pieces::new(out, *head);
                json::write_predictions(&mut pieces, model.outputs(), &outputs)?;
                pieces.finish()
            }
        }
    }
}

fn answer(request: HttpRequest, held: Held, shared: &ServerState) -> ServerAnswer {
    if let Some(answer) = probes::answer(&request, shared) {
        let is_head = request.method == "HEAD";
        return ServerAnswer::Plain(if is_head { answer.head_only() } else { answer });
    }
    match (request.method.as_str(), request.path()) {
        ("GET", "/") => match shared.predictor.get() {
            Some(predictor) => ServerAnswer::Description(predictor.model()),
            None => not_loaded(),
        },
        ("POST", "/predict") => match shared.predictor.get() {
            Some(predictor) => predict(request, held, predictor.model(), shared),
            None => not_loaded(),
        },
        (_, "/healthz" | "/readyz" | "/metrics" | "/" | "/predict") => {
            ServerAnswer::error(405, "POST to /predict; GET /, /healthz, /readyz and /metrics")
        }
        _ => ServerAnswer::error(404, "there are /, /predict, /healthz, /readyz and /metrics"),
    }
}

fn not_loaded() -> ServerAnswer {
    ServerAnswer::error(503, "the model is being loaded")
}

fn predict(
    request: HttpRequest,
    mut held: Held,
    model: Arc<Model>,
    shared: &ServerState,
) -> ServerAnswer {
    let is_raw = request.kind.starts_with(COLUMNS);
    let answers_raw = is_raw || request.accepts.starts_with(COLUMNS);
    let n_samples_max = shared.limits.queued_samples;
    let allowed = &mut Allowed { held: &mut held, n_samples_max };
    let filled = samples_of(request.body, is_raw, &model, allowed);
    let (batch, n_samples) = match filled.and_then(|batch| Ok((batch.n_samples()?, batch))) {
        Ok((n_samples, batch)) => (batch, n_samples),
        Err(BadBody::NoMemory(no_memory)) => return ServerAnswer::no_memory(no_memory),
        Err(problem @ BadBody::TooMany(_)) => {
            return ServerAnswer::error(413, &problem.to_string());
        }
        Err(problem) => return ServerAnswer::error(400, &problem.to_string()),
    };
    let deadline = Instant::now() + shared.limits.deadline;
    match shared.queue.predict(model.clone(), batch, held, deadline) {
        Ok(Predicted { outputs, held: _held }) => ServerAnswer::Predictions(Predictions {
            model,
            outputs,
            n_samples,
            is_raw: answers_raw,
            _held,
        }),
        Err(NotPredicted::Full) => ServerAnswer::error(503, "too many requests wait; try again"),
        Err(NotPredicted::NoMemory(no_memory)) => ServerAnswer::no_memory(no_memory),
        Err(NotPredicted::Late) => ServerAnswer::error(504, "the prediction was not made in time"),
        Err(NotPredicted::Failed(error)) => {
            if error.is_of_request() {
                ServerAnswer::error(400, &error.to_string())
            } else {
                ServerAnswer::error(500, &error.to_string())
            }
        }
    }
}
