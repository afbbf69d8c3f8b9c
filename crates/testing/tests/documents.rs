//! The statements of documents about the code hold, where a test can tell: the numbers of messages, the tests that are named as proofs,
//! the commands in two languages; and tables render.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeSet;

use testing::tree::{files, read, root, texts};

/// The first lines of tables that have no header: an empty line above cuts them off from theirs.
fn cut_tables(text: &str) -> Vec<&str> {
    let mut above = "";
    let mut is_code = false;
    let mut found = Vec::new();
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
        (read("docs/reference/formats.md"), read("crates/wire/src/message/mod.rs"));
    let numbers: Vec<u32> = messages.lines().filter_map(message_number).collect();
    assert!(numbers.len() > 20, "messages are found: {numbers:?}");
    let rows: BTreeSet<u32> = formats
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next()?.parse().ok())
        .collect();
    let missing: Vec<_> = numbers.iter().filter(|number| !rows.contains(number)).collect();
    assert!(missing.is_empty(), "docs/reference/formats.md lacks these messages: {missing:?}");
    let hello = read("crates/wire/src/message/hello.rs");
    let version = hello.split("VERSION: u32 = ").nth(1).and_then(|rest| rest.split(';').next());
    let title = format!("## The network protocol, version {}\n", version.expect("a version"));
    assert!(formats.contains(&title), "docs/reference/formats.md has no title {title:?}");
}

/// `UPDATE=1` writes it.
#[test]
fn the_table_of_file_formats_is_the_one_that_readers_use() {
    let page = "docs/reference/formats.md";
    let (begin, end) = ("<!-- formats: printed -->\n", "<!-- formats: end -->");
    let text = read(page);
    let (before, rest) = text.split_once(begin).expect("the table has a beginning");
    let (table, after) = rest.split_once(end).expect("the table has an end");
    let printed = base::formats::page("../../crates/");
    if std::env::var_os("UPDATE").is_some() {
        let text = [before, begin, &printed, end, after].concat();
        std::fs::write(root().join(page), text).unwrap();
        return;
    }
    assert!(table == printed, "the table in {page} is old: write it again with UPDATE=1");
    for format in base::formats::ALL {
        let code = format!("crates/{}", format.code);
        assert!(read(&code).contains("formats::"), "{code} does not ask for its version");
    }
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
    for (page, n_min) in [
        ("docs/guides/failures.md", 20),
        ("docs/guides/stuck.md", 15),
        ("docs/guides/stuck.zh.md", 15),
        ("docs/internals/recovery.md", 5),
    ] {
        let text = read(page);
        let named: Vec<&str> = text.split('`').skip(1).step_by(2).filter(is_test).collect();
        assert!(named.len() >= n_min, "tests are found in {page}: {named:?}");
        let gone: Vec<_> = named.into_iter().filter(|name| !exists(name)).collect();
        assert!(gone.is_empty(), "{page} names tests that do not exist: {gone:?}");
    }
}

/// The proofs of a row: `` `name` ([file](../../path)) `` as pairs of name and path, and `[file](../../path)` without a name.
fn proofs(column: &str) -> Vec<(Option<&str>, &str)> {
    let mut parts = column.split("](../../");
    let mut before = parts.next().unwrap_or_default();
    let mut found = Vec::new();
    for part in parts {
        let path = part.split(')').next().unwrap_or_default();
        // The name stands directly before the parenthesis with the link.
        let named = before.rsplit_once(" ([").and_then(|(names, _)| names.strip_suffix('`'));
        found.push((named.and_then(|names| names.rsplit('`').next()), path));
        before = part;
    }
    found
}

/// Fails unless a row names at least one proof, and every proof exists.
#[track_caller]
fn check_proofs(row: &str) {
    let column = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
    let proofs = proofs(column);
    assert!(!proofs.is_empty(), "no proof: {row}");
    for (name, path) in proofs {
        assert!(root().join(path).exists(), "{path} does not exist: {row}");
        let Some(name) = name else { continue };
        let code = read(path);
        let exists = [format!("fn {name}("), format!("def {name}(")];
        let exists = exists.iter().any(|words| code.contains(words));
        assert!(exists, "{path} has no test {name}");
    }
}

/// The rows of a page that begin with a number.
fn numbered_rows(text: &str) -> Vec<&str> {
    let is_row = |line: &&str| {
        line.strip_prefix("| ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    text.lines().filter(is_row).collect()
}

#[test]
fn proofs_are_found_with_and_without_a_name() {
    let column = "`a_b` ([x.rs](../../x.rs)), [y.py](../../y.py), `c` ([z](../../z))";
    let expected = vec![(Some("a_b"), "x.rs"), (None, "y.py"), (Some("c"), "z")];
    assert_eq!(proofs(column), expected);
}

#[test]
fn every_statement_has_a_proof() {
    let text = read("docs/internals/proofs.md");
    let rows = numbered_rows(&text);
    assert!(rows.len() >= 130, "{} rows", rows.len());
    for (at, row) in rows.into_iter().enumerate() {
        assert!(row.starts_with(&format!("| {} |", at + 1)), "rows are numbered: {row}");
        check_proofs(row);
    }
}

#[test]
fn every_threat_has_a_test() {
    let text = read("docs/reference/security.md");
    let rows = numbered_rows(&text);
    assert!(rows.len() >= 15, "{} rows", rows.len());
    rows.into_iter().for_each(check_proofs);
}

/// The blocks of a page between fences, and the indented lines of commands.
fn blocks(text: &str) -> Vec<&str> {
    let fenced = text.split("```").skip(1).step_by(2);
    let outside = text.split("```").step_by(2).flat_map(str::lines);
    let indented = outside.filter(|line| line.starts_with("    ")).map(str::trim);
    fenced.chain(indented).collect()
}

/// A page in Chinese has the programs and commands of the page in English, whatever their comments say.
#[test]
fn commands_are_the_same_in_both_languages() {
    // A comment may be translated.
    let plain = |block: &str| -> String {
        let code = block.lines().map(|line| match line.split_once("  #") {
            Some((code, _)) => code.trim_end(),
            None => line.trim_end(),
        });
        code.collect::<Vec<_>>().join("\n")
    };
    let pages = texts(&[".zh.md"]);
    assert!(pages.len() >= 5, "{} pages in Chinese", pages.len());
    for (page, chinese) in pages {
        let english = read(&page.replace(".zh.md", ".md"));
        let [ours, theirs] = [&chinese, &english]
            .map(|text| blocks(text).into_iter().map(plain).collect::<Vec<_>>());
        assert!(!theirs.is_empty(), "{page} has commands");
        assert_eq!(ours, theirs, "{page}: the commands differ from those of the page in English");
    }
}

#[test]
fn every_crate_has_a_page_and_a_line_in_the_index() {
    let index = read("crates/README.md");
    let manifests = files().into_iter().map(|(name, _)| name);
    let crates: Vec<String> = manifests
        .filter_map(|name| {
            Some(name.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?.to_string())
        })
        .collect();
    assert!(crates.len() > 10, "crates are found: {crates:?}");
    for name in crates {
        assert!(
            index.contains(&format!("| [{name}]({name}/README.md) | ")),
            "crates/README.md lacks {name}"
        );
        let page = read(&format!("crates/{name}/README.md"));
        assert!(page.starts_with(&format!("# {name}\n")), "the title of crates/{name}/README.md");
        let has_invariants = page.contains("**Invariant");
        assert!(has_invariants, "crates/{name}/README.md has no invariants");
    }
}

/// The index of the documents names every page in English; a page in Chinese is named beside it.
#[test]
fn the_index_names_every_page() {
    let index = read("docs/README.md");
    let folders = ["guides/", "reference/", "internals/", "measured/"];
    for (name, _) in texts(&[".md"]) {
        let Some(page) = name.strip_prefix("docs/").filter(|page| *page != "README.md") else {
            continue;
        };
        let has_place = folders.iter().any(|folder| page.starts_with(folder));
        assert!(has_place, "{name}: pages lie in guides, reference, internals or measured");
        let is_decision = page.contains("/decisions/");
        let is_named = index.contains(&format!("]({page})"));
        assert!(is_named || is_decision, "docs/README.md does not name {page}");
    }
}
