//! The page docs/reference/commands.md, made from the tree.

use std::fmt::Write;

use clap::Command;

use crate::commands::tree::tree;

/// The width of the page.
const WIDTH: usize = 100;

const HEAD: &str = "# The command `paddlewheel`

This page is what `paddlewheel COMMAND --help` prints; a test compares it. To write it again:
`UPDATE=1 cargo test -p testing --test house command_pages`. `pip install paddlewheel` installs the command with the Python package;
`cargo install paddlewheel-cli` installs it without Python. Then scripts are run by the Python that `PADDLEWHEEL_PYTHON` names, or by
`python3`, which must have the package; executables and everything else need no Python.

For completion, put the script where your shell looks for it:

    paddlewheel completion bash > ~/.local/share/bash-completion/completions/paddlewheel
    paddlewheel completion zsh > ~/.zfunc/_paddlewheel       # with fpath+=~/.zfunc before compinit
    paddlewheel completion fish > ~/.config/fish/completions/paddlewheel.fish
";

/// The help of all sub-commands, as a page in Markdown.
pub fn page() -> String {
    let mut tree = tree().term_width(WIDTH);
    tree.build();
    let mut page = HEAD.to_string();
    add(&mut page, &mut tree.clone());
    for command in tree.get_subcommands_mut().filter(|command| command.get_name() != "help") {
        let mut command = command.clone().term_width(WIDTH);
        add(&mut page, &mut command);
    }
    page
}

fn add(page: &mut String, command: &mut Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_string();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
}
