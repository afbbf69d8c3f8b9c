//! Which rows a table has: numbers and places of rows in a file, and rows that wait.

use train::row_set::RowSet;

use crate::table::RowNames;
use base::bytes::{ByteReader, ByteWriter, Read, u32s, u64s};

use super::file::{FileReader, Kind};
use crate::bad_snapshot::BadSnapshot;

/// Bytes of a row that waits: its number and how often it was named.
const WAITING_BYTES: usize = 12;

/// A section with rows that have places before `n_rows`.
pub(in crate::serve) fn names_section(names: &RowNames, n_rows: u64) -> (Kind, Vec<u8>) {
    let mut to = ByteWriter::default();
    let kind = match names {
        RowNames::ByPlace { first, rows } => {
            let n = usize::try_from(n_rows).unwrap_or(usize::MAX).saturating_sub(*first);
            rows.iter().take(n).fold(to.u64(*first as u64), |to, &row| to.u64(row));
            Kind::NamesByPlace
        }
        RowNames::ByRow { first, rows } => {
            let rows = rows.iter().filter(|(_, place)| u64::from(*place) < n_rows);
            rows.fold(to.u64(*first), |to, (offset, place)| to.u32(*offset).u32(*place));
            Kind::NamesByRow
        }
    };
    (kind, to.0)
}

/// Numbers of rows by their places, while files are read that have them.
#[derive(Debug, Default)]
pub(in crate::serve) struct RowNumbers {
    /// The first places, whose numbers are elsewhere.
    n_before: usize,
    numbers: Vec<u64>,
    /// Places whose numbers have come: each number of 64 bits may be one of a row.
    named: RowSet,
}

impl RowNumbers {
    /// How many rows there are.
    pub(in crate::serve) fn len(&self) -> usize {
        self.n_before + self.numbers.len()
    }

    /// There are so many rows; false if there were more.
    pub(in crate::serve) fn grow(&mut self, n_rows: usize) -> bool {
        let is_more = n_rows >= self.len();
        self.numbers.resize(n_rows.saturating_sub(self.n_before).max(self.numbers.len()), 0);
        is_more
    }

    /// The number of the row at a place, if it is here and has come.
    pub(in crate::serve) fn get(&self, place: usize) -> Option<u64> {
        let number = self.numbers.get(place.checked_sub(self.n_before)?)?;
        self.named.contains(place).then_some(*number)
    }

    /// Whether the numbers of all rows have come.
    pub(in crate::serve) fn is_complete(&self) -> bool {
        self.named.len() == self.len()
    }

    /// The numbers that are here; they are elsewhere then.
    pub(in crate::serve) fn take(&mut self) -> Vec<u64> {
        let numbers = std::mem::take(&mut self.numbers);
        self.n_before += numbers.len();
        numbers
    }

    fn set(&mut self, place: usize, number: u64) -> Option<()> {
        *self.numbers.get_mut(place.checked_sub(self.n_before)?)? = number;
        self.named.insert(place);
        Some(())
    }

    /// Gives rows their numbers, from the one at `first` on; nothing if there are not so many.
    pub(in crate::serve) fn set_all(
        &mut self,
        first: usize,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Option<()> {
        numbers.into_iter().zip(first..).try_for_each(|(number, place)| self.set(place, number))
    }

    /// Reads a section that [`names_section`] made.
    pub(in crate::serve) fn read(
        &mut self,
        file: &mut FileReader,
        kind: Kind,
    ) -> Result<(), BadSnapshot> {
        let bytes = file.contents()?;
        let parts = &mut ByteReader::new(&bytes);
        let first = parts.u64().ok().filter(|_| parts.n_left().is_multiple_of(8));
        let filled = first.and_then(|first| {
            if kind == Kind::NamesByPlace {
                return self.set_all(usize::try_from(first).ok()?, u64s(parts.rest()));
            }
            let mut numbers = u32s(parts.rest());
            while let (Some(offset), Some(place)) = (numbers.next(), numbers.next()) {
                self.set(place as usize, first.checked_add(offset.into())?)?;
            }
            Some(())
        });
        filled.ok_or_else(|| file.damaged("numbers of rows cannot be read"))
    }
}

/// The bytes of rows that wait.
pub(in crate::serve) fn waiting_to_bytes(waiting: &[(u64, u32)]) -> Vec<u8> {
    let mut to = ByteWriter(Vec::with_capacity(waiting.len() * WAITING_BYTES));
    waiting.iter().fold(&mut to, |to, (row, count)| to.u64(*row).u32(*count));
    to.0
}

/// Reads rows that wait.
pub(in crate::serve) fn read_waiting(
    file: &mut FileReader,
) -> Result<Vec<(u64, u32)>, BadSnapshot> {
    let bytes = file.contents()?;
    if !bytes.len().is_multiple_of(WAITING_BYTES) {
        return Err(file.damaged("rows that wait cannot be read"));
    }
    let one = |bytes: &[u8]| -> Read<(u64, u32)> {
        let parts = &mut ByteReader::new(bytes);
        Ok((parts.u64()?, parts.u32()?))
    };
    Ok(bytes.chunks_exact(WAITING_BYTES).map_while(|bytes| one(bytes).ok()).collect())
}
