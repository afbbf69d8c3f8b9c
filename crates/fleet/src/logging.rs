//! The log and the progress of this process, as its environment wants them.

use std::sync::Mutex;
use std::time::Duration;

use base::{DidYouMean, EvenIfPoisoned};
use logging::{Glog, LogFilter, LogFormat, LogIdentity, LogSettings, ProgressMode};

use crate::env::{
    self, EnvVars, FoundVar, GLOG_MIN_LEVEL, GLOG_V, LOG, LOG_FORMAT, PROGRESS, PROGRESS_SECS,
    ROLE, SERVER_ID, TERMINAL, TRAINER_ID,
};
use crate::error::{Error, Result};
use crate::role::Role;

pub use base::printable;

/// Choices of a front end, where the environment has none, or instead of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogChoice {
    /// The form of lines, from the command line.
    pub(crate) format: Option<LogFormat>,
    /// This is a launcher.
    pub(crate) is_launcher: bool,
}

/// Begins to write the log of this process and to show its progress, once. Every front calls it; an environment that
/// makes no sense is an error each time.
pub fn begin() -> Result<()> {
    begin_with(LogChoice::default())
}

pub(crate) fn begin_with(choice: LogChoice) -> Result<()> {
    static BEGUN: Mutex<bool> = Mutex::new(false);
    let vars = EnvVars(&env::process);
    let mut settings = settings(vars)?;
    let mode = progress(vars)?;
    let note_every = note_every(vars)?;
    if let Some(format) = choice.format {
        settings.format = format;
    }
    let mut is_begun = BEGUN.lock().even_if_poisoned();
    if choice.is_launcher {
        settings.identity = LogIdentity { role: Some("launcher"), rank: None };
    }
    if !std::mem::replace(&mut *is_begun, true) {
        logging::show_progress(mode, note_every);
        logging::start(settings);
    } else if choice.is_launcher {
        logging::set_format(settings.format);
        logging::set_identity(settings.identity);
    }
    Ok(())
}

/// Takes lines that move away for a moment: something else is about to be written to the terminal.
pub fn make_room() {
    logging::make_room();
}

/// Lines of this process carry its role from now on.
pub(crate) fn identify(role: &Role) {
    let name = if role.is_server() { "server" } else { "trainer" };
    logging::set_identity(LogIdentity { role: Some(name), rank: Some(role.id) });
}

fn settings(vars: EnvVars<'_>) -> Result<LogSettings> {
    let number = |names| {
        vars.first(names)
            .map_or(Ok(0), |found: FoundVar| found.value.parse().map_err(|_| found.bad("a number")))
    };
    let glog = Glog { v: number(GLOG_V)?, min_level: number(GLOG_MIN_LEVEL)? };
    let filter = LogFilter::of_glog(glog);
    let filter = match vars.first(LOG) {
        None => filter,
        Some(found) => {
            let failed = |source| Error::LogLevel { name: found.name, source };
            filter.with(&found.value).map_err(failed)?
        }
    };
    let format = choice(vars, LOG_FORMAT, LogFormat::NAMES, LogFormat::named)?;
    Ok(LogSettings { filter, format: format.unwrap_or_default(), identity: identity(vars) })
}

/// A terminal that cannot move its lines is as good as a file.
fn progress(vars: EnvVars<'_>) -> Result<ProgressMode> {
    let given = choice(vars, PROGRESS, ProgressMode::NAMES, ProgressMode::named)?;
    let is_dumb = vars.first(TERMINAL).is_some_and(|terminal| terminal.value == "dumb");
    Ok(match given.unwrap_or_default() {
        ProgressMode::Usual if is_dumb => ProgressMode::Lines,
        mode => mode,
    })
}

/// The interval between lines about progress in the log of this process. Invalid values were an error
/// before.
pub(crate) fn noted_every() -> Duration {
    note_every(EnvVars(&env::process)).unwrap_or(logging::NOTE_EVERY)
}

fn note_every(vars: EnvVars<'_>) -> Result<Duration> {
    let Some(found) = vars.first(PROGRESS_SECS) else { return Ok(logging::NOTE_EVERY) };
    let seconds = found.value.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let every = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // Less than a millisecond would be no pause at all.
    every
        .map(|every| every.max(Duration::from_millis(1)))
        .ok_or_else(|| found.bad("seconds above 0"))
}

fn choice<T>(
    vars: EnvVars<'_>,
    names: &'static [&'static str],
    known: &'static [&'static str],
    named: fn(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(found) = vars.first(names) else { return Ok(None) };
    let near = DidYouMean::among(&found.value, known.iter().copied());
    let FoundVar { name, value } = found;
    named(&value).map(Some).ok_or(Error::UnknownChoice { name, value, known, near })
}

/// Which process this is, as far as the environment says it.
fn identity(vars: EnvVars<'_>) -> LogIdentity {
    let role = vars.first(ROLE).map(|found| found.value);
    let is_server = role.as_deref() == Some("PSERVER");
    let id = vars.first(if is_server { SERVER_ID } else { TRAINER_ID });
    let rank = id.and_then(|found| found.value.parse().ok());
    let name = if is_server { "server" } else { "trainer" };
    LogIdentity { role: (role.is_some() || rank.is_some()).then_some(name), rank }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::vars;
    use tracing::Level;

    fn read(given: &[(&'static str, &'static str)]) -> Result<LogSettings> {
        settings(EnvVars(&vars(given)))
    }

    #[test]
    fn ours_goes_before_fluids() {
        let shows = |given: &[(&'static str, &'static str)], level| {
            read(given).unwrap().filter.shows("server", level)
        };
        assert!(shows(&[], Level::INFO) && !shows(&[], Level::DEBUG));
        assert!(shows(&[("GLOG_v", "3")], Level::DEBUG));
        assert!(!shows(&[("GLOG_minloglevel", "2")], Level::WARN));
        assert!(shows(&[("GLOG_minloglevel", "2"), ("PADDLEWHEEL_LOG", "debug")], Level::DEBUG));
        assert!(!shows(&[("GLOG_v", "3"), ("PADDLEWHEEL_LOG", "error")], Level::WARN));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let error = |name, value| read(&[(name, value)]).unwrap_err();
        let level = error("PADDLEWHEEL_LOG", "debgu");
        assert!(matches!(level, Error::LogLevel { name: "PADDLEWHEEL_LOG", .. }), "{level}");
        assert!(level.to_string().ends_with("Did you mean `debug`?"), "{level}");
        assert!(matches!(error("GLOG_v", "much"), Error::BadVariable { name: "GLOG_v", .. }));
        let form = error("PADDLEWHEEL_LOG_FORMAT", "jsn");
        assert!(
            matches!(&form, Error::UnknownChoice { near: DidYouMean(Some(near)), .. } if near == "json")
        );
        for seconds in ["0", "-1", "nan", "soon"] {
            let every = note_every(EnvVars(&vars(&[("PADDLEWHEEL_PROGRESS_SECS", seconds)])));
            assert!(matches!(every, Err(Error::BadVariable { .. })), "{seconds}");
        }
        let mode = progress(EnvVars(&vars(&[("PADDLEWHEEL_PROGRESS", "on")])));
        assert!(matches!(mode, Err(Error::UnknownChoice { name: "PADDLEWHEEL_PROGRESS", .. })));
    }

    #[test]
    fn a_process_knows_who_it_is() {
        let who = |given: &[(&'static str, &'static str)]| read(given).unwrap().identity;
        assert_eq!(who(&[]), LogIdentity::default());
        let server = [("TRAINING_ROLE", "PSERVER"), ("PADDLE_PSERVER_ID", "1")];
        assert_eq!(who(&server), LogIdentity { role: Some("server"), rank: Some(1) });
        let trainer = LogIdentity { role: Some("trainer"), rank: Some(3) };
        assert_eq!(who(&[("PADDLE_TRAINER_ID", "3")]), trainer);
    }

    #[test]
    fn a_terminal_that_cannot_move_lines_has_none_that_move() {
        let mode =
            |given: &[(&'static str, &'static str)]| progress(EnvVars(&vars(given))).unwrap();
        assert_eq!(mode(&[("TERM", "xterm")]), ProgressMode::Usual);
        assert_eq!(mode(&[("TERM", "dumb")]), ProgressMode::Lines);
        assert_eq!(mode(&[("PADDLEWHEEL_PROGRESS", "off"), ("TERM", "dumb")]), ProgressMode::Off);
        let every =
            |given: &[(&'static str, &'static str)]| note_every(EnvVars(&vars(given))).unwrap();
        assert_eq!(every(&[]), Duration::from_secs(60));
        assert_eq!(every(&[("PADDLEWHEEL_PROGRESS_SECS", "0.5")]), Duration::from_millis(500));
    }
}
