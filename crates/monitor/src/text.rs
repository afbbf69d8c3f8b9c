//! Numbers as text that Prometheus reads: OpenMetrics, or the older form of Prometheus if a client asks for that.

use std::fmt::Write;

use metrics::{NumberKind, Sample};

use crate::http::{HttpAnswer, HttpRequest};

/// The form of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextForm {
    OpenMetrics,
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
}

const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

impl TextForm {
    /// The one that a client wants: OpenMetrics, unless it knows only the older one.
    pub(crate) fn wanted(request: &HttpRequest) -> Self {
        if request.accepts.contains("text/plain") && !request.accepts.contains("openmetrics") {
            Self::Prometheus
        } else {
            Self::OpenMetrics
        }
    }

    /// The answer with these numbers.
    pub(crate) fn answer(self, families: &[Family<'_>]) -> HttpAnswer {
        let text = metrics_text(families, self);
        match self {
            Self::OpenMetrics => HttpAnswer::metrics(text),
            Self::Prometheus => HttpAnswer::new(PROMETHEUS, text.into_bytes()),
        }
    }
}

/// All numbers of one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family<'a> {
    pub(crate) name: &'a str,
    pub(crate) help: &'a str,
    pub(crate) kind: NumberKind,
    pub(crate) rows: Vec<FamilyRow<'a>>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FamilyRow<'a> {
    pub(crate) labels: Vec<(&'a str, &'a str)>,
    pub(crate) value: f64,
}

/// The text of these samples. Those of one name stand together; they must follow each other.
pub fn open_metrics(samples: &[Sample]) -> String {
    metrics_text(&families(samples), TextForm::OpenMetrics)
}

/// Samples by name.
pub(crate) fn families(samples: &[Sample]) -> Vec<Family<'_>> {
    let mut all: Vec<Family<'_>> = Vec::new();
    for sample in samples {
        let Sample { name, help, kind, label, value } = sample;
        let labels = label.iter().map(|(label, who)| (*label, who.as_str())).collect();
        let row = FamilyRow { labels, value: *value };
        match all.last_mut().filter(|last| last.name == *name) {
            Some(last) => last.rows.push(row),
            None => all.push(Family { name, help, kind: *kind, rows: vec![row] }),
        }
    }
    all
}

fn metrics_text(families: &[Family<'_>], form: TextForm) -> String {
    let mut out = String::new();
    for Family { name, help, kind, rows } in families {
        let (word, suffix) = match kind {
            NumberKind::Counter => ("counter", "_total"),
            NumberKind::Gauge => ("gauge", ""),
        };
        // The older form names what follows, the newer one the family.
        let (described, help) = match form {
            TextForm::OpenMetrics => (name.to_string(), escaped(help)),
            TextForm::Prometheus => (format!("{name}{suffix}"), escaped_help(help)),
        };
        let _ = writeln!(out, "# TYPE paddlewheel_{described} {word}");
        if let Some(unit) = unit(name).filter(|_| form == TextForm::OpenMetrics) {
            let _ = writeln!(out, "# UNIT paddlewheel_{name} {unit}");
        }
        let _ = writeln!(out, "# HELP paddlewheel_{described} {help}");
        for FamilyRow { labels, value } in rows {
            let labels = labels.iter().map(|(label, who)| format!("{label}=\"{}\"", escaped(who)));
            let labels: Vec<String> = labels.collect();
            let _ = write!(out, "paddlewheel_{name}{suffix}");
            if !labels.is_empty() {
                let _ = write!(out, "{{{}}}", labels.join(","));
            }
            let _ = writeln!(out, " {}", number(*value));
        }
    }
    if form == TextForm::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// The unit that a name ends in.
fn unit(name: &str) -> Option<&'static str> {
    ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}")))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// In the older form, a quotation mark stands for itself here.
fn escaped_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_string(),
        f64::INFINITY => "+Inf".to_string(),
        f64::NEG_INFINITY => "-Inf".to_string(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_gauges() {
        let sample =
            |name, kind, label, value| Sample { name, help: "Says \"it\".", kind, label, value };
        let who = |who: &str| Some(("server", who.to_string()));
        let text = open_metrics(&[
            sample("waiting_seconds", NumberKind::Counter, who("a:1"), 0.5),
            sample("waiting_seconds", NumberKind::Counter, who("b\"\n"), 2.0),
            sample("rows", NumberKind::Gauge, None, f64::INFINITY),
        ]);
        let expected = "# TYPE paddlewheel_waiting_seconds counter\n\
                        # UNIT paddlewheel_waiting_seconds seconds\n\
                        # HELP paddlewheel_waiting_seconds Says \\\"it\\\".\n\
                        paddlewheel_waiting_seconds_total{server=\"a:1\"} 0.5\n\
                        paddlewheel_waiting_seconds_total{server=\"b\\\"\\n\"} 2\n\
                        # TYPE paddlewheel_rows gauge\n\
                        # HELP paddlewheel_rows Says \\\"it\\\".\n\
                        paddlewheel_rows +Inf\n# EOF\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_older_form_names_what_follows() {
        let help = "Says \"it\".";
        let (labels, kind) = (vec![("role", "trainer"), ("index", "0")], NumberKind::Counter);
        let rows = vec![FamilyRow { labels, value: 2.0 }];
        let text =
            metrics_text(&[Family { name: "batches", help, kind, rows }], TextForm::Prometheus);
        let expected = "# TYPE paddlewheel_batches_total counter\n\
                        # HELP paddlewheel_batches_total Says \"it\".\n\
                        paddlewheel_batches_total{role=\"trainer\",index=\"0\"} 2\n";
        assert_eq!(text, expected);
    }
}
