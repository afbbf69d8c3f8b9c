//! The files of the project, for the tests of its rules.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold what was built or installed.
const SKIPPED: [&str; 6] = ["target", ".git", ".venv", ".interop", ".wheel", "__pycache__"];

/// The folder of the whole project.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("crates/testing lies two levels down").to_path_buf()
}

/// Every file of the project with its path from the root, sorted.
pub fn files() -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    walk(&root(), &mut found);
    let strip = |path: PathBuf| {
        let name = path.strip_prefix(root()).expect("below the root").to_string_lossy();
        (name.replace('\\', "/"), path)
    };
    let mut found: Vec<_> = found.into_iter().map(strip).collect();
    found.sort();
    found
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the project") {
        let path = entry.expect("an entry of it").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !SKIPPED.contains(&name.as_str()) {
            walk(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// A file of the project as text.
pub fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The files with one of these endings, with their text.
pub fn texts(endings: &[&str]) -> Vec<(String, String)> {
    let wanted = |name: &str| endings.iter().any(|ending| name.ends_with(ending));
    let files = files().into_iter().filter(|(name, _)| wanted(name));
    files.map(|(name, path)| (name, fs::read_to_string(path).expect("text"))).collect()
}

/// The sources of the crates that users get, without their tests.
pub fn shipped() -> Vec<(String, String)> {
    let mut sources = texts(&[".rs"]);
    sources.retain(|(name, _)| {
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        let is_source = name.starts_with("crates/") && name.contains("/src/");
        is_source && !is_test && !name.starts_with("crates/testing/")
    });
    for (name, text) in &mut sources {
        text.truncate(code(name, text).len());
    }
    sources
}

/// The part of a source file that is not for tests only.
pub fn code<'a>(name: &str, text: &'a str) -> &'a str {
    &text[..text.len() - test_part(name, text).len()]
}

/// The part of a source file that only tests see.
pub fn test_part<'a>(name: &str, text: &'a str) -> &'a str {
    if name.ends_with("tests.rs") {
        return text;
    }
    text.split_once("#[cfg(test)]\nmod tests {").map_or("", |(_, tests)| tests)
}

/// Fails with the list of offenders, if there are any.
#[track_caller]
pub fn none(rule: &str, offenders: Vec<String>) {
    assert!(offenders.is_empty(), "{rule}:\n  {}", offenders.join("\n  "));
}

/// The text of a declaration up to the body of a function, or to its end.
pub fn signature(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|c| {
        depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
        depth <= 0 && matches!(c, '{' | ';')
    });
    &text[..end.unwrap_or(text.len())]
}
