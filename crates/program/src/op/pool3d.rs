//! `pool3d`: the largest or the average number of a box that slides over an image, NCDHW or NDHWC; the rules are
//! those of `pool2d`.

use std::ops::Range;

use tensor::{Float, Shape};

use super::layout::channels_last;
use super::moves::for_each_place;
use super::slide::{self, Slide};
use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Pool3d;
pub(super) struct Pool3dGrad;

const RANK: &str = "images need 5 dimensions";
const SMALL: &str = "the window must fit into the padded image";

#[derive(Clone, Copy)]
struct Boxes {
    last: bool,
    slides: [Slide; 3],
    adaptive: bool,
    exclusive: bool,
    largest: bool,
}

impl Boxes {
    /// How the boxes of these attributes lie in images of these dimensions.
    fn of(attrs: &Attrs, dims: [i64; 5]) -> Result<Self> {
        let last = channels_last(attrs, "data_format")?;
        let first = if last { 1 } else { 2 };
        let sizes = [dims[first], dims[first + 1], dims[first + 2]];
        let largest = match attrs.str("pooling_type", "max")? {
            "max" => true,
            "avg" => false,
            other => return Err(slide::bad("pooling_type", "max or avg", other.to_string())),
        };
        let exclusive = attrs.bool("exclusive", true)?;
        let adaptive = attrs.bool("adaptive", false)?;
        let whole = |size: i64, out: i64| {
            let out = if size < 0 && out != 1 { -1 } else { out };
            Slide { size, kernel: size, stride: 1, dilation: 1, out, ..Slide::default() }
        };
        let made = |slides, adaptive| Self { last, slides, adaptive, exclusive, largest };
        if attrs.bool("global_pooling", false)? {
            return Ok(made(sizes.map(|size| whole(size, 1)), true));
        }
        let said = attrs.ints("ksize")?;
        let kernels = match <[i64; 3]>::try_from(&said[..]) {
            Ok(kernels) if said.iter().all(|&size| size > 0) => kernels,
            _ => return Err(slide::bad("ksize", "three positive numbers", format!("{said:?}"))),
        };
        if adaptive {
            return Ok(made(std::array::from_fn(|d| whole(sizes[d], kernels[d])), true));
        }
        Ok(made(slide::slides(attrs, sizes, kernels)?, false))
    }

    fn first(&self) -> usize {
        if self.last { 1 } else { 2 }
    }

    fn output(&self, x: Shape) -> Shape {
        let sizes = self.slides.iter().enumerate();
        sizes.fold(x, |shape, (d, slide)| shape.with_dim(self.first() + d, slide.out as usize))
    }

    /// The numbers of a box along dimension `d`.
    fn range(&self, d: usize, place: usize) -> Range<usize> {
        let slide = self.slides[d];
        let (place, size) = (place as i64, slide.size);
        let (start, end) = if self.adaptive {
            (place * size / slide.out, ((place + 1) * size + slide.out - 1) / slide.out)
        } else {
            let start = place * slide.stride - slide.before;
            (start.max(0), (start + slide.kernel).min(size))
        };
        start as usize..end.max(start) as usize
    }

    /// Calls `f(place of the result, places of its box, what an average is divided by)`.
    fn for_each(&self, x: Shape, mut f: impl FnMut(usize, &[usize], f64)) {
        let first = self.first();
        let mut inside = Vec::new();
        for_each_place(self.output(x), |place, at| {
            let ranges: [Range<usize>; 3] = std::array::from_fn(|d| self.range(d, at[first + d]));
            inside.clear();
            let [deep, high, wide] = ranges;
            for d in deep {
                for h in high.clone() {
                    for w in wide.clone() {
                        let mut from = [at[0], at[1], at[2], at[3], at[4]];
                        from[first..first + 3].copy_from_slice(&[d, h, w]);
                        inside.push(super::moves::place_of(x, &from));
                    }
                }
            }
            let kernel: i64 = self.slides.iter().map(|slide| slide.kernel).product();
            let counted = self.exclusive || self.adaptive;
            let n = if counted { inside.len() as i64 } else { kernel };
            f(place, &inside, n.max(1) as f64);
        });
    }
}

impl Op for Pool3d {
    traits!(Rows("X"), "X": [F16, F32, F64, I32, I64]; knows_is_test);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("X")?;
        let Ok(dims) = <[i64; 5]>::try_from(&x.dims[..]) else {
            return Err(infer.shape(RANK, "X"));
        };
        let boxes = Boxes::of(infer.attrs(), dims)?;
        if boxes.slides.iter().any(|slide| slide.out == 0) {
            return Err(infer.shape(SMALL, "X"));
        }
        let mut out = dims;
        for (d, slide) in boxes.slides.iter().enumerate() {
            out[boxes.first() + d] = slide.out;
        }
        infer.set_output("Out", x.with_dims(out.to_vec()))
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let boxes = boxes(run)?;
        run.fill("Out", "X", |run, x, out| {
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, out) = (x.data::<T>()?, out.try_resize::<T>(boxes.output(x.shape()))?);
                boxes.for_each(x.shape(), |place, inside, n| {
                    out[place] = if boxes.largest {
                        // A box of padding alone is as low as can be, as in Fluid.
                        largest(data, inside).map_or(T::MIN, |at| data[at])
                    } else {
                        inside.iter().map(|&at| data[at]).sum::<T>() / n as T
                    };
                });
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).inputs(&["X"]).outputs(&["Out"]))
    }
}

fn boxes(run: &Run<'_>) -> Result<Boxes> {
    let &[a, b, c, d, e] = run.input("X")?.dims() else { return Err(run.shape(RANK, "X")) };
    let boxes = Boxes::of(run.attrs(), [a, b, c, d, e].map(|size| size as i64))?;
    if boxes.slides.iter().any(|slide| slide.out == 0 || slide.size == 0) {
        return Err(run.shape(SMALL, "X"));
    }
    Ok(boxes)
}

/// The place of the first of the largest numbers.
fn largest<T: Float>(x: &[T], places: &[usize]) -> Option<usize> {
    places.iter().copied().reduce(|best, at| if x[at] > x[best] { at } else { best })
}

/// dX gets dOut at the first of the largest numbers, or spread evenly over the box.
impl Kernel for Pool3dGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        dims::run_same(run, "Out", "Out@GRAD")?;
        let boxes = boxes(run)?;
        run.fill("X@GRAD", "X", |run, x, d_x| {
            if run.input("Out")?.shape() != boxes.output(x.shape()) {
                return Err(run.shapes("the output must be that of the input", "X", "Out"));
            }
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, d_out) = (x.data::<T>()?, run.data::<T>("Out@GRAD")?);
                let d_x = d_x.resize_zeroed::<T>(x.shape());
                boxes.for_each(x.shape(), |place, inside, n| {
                    if !boxes.largest {
                        inside.iter().for_each(|&at| d_x[at] += d_out[place] / n as T);
                    } else if let Some(at) = largest(data, inside) {
                        d_x[at] += d_out[place];
                    }
                });
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn pool(kind: &str) -> Check {
        let x: Vec<f64> = (1..=12).map(f64::from).collect();
        let op = check("pool3d").input("X", t(&[1, 1, 2, 2, 3], &x));
        op.attr("pooling_type", kind).attr("ksize", vec![2, 2, 2])
    }

    #[test]
    fn takes_the_largest_or_the_average() {
        pool("max").gives("Out", t(&[1, 1, 1, 1, 2], &[11.0, 12.0]));
        pool("avg").gives("Out", t(&[1, 1, 1, 1, 2], &[6.0, 7.0]));
        let whole = pool("avg").attr("global_pooling", true);
        whole.gives("Out", t(&[1, 1, 1, 1, 1], &[6.5]));
        let adaptive = pool("max").attr("adaptive", true).attr("ksize", vec![1, 1, 3]);
        adaptive.gives("Out", t(&[1, 1, 1, 1, 3], &[10.0, 11.0, 12.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for kind in ["max", "avg"] {
            let padded = pool(kind).attr("paddings", vec![1, 0, 1]).attr("strides", vec![2, 1, 2]);
            padded.output("Out").grad(&["X"]);
            let x: Vec<f64> = (0..24).map(|i| f64::from(i * 7 % 24)).collect();
            let last =
                check("pool3d").input("X", t(&[1, 2, 2, 3, 2], &x)).attr("pooling_type", kind);
            let last = last.attr("data_format", "NDHWC").attr("ksize", vec![2, 1, 2]);
            last.attr("exclusive", false)
                .attr("paddings", vec![0, 0, 1])
                .output("Out")
                .grad(&["X"]);
        }
    }

    #[test]
    fn refuses_unknown_kinds_and_other_ranks() {
        let error = pool("min").output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = check("pool3d").input("X", some(&[1, 1, 2, 2])).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
