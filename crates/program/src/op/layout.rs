//! How images lie in memory: channels before the pixels (NCHW) or after them (NHWC).

use tensor::{Element, Shape};

use super::slide::bad;
use crate::attr::Attrs;
use crate::error::Result;

/// Whether the channels come behind the pixels, by the attribute of this name, for images of any rank.
pub(super) fn channels_last(attrs: &Attrs, attr: &str) -> Result<bool> {
    match attrs.str(attr, "NCHW")? {
        "NCHW" | "NCDHW" | "AnyLayout" => Ok(false),
        "NHWC" | "NDHWC" => Ok(true),
        other => Err(bad(attr, "NCHW, NHWC, NCDHW or NDHWC", other.to_string())),
    }
}

/// Where the channels of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageLayout {
    /// NCHW.
    ChannelsFirst,
    /// NHWC.
    ChannelsLast,
}

impl ImageLayout {
    /// By the attribute `data_format`.
    pub(super) fn of(attrs: &Attrs) -> Result<Self> {
        let name = attrs.str("data_format", "NCHW")?;
        Self::named(name).ok_or_else(|| bad("data_format", "NCHW or NHWC", name.to_string()))
    }

    /// By its name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "NCHW" | "AnyLayout" => Some(ImageLayout::ChannelsFirst),
            "NHWC" => Some(ImageLayout::ChannelsLast),
            _ => None,
        }
    }

    /// Where the channels are among the dimensions.
    pub(crate) fn channel_axis(self) -> usize {
        match self {
            ImageLayout::ChannelsFirst => 1,
            ImageLayout::ChannelsLast => 3,
        }
    }

    /// Where the height is among the dimensions; the width follows it.
    pub(super) fn height_axis(self) -> usize {
        match self {
            ImageLayout::ChannelsFirst => 2,
            ImageLayout::ChannelsLast => 1,
        }
    }

    /// Images, channels, height and width of dimensions in this layout.
    pub(crate) fn nchw<T: Copy>(self, [a, b, c, d]: [T; 4]) -> [T; 4] {
        match self {
            ImageLayout::ChannelsFirst => [a, b, c, d],
            ImageLayout::ChannelsLast => [a, d, b, c],
        }
    }

    /// Dimensions in this layout of images, channels, height and width.
    pub(super) fn dims<T: Copy>(self, [n, c, h, w]: [T; 4]) -> [T; 4] {
        match self {
            ImageLayout::ChannelsFirst => [n, c, h, w],
            ImageLayout::ChannelsLast => [n, h, w, c],
        }
    }

    /// Where a channel begins, and how far apart its pixels are. `channel` counts those of all
    /// images, `n_channels` those of one.
    pub(super) fn plane(self, channel: usize, n_channels: usize, pixels: usize) -> Plane {
        match self {
            ImageLayout::ChannelsFirst => Plane { start: channel * pixels, step: 1 },
            ImageLayout::ChannelsLast => {
                let (n, c) = (channel / n_channels, channel % n_channels);
                Plane { start: n * n_channels * pixels + c, step: n_channels }
            }
        }
    }
}

/// The pixels of one channel of one image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    start: usize,
    step: usize,
}

impl Plane {
    /// The place of a pixel in the tensor.
    pub(super) fn at(self, pixel: usize) -> usize {
        self.start + pixel * self.step
    }
}

/// Moves the channels from behind the pixels to before them; `shape` is that of the result.
pub(super) fn channels_to_front<T: Element>(from: &[T], to: &mut [T], shape: Shape) {
    let (pixels, channels) = (shape.dim(2) * shape.dim(3), shape.dim(1));
    transpose_each(from, to, pixels, channels);
}

/// Moves the channels from before the pixels to behind them; `shape` is that of `from`.
pub(super) fn channels_to_back<T: Element>(from: &[T], to: &mut [T], shape: Shape) {
    let (pixels, channels) = (shape.dim(2) * shape.dim(3), shape.dim(1));
    transpose_each(from, to, channels, pixels);
}

/// Transposes each matrix of `rows` by `columns`.
pub(super) fn transpose_each<T: Element>(from: &[T], to: &mut [T], rows: usize, columns: usize) {
    let size = (rows * columns).max(1);
    for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
        for (row, values) in from.chunks_exact(columns).enumerate() {
            for (column, &value) in values.iter().enumerate() {
                to[column * rows + row] = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_move_and_come_back() {
        let shape = Shape::from([2, 3, 1, 2]);
        let last = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let (mut first, mut back) = ([0; 12], [0; 12]);
        channels_to_front(&last, &mut first, shape);
        assert_eq!(first, [1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12]);
        channels_to_back(&first, &mut back, shape);
        assert_eq!(back, last);
    }

    #[test]
    fn planes_of_both_layouts() {
        let first = ImageLayout::ChannelsFirst.plane(5, 3, 4);
        assert_eq!((first.at(0), first.at(3)), (20, 23));
        let last = ImageLayout::ChannelsLast.plane(5, 3, 4);
        assert_eq!((last.at(0), last.at(3)), (14, 23));
    }
}
