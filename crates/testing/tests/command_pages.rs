//! The command `paddlewheel` about itself: help with examples that hold, the page of all of it, hints for
//! mistyped words, completion.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::process::{Command, Output, Stdio};

use testing::tree::{read, root};

const PAGE: &str = "docs/reference/commands.md";

fn paddlewheel(words: &[&str], columns: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_launcher"));
    command.args(words).env("COLUMNS", columns).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// All sub-commands, and the command itself without a name.
fn commands() -> Vec<String> {
    let tree = cli::tree();
    let names = tree.get_subcommands().map(|command| command.get_name().to_string());
    let names: Vec<String> = [String::new()].into_iter().chain(names).collect();
    assert!(names.len() > 15, "{names:?}");
    names
}

/// The examples at the end of a help text.
fn examples(help: &str) -> Vec<String> {
    let end = help.split("\nExamples:\n").nth(1).unwrap_or_default();
    end.lines().map(|line| line.trim().to_string()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_command_has_help_with_an_example_that_holds() {
    for name in commands() {
        let words: Vec<&str> =
            [name.as_str(), "--help"].into_iter().filter(|w| !w.is_empty()).collect();
        let shown = paddlewheel(&words, "200");
        assert_eq!((shown.status.code(), text(&shown.stderr)), (Some(0), String::new()), "{name}");
        let help = text(&shown.stdout);
        let usage = format!("Usage: paddlewheel {name}");
        assert!(help.contains(usage.trim_end()), "{help}");
        assert!(!examples(&help).is_empty(), "{name} has no example:\n{help}");
        for example in examples(&help) {
            assert!(example.starts_with("paddlewheel "), "{name}: {example}");
            // The parts for the shell are not for the command.
            let words = example.split([' ']).take_while(|word| !["<", ">", "|"].contains(word));
            let parsed = cli::tree().try_get_matches_from(words);
            // Help is an error for clap, with the exit code 0.
            let wrong = parsed.err().filter(|error| error.exit_code() != 0);
            assert!(wrong.is_none(), "{example}: {}", wrong.unwrap());
        }
    }
}

#[test]
fn every_option_says_what_it_is() {
    for command in cli::tree().get_subcommands() {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for arg in command.get_arguments() {
            let place = format!("{} {}", command.get_name(), arg.get_id());
            assert!(arg.get_help().is_some(), "{place} has no help");
            let takes = arg.get_action().takes_values();
            assert!(!takes || arg.get_value_names().is_some(), "{place} has no name for its value");
        }
    }
}

/// `UPDATE=1` writes it.
#[test]
fn the_page_is_what_help_says() {
    let page = cli::page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root().join(PAGE), &page).unwrap();
    }
    assert!(read(PAGE) == page, "{PAGE} is not what help says: write it again with UPDATE=1");
}

#[test]
fn who_mistypes_is_told_the_near_word() {
    let near = [
        (&["lanch_ps"][..], "launch_ps"),
        (&["launch_ps", "--woker_num", "2", "x.py"], "--worker_num"),
        (&["exprot", "model"], "export"),
        (&["export", "model", "--to", "onx"], "onnx"),
        (&["serve", "model", "--folow"], "--follow"),
        (&["fit", "a.csv", "--taget", "y"], "--target"),
        (&["render", "k9s", "x.py"], "k8s"),
        (&["completion", "bsh"], "bash"),
    ];
    // On a narrow terminal, too.
    for columns in ["100", "30"] {
        for (words, wanted) in near {
            let told = paddlewheel(words, columns);
            assert_eq!(told.status.code(), Some(2), "{words:?}");
            let told = text(&told.stderr);
            let tips: Vec<&str> = told.lines().filter(|line| line.contains("tip: ")).collect();
            assert!(
                tips.iter().any(|tip| tip.contains(&format!("'{wanted}'"))),
                "{words:?}: {told}"
            );
        }
    }
}

#[test]
fn help_fits_a_narrow_terminal() {
    let shown = text(&paddlewheel(&["serve", "-h"], "50").stdout);
    // Only the usage and the examples are not broken inside of a word.
    let long = shown.lines().filter(|line| line.chars().count() > 50);
    let long: Vec<&str> = long.filter(|line| !line.contains("paddlewheel serve")).collect();
    assert!(long.is_empty() && shown.contains("--follow"), "{long:?}\n{shown}");
}

#[test]
fn shells_take_what_completes() {
    let names = commands();
    for shell in ["bash", "zsh", "fish"] {
        let shown = paddlewheel(&["completion", shell], "100");
        assert!(shown.status.success(), "{shell}");
        let script = text(&shown.stdout);
        assert!(names.iter().all(|name| script.contains(name.as_str())), "{shell}");
        assert!(script.contains("worker_num") && script.contains("snapshot_dir"), "{shell}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, &script).unwrap();
        match Command::new(shell).arg("-n").arg(&path).output() {
            Ok(checked) => assert!(checked.status.success(), "{shell}: {}", text(&checked.stderr)),
            Err(_) => println!("{shell} is not installed: its script is not checked"),
        }
    }
}

/// The words that bash offers behind the words so far.
#[test]
fn bash_completes() {
    let script = text(&paddlewheel(&["completion", "bash"], "100").stdout);
    let offered = |words: &[&str]| {
        let n = words.len() - 1;
        let (line, before) = (words.join(" "), words[n - 1]);
        let ask = format!(
            "{script}\nCOMP_WORDS=({line}); [ {n} -lt ${{#COMP_WORDS[@]}} ] || COMP_WORDS+=('')\n\
             COMP_CWORD={n}; _paddlewheel paddlewheel \"${{COMP_WORDS[{n}]}}\" {before}\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        text(&Command::new("bash").arg("-c").arg(ask).output().unwrap().stdout)
    };
    assert_eq!(offered(&["paddlewheel", "launch_"]).trim(), "launch_ps");
    assert_eq!(offered(&["paddlewheel", "launch_ps", "--worker"]).trim(), "--worker_num");
    assert_eq!(offered(&["paddlewheel", "export", "m", "--to", "on"]).trim(), "onnx");
}

#[test]
fn both_versions_are_told() {
    let fluid = read("python/paddlewheel/version.py");
    let fluid = fluid.split("full_version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let ours = env!("CARGO_PKG_VERSION");
    let expected = format!("paddlewheel {ours}, answers to Fluid {}\n", fluid.unwrap());
    for words in ["--version", "-V", "version"] {
        let shown = paddlewheel(&[words], "100");
        assert_eq!((shown.status.code(), text(&shown.stdout)), (Some(0), expected.clone()));
    }
}
