//! Text of others on its way to a terminal or a log.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with its control characters written out (`\x1b`): a terminal would obey them. Ends of
/// lines and tabs stay. Names and messages in files, and what peers send, pass through here before
/// people see them.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            c if !is_obeyed(c) => out.write_char(c),
            c if (c as u32) < 0x100 => write!(out, "\\x{:02x}", c as u32),
            c => write!(out, "\\u{{{:x}}}", c as u32),
        };
    }
    Cow::Owned(out)
}

/// Control characters, and those that turn the direction of writing.
fn is_obeyed(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && !matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_nothing_to_obey() {
        assert_eq!(printable("\x1b]0;title\x07\x1b[2J"), "\\x1b]0;title\\x07\\x1b[2J");
        assert_eq!(printable("\u{9b}31m\u{7f}\r"), "\\x9b31m\\x7f\\x0d");
        assert_eq!(printable("a\u{202e}b"), "a\\u{202e}b");
        let plain = "loss:\t0.5\nµ, 名";
        assert!(matches!(printable(plain), Cow::Borrowed(text) if text == plain));
    }
}
