//! Requests about the server itself: whether it lives, whether it is ready, its counts.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use monitor::http::{HttpAnswer, HttpRequest, Requests};
use serde_json::{Value, json};

use super::ServerState;
use super::send::{TimedStream, close};

/// How long a client may take to ask when all connections are taken.
const PATIENCE: Duration = Duration::from_millis(200);

/// The answer to a question about the server; `None` if the request is something else.
pub(super) fn answer(request: &HttpRequest, shared: &ServerState) -> Option<HttpAnswer> {
    match (request.method.as_str(), request.path()) {
        ("GET" | "HEAD", "/healthz") => Some(HttpAnswer::json(state(shared, "ok"))),
        ("GET" | "HEAD", "/readyz") => Some(match shared.not_ready() {
            None => HttpAnswer::json(state(shared, "ready")),
            Some(reason) => HttpAnswer::error(503, reason),
        }),
        ("GET" | "HEAD", "/metrics") => Some(HttpAnswer::metrics(shared.metrics.text(shared))),
        _ => None,
    }
}

fn state(shared: &ServerState, status: &str) -> Value {
    match shared.predictor.get() {
        None => json!({ "status": status, "models_loaded": 0 }),
        Some(predictor) => {
            let (n_loaded, last_error) = predictor.loads();
            json!({
                "status": status,
                "model": predictor.dir().display().to_string(),
                "models_loaded": n_loaded,
                "reload_error": last_error,
            })
        }
    }
}

/// Answers one such question on a connection for which there is no place, and refuses everything else.
pub(super) fn serve_once(stream: &TcpStream, shared: &ServerState) {
    let (_, asked) = (stream.set_nodelay(true), Requests::new(stream, PATIENCE, 0).next(|_| true));
    let answer = asked.ok().and_then(|request| {
        let answer = answer(&request, shared)?;
        Some(if request.method == "HEAD" { answer.head_only() } else { answer })
    });
    let answer = answer.unwrap_or_else(|| {
        shared.metrics.refused.add(1);
        HttpAnswer::error(503, "there are too many connections")
    });
    shared.metrics.answered(answer.status(), Duration::ZERO);
    let mut out = TimedStream::new(stream, Instant::now() + PATIENCE);
    if std::io::Write::write_all(&mut out, &answer.closing().to_bytes()).is_ok() {
        close(stream);
    }
}
