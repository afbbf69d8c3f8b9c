//! What documents say of the code is true where a test can tell: the glossary, the numbers of
//! messages, the tests that are named as proofs.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeSet;

use testing::tree::{read, texts};

/// The crates that users see. `python` shows its types to Python only.
const CRATES: &[&str] = &[
    "tensor", "program", "data", "ps", "train", "fleet", "predict", "ctr", "export", "count",
    "watch", "tell", "cli", "durable",
];

/// A folder whose types are options of layers, under the names of Fluid's layers.
const LAYERS: &str = "program/src/layers/";

/// The names of the public structs, enums and traits in a text, without those of its tests.
fn public_types(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let declared = |line: &str| {
        let mut words = line.trim_start().strip_prefix("pub ")?.split_whitespace();
        let is_type = matches!(words.next(), Some("struct" | "enum" | "trait"));
        let name = words.next().filter(|_| is_type)?;
        let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
        (end > 0).then(|| name[..end].to_string())
    };
    code.lines().filter_map(declared).collect()
}

/// The public types of all shipped crates whose files `counts` accepts, and the two that a macro makes.
fn types_in_the_code(counts: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut names = BTreeSet::from(["Reply".to_string(), "Request".to_string()]);
    let shown = |path: &str| CRATES.iter().any(|it| path.starts_with(&format!("crates/{it}/src/")));
    for (_, text) in texts(&[".rs"]).iter().filter(|(path, _)| shown(path) && counts(path)) {
        names.extend(public_types(text));
    }
    names
}

/// The types that the first columns of the glossary's tables name.
fn types_in_the_glossary() -> BTreeSet<String> {
    let text = read("docs/reference/glossary.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let columns = rows.filter_map(|row| row.split(" |").next());
    let names = columns.flat_map(|column| column.split(['`', ',', ' ']));
    names.filter(|name| !name.is_empty()).map(str::to_string).collect()
}

#[test]
fn the_glossary_has_every_public_type_and_no_other() {
    let (code, glossary) =
        (types_in_the_code(|path| !path.contains(LAYERS)), types_in_the_glossary());
    assert!(code.len() > 100, "types are found: {code:?}");
    let missing: Vec<_> = code.difference(&glossary).collect();
    assert!(missing.is_empty(), "docs/reference/glossary.md lacks these types: {missing:?}");
    let all = types_in_the_code(|_| true);
    let stale: Vec<_> = glossary.difference(&all).collect();
    assert!(
        stale.is_empty(),
        "docs/reference/glossary.md names types that do not exist: {stale:?}"
    );
}

#[test]
fn declarations_are_found_in_every_form() {
    let text = "pub struct A;\n    pub enum B<T> {\npub trait C: D {\npub(crate) struct E;\n\
                pub fn struct_f() {}\npub struct G(u8);\n#[cfg(test)]\nmod tests {\npub struct H;\n";
    let found: Vec<String> = public_types(text).into_iter().collect();
    assert_eq!(found, ["A", "B", "C", "G"]);
}

#[test]
fn the_first_pages_are_short() {
    for (page, n_lines_max) in [("README.md", 90), ("ARCHITECTURE.md", 200)] {
        let n_lines = read(page).lines().count();
        assert!(
            n_lines <= n_lines_max,
            "{page} has {n_lines} lines, at most {n_lines_max} are read"
        );
    }
}

/// The first lines of tables that have no header: an empty line above cuts them off from theirs.
fn cut_tables(text: &str) -> Vec<&str> {
    let (mut above, mut is_code, mut found) = ("", false, Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        is_code ^= line.trim_start().starts_with("```");
        let is_row = |line: &str| line.starts_with('|');
        let is_rule = |line: &&str| {
            is_row(line) && line.contains('-') && line.chars().all(|c| "|-: ".contains(c))
        };
        if is_row(line) && !is_row(above) && !is_code && !lines.peek().is_some_and(is_rule) {
            found.push(line);
        }
        above = line;
    }
    found
}

#[test]
fn no_table_is_cut_by_an_empty_line() {
    let cut = "| a | b |\n|---|:-:|\n| 1 | 2 |\n\n| 3 | 4 |\n| 5 | 6 |\n\n```\n| no table\n```\n";
    assert_eq!(cut_tables(cut), ["| 3 | 4 |"]);
    let pages = texts(&[".md"]);
    assert!(pages.len() > 30, "pages are found");
    for (page, text) in pages {
        let cut = cut_tables(&text);
        assert!(cut.is_empty(), "{page}: these rows have no header above them: {cut:?}");
    }
}

/// The number before a name: `12 AllToAll(AllToAll),`.
fn message_number(line: &str) -> Option<u32> {
    let (number, rest) = line.trim().split_once(' ')?;
    let is_variant = rest.starts_with(char::is_uppercase) && rest.ends_with("),");
    number.parse().ok().filter(|_| is_variant)
}

#[test]
fn every_message_and_the_version_are_described() {
    let (formats, messages) =
        (read("docs/reference/formats.md"), read("crates/ps/src/message/mod.rs"));
    let numbers: Vec<u32> = messages.lines().filter_map(message_number).collect();
    assert!(numbers.len() > 20, "messages are found: {numbers:?}");
    let rows: BTreeSet<u32> = formats
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next()?.parse().ok())
        .collect();
    let missing: Vec<_> = numbers.iter().filter(|number| !rows.contains(number)).collect();
    assert!(missing.is_empty(), "docs/reference/formats.md lacks these messages: {missing:?}");
    let hello = read("crates/ps/src/message/hello.rs");
    let version = hello.split("VERSION: u32 = ").nth(1).and_then(|rest| rest.split(';').next());
    let title = format!("## The network protocol, version {}\n", version.expect("a version"));
    assert!(formats.contains(&title), "docs/reference/formats.md has no title {title:?}");
}

#[test]
fn tests_that_documents_name_exist() {
    let code: String = texts(&[".rs", ".py"]).into_iter().map(|(_, text)| text).collect();
    let is_test = |word: &&str| {
        let plain = word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        plain && word.matches('_').count() >= 3
    };
    let exists = |name: &str| {
        code.contains(&format!("fn {name}(")) || code.contains(&format!("def {name}("))
    };
    for (page, n_min) in [("docs/guides/failures.md", 20), ("docs/guides/stuck.md", 15)] {
        let text = read(page);
        let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(is_test).collect();
        assert!(named.len() >= n_min, "tests are found in {page}: {named:?}");
        let gone: Vec<_> = named.into_iter().filter(|name| !exists(name)).collect();
        assert!(gone.is_empty(), "{page} names tests that do not exist: {gone:?}");
    }
}

/// The tests of a row: `` `name` ([file](../../path)) ``, as pairs of name and path.
fn proofs(column: &str) -> Vec<(&str, &str)> {
    column
        .split("))")
        .filter_map(|part| {
            let name = part.split('`').nth(1)?;
            let path = part.split("](../../").nth(1)?;
            Some((name, path))
        })
        .collect()
}

#[test]
fn every_row_of_the_checklist_is_proven_or_open() {
    let text = read("docs/internals/checklist.md");
    let is_row = |line: &&str| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit();
    let rows: Vec<Vec<&str>> =
        text.lines().filter(is_row).map(|line| line.split(" | ").collect()).collect();
    let mut n_proven = 0;
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(row[0], format!("| {}", at + 1), "rows are numbered");
        let column = row.last().unwrap().trim_end_matches(" |");
        if column == "open" {
            continue;
        }
        let proofs = proofs(column);
        assert!(!proofs.is_empty(), "row {}: {column}", at + 1);
        for (name, path) in proofs {
            let code = read(path);
            let exists = [format!("fn {name}("), format!("def {name}(")];
            let exists = exists.iter().any(|words| code.contains(words));
            assert!(exists, "row {}: {path} has no test {name}", at + 1);
        }
        n_proven += 1;
    }
    assert_eq!(rows.len(), 90);
    let said = format!("**{n_proven} of 90 rows are proven.**");
    assert!(text.contains(&said), "docs/internals/checklist.md does not say: {said}");
}

#[test]
fn every_threat_has_a_test() {
    let text = read("docs/reference/security.md");
    let is_row = |line: &&str| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit();
    let rows: Vec<&str> = text.lines().filter(is_row).collect();
    assert!(rows.len() >= 15, "{} rows", rows.len());
    for row in rows {
        let column = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let proofs = proofs(column);
        assert!(!proofs.is_empty(), "{row}");
        for (name, path) in proofs {
            let code = read(path);
            let exists = [format!("fn {name}("), format!("def {name}(")];
            let exists = exists.iter().any(|words| code.contains(words));
            assert!(exists, "{path} has no test {name}");
        }
    }
}
