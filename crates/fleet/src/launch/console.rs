//! What a launcher tells people: lines, and on a terminal one that shows that it is alive.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often the line that moves is drawn.
const REDRAW: Duration = Duration::from_millis(500);
/// Wider lines would wrap and not be drawn over.
const WIDTH: usize = 79;

/// Where a launcher writes.
pub struct Console {
    out: Box<dyn Write + Send>,
    is_terminal: bool,
    drawn: Option<Instant>,
}

impl Console {
    /// Lines go to stderr, as Fluid's do.
    pub fn stderr() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { out: Box::new(std::io::stderr()), is_terminal, drawn: None }
    }

    /// Lines go elsewhere.
    pub fn new(out: Box<dyn Write + Send>, is_terminal: bool) -> Self {
        Self { out, is_terminal, drawn: None }
    }

    /// Whether somebody looks at it.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes a line. That nobody listens any more does not end a job.
    pub fn say(&mut self, line: &str) {
        let clear = if self.drawn.take().is_some() { "\r\x1b[K" } else { "" };
        let _ = self.out.write_all(format!("{clear}{line}\n").as_bytes());
        let _ = self.out.flush();
    }

    /// Draws the line that moves, if there is a terminal and it is time.
    pub(super) fn progress(&mut self, line: impl FnOnce() -> String) {
        if !self.is_terminal || self.drawn.is_some_and(|at| at.elapsed() < REDRAW) {
            return;
        }
        let short: String = line().chars().filter(|c| !c.is_control()).take(WIDTH).collect();
        let _ = self.out.write_all(format!("\r\x1b[K{short}").as_bytes());
        let _ = self.out.flush();
        self.drawn = Some(Instant::now());
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

    fn check(is_terminal: bool) -> String {
        let page = Page::default();
        let mut console = Console::new(Box::new(page.clone()), is_terminal);
        console.progress(|| "a\tlong".repeat(30));
        console.progress(|| "too soon".to_string());
        console.say("done");
        console.say("really");
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_file_gets_lines_only() {
        assert_eq!(check(false), "done\nreally\n");
    }

    #[test]
    fn a_terminal_gets_a_line_that_moves() {
        let moving: String = "along".repeat(30).chars().take(79).collect();
        assert_eq!(check(true), format!("\r\x1b[K{moving}\r\x1b[Kdone\nreally\n"));
    }
}
