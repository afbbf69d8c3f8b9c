//! Which lines are written: levels for all, and for parts of the system.

use base::DidYouMean;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

use crate::PREFIX;

/// The parts of the system that write lines: `PADDLEWHEEL_LOG=server=debug` names one.
pub const TARGETS: &[&str] = &[
    "communicator",
    "data",
    "launcher",
    "network",
    "progress",
    "recovery",
    "said",
    "server",
    "train_from_dataset",
    "trainer",
    "watch",
];

const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
/// Fluid's users ask for 3 or 4 to see what happens, and for more to see everything.
const DEBUG_MAX: i64 = 4;

/// Why a filter makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// A level that does not exist.
    #[error("`{word}` is not a level: there are {}.{near}", LEVELS.join(", "))]
    Level {
        /// As it was written.
        word: String,
        /// The level that was perhaps meant.
        near: DidYouMean,
    },
    /// A part of the system that does not exist.
    #[error("`{word}` writes no lines: there are {}.{near}", TARGETS.join(", "))]
    Target {
        /// As it was written.
        word: String,
        /// The one that was perhaps meant.
        near: DidYouMean,
    },
}

/// The values of Fluid's variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glog {
    /// `GLOG_v`: above 0, there are more lines.
    pub v: i64,
    /// `GLOG_minloglevel`: 1 hides lines for information, 2 also warnings, 3 all.
    pub min_level: i64,
}

/// Which lines are written.
#[derive(Clone, Debug)]
pub struct LogFilter {
    pub(crate) targets: Targets,
}

impl LogFilter {
    /// The filter of Fluid's variables. Lines of `GLOG_v` are for information: `GLOG_minloglevel` hides them too.
    pub fn of_glog(glog: Glog) -> Self {
        let level = match glog {
            Glog { min_level: 3.., .. } => LevelFilter::OFF,
            Glog { min_level: 2, .. } => LevelFilter::ERROR,
            Glog { min_level: 1, .. } => LevelFilter::WARN,
            Glog { v: ..1, .. } => LevelFilter::INFO,
            Glog { v: 1..=DEBUG_MAX, .. } => LevelFilter::DEBUG,
            Glog { .. } => LevelFilter::TRACE,
        };
        Self { targets: Targets::new().with_default(level) }
    }

    /// Reads `level`, `target=level`, or several with commas between them. Other targets keep their level.
    pub fn with(self, text: &str) -> Result<Self, FilterError> {
        let mut targets = self.targets;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            targets = match word.split_once('=') {
                None => targets.with_default(level(word)?),
                Some((name, word)) => {
                    targets.with_target(target(name.trim())?, level(word.trim())?)
                }
            };
        }
        Ok(Self { targets })
    }

    /// Whether lines of this part and level are written.
    pub fn shows(&self, target: &str, level: tracing::Level) -> bool {
        self.targets.would_enable(&format!("{PREFIX}{target}"), &level)
    }
}

fn level(word: &str) -> Result<LevelFilter, FilterError> {
    match word.to_ascii_lowercase().as_str() {
        "off" => Ok(LevelFilter::OFF),
        "error" => Ok(LevelFilter::ERROR),
        "warn" | "warning" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => {
            let near = DidYouMean::among(word, LEVELS.iter().copied());
            Err(FilterError::Level { word: word.to_string(), near })
        }
    }
}

fn target(name: &str) -> Result<String, FilterError> {
    let short = name.strip_prefix(PREFIX).unwrap_or(name);
    if TARGETS.contains(&short) {
        return Ok(format!("{PREFIX}{short}"));
    }
    let near = DidYouMean::among(short, TARGETS.iter().copied());
    Err(FilterError::Target { word: name.to_string(), near })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    /// The least serious level that is shown of a part.
    fn shown(filter: &LogFilter, target: &str) -> &'static str {
        let levels = [Level::TRACE, Level::DEBUG, Level::INFO, Level::WARN, Level::ERROR];
        let names = ["trace", "debug", "info", "warn", "error"];
        let at = levels.iter().position(|level| filter.shows(target, *level));
        at.map_or("off", |at| names[at])
    }

    #[test]
    fn fluids_variables_are_levels() {
        let of = |v, min_level| shown(&LogFilter::of_glog(Glog { v, min_level }), "server");
        assert_eq!([of(0, 0), of(-1, 0), of(1, 0), of(3, 0)], ["info", "info", "debug", "debug"]);
        assert_eq!([of(10, 0), of(0, 1), of(0, 2), of(0, 3)], ["trace", "warn", "error", "off"]);
        assert_eq!(of(3, 1), "warn", "what is said with v is for information");
    }

    #[test]
    fn levels_for_all_and_for_parts() {
        let of = |text: &str| LogFilter::of_glog(Glog::default()).with(text).unwrap();
        let both = |text| [shown(&of(text), "server"), shown(&of(text), "trainer")];
        assert_eq!(both(""), ["info", "info"]);
        assert_eq!(both("Debug"), ["debug", "debug"]);
        assert_eq!(both("warn,server=trace"), ["trace", "warn"]);
        assert_eq!(both("paddlewheel::trainer = off"), ["info", "off"]);
    }

    #[test]
    fn slips_are_named() {
        let error = |text: &str| LogFilter::of_glog(Glog::default()).with(text).unwrap_err();
        let near = |name: &str| DidYouMean(Some(name.to_string()));
        let word = |word: &str| word.to_string();
        assert_eq!(error("debgu"), FilterError::Level { word: word("debgu"), near: near("debug") });
        assert_eq!(
            error("info,servr=debug"),
            FilterError::Target { word: word("servr"), near: near("server") }
        );
        assert!(error("loud").to_string().contains("off, error, warn, info, debug, trace"));
    }
}
