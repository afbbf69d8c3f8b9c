//! Writes the events of this process to stderr.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, RwLock};

use metrics::CalendarTime;
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry, SpanRef};

use crate::filter::LogFilter;
use crate::format::{EventFields, LogFormat, LogIdentity, LogLine, SpanFields};
use crate::screen;

static IS_JSON: AtomicBool = AtomicBool::new(false);
static IDENTITY: OnceLock<RwLock<LogIdentity>> = OnceLock::new();

/// Which lines are written, and how.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Which.
    pub filter: LogFilter,
    /// How.
    pub format: LogFormat,
    /// The process that writes them.
    pub identity: LogIdentity,
}

/// Begins to write lines. Whether it does: a program that has a subscriber of its own keeps it, and gets our events.
pub fn start(settings: LogSettings) -> bool {
    let LogSettings { filter, format, identity } = settings;
    set_identity(identity);
    set_format(format);
    let subscriber = Registry::default().with(LogLayer.with_filter(filter.targets));
    tracing::subscriber::set_global_default(subscriber).is_ok()
}

/// The form of lines from now on.
pub fn set_format(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// The form of lines.
pub fn format() -> LogFormat {
    if IS_JSON.load(Ordering::Relaxed) { LogFormat::Json } else { LogFormat::Text }
}

/// Which process this is, if that is known better by now.
pub fn set_identity(identity: LogIdentity) {
    let known = IDENTITY.get_or_init(RwLock::default);
    *known.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = identity;
}

/// One line for each event.
struct LogLayer;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut said = EventFields::default();
            attributes.record(&mut said);
            span.extensions_mut().insert(said);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut said = EventFields::default();
        event.record(&mut said);
        let scope = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let fields = |span: &SpanRef<'_, S>| {
            span.extensions().get::<EventFields>().map(|said| said.fields.clone())
        };
        let spans: Vec<_> = scope
            .map(|span| SpanFields { name: span.name(), fields: fields(&span).unwrap_or_default() })
            .collect();
        let identity = IDENTITY.get_or_init(RwLock::default);
        let identity = identity.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let metadata = event.metadata();
        let line = LogLine {
            level: *metadata.level(),
            target: LogLine::target_of(metadata),
            said: &said,
            spans: &spans,
            time: CalendarTime::now(),
            identity: &identity,
        };
        let line = line.write(format());
        // In one piece, between two drawings of moving lines. A closed stderr is ignored.
        screen::apart(|| _ = std::io::stderr().lock().write_all(line.as_bytes()));
    }
}
