//! The forms of a line: as Fluid stamps it, or as one JSON object.

use std::fmt::Write as _;

use base::printable;
use metrics::CalendarTime;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};

use crate::PREFIX;

/// Lines of this part have no stamp: Fluid's scripts write them as they are.
const BARE: &str = "said";

/// The form of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// As Fluid writes them.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The names of all forms.
    pub const NAMES: &[&str] = &["text", "json"];

    /// The form of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "text" => Some(Self::Text),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Which process of a job this is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogIdentity {
    /// `server`, `trainer`, `launcher`; none outside of jobs.
    pub role: Option<&'static str>,
    /// Its number.
    pub rank: Option<u32>,
}

/// The message and the fields of an event or a span.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFields {
    pub(crate) message: String,
    pub(crate) fields: Map<String, Value>,
}

impl Visit for EventFields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            // Writing to a string cannot fail.
            "message" => _ = write!(self.message, "{value:?}"),
            name => _ = self.fields.insert(name.to_string(), format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            name => _ = self.fields.insert(name.to_string(), value.into()),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name().to_string(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.insert(field.name().to_string(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.insert(field.name().to_string(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.insert(field.name().to_string(), value.into());
    }
}

/// A span around an event.
pub(crate) struct SpanFields {
    pub(crate) name: &'static str,
    pub(crate) fields: Map<String, Value>,
}

/// A line, before it has a form.
pub(crate) struct LogLine<'a> {
    pub(crate) level: Level,
    pub(crate) target: &'a str,
    pub(crate) said: &'a EventFields,
    /// The spans around it, from the outermost on.
    pub(crate) spans: &'a [SpanFields],
    pub(crate) time: CalendarTime,
    pub(crate) identity: &'a LogIdentity,
}

impl<'a> LogLine<'a> {
    pub(crate) fn target_of(metadata: &Metadata<'a>) -> &'a str {
        metadata.target().strip_prefix(PREFIX).unwrap_or(metadata.target())
    }

    /// The line, with its end.
    pub(crate) fn write(&self, format: LogFormat) -> String {
        match format {
            LogFormat::Text => self.text(),
            LogFormat::Json => self.json(),
        }
    }

    fn text(&self) -> String {
        let mut line = if self.target == BARE {
            String::new()
        } else {
            let (letter, stamp) = (letter(self.level), self.time.stamp());
            format!("{letter}{stamp} {:>5} {}] ", thread_id(), self.target)
        };
        line += &printable(&self.said.message);
        let spans = self.spans.iter().flat_map(|span| &span.fields);
        for (name, value) in self.said.fields.iter().chain(spans) {
            let plain = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            // On one line, so that a name in it makes no line of its own.
            _ = write!(line, " {name}={}", printable(&plain).replace('\n', "\\n"));
        }
        line.push('\n');
        line
    }

    fn json(&self) -> String {
        let mut object = Map::new();
        object.insert("time".into(), self.time.to_string().into());
        object.insert("level".into(), self.level.as_str().to_ascii_lowercase().into());
        object.insert("target".into(), self.target.into());
        object.insert("pid".into(), std::process::id().into());
        object.insert("thread".into(), thread_id().into());
        if let Some(role) = self.identity.role {
            object.insert("role".into(), role.into());
        }
        if let Some(rank) = self.identity.rank {
            object.insert("rank".into(), rank.into());
        }
        object.insert("message".into(), self.said.message.clone().into());
        if !self.said.fields.is_empty() {
            object.insert("fields".into(), self.said.fields.clone().into());
        }
        let span = |span: &SpanFields| json!({ "name": span.name, "fields": span.fields });
        if !self.spans.is_empty() {
            object.insert("spans".into(), self.spans.iter().map(span).collect());
        }
        format!("{}\n", Value::from(object))
    }
}

fn letter(level: Level) -> char {
    match level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        Level::INFO => 'I',
        Level::DEBUG => 'D',
        _ => 'T',
    }
}

/// The number of this thread as the system knows it; that of the process where it does not say.
fn thread_id() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").ok();
    let name = link.as_deref().and_then(|path| path.file_name()?.to_str());
    name.and_then(|name| name.parse().ok()).unwrap_or_else(std::process::id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn written(format: LogFormat, target: &str) -> String {
        let fields = Map::from_iter([("trainer".to_string(), 3.into())]);
        let said = EventFields { message: "joined \"it\"\n".to_string(), fields };
        let fields = Map::from_iter([("epoch".to_string(), 1.into())]);
        let spans = [SpanFields { name: "pass", fields }];
        let time = CalendarTime::since_1970(Duration::new(1_584_568_021, 298_220_999));
        let identity = LogIdentity { role: Some("server"), rank: Some(1) };
        let line = LogLine {
            level: Level::DEBUG,
            target,
            said: &said,
            spans: &spans,
            time,
            identity: &identity,
        };
        line.write(format)
    }

    #[test]
    fn a_line_as_text() {
        let text = written(LogFormat::Text, "server");
        let (stamp, rest) = text.split_once("] ").unwrap();
        assert!(
            stamp.starts_with("D0318 21:47:01.298220 ") && stamp.ends_with(" server"),
            "{text}"
        );
        assert_eq!(rest, "joined \"it\"\n trainer=3 epoch=1\n");
        assert_eq!(written(LogFormat::Text, "said"), rest, "Fluid's own lines have no stamp");
    }

    #[test]
    fn a_line_as_json_is_one_line() {
        let text = written(LogFormat::Json, "server");
        assert_eq!(text.matches('\n').count(), 1);
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["time"], "2020-03-18T21:47:01.298220Z");
        assert_eq!([&line["level"], &line["target"], &line["role"]], ["debug", "server", "server"]);
        assert_eq!([&line["rank"], &line["fields"]["trainer"]], [1, 3]);
        assert_eq!(line["message"], "joined \"it\"\n");
        assert_eq!(line["spans"][0]["fields"]["epoch"], 1);
    }
}
