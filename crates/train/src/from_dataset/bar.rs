//! Progress on a terminal: one line that is written over.

use std::io::{IsTerminal, Write};

use super::Progress;

/// A progress bar on standard error, if that is a terminal. A log gets nothing.
#[derive(Debug)]
pub struct ProgressBar {
    is_seen: bool,
    is_drawn: bool,
}

impl Default for ProgressBar {
    fn default() -> Self {
        Self { is_seen: std::io::stderr().is_terminal(), is_drawn: false }
    }
}

impl ProgressBar {
    /// Shows how far it is.
    pub fn draw(&mut self, progress: &Progress) {
        if self.is_seen {
            self.is_drawn = true;
            say(&format!("\r{progress}\x1b[K"));
        }
    }

    /// Makes room for other lines.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            say("\r\x1b[K");
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn say(text: &str) {
    // If the terminal is gone, there is nothing to report to.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
