//! Rows of a table by id, in and out: embeddings spend their time here.
//!
//! Ids are checked before anything is copied, so that the copying loop has nothing to decide and
//! the processor can fetch many rows at once.

use tensor::{Element, Number};

/// An id without a row in the table, and its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadId {
    /// Where in the list of ids.
    pub position: usize,
    /// The id.
    pub id: i64,
}

/// Checks that every id is a row of a table of `height`; `padding` passes whatever it is.
pub fn check_ids<I>(ids: &[I], height: usize, padding: Option<i64>) -> Result<(), BadId>
where
    I: Copy + Into<i64>,
{
    let height = i64::try_from(height).unwrap_or(i64::MAX);
    let bad = |id: i64| !tensor::is_row(id, height) && Some(id) != padding;
    match ids.iter().position(|&id| bad(id.into())) {
        None => Ok(()),
        Some(position) => Err(BadId { position, id: ids[position].into() }),
    }
}

/// Copies row `ids[i]` of `table` to row `i` of `out`; the padding id reads as zeros.
pub fn gather_rows<T, I>(
    table: &[T],
    width: usize,
    ids: &[I],
    padding: Option<i64>,
    out: &mut [T],
) -> Result<(), BadId>
where
    T: Element,
    I: Copy + Into<i64>,
{
    if width == 0 {
        return Ok(());
    }
    check_ids(ids, table.len() / width, padding)?;
    // Widths known to the compiler copy without a call; any other width gets the general loop.
    match width {
        4 => gather_fixed::<T, I, 4>(table, ids, padding, out),
        8 => gather_fixed::<T, I, 8>(table, ids, padding, out),
        10 => gather_fixed::<T, I, 10>(table, ids, padding, out),
        16 => gather_fixed::<T, I, 16>(table, ids, padding, out),
        32 => gather_fixed::<T, I, 32>(table, ids, padding, out),
        64 => gather_fixed::<T, I, 64>(table, ids, padding, out),
        _ => {
            for (&id, out) in ids.iter().zip(out.chunks_exact_mut(width)) {
                let id = id.into();
                if Some(id) == padding {
                    out.fill(T::zeroed());
                } else {
                    out.copy_from_slice(&table[id as usize * width..][..width]);
                }
            }
        }
    }
    Ok(())
}

fn gather_fixed<T, I, const N: usize>(table: &[T], ids: &[I], padding: Option<i64>, out: &mut [T])
where
    T: Element,
    I: Copy + Into<i64>,
{
    let (table, _) = table.as_chunks::<N>();
    let (out, _) = out.as_chunks_mut::<N>();
    for (&id, out) in ids.iter().zip(out) {
        let id = id.into();
        *out = if Some(id) == padding { [T::zeroed(); N] } else { table[id as usize] };
    }
}

/// Adds row `i` of `values` to row `ids[i]` of `table`, in the order listed, leaving out the padding
/// id.
pub fn scatter_add_rows<T, I>(
    table: &mut [T],
    width: usize,
    ids: &[I],
    padding: Option<i64>,
    values: &[T],
) -> Result<(), BadId>
where
    T: Number,
    I: Copy + Into<i64>,
{
    if width == 0 {
        return Ok(());
    }
    check_ids(ids, table.len() / width, padding)?;
    for (&id, value) in ids.iter().zip(values.chunks_exact(width)) {
        let id = id.into();
        if Some(id) != padding {
            super::sum::add_to(&mut table[id as usize * width..][..width], value);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_every_width_alike() {
        for width in 1..=65 {
            let table: Vec<f32> = (0..5 * width).map(|i| i as f32).collect();
            let mut out = vec![-1.0; 3 * width];
            gather_rows(&table, width, &[4i64, 1, 4], Some(1), &mut out).unwrap();
            assert_eq!(out[..width], table[4 * width..], "width {width}");
            assert!(out[width..2 * width].iter().all(|&x| x == 0.0), "padding is zero");
            assert_eq!(out[2 * width..], table[4 * width..]);
        }
    }

    #[test]
    fn scatters_repeated_ids_in_order() {
        let mut table = [0.0f64; 6];
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        scatter_add_rows(&mut table, 2, &[2i32, 0, 2], Some(0), &values).unwrap();
        assert_eq!(table, [0.0, 0.0, 0.0, 0.0, 6.0, 8.0]);
    }

    #[test]
    fn names_the_first_bad_id() {
        let bad = |ids: &[i64], padding| check_ids(ids, 3, padding).unwrap_err();
        assert_eq!(bad(&[0, 3, -1], None), BadId { position: 1, id: 3 });
        assert_eq!(bad(&[0, 2, -1], Some(3)), BadId { position: 2, id: -1 });
        assert_eq!(check_ids(&[7i64], 3, Some(7)), Ok(()));
        assert_eq!(
            check_ids(&[-1i64, i64::MIN, 7], i64::MAX as usize, None),
            Ok(()),
            "all of 64 bits"
        );
    }
}
