//! The launchers as a process of their own, for tests: `launcher launch_ps …`, `launcher launch …`,
//! `launcher scale …`.

use fleet::launch::{Console, Host, launch, launch_ps, scale};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let host = Host { python: "python3".into(), alias: None };
    let mut console = Console::stderr();
    let code = match arguments.split_first() {
        Some((which, rest)) if which == "launch_ps" => launch_ps(rest, &host, &mut console),
        Some((which, rest)) if which == "launch" => launch(rest, &host, &mut console),
        Some((which, rest)) if which == "scale" => scale(rest, &host, &mut console),
        _ => panic!("launch_ps, launch or scale, not {arguments:?}"),
    };
    std::process::exit(code);
}
