//! The names of slots, where both sides of a pipe know them.
//!
//! Lines of counted slots have no names: they are matched by position, and a generator that prints its
//! slots in another order than the dataset has them trains a wrong model without a word. So commands
//! are told what the dataset calls its slots, and generators of ours compare.

use crate::error::{Error, Result};
use crate::slot::Slot;

/// Tells a pipe command the slots of its dataset, a name a line.
pub const VARIABLE: &str = "PADDLEWHEEL_SLOTS";

/// No system takes a variable that is much longer; so many slots have names that programs made.
const BYTES_MAX: usize = 64 << 10;

/// The names as the variable has them; nothing if they are too long.
pub(crate) fn joined(slots: &[Slot]) -> String {
    let names: Vec<&str> = slots.iter().map(|slot| slot.name.as_str()).collect();
    Some(names.join("\n")).filter(|names| names.len() <= BYTES_MAX).unwrap_or_default()
}

/// Compares the names that a generator gives its slots with those of the dataset, which are as in
/// [`VARIABLE`].
///
/// Other names are not an error, as in Fluid. A name that both have must be at the same position.
pub fn check(expected: &str, made: &[String]) -> Result<()> {
    let expected: Vec<&str> = expected.lines().collect();
    for (at, name) in made.iter().enumerate() {
        if expected.get(at) == Some(&name.as_str()) {
            continue;
        }
        let Some(place) = expected.iter().position(|known| known == name) else { continue };
        // Names that are there twice say nothing.
        if made.iter().filter(|other| *other == name).count() > 1 {
            continue;
        }
        return Err(Error::SlotPlace {
            slot: name.clone(),
            made: at + 1,
            expected: place + 1,
            has: expected.join(", "),
            makes: made.join(", "),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(slots: &[&str], made: &[&str]) -> Result<()> {
        let slots: Vec<Slot> = slots.iter().map(|name| Slot::ids(name)).collect();
        let made: Vec<String> = made.iter().map(|name| name.to_string()).collect();
        check(&joined(&slots), &made)
    }

    #[test]
    fn names_in_another_order_are_refused() {
        for made in [&["b", "a"][..], &["x", "a"], &["b"]] {
            let error = compare(&["a", "b"], made).unwrap_err();
            assert!(matches!(error, Error::SlotPlace { .. }), "{error}");
        }
        let said = compare(&["label", "a", "b"], &["a", "b", "label"]).unwrap_err().to_string();
        assert!(said.contains("slot `a` is number 1") && said.contains("number 2"), "{said}");
        assert!(said.contains("label, a, b") && said.contains("a, b, label"), "{said}");
    }

    #[test]
    fn other_names_are_as_in_fluid_no_error() {
        for made in [&["a", "b"][..], &["x", "y"], &["x", "b"], &["a"], &["b", "b"]] {
            compare(&["a", "b"], made).unwrap();
        }
        compare(&[], &["a"]).unwrap();
        let long = "x".repeat(1000);
        compare(&[long.as_str(); 100], &["a"]).unwrap();
    }
}
