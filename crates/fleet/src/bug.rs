//! A panic is a bug of ours. The message says so, and names the facts to send.

use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};

/// A library that panics on some damaged files; `data` makes an error of it.
const CAUGHT: &str = "/parquet-";

/// From now on panics are reported as bugs of this version, instead of as panics of a thread.
pub fn report_panics(version: &'static str) {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let site = info.location().map(ToString::to_string).unwrap_or_default();
        if site.contains(CAUGHT) {
            return;
        }
        // A closed stderr is not an error of this process.
        let _ = writeln!(io::stderr(), "{}", report(version, words(info), &site));
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            usual(info);
        }
    }));
}

fn words<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given")
}

fn report(version: &str, words: &str, site: &str) -> String {
    format!(
        "paddlewheel {version} has a bug: {words} (at {site}).\n\
         This is our mistake and not your script's. Please report it with these lines, the script, and \
         what it was given; RUST_BACKTRACE=1 before the command shows more."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_whose_mistake_it_is_and_what_to_send() {
        let text = report("0.1.0", "index out of bounds", "crates/program/src/x.rs:1:2");
        for part in ["0.1.0", "index out of bounds", "x.rs:1:2", "our mistake", "report it with"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
