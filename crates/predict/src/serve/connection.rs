//! One connection: request, answer, request, answer.

use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde_json::json;

use watch::http::{HttpAnswer, HttpRequest, JSON, NoRequest, Requests};

use super::queue::{NotPredicted, Predicted};
use super::{ServerState, json, raw};
use crate::batch::Samples;
use crate::error::Error;
use crate::model::Model;

/// Raw columns, both ways.
pub(super) const COLUMNS: &str = "application/x-paddlewheel-columns";

/// Answers until the client goes or does something wrong.
pub(super) fn serve(stream: TcpStream, shared: &ServerState) {
    let limits = &shared.limits;
    let _ = stream.set_nodelay(true);
    if stream.set_write_timeout(Some(limits.client)).is_err() {
        return;
    }
    let mut requests = Requests::new(&stream, limits.client, limits.request_bytes);
    while !shared.stops.load(Ordering::Relaxed) {
        let mut held = HeldBytes { shared, n_bytes: 0 };
        let request =
            requests.next(|kind, n_bytes| held.take(n_bytes.saturating_mul(weight(kind, shared))));
        let started = Instant::now();
        let answer = match request {
            Ok(request) => {
                let answer = answer(&request, shared);
                let answer = if request.method == "HEAD" { answer.head_only() } else { answer };
                if request.closes { answer.closing() } else { answer }
            }
            Err(NoRequest::Gone) => return,
            Err(NoRequest::Bad(answer)) => answer,
        };
        shared.metrics.answered(answer.status(), started.elapsed());
        if answer.send(&stream).is_err() || answer.closes() {
            return;
        }
    }
}

/// Bytes of a request, counted as long as it is in memory.
struct HeldBytes<'a> {
    shared: &'a ServerState,
    n_bytes: usize,
}

impl HeldBytes<'_> {
    fn take(&mut self, n_bytes: usize) -> bool {
        let before = self.shared.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        self.n_bytes = n_bytes;
        // One request is always taken, however large it may be.
        before == 0 || before.saturating_add(n_bytes) <= self.shared.limits.total_bytes
    }
}

impl Drop for HeldBytes<'_> {
    fn drop(&mut self) {
        self.shared.n_bytes.fetch_sub(self.n_bytes, Ordering::Relaxed);
    }
}

/// How many bytes of memory a byte of a body may take until it is predicted: a number of JSON is two
/// bytes of text, and a value of 32 bytes. A table has its cells beside that.
fn weight(kind: &str, shared: &ServerState) -> usize {
    let is_table = shared.predictor.model().encoding().is_some();
    match (kind.starts_with(COLUMNS), is_table) {
        (true, false) => 3,
        (true, true) => 6,
        (false, false) => 20,
        (false, true) => 40,
    }
}

fn answer(request: &HttpRequest, shared: &ServerState) -> HttpAnswer {
    match (request.method.as_str(), request.path()) {
        ("GET" | "HEAD", "/healthz") => health(shared),
        ("GET", "/metrics") => HttpAnswer::metrics(shared.metrics.text(shared)),
        ("GET", "/") => describe(shared),
        ("POST", "/predict") => predict(request, shared),
        (_, "/healthz" | "/metrics" | "/" | "/predict") => {
            HttpAnswer::error(405, "POST to /predict; GET /, /healthz and /metrics")
        }
        _ => HttpAnswer::error(404, "there are /, /predict, /healthz and /metrics"),
    }
}

fn health(shared: &ServerState) -> HttpAnswer {
    let (n_loaded, last_error) = shared.predictor.loads();
    let body = json!({
        "status": "ok",
        "model": shared.predictor.dir().display().to_string(),
        "models_loaded": n_loaded,
        "reload_error": last_error,
    });
    HttpAnswer::json(body)
}

/// What the model takes and gives.
fn describe(shared: &ServerState) -> HttpAnswer {
    let slots: Vec<_> = shared
        .predictor
        .slots()
        .iter()
        .map(|slot| {
            json!({
                "name": slot.name,
                "type": slot.dtype.name(),
                "shape": slot.dims,
                "sequence": slot.is_sequence(),
            })
        })
        .collect();
    let mut body = json!({ "slots": slots, "outputs": shared.predictor.outputs() });
    if let Some(encoding) = shared.predictor.model().encoding() {
        let features = encoding.features.iter();
        body["columns"] = features
            .map(|column| json!({ "name": column.name, "kind": column.kind().name() }))
            .collect();
    }
    HttpAnswer::json(body)
}

fn predict(request: &HttpRequest, shared: &ServerState) -> HttpAnswer {
    let model = shared.predictor.model();
    let is_raw = request.kind.starts_with(COLUMNS);
    let filled = batch_of(&request.body, is_raw, &model);
    let (batch, n_samples) = match filled.and_then(|batch| Ok((batch.n_samples()?, batch))) {
        Ok((n_samples, batch)) => (batch, n_samples),
        Err(problem) => return HttpAnswer::error(400, &problem.to_string()),
    };
    if n_samples > shared.limits.queued_samples {
        let most = shared.limits.queued_samples;
        return HttpAnswer::error(
            413,
            &format!("a request has at most {most} samples, not {n_samples}"),
        );
    }
    let deadline = Instant::now() + shared.limits.deadline;
    match shared.queue.predict(model.clone(), batch, deadline) {
        Ok(Predicted { outputs }) => {
            let names = model.fetches();
            match is_raw || request.accepts.starts_with(COLUMNS) {
                true => HttpAnswer::new(COLUMNS, raw::write(names, &outputs, n_samples)),
                false => HttpAnswer::new(JSON, json::write(names, &outputs)),
            }
        }
        Err(NotPredicted::Full) => {
            shared.metrics.refused.add(1);
            HttpAnswer::error(503, "too many requests wait; try again")
        }
        Err(NotPredicted::Late) => HttpAnswer::error(504, "the prediction was not made in time"),
        Err(NotPredicted::Failed(error)) => match error.is_of_request() {
            true => HttpAnswer::error(400, &error.to_string()),
            false => HttpAnswer::error(500, &error.to_string()),
        },
    }
}

/// The samples of a body: slots of the model, or rows of a table if CTR saved it.
fn batch_of(body: &[u8], is_raw: bool, model: &Model) -> Result<Samples, BadBody> {
    if let Some(encoding) = model.encoding() {
        let frame = if is_raw { raw::table(body)? } else { json::table(body, encoding)? };
        return Ok(model.encode(encoding, &frame)?);
    }
    let mut batch = model.batch();
    match is_raw {
        true => raw::fill(body, &mut batch)?,
        false => json::fill(body, &mut batch)?,
    }
    Ok(batch)
}

/// Why a body is no batch.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadBody {
    /// It is no JSON.
    #[error("the body is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has another form.
    #[error("{0}")]
    Form(String),
    /// It does not fit the model.
    #[error(transparent)]
    Samples(#[from] Error),
}
