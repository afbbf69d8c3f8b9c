//! The house rules that a compiler does not check: which crate may depend on which, how long a file
//! may be, where the environment and the network may be used, and that nothing was left behind.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.
#![allow(clippy::print_stderr)] // Some rules are advice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use testing::modules::Graph;
use testing::tree::{self, code, files, none, root, signature, test_part};

/// Longer files are two files.
const LINES_MAX: usize = 900;
/// A longer file is mentioned.
const LINES_WANTED: usize = 600;

/// Each crate and the crates of this workspace it may use. A new edge is a decision: it needs a
/// reason in ARCHITECTURE.md.
const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("durable", &["base"]),
    ("tensor", &[]),
    ("program", &["base", "tensor"]),
    ("transpile", &["base", "tensor", "program"]),
    ("metrics", &["base"]),
    ("data", &["base", "durable", "tensor", "metrics"]),
    ("logging", &["base", "metrics"]),
    ("monitor", &["base", "durable", "metrics"]),
    ("wire", &["base", "tensor", "metrics"]),
    ("protocol", &["base", "tensor", "metrics", "wire"]),
    ("net", &["base", "durable", "tensor", "metrics", "wire", "protocol"]),
    (
        "train",
        &[
            "base",
            "durable",
            "tensor",
            "program",
            "transpile",
            "metrics",
            "data",
            "wire",
            "protocol",
            "net",
        ],
    ),
    (
        "server",
        &[
            "base",
            "durable",
            "tensor",
            "program",
            "transpile",
            "metrics",
            "wire",
            "protocol",
            "net",
            "train",
        ],
    ),
    (
        "fleet",
        &[
            "base",
            "durable",
            "tensor",
            "program",
            "transpile",
            "metrics",
            "data",
            "logging",
            "monitor",
            "wire",
            "protocol",
            "net",
            "train",
            "server",
        ],
    ),
    ("export", &["base", "durable", "tensor", "program", "metrics", "train"]),
    ("ctr", &["base", "tensor", "program", "metrics", "data", "train", "fleet"]),
    ("predict", &["base", "tensor", "program", "metrics", "data", "monitor", "train", "ctr"]),
    ("cli", &["base", "program", "data", "fleet", "export", "ctr", "predict"]),
    (
        "python",
        &[
            "base",
            "tensor",
            "program",
            "transpile",
            "data",
            "wire",
            "protocol",
            "net",
            "train",
            "server",
            "fleet",
            "export",
            "ctr",
            "predict",
            "cli",
        ],
    ),
    (
        "testing",
        &[
            "base",
            "durable",
            "tensor",
            "program",
            "transpile",
            "metrics",
            "data",
            "monitor",
            "wire",
            "protocol",
            "net",
            "train",
            "server",
            "fleet",
            "predict",
            "cli",
        ],
    ),
];

/// The crates that the package at the root shows of the workspace.
const FACADE: &[&str] = &[
    "base",
    "tensor",
    "program",
    "transpile",
    "metrics",
    "data",
    "logging",
    "monitor",
    "wire",
    "protocol",
    "net",
    "train",
    "server",
    "fleet",
    "export",
    "ctr",
    "predict",
];

/// Where files lie that are neither code nor documents.
const DATA: &[&str] = &[
    "crates/program/src/op/protos.txt",
    "crates/testing/golden/",
    "crates/testing/tls/",
    "crates/monitor/src/job/page.html",
    "python/paddlewheel/dataset/data/",
    "python/paddlewheel/py.typed",
    "python/tests/fixtures/",
    "python/tests/fluid_names.txt",
    "python/tests/fluid_signatures.json",
    "python/tests/tools/clock.c",
];

/// The files with one of these endings, with their text. This file is left out: it spells the words
/// it looks for.
fn texts(endings: &[&str]) -> Vec<(String, String)> {
    let mut all = tree::texts(endings);
    all.retain(|(name, _)| !name.ends_with("tidy.rs"));
    all
}

/// Lines that hold one of the words, as `file:line: text`, in files that `where_` accepts.
fn uses(words: &[&str], where_: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]) {
        if !where_(&name) {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{name}:{}: {}", at + 1, line.trim()));
            }
        }
    }
    found
}

/// The crates that a manifest's section names.
fn dependencies(manifest: &str, section: &str) -> BTreeSet<String> {
    let inside = manifest.lines().skip_while(|line| *line != section).skip(1);
    let inside = inside.take_while(|line| !line.starts_with('['));
    let names = inside.filter(|line| !line.starts_with('#')).filter_map(|line| {
        let name = line.split(['=', '.']).next()?.trim();
        (!name.is_empty()).then(|| name.to_string())
    });
    names.collect()
}

fn ours(manifest: &str) -> BTreeSet<String> {
    let mut all = dependencies(manifest, "[dependencies]");
    all.extend(dependencies(manifest, "[dev-dependencies]"));
    all.extend(dependencies(manifest, "[build-dependencies]"));
    all.retain(|name| EDGES.iter().any(|(ours, _)| ours == name));
    all
}

#[test]
fn crates_depend_only_on_those_above_them() {
    let mut manifests: BTreeMap<String, String> = BTreeMap::new();
    for (name, path) in files() {
        let inside = name.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
        if let Some(folder) = inside {
            manifests.insert(folder.to_string(), fs::read_to_string(path).unwrap());
        }
    }
    let drawn: BTreeSet<_> = EDGES.iter().map(|(name, _)| name.to_string()).collect();
    let there: BTreeSet<_> = manifests.keys().cloned().collect();
    assert_eq!(there, drawn, "crates in the tree, crates in the picture");
    for (name, allowed) in EDGES {
        let used = ours(&manifests[*name]);
        let extra = used.into_iter().filter(|used| !allowed.contains(&used.as_str())).collect();
        none(&format!("`{name}` may not depend on"), extra);
    }
    let facade = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let extra = ours(&facade).into_iter().filter(|used| !FACADE.contains(&used.as_str()));
    none("the package at the root may not depend on", extra.collect());
}

/// `make modules` shows the picture.
#[test]
fn modules_of_a_crate_do_not_use_each_other_in_circles() {
    for (name, _) in EDGES {
        let graph = Graph::read(&root().join("crates").join(name).join("src"));
        println!("{name}\n{}", graph.picture());
        let cycles = graph.cycles().into_iter();
        let cycles = cycles.map(|cycle| cycle.into_iter().collect::<Vec<_>>().join(" "));
        none(&format!("modules of `{name}` that use each other"), cycles.collect());
    }
}

#[test]
fn the_manifest_reader_sees_every_spelling() {
    let manifest = "[dependencies]\na = \"1\"\nb.workspace = true\n# c = 1\n\n[features]\nd = []\n";
    let names: Vec<_> = dependencies(manifest, "[dependencies]").into_iter().collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn files_are_short() {
    let longer_than = |n_max: usize| -> Vec<String> {
        let long = texts(&[".rs", ".py", ".sh"]).into_iter().filter_map(|(name, text)| {
            let n_lines = text.lines().count();
            (n_lines > n_max).then(|| format!("{name}: {n_lines} lines"))
        });
        long.collect()
    };
    // A reader wants short files, but a limit that is a wall makes code lean on it.
    for file in longer_than(LINES_WANTED) {
        eprintln!("warning: {file}; look for a seam above {LINES_WANTED}");
    }
    none(&format!("a file has at most {LINES_MAX} lines"), longer_than(LINES_MAX));
}

#[test]
fn only_fleet_reads_the_environment() {
    let exempt = ["crates/fleet/", "crates/testing/", "examples/"];
    let bound = |name: &str| {
        let build_time = name.ends_with("build.rs") || name.contains("/benches/");
        !build_time && !exempt.iter().any(|folder| name.starts_with(folder))
    };
    none("`std::env` belongs to `fleet`", uses(&["std::env", "env::var"], bound));
}

#[test]
fn files_are_replaced_in_one_way() {
    let free =
        ["crates/durable/", "crates/train/src/folder/disk.rs", "crates/testing/", "examples/"];
    let bound = |name: &str| {
        !free.iter().any(|place| name.starts_with(place)) && !name.ends_with("tests.rs")
    };
    none("files are replaced by `durable::replace`", uses(&["fs::rename("], bound));
}

#[test]
fn versions_of_formats_are_in_one_table() {
    // The network protocol is no file.
    let free = ["/message/hello.rs", "/mesh/joining.rs"];
    let bound = |name: &str| !free.iter().any(|file| name.ends_with(file));
    let found = uses(&["const VERSION: u"], bound);
    none("versions of files are in crates/base/src/formats.rs", found);
}

#[test]
fn only_one_module_opens_sockets() {
    let free = [
        "crates/net/src/tcp/",
        "crates/predict/src/serve/",
        "crates/monitor/src/http/",
        "crates/testing/",
        "crates/data/tests/",
    ];
    let bound = |name: &str| !free.iter().any(|folder| name.starts_with(folder));
    let mut found = uses(&["std::net"], bound);
    // An address is not a socket.
    found.retain(|line| !line.ends_with("IpAddr;") && !line.ends_with("SocketAddr;"));
    none(
        "`std::net` belongs to `crates/net/src/tcp/`, to the server of predictions, and to HTTP",
        found,
    );
}

/// A server applies gradients, and a model predicts, with the executor that trainers use: it must know nothing of jobs.
#[test]
fn the_executor_only_executes() {
    let of_jobs = [
        "crate::remote",
        "crate::recover",
        "crate::trainer",
        "crate::counters",
        "metrics::",
        "wire::",
        "protocol::",
        "net::",
    ];
    let mut found = uses(&of_jobs, |name| name.starts_with("crates/train/src/executor/"));
    found.retain(|line| !line.contains("///"));
    none("the executor runs programs against a host, and knows nothing of jobs", found);
}

/// A lock is taken after a panic in one way (`EvenIfPoisoned`).
#[test]
fn only_one_module_knows_poisoned_locks() {
    let home = "crates/base/src/poison.rs";
    none(
        &format!("`PoisonError` belongs to `{home}`"),
        uses(&["PoisonError"], |name| name != home),
    );
}

#[test]
fn the_pure_crates_touch_no_file_thread_or_clock() {
    let pure = [
        "crates/tensor/src/",
        "crates/program/src/",
        "crates/transpile/src/",
        "crates/protocol/src/",
    ];
    let bound = |name: &str| pure.iter().any(|folder| name.starts_with(folder));
    let words = ["std::fs", "std::thread", "std::time", "std::process", "std::io"];
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]).into_iter().filter(|(name, _)| bound(name)) {
        let code = code(&name, &text);
        let lines = code.lines().filter(|line| words.iter().any(|word| line.contains(word)));
        found.extend(lines.map(|line| format!("{name}: {}", line.trim())));
    }
    none("`tensor`, `program`, `transpile` and `protocol` compute and do nothing else", found);
}

/// The machine's clock may jump. Waits, expiries and measurements use a clock that does not.
#[test]
fn only_log_lines_read_the_wall_clock() {
    let shipped = |name: &str| {
        name.contains("/src/")
            && !name.starts_with("crates/testing/")
            && name != "crates/net/src/lines.rs"
            && name != "crates/metrics/src/calendar.rs"
            && name != "crates/monitor/src/job/clock.rs"
            // Servers refuse a signature of another hour.
            && name != "crates/data/src/source/sign.rs"
    };
    none("a clock that may jump", uses(&["SystemTime", "UNIX_EPOCH"], shipped));
}

#[test]
fn nothing_is_left_behind() {
    let words = [
        "TODO",
        "FIXME",
        "XXX",
        "HACK",
        "todo!",
        "unimplemented!",
        "dbg!",
        "#[ignore",
        "<<<<<<<",
        ">>>>>>>",
    ];
    none("left behind", uses(&words, |_| true));
    let stray = files().into_iter().map(|(name, _)| name);
    let endings = [".orig", ".rej", ".bak", ".swp", ".tmp", "~"];
    let stray = stray.filter(|name| endings.iter().any(|ending| name.ends_with(ending)));
    none("stray files", stray.collect());
}

/// A file that is neither code nor a document was put there on purpose or left there by a run.
#[test]
fn data_lies_where_it_belongs() {
    let code = [".rs", ".py", ".pyi", ".sh", ".md", ".toml"];
    let built = |name: &str| name.ends_with(".so") || name.contains(".egg-info/");
    let inside = |name: &str| name.starts_with("crates/") || name.starts_with("python/");
    let stray = files().into_iter().map(|(name, _)| name).filter(|name| {
        let is_code = code.iter().any(|ending| name.ends_with(ending)) || built(name);
        inside(name) && !is_code && !DATA.iter().any(|home| name.starts_with(home))
    });
    none("files without a home (`DATA` lists the homes)", stray.collect());
}

/// Data that no test reads is litter, too. Golden files are listed in their README, other files are
/// named in code.
#[test]
fn data_is_read() {
    let (golden, marker) = ("crates/testing/golden/", "py.typed");
    let readme = fs::read_to_string(root().join(golden).join("README.md")).unwrap();
    let named: Vec<&str> = readme.split('`').skip(1).step_by(2).collect();
    let code: String = texts(&[".rs", ".py"]).into_iter().map(|(_, text)| text).collect();
    let mut unread = BTreeSet::new();
    for (name, _) in files() {
        let Some(home) = DATA.iter().find(|home| name.starts_with(**home)) else {
            continue;
        };
        // Of a folder of golden files the folder is named.
        let is_read = match name.strip_prefix(golden) {
            Some("README.md") => true,
            Some(entry) => {
                let folder = entry.split_inclusive('/').next().unwrap_or(entry);
                named.iter().any(|pattern| fits(folder, pattern))
            }
            None => name.rsplit('/').next().is_some_and(|file| code.contains(file)),
        };
        if !is_read && !home.ends_with(marker) {
            unread.insert(name);
        }
    }
    none("data that nobody reads", unread.into_iter().collect());
}

/// Whether a file's name fits `name` or `begin<what changes>end`.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('<') else {
        return name == pattern;
    };
    let end = rest.split_once('>').map_or("", |(_, end)| end);
    name.len() > begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
}

#[test]
fn patterns_fit_whole_names() {
    assert!(fits("ctr_sgd.npz", "ctr_<optimizer>.npz") && fits("rng.json", "rng.json"));
    assert!(!fits("ctr_.npz", "ctr_<optimizer>.npz") && !fits("ctr_sgd.json", "ctr_<what>.npz"));
    assert!(!fits("old_rng.json", "rng.json"));
}

#[test]
fn unsafe_code_says_why_it_is_sound() {
    let mut silent = Vec::new();
    for (name, text) in texts(&[".rs"]) {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let opens = line.contains("unsafe {") || line.trim_start().starts_with("unsafe impl");
            // The line may stand at the block, or above the item around it.
            let is_item = |line: &&str| line.starts_with(|c: char| c.is_alphabetic());
            let item = lines[..=at].iter().rposition(is_item).unwrap_or(0);
            let before = &lines[item.saturating_sub(3)..=at];
            if opens && !before.iter().any(|line| line.contains("SAFETY:")) {
                silent.push(format!("{name}:{}", at + 1));
            }
        }
    }
    none("an unsafe block without a `SAFETY:` line", silent);
}

#[test]
fn every_op_is_tested_beside_its_code() {
    let folder = "crates/program/src/op/";
    let mut sources = texts(&[".rs"]);
    sources.retain(|(name, _)| name.starts_with(folder));
    let tests: String = sources.iter().map(|(name, text)| test_part(name, text)).collect();
    let table = fs::read_to_string(root().join(folder).join("table.rs")).unwrap();
    let mut modules: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let table: String = table.split_whitespace().collect();
    for line in table.split("(\"").skip(1) {
        let Some((name, path)) = line.split_once("\",&") else { continue };
        // An optimizer is a file of its own.
        let module = match path.split("::").next() {
            Some("optimize") => format!("optimize/{name}"),
            module => module.unwrap_or_default().to_string(),
        };
        modules.entry(module).or_default().push(name);
    }
    assert!(modules.len() > 50, "the table names the files of its ops: {modules:?}");
    let mut untested = Vec::new();
    for (module, ops) in modules {
        let own = |name: &str| {
            name == format!("{folder}{module}.rs")
                || name.starts_with(&format!("{folder}{module}/"))
        };
        let files: Vec<_> = sources.iter().filter(|(name, _)| own(name)).collect();
        assert!(!files.is_empty(), "{module} has no file");
        if files.iter().any(|(name, text)| test_part(name, text).contains("#[test]")) {
            continue;
        }
        // A pair such as save and load is tested together, in the file of one of them.
        let untested_ops = ops.into_iter().filter(|op| !tests.contains(&format!("\"{op}\"")));
        untested.extend(untested_ops.map(str::to_string));
    }
    none("ops without a test", untested);
}

/// The facts about an op are in the op's file (`Op::traits`). A list of names elsewhere is
/// forgotten when an op is added. Fusions are about certain ops, and so are layers.
#[test]
fn nobody_but_the_ops_keeps_lists_of_op_names() {
    let free =
        ["crates/program/src/op/", "crates/program/src/layers/", "/fuse/", "crates/testing/"];
    let bound = |name: &str| {
        name.starts_with("crates/")
            && name.contains("/src/")
            && !name.contains("/python/")
            && !free.iter().any(|folder| name.contains(folder))
    };
    // The executor feeds and fetches by itself.
    let is_op = |word: &str| program::op::find(word).is_ok() && word != "feed";
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]).into_iter().filter(|(name, _)| bound(name)) {
        let code = code(&name, &text);
        let words: Vec<&str> = code.split('"').collect();
        // Literals are every second part; two in a row have a comma or a bar between them.
        for at in (1..words.len().saturating_sub(2)).step_by(2) {
            let joined = matches!(words[at + 1].trim(), "," | "|");
            if joined && is_op(words[at]) && is_op(words[at + 2]) {
                found.push(format!("{name}: \"{}\", \"{}\"", words[at], words[at + 2]));
            }
            // Pairs of an op and something else: `("op", "X"), ("op", "Y")`.
            let next = words.get(at + 3).map(|text| text.split_whitespace().collect::<String>());
            let is_pair = words[at + 1].trim() == "," && next.as_deref() == Some("),(");
            if is_pair && is_op(words[at]) && words.get(at + 4).is_some_and(|word| is_op(word)) {
                found.push(format!("{name}: (\"{}\", ..), (\"{}\", ..)", words[at], words[at + 4]));
            }
        }
    }
    none("what is known of an op stands in its file", found);
}

/// A kernel has no answers for code that checks, batches or moves ops: only gradients may be
/// kernels.
#[test]
fn forward_ops_answer_for_themselves() {
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]) {
        if !name.starts_with("crates/program/src/op/") {
            continue;
        }
        for part in text.split("impl Kernel for ").skip(1) {
            let kernel = part.split([' ', '{']).next().unwrap_or_default();
            if !kernel.trim_end_matches('2').to_lowercase().contains("grad") {
                found.push(format!("{name}: {kernel}"));
            }
        }
    }
    none("a forward op says what `Traits` it has: `impl Op` with `traits!`", found);
}

/// Two arguments in one pair have no names where they are called. More than five arguments are a
/// struct; a pair that hides them from the lint is worse.
#[test]
fn arguments_are_not_hidden_in_tuples() {
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]) {
        for (at, _) in text.match_indices("fn ") {
            let signature = signature(&text[at..]);
            if signature.contains("): ") {
                let line = text[..at].lines().count();
                let head = signature.split('(').next().unwrap_or_default();
                found.push(format!("{name}:{line}: {head}"));
            }
        }
    }
    none("arguments with names of their own instead of tuples", found);
}

/// Three names and three values in one statement are paired by counting.
#[test]
fn names_have_statements_of_their_own() {
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]) {
        for (at, _) in text.match_indices("let (") {
            let statement = text[at..].split(';').next().unwrap_or_default();
            let Some((names, values)) = statement["let (".len()..].split_once(") = (") else {
                continue;
            };
            let mut depth = 0;
            let n_names = 1 + names
                .chars()
                .filter(|c| {
                    depth += i32::from("([{<".contains(*c)) - i32::from(")]}>".contains(*c));
                    *c == ',' && depth == 0
                })
                .count();
            // A pattern that may not fit is a test, and names no values one by one.
            let is_plain = names.chars().all(|c| c.is_lowercase() || "_, \n".contains(c));
            if n_names > 2 && is_plain && values.ends_with(')') {
                let line = text[..at].lines().count();
                found.push(format!("{name}:{line}: ({names})"));
            }
        }
    }
    none("one `let` for each name, if there are more than two", found);
}

/// A mode is asked what it does. Code that compares modes is forgotten when one is added.
#[test]
fn nobody_but_the_mode_compares_modes() {
    let bound = |name: &str| {
        name.starts_with("crates/")
            && !name.starts_with("crates/testing/")
            && name != "crates/program/src/distributed/mode.rs"
    };
    let modes = [
        "Mode::Sync",
        "Mode::Async",
        "Mode::HalfAsync",
        "Mode::Geo",
        "Mode::Ssp",
        "Mode::Collective",
    ];
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]).into_iter().filter(|(name, _)| bound(name)) {
        let code = code(&name, &text);
        let lines = code.lines().filter(|line| modes.iter().any(|mode| line.contains(mode)));
        found.extend(lines.map(|line| format!("{name}: {}", line.trim())));
    }
    none("what depends on the mode is a method of `Mode`", found);
}

/// Where gradients and rows go is text in a program, and a route once it is prepared: one file writes
/// the attributes, one reads them.
#[test]
fn only_routes_read_where_things_go() {
    let bound = |name: &str| {
        name.starts_with("crates/")
            && !name.starts_with("crates/testing/")
            && name != "crates/program/src/distributed/ops.rs"
            && name != "crates/program/src/distributed/route.rs"
    };
    let words = ["epmap", "send_varnames", "recv_varnames", "table_names", "use_send_handler"];
    let words = words.map(|word| format!("\"{word}\""));
    let mut found = Vec::new();
    for (name, text) in texts(&[".rs"]).into_iter().filter(|(name, _)| bound(name)) {
        let code = code(&name, &text);
        let lines = code.lines().filter(|line| words.iter().any(|word| line.contains(word)));
        found.extend(lines.map(|line| format!("{name}: {}", line.trim())));
    }
    none("attributes of remote ops are written in ops.rs and read in route.rs", found);
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for (name, text) in texts(&[".md"]) {
        let folder = root().join(&name).parent().unwrap().to_path_buf();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || path.is_empty();
            if !elsewhere && !folder.join(path).exists() {
                broken.push(format!("{name}: {target}"));
            }
        }
    }
    none("links to nowhere", broken);
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let reasons = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let all = dependencies(&manifest, "[workspace.dependencies]");
    let foreign = all.into_iter().filter(|name| !EDGES.iter().any(|(ours, _)| ours == name));
    let silent = foreign.filter(|name| !reasons.contains(&format!("| `{name}` |")));
    none("dependencies without a line in CONTRIBUTING.md", silent.collect());
}

/// Cargo finds no test by itself here (`autotests = false`), so a file that nothing names would never run.
#[test]
fn every_file_of_tests_is_in_a_program() {
    let manifest = tree::read("crates/testing/Cargo.toml");
    let texts = tree::texts(&[".rs"]);
    let programs: String = texts
        .iter()
        .filter(|(name, _)| name.starts_with("crates/testing/tests/programs/"))
        .map(|(_, text)| text.as_str())
        .collect();
    let lost: Vec<&str> = texts
        .iter()
        .filter_map(|(name, _)| name.strip_prefix("crates/testing/tests/")?.strip_suffix(".rs"))
        .filter(|name| !name.contains('/'))
        .filter(|name| !programs.contains(&format!("#[path = \"../{name}.rs\"]\nmod {name};\n")))
        .filter(|name| !manifest.contains(&format!("[[test]]\nname = \"{name}\"\n")))
        .collect();
    assert!(lost.is_empty(), "add these to a file of tests/programs: {lost:?}");
}
