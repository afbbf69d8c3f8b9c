//! Unique names: a counter per key, as files on disk and saved models depend on them.

use std::collections::HashMap;

/// Suffix of a gradient's name.
pub const GRAD: &str = "@GRAD";
/// Behind the name of a gradient in a loop: as it arrives from the turn after.
pub(crate) const AFTER: &str = "@AFTER";
/// Behind the name of a variable that a loop changes: as it was when the turn began.
pub(crate) const BEFORE: &str = "@BEFORE";
/// Behind the name of a variable that a loop changes: as it was after the loop.
pub(crate) const LAST: &str = "@LAST";
/// Stands for "no variable here" in a list of arguments.
pub const EMPTY: &str = "@EMPTY@";

/// The name of a variable's gradient.
pub fn grad(var: &str) -> String {
    format!("{var}{GRAD}")
}

/// Makes `fc_0`, `fc_1`, … A caller that wants Fluid's `unique_name.guard()` holds another one of
/// these meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UniqueNames {
    prefix: String,
    counters: HashMap<String, u64>,
}

impl UniqueNames {
    /// A generator whose names all begin with `prefix`.
    pub fn with_prefix(prefix: &str) -> Self {
        Self { prefix: prefix.to_string(), counters: HashMap::new() }
    }

    /// The next name of this key.
    pub fn generate(&mut self, key: &str) -> String {
        let counter = match self.counters.get_mut(key) {
            Some(counter) => counter,
            None => self.counters.entry(key.to_string()).or_default(),
        };
        let name = format!("{}{key}_{counter}", self.prefix);
        *counter += 1;
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_per_key_under_a_prefix() {
        let mut names = UniqueNames::with_prefix("A");
        assert_eq!(names.generate("fc"), "Afc_0");
        assert_eq!(names.generate("fc"), "Afc_1");
        assert_eq!(names.generate("fc_0.w"), "Afc_0.w_0");
    }
}
