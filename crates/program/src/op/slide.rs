//! Windows that slide over an image: sizes, padding, and which pixel meets which tap.

use crate::attr::Attrs;
use crate::error::{Error, Result};

/// How a window slides along one dimension. A size of -1 is not known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slide {
    /// Pixels of the image.
    pub(super) size: i64,
    /// Taps of the window.
    pub(super) kernel: i64,
    pub(super) stride: i64,
    /// Distance of two taps.
    pub(super) dilation: i64,
    /// Padding before the first pixel.
    pub(super) before: i64,
    /// Padding behind the last pixel.
    pub(super) after: i64,
    /// Places of the window.
    pub(super) out: i64,
}

impl Slide {
    /// The pixel under a tap at a place of the window, unless it is padding.
    pub(super) fn pixel(&self, place: usize, tap: usize) -> Option<usize> {
        let at = place as i64 * self.stride - self.before + tap as i64 * self.dilation;
        (0 <= at && at < self.size).then_some(at as usize)
    }

    /// `asked` has the size, the window and its steps; the rest follows from the padding.
    fn new(asked: Self, padding: Padding, ceil: bool) -> Self {
        let Self { size, kernel, stride, mut dilation, .. } = asked;
        let (before, after) = match padding {
            Padding::Explicit(before, after) => (before, after),
            Padding::Same if size < 0 => (0, 0),
            Padding::Same => {
                dilation = 1;
                let total = ((size + stride - 1) / stride - 1) * stride + kernel - size;
                (total.max(0) / 2, total.max(0) - total.max(0) / 2)
            }
        };
        let free = size + before + after - (dilation * (kernel - 1) + 1);
        let out = match size {
            ..0 => -1,
            // Rounds towards zero as Fluid does: a window that misses by less than a stride has one
            // place, the rest of it on padding.
            _ => ((free + if ceil { stride - 1 } else { 0 }) / stride + 1).max(0),
        };
        Self { size, kernel, stride, dilation, before, after, out }
    }
}

/// The padding of an image along one dimension.
#[derive(Clone, Copy, Debug)]
enum Padding {
    Explicit(i64, i64),
    /// As much as keeps the size (divided by the stride).
    Same,
}

/// How the window of these attributes slides over an image with these sizes (height and width, say).
pub(super) fn slides<const N: usize>(
    attrs: &Attrs,
    sizes: [i64; N],
    kernels: [i64; N],
) -> Result<[Slide; N]> {
    let (strides, dilations) = (steps::<N>(attrs, "strides")?, steps::<N>(attrs, "dilations")?);
    let paddings = paddings::<N>(attrs)?;
    let ceil = attrs.bool("ceil_mode", false)?;
    if kernels.iter().any(|&kernel| kernel < 1) {
        return Err(bad("ksize", "positive", format!("{kernels:?}")));
    }
    Ok(std::array::from_fn(|d| {
        let (stride, dilation) = (strides[d], dilations[d]);
        let asked =
            Slide { size: sizes[d], kernel: kernels[d], stride, dilation, ..Slide::default() };
        Slide::new(asked, paddings[d], ceil)
    }))
}

/// A positive number for each dimension, 1 if absent.
fn steps<const N: usize>(attrs: &Attrs, name: &str) -> Result<[i64; N]> {
    let given = attrs.ints(name)?;
    match <[i64; N]>::try_from(&given[..]) {
        _ if given.is_empty() => Ok([1; N]),
        Ok(steps) if given.iter().all(|&step| step > 0) => Ok(steps),
        _ => Err(bad(name, "a positive number for each dimension", format!("{given:?}"))),
    }
}

fn paddings<const N: usize>(attrs: &Attrs) -> Result<[Padding; N]> {
    use Padding::{Explicit, Same};
    let given = attrs.ints("paddings")?;
    match attrs.str("padding_algorithm", "EXPLICIT")? {
        "SAME" => return Ok([Same; N]),
        "VALID" => return Ok([Explicit(0, 0); N]),
        _ => {}
    }
    match given.len() {
        _ if given.iter().any(|&padding| padding < 0) => {}
        0 => return Ok([Explicit(0, 0); N]),
        n if n == N => return Ok(std::array::from_fn(|d| Explicit(given[d], given[d]))),
        n if n == 2 * N => {
            return Ok(std::array::from_fn(|d| Explicit(given[2 * d], given[2 * d + 1])));
        }
        _ => {}
    }
    let expected = "one number or two for each dimension, none below 0";
    Err(bad("paddings", expected, format!("{given:?}")))
}

pub(super) fn bad(attr: &str, expected: &str, actual: String) -> Error {
    Error::BadAttr { attr: attr.to_string(), expected: expected.to_string(), actual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(attrs: &[(&str, Vec<i32>)], size: i64, kernel: i64, out: i64) {
        let mut all = Attrs::default();
        attrs.iter().for_each(|(name, value)| all.set(name, value.clone()));
        assert_eq!(slides(&all, [size; 2], [kernel; 2]).unwrap()[0].out, out);
    }

    #[test]
    fn counts_places() {
        check(&[], 5, 3, 3);
        check(&[("strides", vec![2, 2]), ("paddings", vec![1, 1])], 5, 3, 3);
        check(&[("paddings", vec![1, 0, 0, 0])], 5, 3, 4);
        check(&[("dilations", vec![2, 2])], 5, 3, 1);
        check(&[], 2, 3, 0);
        check(&[("strides", vec![2, 2])], 2, 3, 1);
        check(&[("strides", vec![2, 2])], 1, 3, 0);
        check(&[], -1, 3, -1);
    }

    #[test]
    fn same_keeps_the_size() {
        let mut attrs = Attrs::default();
        attrs.set("padding_algorithm", "SAME");
        attrs.set("strides", vec![2, 1]);
        let [h, w] = slides(&attrs, [6, 6], [3, 3]).unwrap();
        assert_eq!((h.out, h.before, w.out, w.before), (3, 0, 6, 1));
    }

    #[test]
    fn refuses_bad_attributes() {
        for (name, value) in
            [("strides", vec![0, 1]), ("paddings", vec![-1, 0]), ("dilations", vec![1])]
        {
            let mut attrs = Attrs::default();
            attrs.set(name, value);
            assert!(matches!(slides(&attrs, [4, 4], [2, 2]), Err(Error::BadAttr { .. })), "{name}");
        }
    }
}
