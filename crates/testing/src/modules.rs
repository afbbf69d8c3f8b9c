//! Which top-level module of a crate uses which: read from the source, drawn as text, searched for
//! cycles. Tests and comments do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The modules of a crate with those they use.
#[derive(Debug, Default)]
pub struct Graph(BTreeMap<String, BTreeSet<String>>);

/// The part of a source file that is shipped.
fn shipped(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let without_comment = |line: &str| line.split("//").next().unwrap_or_default().to_string();
    code.lines().map(without_comment).collect::<Vec<_>>().join("\n")
}

/// The first names of a path or of a group of paths: `a` of `a::b`, `a` and `c` of `{a::b, c}`.
fn heads(tree: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let Some(group) = tree.strip_prefix('{') else {
        return vec![tree.chars().take_while(|&c| is_name(c)).collect()];
    };
    let mut depth = 0;
    let mut found = Vec::new();
    let mut is_start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_start = true,
            c if is_start && is_name(c) => {
                is_start = false;
                found.extend(heads(&group[at..]));
            }
            _ => {}
        }
    }
    found
}

/// The names that follow a prefix such as `crate::`.
fn named(code: &str, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let is_word = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
        if !is_word {
            names.extend(heads(&code[at + prefix.len()..]));
        }
    }
    names
}

/// Names that the root of a crate shows, with the module they are from.
fn shown(root: &str) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for one in shipped(root).split("use ").skip(1) {
        let Some((path, _)) = one.split_once(';') else { continue };
        let Some((module, tree)) = path.split_once("::") else { continue };
        let names = tree.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let names = names.filter(|name| !name.is_empty()).map(str::to_string);
        shown.extend(names.map(|name| (name, module.trim().to_string())));
    }
    shown
}

/// Every source file below a folder, with how deep it lies in its module.
fn sources(path: &Path, depth: usize, into: &mut Vec<(usize, String)>) {
    let mut folders = vec![(path.to_path_buf(), depth)];
    while let Some((folder, depth)) = folders.pop() {
        let root = fs::read_to_string(folder.join("mod.rs")).unwrap_or_default();
        for entry in fs::read_dir(&folder).expect("a folder of the crate").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let module = name.trim_end_matches(".rs");
            let is_test = |seen: &str| root.contains(&format!("#[cfg(test)]\n{seen}mod {module};"));
            if is_test("") || is_test("pub(crate) ") {
                continue;
            }
            if path.is_dir() {
                folders.push((path, depth + 1));
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = fs::read_to_string(&path).expect("a source file");
                into.push((depth + usize::from(name != "mod.rs"), text));
            }
        }
    }
}

impl Graph {
    /// The graph of the crate whose source is in this folder.
    pub fn read(folder: &Path) -> Self {
        let root = fs::read_to_string(folder.join("lib.rs")).expect("a library");
        let mut modules: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let name = name.trim_end_matches(".rs").to_string();
            if ["lib", "main", "bin"].contains(&name.as_str()) {
                continue;
            }
            let files = modules.entry(name).or_default();
            if path.is_dir() {
                sources(&path, 0, files)
            } else {
                files.push((0, fs::read_to_string(path).expect("a source file")))
            }
        }
        let shown = shown(&root);
        let names: BTreeSet<String> = modules.keys().cloned().collect();
        let edges = modules.into_iter().map(|(module, files)| {
            let used = files.iter().flat_map(|(depth, text)| {
                let (code, up) = (shipped(text), "super::".repeat(depth + 1));
                let mut used = named(&code, "crate::");
                used.extend(named(&code, &up));
                used
            });
            let used = used.map(|name| shown.get(&name).cloned().unwrap_or(name));
            let is_other = |name: &String| names.contains(name) && *name != module;
            let used = used.filter(|name| is_other(name)).collect();
            (module, used)
        });
        Self(edges.collect())
    }

    /// Everything that a module uses, by others too.
    fn reached(&self, module: &str) -> BTreeSet<String> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![module.to_string()]);
        while let Some(module) = next.pop() {
            let fresh = self.0[&module].iter().filter(|used| reached.insert((*used).clone()));
            next.extend(fresh.cloned().collect::<Vec<_>>());
        }
        reached
    }

    /// Groups of modules that use each other.
    pub fn cycles(&self) -> BTreeSet<BTreeSet<String>> {
        let reached: BTreeMap<_, _> =
            self.0.keys().map(|name| (name, self.reached(name))).collect();
        let group = |(name, all): (&&String, &BTreeSet<String>)| -> Option<BTreeSet<String>> {
            let back = |other: &&String| reached[other].contains(*name);
            all.contains(*name).then(|| all.iter().filter(back).cloned().collect())
        };
        reached.iter().filter_map(group).collect()
    }

    /// A line for each module, those that use nothing first.
    pub fn picture(&self) -> String {
        let mut picture = String::new();
        let mut order: Vec<(usize, &String)> =
            self.0.keys().map(|name| (self.reached(name).len(), name)).collect();
        order.sort();
        for (_, name) in order {
            let used = self.0[name].iter().map(String::as_str).collect::<Vec<_>>().join(" ");
            let arrow = if used.is_empty() { "" } else { " → " };
            writeln!(picture, "├── {name}{arrow}{used}").expect("writing to memory");
        }
        picture
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Graph::read(folder.path())
    }

    fn edges(graph: &Graph) -> Vec<String> {
        let of = |(name, used): (&String, &BTreeSet<String>)| {
            used.iter().map(|used| format!("{name} {used}")).collect::<Vec<_>>()
        };
        graph.0.iter().flat_map(of).collect()
    }

    #[test]
    fn every_way_to_name_a_module_is_seen() {
        let found = graph(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\npub use a::{Thing, Other};\n"),
            ("a.rs", "// crate::b\n#[cfg(test)]\nmod tests { use crate::b; }"),
            ("b.rs", "use crate::{a::X, c};\n"),
            ("c/mod.rs", "use super::d::Y;\n#[cfg(test)]\nmod check;\n"),
            ("c/check.rs", "use crate::b;"),
            ("c/deep.rs", "use super::super::d; fn f() -> crate::Thing {}"),
            ("d.rs", "use super::a::Z; use std::crate_like::b;"),
        ]);
        assert_eq!(edges(&found), ["b a", "b c", "c a", "c d", "d a"]);
        assert!(found.cycles().is_empty());
    }

    #[test]
    fn cycles_are_found() {
        let found = graph(&[
            ("lib.rs", ""),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::a; use crate::d;"),
            ("d.rs", ""),
        ]);
        let cycle: BTreeSet<String> = ["a", "b", "c"].map(str::to_string).into();
        assert_eq!(found.cycles(), [cycle].into());
        assert_eq!(found.picture().lines().next(), Some("├── d"));
    }
}
