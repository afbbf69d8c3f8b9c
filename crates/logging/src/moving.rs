//! One line of a terminal that is drawn over.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Drawings a second, at most.
pub(crate) const DRAWINGS: u8 = 10;
/// Parts of a share that a line can show.
const PARTS: u64 = 1000;

/// Whether stderr is a terminal whose lines can be drawn over.
pub fn is_terminal() -> bool {
    !ProgressDrawTarget::stderr().is_hidden()
}

/// A line on stderr that is drawn over, if that is a terminal.
#[derive(Debug)]
pub(crate) struct MovingLine {
    bar: ProgressBar,
    has_share: bool,
}

impl MovingLine {
    /// A line among others.
    pub(crate) fn among(all: &MultiProgress, name: &str) -> Self {
        // It has its form before it is among the others, and is drawn.
        let bar = ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::hidden());
        let bar = bar.with_style(style(false)).with_prefix(name.to_string());
        Self { bar: all.add(bar), has_share: false }
    }

    /// Draws it: the share that is done, if it is known, and words.
    pub(crate) fn draw(&mut self, share: Option<f64>, words: &str) {
        if share.is_some() != self.has_share {
            self.has_share = share.is_some();
            self.bar.set_style(style(self.has_share));
        }
        // The last of these draws.
        if let Some(share) = share {
            self.bar.set_position((share * PARTS as f64) as u64);
        }
        self.bar.set_message(words.replace(char::is_control, " "));
    }

    /// Takes it away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A bar if the share is known, otherwise something that turns. Words that do not fit are cut off.
fn style(has_share: bool) -> ProgressStyle {
    let template =
        if has_share { "{prefix} [{bar:20}] {wide_msg}" } else { "{prefix} {spinner} {wide_msg}" };
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    // Letters that every terminal has.
    style.progress_chars("=> ").tick_chars("|/-\\ ")
}
