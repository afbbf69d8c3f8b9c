//! All sub-commands, as `clap` knows them.

use clap::{ArgAction, Command, CommandFactory};

use super::SubCommand;

/// Our version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Both versions: ours, and that of Fluid whose behaviour we have (`paddle.__version__`).
pub(crate) const VERSIONS: &str = concat!(env!("CARGO_PKG_VERSION"), ", answers to Fluid 1.8.5");

/// Longer lines are hard to read, however wide the terminal is.
const WIDTH_MAX: usize = 100;

/// The command with all its sub-commands.
pub fn tree() -> Command {
    let tree = SubCommand::command().max_term_width(WIDTH_MAX);
    tree.mut_subcommands(|command| {
        command.mut_args(|arg| {
            let (id, action) = (arg.get_id().clone(), arg.get_action().clone());
            match (arg.is_positional(), action) {
                // As in Fluid's launchers, the last one counts, and a number may have a sign.
                (false, ArgAction::Set) => arg.overrides_with(id).allow_negative_numbers(true),
                (false, ArgAction::SetTrue) => arg.overrides_with(id),
                _ => arg,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_finds_nothing_wrong() {
        tree().debug_assert();
    }
}
