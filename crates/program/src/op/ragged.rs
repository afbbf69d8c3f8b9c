//! Sequences inside of a tensor, read through offsets that were checked first.
//!
//! Offsets come from users and files. Every sequence op gets them from here, so that none of them
//! can point outside of the rows.

use tensor::{Element, Lod, Tensor};

use super::Run;
use crate::error::{Error, Result};

/// Rows of numbers grouped into sequences; made from checked offsets only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ragged<'a, T> {
    data: &'a [T],
    width: usize,
    offsets: &'a [usize],
}

impl<'a, T: Element> Ragged<'a, T> {
    /// The rows of `tensor` as the sequences between `offsets`.
    pub(super) fn new(tensor: &'a Tensor, offsets: &'a [usize]) -> Result<Self> {
        Ok(Self { data: tensor.data()?, width: width(tensor), offsets })
    }

    /// How many numbers in a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The offsets.
    pub(super) fn offsets(&self) -> &'a [usize] {
        self.offsets
    }

    /// The numbers of each sequence in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &'a [T]> {
        let Self { data, width, offsets } = *self;
        offsets.windows(2).map(move |pair| &data[pair[0] * width..pair[1] * width])
    }

    /// The numbers of sequence `index`.
    pub(super) fn get(&self, index: usize) -> &'a [T] {
        &self.data[self.offsets[index] * self.width..self.offsets[index + 1] * self.width]
    }
}

/// The numbers of each sequence in order, to write; `data` holds `width` per row.
pub(super) fn each_mut<'a, T>(
    data: &'a mut [T],
    offsets: &'a [usize],
    width: usize,
) -> impl Iterator<Item = &'a mut [T]> {
    let mut rest = data;
    offsets.windows(2).map(move |pair| {
        let (sequence, tail) = std::mem::take(&mut rest).split_at_mut((pair[1] - pair[0]) * width);
        rest = tail;
        sequence
    })
}

/// How many numbers a row of the tensor holds.
pub(super) fn width(tensor: &Tensor) -> usize {
    tensor.shape().flatten_2d(1).1
}

/// The innermost offsets of the first variable at `port`; they fit its rows.
pub(super) fn offsets<'r>(
    run: &'r Run<'_>,
    op: &'static str,
    port: &'static str,
) -> Result<&'r [usize]> {
    offsets_at(run, op, port, 0)
}

/// The innermost offsets of the `index`-th variable at `port`.
pub(super) fn offsets_at<'r>(
    run: &'r Run<'_>,
    op: &'static str,
    port: &'static str,
    index: usize,
) -> Result<&'r [usize]> {
    let tensor = run.input_at(port, index)?;
    let var = || run.input_name_at(port, index).to_string();
    let last = tensor.lod().last().ok_or_else(|| Error::NoLod { op, port, var: var() })?;
    check_lod(tensor.lod(), tensor, var)?;
    Ok(last)
}

/// The offsets of a variable that must have one level.
pub(super) fn only_offsets<'r>(
    run: &'r Run<'_>,
    op: &'static str,
    port: &'static str,
) -> Result<&'r [usize]> {
    only_offsets_at(run, op, port, 0)
}

/// The offsets of the `index`-th variable at `port`, which must have one level.
pub(super) fn only_offsets_at<'r>(
    run: &'r Run<'_>,
    op: &'static str,
    port: &'static str,
    index: usize,
) -> Result<&'r [usize]> {
    let offsets = offsets_at(run, op, port, index)?;
    match run.input_at(port, index)?.lod().n_levels() {
        1 => Ok(offsets),
        actual => {
            let var = run.input_name_at(port, index).to_string();
            Err(Error::LodLevels { op, var, expected: 1, actual })
        }
    }
}

/// Fails, naming the variable, unless the offsets describe the rows of the tensor.
pub(super) fn check_lod(lod: &Lod, tensor: &Tensor, var: impl Fn() -> String) -> Result<()> {
    let n_rows = tensor.dims().first().copied().unwrap_or(0);
    lod.check(n_rows).map_err(|source| Error::InVar { var: var(), source: Box::new(source.into()) })
}

/// The elements at an input port, if there are exactly `len`.
pub(super) fn data_of_len<'r, T: Element>(
    run: &'r Run<'_>,
    port: &str,
    len: usize,
) -> Result<&'r [T]> {
    let data = run.data::<T>(port)?;
    if data.len() != len {
        return Err(run.shape("as many elements as the forward pass had are needed", port));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_sequences_for_reading_and_writing() {
        let mut tensor = Tensor::new([3, 2], &[1i32, 2, 3, 4, 5, 6]).unwrap();
        let offsets = [0, 1, 1, 3];
        let ragged = Ragged::<i32>::new(&tensor, &offsets).unwrap();
        assert_eq!(ragged.iter().collect::<Vec<_>>(), [&[1, 2][..], &[], &[3, 4, 5, 6]]);
        assert_eq!(ragged.get(2), [3, 4, 5, 6]);
        let sequences = each_mut(tensor.data_mut::<i32>().unwrap(), &offsets, 2);
        assert_eq!(sequences.map(|s| s.len()).collect::<Vec<_>>(), [2, 0, 4]);
    }
}
