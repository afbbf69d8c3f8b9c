//! Ops that only exchange the places of an image's numbers, NCHW:
//!
//! `pixel_shuffle`: `upscale_factor`² channels become a block of pixels. `space_to_depth`: blocks of pixels become
//! channels, in the order of Fluid. `shuffle_channel`: channels of `group` groups take turns.
//! `temporal_shift`: of `seg_num` images in a row, a share of the channels comes from the image before, another from
//! the image behind.

use tensor::Shape;

use super::moves::{Moves, moves, place_of};
use super::sizes::bad_attr;
use super::{Infer, Run};
use crate::attr::Attrs;
use crate::error::Result;

moves! { PixelShuffle, PixelShuffleGrad: "X" -> "Out", reads ["X"];
    traits(Rows("X"), "X": [F32, F64]); infer_shuffle; plan_shuffle
}

moves! { SpaceToDepth, SpaceToDepthGrad: "X" -> "Out", reads ["X"];
    traits(Rows("X"), "X": [F16, F32, F64, I32, I64]); infer_depth; plan_depth
}

moves! { ShuffleChannel, ShuffleChannelGrad: "X" -> "Out", reads ["X"];
    traits(Rows("X")); infer_channel; plan_channel
}

moves! { TemporalShift, TemporalShiftGrad: "X" -> "Out", reads ["X"];
    traits(Never, "X": [F32, F64]); infer_shift; plan_shift
}

const RANK: &str = "images need 4 dimensions";

fn four(infer: &Infer<'_>) -> Result<[i64; 4]> {
    let x = infer.input("X")?;
    <[i64; 4]>::try_from(&x.dims[..]).map_err(|_| infer.shape(RANK, "X"))
}

fn shape(run: &Run<'_>) -> Result<Shape> {
    let x = run.input("X")?.shape();
    if x.rank() == 4 { Ok(x) } else { Err(run.shape(RANK, "X")) }
}

/// A positive attribute.
fn positive(attrs: &Attrs, attr: &str, usual: i64) -> Result<i64> {
    match attrs.int(attr, usual)? {
        // Its square is a size.
        value @ 1..=65536 => Ok(value),
        other => Err(bad_attr(attr, "positive", other)),
    }
}

/// A size divided by a factor; none unless it can be.
fn divided(size: i64, by: i64) -> Option<i64> {
    match size {
        ..0 => Some(-1),
        _ => (size % by == 0).then_some(size / by),
    }
}

/// A size times a factor.
fn times(size: i64, by: i64) -> i64 {
    if size < 0 { -1 } else { size.saturating_mul(by) }
}

fn shuffled(attrs: &Attrs, [n, c, h, w]: [i64; 4]) -> Result<[i64; 4]> {
    let r = positive(attrs, "upscale_factor", 1)?;
    let wrong = || bad_attr("upscale_factor", "a number whose square divides the channels", r);
    Ok([n, divided(c, r * r).ok_or_else(wrong)?, times(h, r), times(w, r)])
}

fn infer_shuffle(infer: &mut Infer<'_>) -> Result<()> {
    let dims = shuffled(infer.attrs(), four(infer)?)?;
    let x = infer.input("X")?;
    infer.set_output("Out", x.with_dims(dims.to_vec()))
}

fn to_four(x: Shape) -> [i64; 4] {
    [x.dim(0), x.dim(1), x.dim(2), x.dim(3)].map(|size| size as i64)
}

/// An image, its result, and a factor.
struct PixelBlocks {
    x: Shape,
    out: Shape,
    r: usize,
}

struct Shuffle(PixelBlocks);

fn plan_shuffle(run: &Run<'_>) -> Result<Shuffle> {
    let x = shape(run)?;
    let out = Shape::from_dims(&shuffled(run.attrs(), to_four(x))?)?;
    Ok(Shuffle(PixelBlocks { x, out, r: positive(run.attrs(), "upscale_factor", 1)? as usize }))
}

impl Moves for Shuffle {
    fn shape(&self) -> Shape {
        self.0.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let r = self.0.r;
        let channel = at[1] * r * r + at[2] % r * r + at[3] % r;
        Some(place_of(self.0.x, &[at[0], channel, at[2] / r, at[3] / r]))
    }
}

fn deepened(attrs: &Attrs, [n, c, h, w]: [i64; 4]) -> Result<[i64; 4]> {
    let r = positive(attrs, "blocksize", 2)?;
    let wrong = || bad_attr("blocksize", "one that divides the sizes, its square the channels", r);
    if r < 2 {
        return Err(bad_attr("blocksize", "greater than 1", r));
    }
    divided(c, r * r).ok_or_else(wrong)?;
    let (h, w) = (divided(h, r).ok_or_else(wrong)?, divided(w, r).ok_or_else(wrong)?);
    Ok([n, times(c, r * r), h, w])
}

fn infer_depth(infer: &mut Infer<'_>) -> Result<()> {
    let dims = deepened(infer.attrs(), four(infer)?)?;
    let x = infer.input("X")?;
    infer.set_output("Out", x.with_dims(dims.to_vec()))
}

struct Depth(PixelBlocks);

fn plan_depth(run: &Run<'_>) -> Result<Depth> {
    let x = shape(run)?;
    let out = Shape::from_dims(&deepened(run.attrs(), to_four(x))?)?;
    Ok(Depth(PixelBlocks { x, out, r: positive(run.attrs(), "blocksize", 2)? as usize }))
}

impl Moves for Depth {
    fn shape(&self) -> Shape {
        self.0.out
    }

    /// Fluid writes the result as images of fewer channels and more pixels, and gives it the other shape.
    fn source(&self, at: &[usize]) -> Option<usize> {
        let PixelBlocks { x, out, r } = self.0;
        let place = place_of(out, at);
        let (h, w) = (x.dim(2) * r, x.dim(3) * r);
        let channels = x.dim(1) / (r * r);
        let (column, row) = (place % w, place / w % h);
        let (channel, image) = (place / (w * h) % channels, place / (w * h * channels));
        let block = row % r * r + column % r;
        Some(place_of(x, &[image, block * channels + channel, row / r, column / r]))
    }
}

fn infer_channel(infer: &mut Infer<'_>) -> Result<()> {
    let [_, c, ..] = four(infer)?;
    groups(infer.attrs(), c)?;
    let x = infer.input("X")?;
    infer.set_output("Out", x)
}

fn groups(attrs: &Attrs, c: i64) -> Result<i64> {
    let groups = positive(attrs, "group", 1)?;
    divided(c, groups).ok_or_else(|| bad_attr("group", "a divisor of the channels", groups))?;
    Ok(groups)
}

struct Channel {
    x: Shape,
    groups: usize,
}

fn plan_channel(run: &Run<'_>) -> Result<Channel> {
    let x = shape(run)?;
    Ok(Channel { x, groups: groups(run.attrs(), x.dim(1) as i64)? as usize })
}

impl Moves for Channel {
    fn shape(&self) -> Shape {
        self.x
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let in_group = self.x.dim(1) / self.groups;
        let channel = at[1] % self.groups * in_group + at[1] / self.groups;
        Some(place_of(self.x, &[at[0], channel, at[2], at[3]]))
    }
}

fn segments(attrs: &Attrs, n: i64) -> Result<(i64, f32)> {
    let segments = positive(attrs, "seg_num", 1)?;
    divided(n, segments).ok_or_else(|| bad_attr("seg_num", "a divisor of the images", segments))?;
    let share = attrs.float("shift_ratio", 0.25)?;
    if !(share > 0.0 && share < 0.5) {
        return Err(bad_attr("shift_ratio", "between 0 and 0.5", share));
    }
    Ok((segments, share))
}

fn infer_shift(infer: &mut Infer<'_>) -> Result<()> {
    let [n, ..] = four(infer)?;
    segments(infer.attrs(), n)?;
    let x = infer.input("X")?;
    infer.set_output("Out", x)
}

struct Shift {
    x: Shape,
    segments: usize,
    /// Channels before this come from the image before, those before the other from the image behind.
    before: usize,
    behind: usize,
}

fn plan_shift(run: &Run<'_>) -> Result<Shift> {
    let x = shape(run)?;
    let (segments, share) = segments(run.attrs(), x.dim(0) as i64)?;
    let c = x.dim(1) as f32;
    let (before, behind) = ((c * share) as usize, (c * 2.0 * share) as usize);
    Ok(Shift { x, segments: segments as usize, before, behind })
}

impl Moves for Shift {
    fn shape(&self) -> Shape {
        self.x
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let segment = at[0] % self.segments;
        let image = match at[1] {
            c if c < self.before => (segment > 0).then(|| at[0] - 1)?,
            c if c < self.behind => (segment + 1 < self.segments).then_some(at[0] + 1)?,
            _ => at[0],
        };
        Some(place_of(self.x, &[image, at[1], at[2], at[3]]))
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn numbers(kind: &str, dims: &[usize]) -> Check {
        let n: usize = dims.iter().product();
        check(kind).input("X", t(dims, &(0..n).map(|i| i as f64).collect::<Vec<_>>()))
    }

    #[test]
    fn channels_become_pixels() {
        let op = numbers("pixel_shuffle", &[1, 4, 1, 2]).attr("upscale_factor", 2);
        op.gives("Out", t(&[1, 1, 2, 4], &[0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]));
    }

    #[test]
    fn channels_take_turns() {
        let op = numbers("shuffle_channel", &[1, 4, 1, 1]).attr("group", 2);
        op.gives("Out", t(&[1, 4, 1, 1], &[0.0, 2.0, 1.0, 3.0]));
    }

    #[test]
    fn channels_move_in_time() {
        let op = numbers("temporal_shift", &[2, 4, 1, 1]).attr("seg_num", 2);
        op.gives("Out", t(&[2, 4, 1, 1], &[0.0, 5.0, 2.0, 3.0, 0.0, 0.0, 6.0, 7.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let grad = |check: Check| check.output("Out").grad(&["X"]);
        grad(check("pixel_shuffle").input("X", some(&[2, 4, 1, 2])).attr("upscale_factor", 2));
        grad(check("space_to_depth").input("X", some(&[1, 4, 2, 4])).attr("blocksize", 2i64));
        grad(check("shuffle_channel").input("X", some(&[1, 6, 1, 2])).attr("group", 3));
        grad(check("temporal_shift").input("X", some(&[4, 4, 1, 2])).attr("seg_num", 2));
    }

    #[test]
    fn refuses_factors_that_do_not_fit() {
        for bad in [
            check("pixel_shuffle").input("X", some(&[1, 3, 1, 1])).attr("upscale_factor", 2),
            check("space_to_depth").input("X", some(&[1, 4, 3, 2])),
            check("shuffle_channel").input("X", some(&[1, 3, 1, 1])).attr("group", 2),
            check("temporal_shift").input("X", some(&[3, 2, 1, 1])).attr("seg_num", 2),
        ] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        let error = check("pixel_shuffle").input("X", some(&[4])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
