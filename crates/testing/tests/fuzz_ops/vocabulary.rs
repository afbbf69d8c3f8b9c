//! The words of each op: ports and attributes, read from its source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The type of an attribute, by the words of its accessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Int,
    Ints,
    Float,
    Floats,
    Bool,
    Str,
    Strs,
    Any,
}

/// The words of one source file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    pub(crate) ports: BTreeSet<String>,
    pub(crate) attrs: BTreeMap<String, Kind>,
    /// Whatever may be the value of a text attribute.
    pub(crate) texts: BTreeSet<String>,
}

impl Words {
    fn of(source: &str) -> Self {
        let mut words = Self::default();
        let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
        let mut pieces = shipped.split('"');
        let mut before = pieces.next().unwrap_or_default();
        while let (Some(word), Some(after)) = (pieces.next(), pieces.next()) {
            words.add(before, word);
            before = after;
        }
        words
    }

    fn add(&mut self, before: &str, word: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '@';
        if word.is_empty() || word.len() > 40 || !word.chars().all(plain) {
            return;
        }
        self.texts.insert(word.to_string());
        if word.starts_with(|c: char| c.is_ascii_uppercase()) {
            self.ports.insert(word.to_string());
            return;
        }
        let kind = match accessor(before) {
            "int" => Kind::Int,
            "ints" | "longs" => Kind::Ints,
            "float" => Kind::Float,
            "floats" => Kind::Floats,
            "bool" => Kind::Bool,
            "str" => Kind::Str,
            "strs" => Kind::Strs,
            _ => Kind::Any,
        };
        let known = self.attrs.entry(word.to_string()).or_insert(kind);
        *known = (*known).min(kind);
    }

    fn join(&mut self, other: &Words) {
        self.ports.extend(other.ports.iter().cloned());
        self.texts.extend(other.texts.iter().cloned());
        for (name, &kind) in &other.attrs {
            self.attrs.entry(name.clone()).or_insert(kind);
        }
    }
}

/// The name of the function whose argument begins here.
fn accessor(before: &str) -> &str {
    let called = before.trim_end().strip_suffix('(').unwrap_or_default();
    called.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// The words of every op by name: those of its file, and of the files without ops that it uses.
pub(crate) fn all() -> BTreeMap<&'static str, Words> {
    let files = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../program/src/op"));
    let helpers: BTreeMap<&str, Words> = files
        .iter()
        .filter(|(_, text)| !text.contains("impl Op for"))
        .map(|(name, text)| (name.as_str(), Words::of(text)))
        .collect();
    let mut all = BTreeMap::new();
    let (_, table) = files.iter().find(|(name, _)| name == "table").expect("the table of ops");
    let table: String = table.split_whitespace().collect();
    for op in program::op::names() {
        let mut words = Words::default();
        let file = file_of(op, &table);
        for (_, text) in files.iter().filter(|(name, _)| name == file) {
            words.join(&Words::of(text));
            let used = helpers.iter().filter(|(name, _)| text.contains(&format!("{name}::")));
            used.for_each(|(_, helper)| words.join(helper));
        }
        assert!(!words.ports.is_empty() || !words.attrs.is_empty(), "the file of {op} was read");
        all.insert(op, words);
    }
    all
}

/// The file that the table of ops names; an optimizer is a file of its own.
fn file_of<'a>(op: &'a str, table: &'a str) -> &'a str {
    let (_, path) = table.split_once(&format!("\"{op}\",&")).expect("a line of the table");
    let module = path.split("::").next().expect("a module");
    if module == "optimize" { op } else { module }
}

fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let entries = fs::read_dir(folder).expect("the folder of the ops");
    for path in entries.map(|entry| entry.expect("an entry of it").path()) {
        if path.is_dir() {
            files.extend(sources(&path));
        } else if !path.ends_with("tests.rs") && !path.ends_with("check.rs") {
            let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
            files.push((name, fs::read_to_string(&path).expect("a source file")));
        }
    }
    files.sort();
    files
}
