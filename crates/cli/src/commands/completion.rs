//! `paddlewheel completion`: scripts for shells that complete our words.

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use super::print;
use crate::commands::tree::tree;
use crate::error::Result;

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

/// Prints a script with which a shell completes commands and options.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel completion bash > ~/.local/share/bash-completion/completions/paddlewheel
  paddlewheel completion zsh > ~/.zfunc/_paddlewheel
  paddlewheel completion fish > ~/.config/fish/completions/paddlewheel.fish")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: ShellName,
}

impl Completion {
    pub(crate) fn run(self) -> Result<i32> {
        let shell = match self.shell {
            ShellName::Bash => Shell::Bash,
            ShellName::Zsh => Shell::Zsh,
            ShellName::Fish => Shell::Fish,
        };
        let (mut tree, mut script) = (tree(), Vec::new());
        generate(shell, &mut tree, "paddlewheel", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
