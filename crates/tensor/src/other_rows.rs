//! The values of rows that do not exist in a table.

use crate::RowInit;
use crate::mix::mix;

/// The values of rows that do not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OtherRows {
    /// The rule of each part that the table was kept in. Without any, rows read as zeros.
    pub parts: Vec<OtherRow>,
    /// Which part has a row.
    pub dealt: Dealt,
}

/// Which part of a table has a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Dealt {
    /// A hash of its number says it.
    #[default]
    Hash,
    /// Each part begins with the row of this number, in ascending order.
    Ranges(Vec<i64>),
}

/// The values of a row that does not exist.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherRow {
    /// Its numbers.
    pub start: RowStart,
    /// The row of the whole table that `start` counts from.
    pub first: i64,
    /// Rows that are not taken in read as zeros.
    pub taken_in: TakenIn,
}

/// The numbers of a row before any update.
#[derive(Clone, Debug, PartialEq)]
pub enum RowStart {
    /// By its number.
    Init(RowInit),
    /// All rows alike.
    Row(Vec<f32>),
}

/// Which rows a table takes in without having seen them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TakenIn {
    /// All.
    All,
    /// None.
    None,
    /// A share of all, drawn from the row's number.
    Drawn {
        /// Says which table it is.
        salt: u64,
        /// How many of all, from 0 to 1.
        share: f64,
    },
}

impl TakenIn {
    /// Whether a row is taken in.
    pub fn has(self, row: u64) -> bool {
        match self {
            TakenIn::All => true,
            TakenIn::None => false,
            TakenIn::Drawn { salt, share } => {
                ((mix(salt ^ mix(row)) >> 11) as f64) < share * (1u64 << 53) as f64
            }
        }
    }
}

impl OtherRows {
    fn part_of(&self, row: i64) -> Option<&OtherRow> {
        let at = match &self.dealt {
            Dealt::Hash => (mix(row as u64) % self.parts.len().max(1) as u64) as usize,
            Dealt::Ranges(firsts) => firsts.partition_point(|&first| first <= row).max(1) - 1,
        };
        self.parts.get(at)
    }

    /// Writes the values of a row.
    pub fn fill(&self, row: i64, out: &mut [f32]) {
        match self.part_of(row).filter(|part| part.taken_in.has(row as u64)) {
            None => out.fill(0.0),
            Some(OtherRow { start: RowStart::Row(values), .. }) if values.len() == out.len() => {
                out.copy_from_slice(values);
            }
            Some(OtherRow { start: RowStart::Row(_), .. }) => out.fill(0.0),
            Some(OtherRow { start: RowStart::Init(init), first, .. }) => {
                init.fill(row.wrapping_sub(*first) as u64, out);
            }
        }
    }
}

impl OtherRow {
    /// As text, for a file.
    pub fn to_text(&self) -> String {
        let start = match &self.start {
            RowStart::Init(init) => init.to_text(),
            RowStart::Row(values) => {
                let words = values.iter().map(|value| format!(" {}", value.to_bits()));
                format!("row{}", words.collect::<String>())
            }
        };
        let taken_in = match self.taken_in {
            TakenIn::All => "all".to_string(),
            TakenIn::None => "none".to_string(),
            TakenIn::Drawn { salt, share } => format!("drawn {salt} {}", share.to_bits()),
        };
        format!("first {}\nstart {start}\ntaken in {taken_in}\n", self.first)
    }

    /// Back from text.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let first = lines.next()?.strip_prefix("first ")?.parse().ok()?;
        let start = lines.next()?.strip_prefix("start ")?;
        let start = match start.strip_prefix("row") {
            Some(words) => {
                let bits = words.split_whitespace().map(|word| word.parse().map(f32::from_bits));
                RowStart::Row(bits.collect::<Result<_, _>>().ok()?)
            }
            // A seed that was fresh is written as what it was.
            None => RowStart::Init(RowInit::from_text(start, 0)?),
        };
        let taken_in = lines.next()?.strip_prefix("taken in ")?;
        let taken_in = match (taken_in, taken_in.strip_prefix("drawn ")) {
            ("all", _) => TakenIn::All,
            ("none", _) => TakenIn::None,
            (_, Some(words)) => {
                let (salt, share) = words.split_once(' ')?;
                let share = f64::from_bits(share.parse().ok()?);
                TakenIn::Drawn { salt: salt.parse().ok()?, share }
            }
            _ => return None,
        };
        lines.next().is_none().then_some(Self { start, first, taken_in })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn a_rule_survives_as_text() {
        let shape = Distribution::Normal(0.0, 0.1);
        let starts = [
            RowStart::Init(RowInit::Constant(0.5)),
            RowStart::Init(RowInit::Drawn { shape, seed: 9, offset: 1 << 60 }),
            RowStart::Row(vec![0.25, -1.0]),
            RowStart::Row(Vec::new()),
        ];
        let rules = [TakenIn::All, TakenIn::None, TakenIn::Drawn { salt: u64::MAX, share: 0.1 }];
        for start in starts {
            for taken_in in rules {
                let rule = OtherRow { start: start.clone(), first: 1 << 50, taken_in };
                assert_eq!(OtherRow::from_text(&rule.to_text()), Some(rule));
            }
        }
        for text in [
            "",
            "first 0",
            "first 0\nstart row x\ntaken in all",
            "first 0\nstart row\ntaken in some",
        ] {
            assert_eq!(OtherRow::from_text(text), None, "{text}");
        }
    }
}
