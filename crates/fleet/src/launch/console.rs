//! Output of a launcher for people: lines, and on a terminal a progress line.

use std::io::Write;
use std::time::{Duration, Instant};

use logging::LogFormat;
use metrics::Phase;

/// How often the drawing is worked out.
const REDRAW: Duration = Duration::from_millis(200);

/// Where a launcher writes.
pub struct Console {
    out: Box<dyn Write + Send>,
    /// It writes to stderr, where the log of this process goes too.
    is_stderr: bool,
    is_terminal: bool,
    job: Option<Phase>,
    drawn: Option<Instant>,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobProgress {
    /// The share that is done, if it is known.
    pub(super) share: Option<f64>,
    pub(super) words: String,
}

impl Console {
    /// Lines go to stderr, as Fluid's do.
    pub fn stderr() -> Self {
        let (out, is_terminal) = (Box::new(std::io::stderr()), logging::is_terminal());
        Self { out, is_stderr: true, is_terminal, job: None, drawn: None }
    }

    /// Lines go elsewhere, and nothing moves.
    pub fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, is_stderr: false, is_terminal: false, job: None, drawn: None }
    }

    /// Whether the output is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes a line. A closed output does not end a job.
    pub fn say(&mut self, line: &str) {
        if self.is_stderr && logging::format() == LogFormat::Json {
            tracing::info!(target: "paddlewheel::launcher", "{line}");
            return;
        }
        self.pass(line);
    }

    /// Writes a line of another process, as it is.
    pub(super) fn pass(&mut self, line: &str) {
        let out = &mut self.out;
        logging::apart(|| {
            let _ = out.write_all(format!("{line}\n").as_bytes());
            let _ = out.flush();
        });
    }

    /// Shows how far the job is, if there is a terminal and it is time.
    pub(super) fn progress(&mut self, progress: impl FnOnce() -> JobProgress) {
        if !self.is_terminal || self.drawn.is_some_and(|at| at.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        let job = self.job.get_or_insert_with(|| Phase::begin("job", ""));
        let JobProgress { share, words } = progress();
        job.set_share(share.unwrap_or(0.0));
        job.set_words(words);
    }

    /// Removes the progress line: the job is over.
    pub(super) fn end_progress(&mut self) {
        self.job = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// test_logs.py checks the output to a terminal.
    #[test]
    fn a_file_gets_lines_only() {
        let page = Page::default();
        let mut console = Console::new(Box::new(page.clone()));
        console.progress(|| panic!("nobody sees it"));
        console.say("done");
        console.end_progress();
        console.say("really");
        let bytes = page.0.lock().unwrap().clone();
        assert_eq!(String::from_utf8(bytes).unwrap(), "done\nreally\n");
    }
}
