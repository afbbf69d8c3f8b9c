//! Numbers as OpenMetrics text, which Prometheus reads.

use std::fmt::Write;

use count::{NumberKind, Sample};

/// The text of these samples. Those of one name stand together; they must follow each other.
pub fn open_metrics(samples: &[Sample]) -> String {
    let mut out = String::new();
    let mut last = "";
    for sample in samples {
        let Sample { name, help, kind, label, value } = sample;
        if *name != last {
            last = name;
            let kind = if *kind == NumberKind::Counter { "counter" } else { "gauge" };
            let _ = writeln!(out, "# TYPE paddlewheel_{name} {kind}");
            if let Some(unit) = unit(name) {
                let _ = writeln!(out, "# UNIT paddlewheel_{name} {unit}");
            }
            let _ = writeln!(out, "# HELP paddlewheel_{name} {}", escaped(help));
        }
        let suffix = if *kind == NumberKind::Counter { "_total" } else { "" };
        let _ = write!(out, "paddlewheel_{name}{suffix}");
        if let Some((label, who)) = label {
            let _ = write!(out, "{{{label}=\"{}\"}}", escaped(who));
        }
        let _ = writeln!(out, " {}", number(*value));
    }
    out.push_str("# EOF\n");
    out
}

/// The unit that a name ends in.
fn unit(name: &str) -> Option<&'static str> {
    ["seconds", "bytes"].into_iter().find(|unit| name.ends_with(&format!("_{unit}")))
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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
}
