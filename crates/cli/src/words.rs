//! Fluid's command lines in words that `clap` understands.

use std::ffi::{OsStr, OsString};

use base::Endpoint;
use clap::{Arg, Command};

/// Sub-commands with a script behind their options.
const WITH_SCRIPT: [&str; 3] = ["launch_ps", "launch", "render"];

/// The words of a command line, the first one for the command itself.
///
/// In launchers, an empty value is none (`--endpoints ""`), and `--web` may be followed by an address. Words
/// behind the script stay as they are.
pub(crate) fn in_order(tree: &Command, words: &[OsString]) -> Vec<OsString> {
    let mut made = vec![OsString::from(tree.get_name())];
    let name =
        words.first().and_then(|word| word.to_str()).filter(|name| WITH_SCRIPT.contains(name));
    match name.and_then(|name| tree.find_subcommand(name)) {
        None => made.extend(words.iter().cloned()),
        Some(command) => {
            made.push(words[0].clone());
            made.extend(of_launcher(command, &words[1..]));
        }
    }
    made
}

fn of_launcher(command: &Command, words: &[OsString]) -> Vec<OsString> {
    // The last one is the script.
    let mut n_positionals = command.get_positionals().count();
    let (mut made, mut rest) = (Vec::new(), words);
    while let Some((word, behind)) = rest.split_first() {
        let is_option = word.to_str().is_some_and(|word| word.starts_with('-') && word != "--");
        if !is_option {
            n_positionals -= 1;
            if n_positionals == 0 || word == "--" {
                break;
            }
            made.push(word.clone());
            rest = behind;
            continue;
        }
        let option = word.to_string_lossy();
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(OsStr::new(value))),
            None => (option.as_ref(), None),
        };
        let known = command
            .get_arguments()
            .find(|arg| arg.get_long().is_some_and(|long| name.strip_prefix("--") == Some(long)));
        let next = behind.first().filter(|next| value.is_none() && takes(known, next));
        rest = if next.is_some() { &behind[1..] } else { behind };
        let value = value.or(next.map(OsString::as_os_str));
        match (known, value) {
            (Some(known), Some(value)) if value.is_empty() && !is_optional(known) => {}
            (Some(known), Some(value)) if is_optional(known) => {
                let joined = [OsStr::new(name), OsStr::new("="), value];
                made.push(joined.into_iter().collect());
            }
            _ => {
                made.push(word.clone());
                made.extend(next.cloned());
            }
        }
    }
    made.extend(rest.iter().cloned());
    made
}

/// Whether an option has the next word as its value.
fn takes(option: Option<&Arg>, next: &OsStr) -> bool {
    let Some(option) = option.filter(|option| option.get_action().takes_values()) else {
        return false;
    };
    let is_address = || next.to_str().is_some_and(|next| next.parse::<Endpoint>().is_ok());
    !is_optional(option) || is_address()
}

/// Whether the value of an option may be left out.
fn is_optional(option: &Arg) -> bool {
    option.get_num_args().is_some_and(|range| range.min_values() == 0 && range.takes_values())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::tree::tree;

    fn check(line: &[&str], expected: &[&str]) {
        let mut tree = tree();
        tree.build();
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        let made = in_order(&tree, &words);
        let made: Vec<&str> = made[1..].iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(made, expected, "{line:?}");
    }

    #[test]
    fn a_page_may_have_an_address_behind_it() {
        check(&["launch_ps", "--web", "a:1", "x"], &["launch_ps", "--web=a:1", "x"]);
        check(&["launch_ps", "--web", "x.py", "a:1"], &["launch_ps", "--web", "x.py", "a:1"]);
        check(&["launch_ps", "x", "--web", "a:1"], &["launch_ps", "x", "--web", "a:1"]);
        check(&["launch_ps", "--", "x", "--web", "a:1"], &["launch_ps", "--", "x", "--web", "a:1"]);
    }

    #[test]
    fn an_empty_value_is_none() {
        check(&["launch_ps", "--endpoints", "", "x", ""], &["launch_ps", "x", ""]);
        check(&["launch", "--log_dir=", "--node_ip", "b", "x"], &["launch", "--node_ip", "b", "x"]);
        check(
            &["render", "k8s", "--name", "", "--image", "i", "x", "--name", ""],
            &["render", "k8s", "--image", "i", "x", "--name", ""],
        );
        check(&["show", ""], &["show", ""]);
    }

    #[test]
    fn what_is_unknown_stays() {
        check(&["launch_ps", "--nothing", "", "x"], &["launch_ps", "--nothing", "", "x"]);
        check(&["launch_ps", "--worker_num"], &["launch_ps", "--worker_num"]);
        check(&[], &[]);
    }
}
