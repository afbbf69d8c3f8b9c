//! Rows of a sparse table that exist only once somebody asked for them.
//!
//! A table of ten million rows costs what its touched rows cost: rows live one after another in
//! slabs (one for the weights, one for each state of the optimizer), and an index says where. A new
//! row depends on the table's seed and the row's number alone: not on who asked first, nor on how
//! many servers there are; where the seed is the program's, it holds what a whole table would.

use tensor::rng::{self, Rng};

/// What the numbers of a new row are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowInit {
    /// All the same.
    Constant(f32),
    /// The numbers that a whole table would have at this place.
    Uniform {
        /// At least this.
        low: f32,
        /// Below this.
        high: f32,
        /// Names the stream of numbers.
        seed: u32,
        /// Numbers of the stream before the first row of this part.
        offset: u64,
    },
}

impl RowInit {
    /// Fills a row.
    pub fn fill(&self, row: usize, values: &mut [f32]) {
        match *self {
            RowInit::Constant(value) => values.fill(value),
            RowInit::Uniform { low, high, seed, offset } => {
                let first = offset + row as u64 * values.len() as u64;
                let mut rng = Rng::at(seed, first * <f32 as rng::Real>::N_DRAWS);
                rng::uniform(&mut rng, low, high, values);
            }
        }
    }

    /// As words, for the attribute of a program.
    pub fn to_text(&self) -> String {
        match *self {
            RowInit::Constant(value) => format!("constant {}", value.to_bits()),
            RowInit::Uniform { low, high, seed, offset } => {
                format!("uniform {} {} {seed} {offset}", low.to_bits(), high.to_bits())
            }
        }
    }

    /// Back from words; a seed of 0 becomes `fresh_seed`.
    pub fn from_text(text: &str, fresh_seed: u32) -> Option<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        let float = |word: &str| word.parse().ok().map(f32::from_bits);
        match words[..] {
            ["constant", value] => Some(RowInit::Constant(float(value)?)),
            ["uniform", low, high, seed, offset] => {
                let seed = match seed.parse().ok()? {
                    0 => fresh_seed,
                    seed => seed,
                };
                let (low, high) = (float(low)?, float(high)?);
                Some(RowInit::Uniform { low, high, seed, offset: offset.parse().ok()? })
            }
            _ => None,
        }
    }
}

/// Where each row of a table is in its slabs. Four bytes for each row that could be, and the
/// system gives memory only to the pages of them that are used.
#[derive(Debug)]
pub struct RowIndex {
    /// Place plus one; 0 means that the row does not exist.
    places: Vec<u32>,
    n_rows: usize,
}

impl RowIndex {
    /// An index of a table with `height` rows, none of which exists.
    pub fn new(height: usize) -> Self {
        Self { places: bytemuck::zeroed_vec(height), n_rows: 0 }
    }

    /// Rows that the table could have.
    pub fn height(&self) -> usize {
        self.places.len()
    }

    /// Rows that exist.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Where the row is, if it exists.
    pub fn find(&self, row: usize) -> Option<usize> {
        match self.places.get(row) {
            Some(&place) if place > 0 => Some(place as usize - 1),
            _ => None,
        }
    }

    /// Where the row is; the second is true if it was made just now. `None` if it is no row of the
    /// table.
    pub fn find_or_make(&mut self, row: usize) -> Option<(usize, bool)> {
        let place = self.places.get_mut(row)?;
        if *place > 0 {
            return Some((*place as usize - 1, false));
        }
        self.n_rows += 1;
        *place = u32::try_from(self.n_rows).ok()?;
        Some((self.n_rows - 1, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_a_whole_table_has_there() {
        let mut whole = [0.0f32; 12];
        rng::uniform(&mut Rng::new(90), -1.0, 1.0, &mut whole);
        // A part that begins with row 1 of the whole, rows of three.
        let init = RowInit::Uniform { low: -1.0, high: 1.0, seed: 90, offset: 3 };
        let mut row = [0.0; 3];
        init.fill(2, &mut row);
        assert_eq!(row, whole[9..12]);
    }

    #[test]
    fn an_init_survives_as_words() {
        let uniform = RowInit::Uniform { low: -0.1, high: 0.3, seed: 7, offset: u64::MAX / 2 };
        for init in [uniform, RowInit::Constant(1e-6)] {
            assert_eq!(RowInit::from_text(&init.to_text(), 1), Some(init));
        }
        let unseeded = RowInit::Uniform { low: 0.0, high: 1.0, seed: 0, offset: 0 };
        let seeded = RowInit::Uniform { low: 0.0, high: 1.0, seed: 5, offset: 0 };
        assert_eq!(RowInit::from_text(&unseeded.to_text(), 5), Some(seeded));
        for text in ["", "constant", "constant x", "normal 1 2", "uniform 1 2 3"] {
            assert_eq!(RowInit::from_text(text, 1), None, "{text}");
        }
    }

    #[test]
    fn rows_are_made_once_and_in_order_of_asking() {
        let mut index = RowIndex::new(10);
        assert_eq!(index.find(7), None);
        assert_eq!(index.find_or_make(7), Some((0, true)));
        assert_eq!(index.find_or_make(2), Some((1, true)));
        assert_eq!(index.find_or_make(7), Some((0, false)));
        assert_eq!((index.find(2), index.n_rows()), (Some(1), 2));
        assert_eq!(index.find_or_make(10), None, "no row of the table");
    }
}
