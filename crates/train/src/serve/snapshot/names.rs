//! Which rows a table has: numbers and places of rows in a file, and rows that wait.

use ps::table::RowNames;

use super::fields::{FieldReader, Fields, u32s, u64s};
use super::file::{FileReader, Kind};
use crate::error::BadSnapshot;

/// Bytes of a row that waits: its number and how often it was named.
const WAITING_BYTES: usize = 12;

/// A section with rows that have places before `n_rows`.
pub(in crate::serve) fn names_section(names: &RowNames, n_rows: u64) -> (Kind, Vec<u8>) {
    match names {
        RowNames::ByPlace { first, rows } => {
            let n = usize::try_from(n_rows).unwrap_or(usize::MAX).saturating_sub(*first);
            let fields = Fields::default().u64(*first as u64);
            let rows = rows.iter().take(n);
            (Kind::NamesByPlace, rows.fold(fields, |fields, &row| fields.u64(row)).0)
        }
        RowNames::ByRow { first, rows } => {
            let fields = Fields::default().u64(*first);
            let rows = rows.iter().filter(|(_, place)| u64::from(*place) < n_rows);
            let add = |fields: Fields, &(offset, place): &(u32, u32)| fields.u32(offset).u32(place);
            (Kind::NamesByRow, rows.fold(fields, add).0)
        }
    }
}

/// Reads such a section; `rows` has a number for each place from `start` on.
pub(in crate::serve) fn read_names(
    file: &mut FileReader,
    kind: Kind,
    start: usize,
    rows: &mut [u64],
) -> Result<(), BadSnapshot> {
    let bytes = file.contents()?;
    let parts = &mut FieldReader(&bytes);
    let first = parts.u64();
    let filled = first.filter(|_| parts.0.len().is_multiple_of(8)).and_then(|first| {
        if kind == Kind::NamesByPlace {
            let first = usize::try_from(first).ok()?.checked_sub(start)?;
            let to = rows.get_mut(first..first.checked_add(parts.0.len() / 8)?)?;
            to.iter_mut().zip(u64s(parts.0)).for_each(|(to, row)| *to = row);
            return Some(());
        }
        let mut numbers = u32s(parts.0);
        while let (Some(offset), Some(place)) = (numbers.next(), numbers.next()) {
            *rows.get_mut((place as usize).checked_sub(start)?)? =
                first.checked_add(offset.into())?;
        }
        Some(())
    });
    filled.ok_or_else(|| file.damaged("numbers of rows cannot be read"))
}

/// The bytes of rows that wait.
pub(in crate::serve) fn waiting_to_bytes(waiting: &[(u64, u32)]) -> Vec<u8> {
    let fields = Fields(Vec::with_capacity(waiting.len() * WAITING_BYTES));
    waiting.iter().fold(fields, |fields, &(row, count)| fields.u64(row).u32(count)).0
}

/// Reads rows that wait.
pub(in crate::serve) fn read_waiting(
    file: &mut FileReader,
) -> Result<Vec<(u64, u32)>, BadSnapshot> {
    let bytes = file.contents()?;
    if !bytes.len().is_multiple_of(WAITING_BYTES) {
        return Err(file.damaged("rows that wait cannot be read"));
    }
    let one = |bytes: &[u8]| {
        let parts = &mut FieldReader(bytes);
        Some((parts.u64()?, parts.u32()?))
    };
    Ok(bytes.chunks_exact(WAITING_BYTES).filter_map(one).collect())
}
