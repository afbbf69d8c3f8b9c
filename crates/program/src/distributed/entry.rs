//! The rule by which a table admits rows, as a program says it.

use std::str::FromStr;

/// The rule of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntryRule {
    /// Rows that this many gradients have named, the last of them included.
    Count(u32),
    /// This share of all rows.
    Probability(f64),
}

impl FromStr for EntryRule {
    type Err = ();

    /// `count_filter_entry:10`, `probability_entry:0.1`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text.split_once(':') {
            Some(("count_filter_entry", n)) => n.parse().map(EntryRule::Count).map_err(drop),
            Some(("probability_entry", p)) => match p.parse() {
                Ok(p) if 0.0 < p && p < 1.0 => Ok(EntryRule::Probability(p)),
                _ => Err(()),
            },
            _ => Err(()),
        }
    }
}
