//! `pad2d`: Out = the images of X with something around them: a number, the mirrored image, or its edge.
//!
//! `pad_constant_like`: Out = Y in the shape of X, a number behind it. Gradients: dOut at the places that the
//! numbers came from.

use tensor::Shape;

use super::layout::ImageLayout;
use super::moves::{Moves, moves, place_of};
use super::sizes::{self, bad_attr};
use super::{Infer, Run};
use crate::attr::Attrs;
use crate::error::Result;

moves! { Pad2d, Pad2dGrad: "X" -> "Out", reads ["X", "Paddings"];
    traits(Rows("X"), "X": [F16, F32, F64, I32, I64]); infer_pad; plan_pad
}

moves! { PadConstantLike, PadConstantLikeGrad: "Y" -> "Out", reads ["X", "Y"];
    traits(Never, "Y": [F32, F64, I32, I64]); infer_like; plan_like
}

const RANK: &str = "images need 4 dimensions";
const FITS: &str = "Y must have X's rank and be nowhere larger";

/// What is put around an image.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Constant,
    Reflect,
    Edge,
}

fn around(attrs: &Attrs) -> Result<Around> {
    match attrs.str("mode", "constant")? {
        "constant" => Ok(Around::Constant),
        "reflect" => Ok(Around::Reflect),
        "edge" => Ok(Around::Edge),
        other => Err(bad_attr("mode", "constant, reflect or edge", other)),
    }
}

/// Top, bottom, left and right.
fn four(paddings: &[i64]) -> Result<[i64; 4]> {
    match <[i64; 4]>::try_from(paddings) {
        Ok(four) if four.iter().all(|&padding| padding >= 0) => Ok(four),
        _ => Err(bad_attr("paddings", "four numbers, none below 0", paddings)),
    }
}

fn check_reflect(around: Around, sizes: [i64; 2], four: [i64; 4]) -> Result<()> {
    let [top, bottom, left, right] = four;
    let fits = |size: i64, padding: i64| size < 0 || padding < size;
    let fit = fits(sizes[0], top.max(bottom)) && fits(sizes[1], left.max(right));
    if around == Around::Reflect && !fit {
        return Err(bad_attr("paddings", "smaller than the image where it is mirrored", four));
    }
    Ok(())
}

fn infer_pad(infer: &mut Infer<'_>) -> Result<()> {
    let (x, attrs) = (infer.input("X")?, infer.attrs());
    let Ok(dims) = <[i64; 4]>::try_from(&x.dims[..]) else { return Err(infer.shape(RANK, "X")) };
    let (layout, mode) = (ImageLayout::of(attrs)?, around(attrs)?);
    let [n, c, h, w] = layout.nchw(dims);
    let (mut height, mut width) = (-1, -1);
    if infer.op().input_names("Paddings").is_empty() {
        let paddings = four(&attrs.ints("paddings")?)?;
        check_reflect(mode, [h, w], paddings)?;
        let [top, bottom, left, right] = paddings;
        let padded = |size: i64, more: i64| if size < 0 { -1 } else { size.saturating_add(more) };
        height = padded(h, top.saturating_add(bottom));
        width = padded(w, left.saturating_add(right));
    }
    infer.set_output("Out", x.with_dims(layout.dims([n, c, height, width]).to_vec()))
}

struct Pad {
    x: Shape,
    out: Shape,
    height: usize,
    around: Around,
    top: i64,
    left: i64,
    value: f64,
}

fn plan_pad(run: &Run<'_>) -> Result<Pad> {
    let (attrs, x) = (run.attrs(), run.input("X")?.shape());
    if x.rank() != 4 {
        return Err(run.shape(RANK, "X"));
    }
    let (layout, around) = (ImageLayout::of(attrs)?, around(attrs)?);
    let said = match sizes::integers_at(run, "Paddings")? {
        Some(said) => said,
        None => attrs.ints("paddings")?,
    };
    let paddings = four(&said)?;
    let height = layout.height_axis();
    let (h, w) = (x.dim(height) as i64, x.dim(height + 1) as i64);
    check_reflect(around, [h, w], paddings)?;
    if around == Around::Edge && (h == 0 || w == 0) {
        return Err(run.shape("an image without pixels has no edge", "X"));
    }
    let [top, bottom, left, right] = paddings;
    let mut dims = x.to_i64();
    dims[height] = h.saturating_add(top).saturating_add(bottom);
    dims[height + 1] = w.saturating_add(left).saturating_add(right);
    let value = f64::from(attrs.float("pad_value", 0.0)?);
    Ok(Pad { x, out: Shape::from_dims(&dims)?, height, around, top, left, value })
}

impl Pad {
    /// The pixel that is seen at a place along a dimension.
    fn pixel(&self, at: usize, before: i64, size: usize) -> Option<usize> {
        let (at, last) = (at as i64 - before, size as i64 - 1);
        match self.around {
            _ if (0..=last).contains(&at) => Some(at as usize),
            Around::Constant => None,
            Around::Edge => Some(at.clamp(0, last) as usize),
            Around::Reflect => Some(at.abs().min(2 * last - at.abs()) as usize),
        }
    }
}

impl Moves for Pad {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let mut from = [at[0], at[1], at[2], at[3]];
        let (h, w) = (self.height, self.height + 1);
        from[h] = self.pixel(at[h], self.top, self.x.dim(h))?;
        from[w] = self.pixel(at[w], self.left, self.x.dim(w))?;
        Some(place_of(self.x, &from))
    }

    fn fill(&self) -> f64 {
        self.value
    }
}

fn infer_like(infer: &mut Infer<'_>) -> Result<()> {
    let (x, y) = (infer.input("X")?, infer.input("Y")?);
    let fits = |(&x, &y): (&i64, &i64)| x < 0 || y <= x;
    if x.dims.len() != y.dims.len() || !x.dims.iter().zip(&y.dims).all(fits) {
        return Err(infer.shapes(FITS, "X", "Y"));
    }
    infer.set_output("Out", y.with_dims(x.dims))
}

struct Like {
    y: Shape,
    out: Shape,
    value: f64,
}

fn plan_like(run: &Run<'_>) -> Result<Like> {
    let (out, y) = (run.input("X")?.shape(), run.input("Y")?.shape());
    let fits = |(&x, &y): (&usize, &usize)| y <= x;
    if out.rank() != y.rank() || !out.dims().iter().zip(y.dims()).all(fits) {
        return Err(run.shapes(FITS, "X", "Y"));
    }
    Ok(Like { y, out, value: f64::from(run.attrs().float("pad_value", 0.0)?) })
}

impl Moves for Like {
    fn shape(&self) -> Shape {
        self.out
    }

    fn source(&self, at: &[usize]) -> Option<usize> {
        let is_inside = at.iter().zip(self.y.dims()).all(|(&i, &size)| i < size);
        is_inside.then(|| place_of(self.y, at))
    }

    fn fill(&self) -> f64 {
        self.value
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, ids, some, t};

    fn pad(mode: &str, paddings: &[i32]) -> Check {
        let op = check("pad2d").input("X", t(&[1, 1, 1, 3], &[1.0, 2.0, 3.0]));
        op.attr("mode", mode).attr("paddings", paddings.to_vec()).attr("pad_value", 9.0f32)
    }

    #[test]
    fn all_that_may_be_around() {
        pad("constant", &[0, 0, 1, 2])
            .gives("Out", t(&[1, 1, 1, 6], &[9.0, 1.0, 2.0, 3.0, 9.0, 9.0]));
        pad("edge", &[0, 0, 1, 2]).gives("Out", t(&[1, 1, 1, 6], &[1.0, 1.0, 2.0, 3.0, 3.0, 3.0]));
        pad("reflect", &[0, 0, 1, 2])
            .gives("Out", t(&[1, 1, 1, 6], &[2.0, 1.0, 2.0, 3.0, 2.0, 1.0]));
        let op = pad("constant", &[]).input("Paddings", ids(&[4], &[1, 0, 0, 0]));
        op.gives("Out", t(&[1, 1, 2, 3], &[9.0, 9.0, 9.0, 1.0, 2.0, 3.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for mode in ["constant", "edge", "reflect"] {
            let op = check("pad2d").input("X", some(&[1, 3, 2, 2])).attr("data_format", "NHWC");
            op.attr("mode", mode).attr("paddings", vec![1, 2, 0, 1]).output("Out").grad(&["X"]);
        }
    }

    #[test]
    fn a_shape_of_another() {
        let like = || check("pad_constant_like").input("X", some(&[2, 3]));
        let op = like().input("Y", t(&[1, 2], &[1.0, 2.0])).attr("pad_value", 7.0f32);
        op.gives("Out", t(&[2, 3], &[1.0, 2.0, 7.0, 7.0, 7.0, 7.0]));
        like().input("Y", some(&[2, 2])).output("Out").grad(&["Y"]);
        let error = like().input("Y", some(&[3, 1])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }

    #[test]
    fn refuses_bad_paddings_and_modes() {
        for bad in [pad("reflect", &[0, 0, 3, 0]), pad("mirror", &[0; 4]), pad("edge", &[1, 2])] {
            let error = bad.output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
    }
}
