//! Packages of others: their licences, where they come from, and that each is there in one version.
//!
//! `deny.toml` has the lists, in the form that `cargo deny` reads.

#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use testing::tree::{none, root};

/// The texts in quotes of a list in `deny.toml`: `name = [ "a", "b" ]`.
fn list(section: &str, name: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let after = text.split_once(&format!("[{section}]")).unwrap().1;
    let after = after.split_once(&format!("\n{name} = [")).unwrap().1;
    let inside = after.split_once(']').unwrap().0;
    let without_comments = inside.lines().map(|line| line.split('#').next().unwrap_or_default());
    let inside: String = without_comments.collect();
    inside.split('"').skip(1).step_by(2).map(str::to_string).collect()
}

/// All packages that the workspace needs on Linux, as cargo describes them.
fn packages() -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// Whether one alternative of a licence expression has only allowed parts.
fn is_allowed(licence: &str, allowed: &BTreeSet<String>) -> bool {
    let plain = licence.replace('/', " OR ");
    // `(A OR B) AND C` is the only nesting that is used: all its parts must be allowed.
    if plain.contains('(') {
        let parts = plain.replace(['(', ')'], "");
        let each = parts.split(" AND ").all(|part| is_allowed(part.trim(), allowed));
        return each;
    }
    plain.split(" OR ").any(|one| one.split(" AND ").all(|part| allowed.contains(part.trim())))
}

#[test]
fn packages_of_others_have_allowed_licences_and_come_from_crates_io() {
    let allowed = list("licenses", "allow");
    let registries = list("sources", "allow-registry");
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let Some(source) = package["source"].as_str() else { continue };
        if !registries.iter().any(|registry| source == format!("registry+{registry}")) {
            wrong.push(format!("{name} comes from {source}"));
        }
        let licence = package["license"].as_str().unwrap_or("no licence");
        if !is_allowed(licence, &allowed) {
            wrong.push(format!("{name} has the licence {licence}"));
        }
    }
    none("packages that deny.toml does not allow", wrong);
}

#[test]
fn a_package_is_there_in_one_version() {
    let skipped = list("bans", "skip");
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let text = |field: &str| package[field].as_str().unwrap().to_string();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    let several: BTreeSet<String> = several.map(|(name, _)| name.clone()).collect();
    let wrong: Vec<String> = several.symmetric_difference(&skipped).cloned().collect();
    none("packages in several versions, or in one although deny.toml names them", wrong);
}

#[test]
fn licences_are_understood() {
    let allowed = BTreeSet::from(["MIT".to_string(), "ISC".to_string()]);
    for yes in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "MIT AND ISC", "(MIT OR X) AND ISC"] {
        assert!(is_allowed(yes, &allowed), "{yes}");
    }
    for no in ["GPL-3.0", "MIT AND GPL-3.0", "(X OR Y) AND MIT", "no licence"] {
        assert!(!is_allowed(no, &allowed), "{no}");
    }
}
