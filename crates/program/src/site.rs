//! Where in the user's script an op was built.
//!
//! Fluid keeps it as the attribute `op_callstack`. Ours is not an attribute: it is not part of a
//! program's bytes, nor of whether two programs are equal, because it says where a script lies on
//! one machine. Programs that Fluid saved have the attribute; errors use it where it is there.

use std::fmt;
use std::sync::Arc;

/// A line of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The script.
    pub file: String,
    /// Counted from 1.
    pub line: u32,
    /// The function, `<module>` outside of all.
    pub function: String,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} in `{}`", self.file, self.line, self.function)
    }
}

/// The quick notes of a script's language during building; lines are made of them on request, which
/// is rare.
pub trait Trace: fmt::Debug + Send + Sync {
    /// The lines, the innermost first.
    fn frames(&self) -> Vec<Frame>;
}

impl Trace for Vec<Frame> {
    fn frames(&self) -> Vec<Frame> {
        self.clone()
    }
}

/// Lines of a script that led to an op, the innermost first; none if they were not noted.
#[derive(Clone, Debug, Default)]
pub struct Site(Option<Arc<dyn Trace>>);

/// Where an op was built does not change what it is.
impl PartialEq for Site {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Site {
    /// The place that was noted.
    pub fn new(trace: impl Trace + 'static) -> Self {
        Site(Some(Arc::new(trace)))
    }

    /// The lines, the innermost first.
    pub fn frames(&self) -> Vec<Frame> {
        self.0.as_ref().map(|trace| trace.frames()).unwrap_or_default()
    }

    /// Whether it was not noted.
    pub fn is_unknown(&self) -> bool {
        self.0.is_none()
    }

    /// The innermost line of Fluid's attribute that is not of Fluid itself.
    pub fn from_callstack(lines: &[String]) -> Self {
        let frames = lines.iter().filter_map(|line| parse(line));
        let mut users = frames.filter(|frame| !frame.file.contains("/paddle/"));
        users.next_back().map_or_else(Site::default, |frame| Site::new(vec![frame]))
    }

    /// As Fluid's attribute has it: the innermost last, as Python prints it.
    pub fn callstack(&self) -> Vec<String> {
        let line = |frame: &Frame| {
            let Frame { file, line, function } = frame;
            format!("  File \"{file}\", line {line}, in {function}\n")
        };
        self.frames().iter().rev().map(line).collect()
    }
}

/// ` built at train.py:17 in `net`, called from …`; empty if it was not noted.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, frame) in self.frames().iter().enumerate() {
            write!(f, "{} {frame}", if at == 0 { " built at" } else { ", called from" })?;
        }
        Ok(())
    }
}

/// A line as Python prints it.
fn parse(line: &str) -> Option<Frame> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let (number, rest) = rest.split_once(", in ")?;
    let function = rest.lines().next().unwrap_or("").to_string();
    Some(Frame { file: file.to_string(), line: number.parse().ok()?, function })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(line: u32, function: &str) -> Frame {
        Frame { file: "train.py".into(), line, function: function.into() }
    }

    #[test]
    fn says_where() {
        let site = Site::new(vec![frame(17, "net"), frame(30, "<module>")]);
        let text = " built at train.py:17 in `net`, called from train.py:30 in `<module>`";
        assert_eq!(site.to_string(), text);
        assert_eq!(Site::default().to_string(), "");
    }
}
