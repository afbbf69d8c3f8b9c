//! A batch cut into parts for several devices, and what they computed put together again.

use tensor::{Lod, Tensor};

use crate::error::{Error, Result};
use crate::executor::Feed;

/// Cuts a feed for `n` devices: each gets `ceil(size / n)` rows, or sequences if there are any, and
/// the last one what is left.
///
/// A feed that `is_state` calls a variable of the model goes whole to every device if it cannot be
/// cut. Fewer parts than devices are an error unless `partial`: then the other devices stay idle.
pub fn split(
    feed: &Feed,
    n: usize,
    partial: bool,
    is_state: impl Fn(&str) -> bool,
) -> Result<Vec<Feed>> {
    let mut parts: Vec<Feed> = Vec::new();
    let mut whole: Vec<(&str, &Tensor)> = Vec::new();
    for (name, tensor) in feed.names().zip(feed.tensors()) {
        let pieces = pieces(tensor, n);
        if pieces.len() == 1 && is_state(name) {
            whole.push((name, tensor));
            continue;
        }
        let agree = parts.is_empty() || parts.len() == pieces.len();
        if (pieces.len() < n && !partial) || !agree {
            let (var, parts) = (name.to_string(), pieces.len());
            return Err(Error::TooFewSamples { var, parts, devices: n });
        }
        parts.resize_with(pieces.len(), Feed::new);
        for (part, piece) in parts.iter_mut().zip(pieces) {
            part.set(name, piece);
        }
    }
    if parts.is_empty() {
        parts.resize_with(n, Feed::new);
    }
    for part in &mut parts {
        whole.iter().for_each(|(name, tensor)| part.set(name, Tensor::clone(tensor)));
    }
    Ok(parts)
}

/// The parts of one tensor; an empty one is as empty for each device.
fn pieces(tensor: &Tensor, n: usize) -> Vec<Tensor> {
    let n_rows = tensor.dims().first().copied().unwrap_or(0);
    let first_level = tensor.lod().levels().first();
    let size = first_level.map_or(n_rows, |offsets| offsets.len().saturating_sub(1));
    if size == 0 {
        return vec![tensor.clone(); n];
    }
    let width = size.div_ceil(n);
    (0..size).step_by(width).map(|start| piece(tensor, start, (start + width).min(size))).collect()
}

/// Rows or sequences `start..end`.
fn piece(tensor: &Tensor, mut start: usize, mut end: usize) -> Tensor {
    let mut levels = Vec::with_capacity(tensor.lod().n_levels());
    for offsets in tensor.lod().levels() {
        let inside = &offsets[start..=end];
        levels.push(inside.iter().map(|offset| offset - inside[0]).collect());
        (start, end) = (offsets[start], offsets[end]);
    }
    let row_bytes = tensor.bytes().len() / tensor.dims()[0].max(1);
    let mut piece = Tensor::default();
    piece.resize_as(tensor.dtype(), tensor.shape().with_dim(0, end - start));
    piece.bytes_mut().copy_from_slice(&tensor.bytes()[start * row_bytes..end * row_bytes]);
    if !levels.is_empty() {
        piece.set_lod(Lod::from_offsets(levels));
    }
    piece
}

/// The values of a variable on all devices, one after the other.
pub fn join(var: &str, parts: &[Tensor]) -> Result<Tensor> {
    let Some(first) = parts.first() else { return Ok(Tensor::default()) };
    let tail = |tensor: &Tensor| tensor.dims().iter().skip(1).copied().collect::<Vec<_>>();
    for part in parts {
        if part.dtype() != first.dtype() || tail(part) != tail(first) {
            let (left, right) = (first.shape().to_i64(), part.shape().to_i64());
            return Err(Error::CannotMerge { var: var.to_string(), left, right });
        }
    }
    let n_rows = parts.iter().map(|part| part.dims().first().copied().unwrap_or(0)).sum();
    let mut whole = Tensor::default();
    whole.resize_as(first.dtype(), first.shape().with_dim(0, n_rows));
    let mut rest = whole.bytes_mut();
    for part in parts {
        let (own, others) = rest.split_at_mut(part.bytes().len());
        own.copy_from_slice(part.bytes());
        rest = others;
    }
    if !first.lod().is_empty() {
        whole.set_lod(join_lods(parts));
    }
    Ok(whole)
}

fn join_lods(parts: &[Tensor]) -> Lod {
    let n_levels = parts.iter().map(|part| part.lod().n_levels()).max().unwrap_or(0);
    let mut lengths = vec![Vec::new(); n_levels];
    for part in parts {
        let own = part.lod().lengths();
        lengths.iter_mut().zip(own).for_each(|(level, own)| level.extend(own));
    }
    Lod::from_recursive_lengths(&lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize) -> Feed {
        let data: Vec<f32> = (0..n * 2).map(|x| x as f32).collect();
        Feed::new().with("x", Tensor::new([n, 2], &data).unwrap())
    }

    #[track_caller]
    fn check(n_rows: usize, n: usize, expected: &[usize]) {
        let parts = split(&rows(n_rows), n, true, |_| false).unwrap();
        let sizes = parts.iter().flat_map(Feed::tensors).map(|part| part.dims()[0]);
        assert_eq!(sizes.collect::<Vec<_>>(), expected);
        let tensors: Vec<Tensor> = parts.iter().flat_map(Feed::tensors).cloned().collect();
        assert_eq!(&join("x", &tensors).unwrap(), rows(n_rows).tensors().next().unwrap());
    }

    #[test]
    fn parts_are_as_wide_as_in_fluid() {
        check(5, 2, &[3, 2]);
        check(7, 3, &[3, 3, 1]);
        check(10, 4, &[3, 3, 3, 1]);
        check(4, 3, &[2, 2]);
        check(1, 2, &[1]);
    }

    #[test]
    fn sequences_are_not_cut() {
        let mut words = Tensor::new([6, 1], &[0i64, 1, 2, 3, 4, 5]).unwrap();
        words.set_lod(Lod::from_recursive_lengths(&[vec![1, 2], vec![1, 2, 3]]));
        let feed = Feed::new().with("w", words.clone());
        let parts = split(&feed, 2, false, |_| false).unwrap();
        let tensors: Vec<Tensor> = parts.iter().flat_map(Feed::tensors).cloned().collect();
        assert_eq!(tensors[0].lod().lengths(), [vec![1], vec![1]]);
        assert_eq!(tensors[1].lod().lengths(), [vec![2], vec![2, 3]]);
        assert_eq!(tensors[1].data::<i64>().unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(join("w", &tensors).unwrap(), words);
    }

    #[test]
    fn too_few_samples_are_named() {
        let error = split(&rows(4), 3, false, |_| false).unwrap_err();
        let expected = "The number(2) of samples[x] of current batch is less than the count(3) of \
                        devices(CPU)";
        assert!(error.to_string().starts_with(expected), "{error}");
    }

    #[test]
    fn a_fed_parameter_goes_to_every_device() {
        let feed = rows(4).with("b", Tensor::full([1], 2.0f32));
        let parts = split(&feed, 2, false, |name| name == "b").unwrap();
        assert!(parts.iter().all(|part| part.names().eq(["x", "b"])));
        let refused = split(&feed, 2, false, |_| false).unwrap_err();
        assert!(matches!(refused, Error::TooFewSamples { parts: 1, .. }), "{refused}");
    }

    #[test]
    fn different_widths_do_not_join() {
        let parts = [Tensor::full([3, 2], 1.0f32), Tensor::full([3, 3], 1.0f32)];
        assert!(matches!(join("x", &parts), Err(Error::CannotMerge { .. })));
    }
}
