//! `conv2d`: Output = Input convolved with Filter, NCHW or NHWC; `depthwise_conv2d` is the same.
//!
//! Filter is [out channels, in channels / groups, height, width] in both layouts. Each image is laid
//! out as a matrix of taps by places (im2col) and multiplied; channels that come last are moved to
//! the front for that, and back.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape, Tensor};

use super::layout::{ImageLayout, channels_to_back, channels_to_front};
use super::slide::{self, Slide};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

pub(super) struct Conv2d;
pub(super) struct Conv2dGrad;
pub(super) struct DepthwiseConv2d;
pub(super) struct DepthwiseConv2dGrad;

const RANK: &str = "images and filters need 4 dimensions";
const CHANNELS: &str = "a filter needs the channels of its group, and groups must divide both";
const SMALL: &str = "the filter must fit into the padded image";

fn infer(infer: &mut Infer<'_>) -> Result<()> {
    let (x, filter) = (infer.input("Input")?, infer.input("Filter")?);
    let (Ok(dims), &[m, c_group, kh, kw]) = (<[i64; 4]>::try_from(&x.dims[..]), &filter.dims[..])
    else {
        return Err(infer.shapes(RANK, "Input", "Filter"));
    };
    let layout = ImageLayout::of(infer.attrs())?;
    let [n, c, h, w] = layout.nchw(dims);
    let groups = groups(infer.attrs())?;
    if (c >= 0 && c != c_group * groups) || m % groups != 0 {
        return Err(infer.shapes(CHANNELS, "Input", "Filter"));
    }
    let [h, w] = slide::slides(infer.attrs(), [h, w], [kh, kw])?;
    if h.out == 0 || w.out == 0 {
        return Err(infer.shapes(SMALL, "Input", "Filter"));
    }
    let out = layout.dims([n, m, h.out, w.out]);
    infer.set_output("Output", x.with_dims(out.to_vec()))
}

fn groups(attrs: &Attrs) -> Result<i64> {
    match attrs.int("groups", 1)? {
        groups @ 1.. => Ok(groups),
        other => Err(slide::bad("groups", "positive", other.to_string())),
    }
}

/// One group of one image.
struct GroupRange {
    /// Its number.
    group: usize,
    /// Where it is in the input.
    x_at: std::ops::Range<usize>,
    out_at: std::ops::Range<usize>,
}

/// The sizes of one convolution.
#[derive(Clone, Copy)]
struct ConvSizes {
    layout: ImageLayout,
    n_images: usize,
    groups: usize,
    /// In channels of a group.
    c: usize,
    /// Out channels of a group.
    m: usize,
    h: Slide,
    w: Slide,
}

impl ConvSizes {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, filter) = (run.input("Input")?, run.input("Filter")?);
        let (Ok(dims), &[m, c_group, kh, kw]) = (<[usize; 4]>::try_from(x.dims()), filter.dims())
        else {
            return Err(run.shapes(RANK, "Input", "Filter"));
        };
        let layout = ImageLayout::of(run.attrs())?;
        let [n_images, c, h, w] = layout.nchw(dims);
        let groups = groups(run.attrs())? as usize;
        if c != c_group * groups || m % groups != 0 {
            return Err(run.shapes(CHANNELS, "Input", "Filter"));
        }
        let [h, w] = slide::slides(run.attrs(), [h as i64, w as i64], [kh as i64, kw as i64])?;
        if h.out == 0 || w.out == 0 {
            return Err(run.shapes(SMALL, "Input", "Filter"));
        }
        Ok(Self { layout, n_images, groups, c: c_group, m: m / groups, h, w })
    }

    /// Taps of a group: the rows of its matrix.
    fn taps(&self) -> usize {
        self.c * (self.h.kernel * self.w.kernel) as usize
    }

    /// Places of the window: the columns of the matrix.
    fn places(&self) -> usize {
        (self.h.out * self.w.out) as usize
    }

    /// The shape of the matrix.
    fn columns(&self) -> Shape {
        Shape::from([self.taps(), self.places()])
    }

    /// Pixels of the channels of a group.
    fn pixels(&self) -> usize {
        self.c * (self.h.size * self.w.size) as usize
    }

    /// The shape of Input with its channels first.
    fn input(&self) -> Shape {
        let (h, w) = (self.h.size as usize, self.w.size as usize);
        Shape::from([self.n_images, self.groups * self.c, h, w])
    }

    /// The shape of Output with its channels first.
    fn output(&self) -> Shape {
        let (h, w) = (self.h.out as usize, self.w.out as usize);
        Shape::from([self.n_images, self.groups * self.m, h, w])
    }

    /// A shape of channels first as variables have it.
    fn stored(&self, first: Shape) -> Shape {
        Shape::from(self.layout.dims([first.dim(0), first.dim(1), first.dim(2), first.dim(3)]))
    }

    /// The numbers of a variable with its channels first, moved into `memory` if need be.
    fn front<'a, T: Float>(&self, data: &'a [T], first: Shape, memory: &'a mut Tensor) -> &'a [T] {
        if self.layout == ImageLayout::ChannelsFirst {
            return data;
        }
        let moved = memory.resize::<T>(first);
        channels_to_front(data, moved, first);
        moved
    }

    /// Gives `tensor`, of channels first, the layout of variables; `memory` is what it moves with.
    fn store<T: Float>(&self, tensor: &mut Tensor, memory: &mut Tensor) -> Result<()> {
        if self.layout == ImageLayout::ChannelsFirst {
            return Ok(());
        }
        let first = tensor.shape();
        let moved = memory.resize::<T>(self.stored(first));
        channels_to_back(tensor.data::<T>()?, moved, first);
        std::mem::swap(tensor, memory);
        Ok(())
    }

    /// Each group of each image.
    fn blocks(self) -> impl Iterator<Item = GroupRange> {
        let (pixels, values) = (self.pixels(), self.m * self.places());
        (0..self.n_images * self.groups).map(move |block| {
            let (x, out) = (block * pixels, block * values);
            let (x_at, out_at) = (x..x + pixels, out..out + values);
            GroupRange { group: block % self.groups, x_at, out_at }
        })
    }

    /// Calls `f(tap and place, pixel)` for all that is not padding.
    fn for_each_tap(&self, mut f: impl FnMut(usize, usize)) {
        let (h, w) = (self.h, self.w);
        let mut row = 0;
        for plane in 0..self.c {
            for (kh, kw) in (0..h.kernel).flat_map(|kh| (0..w.kernel).map(move |kw| (kh, kw))) {
                for oh in 0..h.out as usize {
                    let Some(ih) = h.pixel(oh, kh as usize) else { continue };
                    let x = (plane * h.size as usize + ih) * w.size as usize;
                    let at = (row * h.out as usize + oh) * w.out as usize;
                    for ow in 0..w.out as usize {
                        if let Some(iw) = w.pixel(ow, kw as usize) {
                            f(at + ow, x + iw);
                        }
                    }
                }
                row += 1;
            }
        }
    }

    /// The matrix of taps by places.
    fn im2col<T: Float>(&self, x: &[T], columns: &mut [T]) {
        columns.fill(T::zero());
        self.for_each_tap(|at, pixel| columns[at] = x[pixel]);
    }

    /// Adds the matrix of taps by places back onto the pixels.
    fn col2im<T: Float>(&self, columns: &[T], x: &mut [T]) {
        self.for_each_tap(|at, pixel| x[pixel] += columns[at]);
    }
}

fn run(run: &mut Run<'_>) -> Result<()> {
    let (mut out, mut spare) = (run.take("Output"), run.spare().tensor());
    let mut moved = run.spare().tensor();
    let sizes = ConvSizes::of(run)?;
    let x = run.input("Input")?;
    for_float!(x.dtype(), run.input_name("Input"), T => {
        let data = sizes.front(x.data::<T>()?, sizes.input(), &mut moved);
        let written = out.try_resize::<T>(sizes.output())?;
        spare.try_resize::<T>(sizes.columns())?;
        convolve(&sizes, data, run.data::<T>("Filter")?, written, &mut spare);
        sizes.store::<T>(&mut out, &mut moved)
    })?;
    out.set_lod(x.lod().clone());
    run.spare().keep(spare);
    run.spare().keep(moved);
    run.put("Output", out);
    Ok(())
}

fn convolve<T: Float>(sizes: &ConvSizes, x: &[T], filter: &[T], out: &mut [T], spare: &mut Tensor) {
    let (taps, places) = (sizes.taps(), sizes.places());
    let columns = spare.resize::<T>(sizes.columns());
    for GroupRange { group, x_at, out_at } in sizes.blocks() {
        sizes.im2col(&x[x_at], columns);
        let filter = &filter[group * sizes.m * taps..][..sizes.m * taps];
        let filter = Matrix::new(filter, sizes.m, taps);
        let columns = Matrix::new(columns, taps, places);
        gemm(T::one(), filter, columns, T::zero(), &mut out[out_at]);
    }
}

fn grad(grad: &mut Grad<'_>) -> Result<()> {
    grad.emit_usual(Keep::grads(&["Output"], &["Input", "Filter"]).inputs(&["Input", "Filter"]))
}

/// dFilter = dOutput columnsᵀ, summed over the images; dInput = Filterᵀ dOutput, added back.
fn run_grad(run: &mut Run<'_>) -> Result<()> {
    let (mut d_x, mut d_filter) = (run.take("Input@GRAD"), run.take("Filter@GRAD"));
    let mut spare: [Tensor; 3] = std::array::from_fn(|_| run.spare().tensor());
    let [columns, x_front, d_out_front] = &mut spare;
    let sizes = ConvSizes::of(run)?;
    let (x, filter) = (run.input("Input")?, run.input("Filter")?);
    if run.input("Output@GRAD")?.shape() != sizes.stored(sizes.output()) {
        return Err(run.shapes(
            "the gradient must have the output's shape",
            "Output@GRAD",
            "Input",
        ));
    }
    let (wants_x, wants_filter) = (run.wants("Input@GRAD"), run.wants("Filter@GRAD"));
    for_float!(x.dtype(), run.input_name("Input"), T => {
        let known = ConvInputs {
            x: sizes.front(x.data::<T>()?, sizes.input(), x_front),
            filter: run.data::<T>("Filter")?,
            d_out: sizes.front(run.data::<T>("Output@GRAD")?, sizes.output(), d_out_front),
        };
        columns.try_resize::<T>(sizes.columns())?;
        let front = d_x.resize_zeroed::<T>(sizes.input());
        let d_filter = d_filter.resize_zeroed::<T>(filter.shape());
        let (front, d_filter) = (wants_x.then_some(front), wants_filter.then_some(d_filter));
        convolve_grad(&sizes, &known, front, d_filter, columns);
        sizes.store::<T>(&mut d_x, x_front)
    })?;
    d_x.set_lod(x.lod().clone());
    spare.into_iter().for_each(|tensor| run.spare().keep(tensor));
    run.put("Input@GRAD", d_x);
    run.put("Filter@GRAD", d_filter);
    Ok(())
}

/// The inputs of the gradient, channels first.
struct ConvInputs<'a, T> {
    x: &'a [T],
    filter: &'a [T],
    d_out: &'a [T],
}

fn convolve_grad<T: Float>(
    sizes: &ConvSizes,
    known: &ConvInputs<'_, T>,
    mut d_x: Option<&mut [T]>,
    mut d_filter: Option<&mut [T]>,
    spare: &mut Tensor,
) {
    let (taps, places) = (sizes.taps(), sizes.places());
    let columns = spare.resize::<T>(sizes.columns());
    for GroupRange { group, x_at, out_at } in sizes.blocks() {
        let d_out = Matrix::new(&known.d_out[out_at], sizes.m, places);
        let of_group = group * sizes.m * taps..(group + 1) * sizes.m * taps;
        if let Some(d_filter) = &mut d_filter {
            sizes.im2col(&known.x[x_at.clone()], columns);
            let columns = Matrix::new(columns, taps, places);
            gemm(T::one(), d_out, columns.t(), T::one(), &mut d_filter[of_group.clone()]);
        }
        if let Some(d_x) = &mut d_x {
            let filter = Matrix::new(&known.filter[of_group], sizes.m, taps);
            gemm(T::one(), filter.t(), d_out, T::zero(), columns);
            sizes.col2im(columns, &mut d_x[x_at]);
        }
    }
}

/// One set of rules under two names.
macro_rules! convolution {
    ($op:ident, $grad_op:ident) => {
        impl Op for $op {
            traits!(Rows("Input"), "Input": [F16, F32, F64]; knows_is_test);

            fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
                infer(i)
            }

            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run(r)
            }

            fn grad(&self, g: &mut Grad<'_>) -> Result<()> {
                grad(g)
            }
        }

        impl Kernel for $grad_op {
            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run_grad(r)
            }
        }
    };
}

convolution!(Conv2d, Conv2dGrad);
convolution!(DepthwiseConv2d, DepthwiseConv2dGrad);

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn conv(x: &[usize], filter: &[usize]) -> Check {
        check("conv2d").input("Input", some(x)).input("Filter", some(filter))
    }

    #[test]
    fn slides_a_filter_over_an_image() {
        let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let conv = || {
            check("conv2d")
                .input("Input", t(&[1, 1, 3, 3], &image))
                .input("Filter", t(&[1, 1, 2, 2], &[1.0, 0.0, 0.0, 10.0]))
        };
        conv().gives("Output", t(&[1, 1, 2, 2], &[51.0, 62.0, 84.0, 95.0]));
        let padded = conv().attr("paddings", vec![1, 1]).attr("strides", vec![2, 2]);
        padded.gives("Output", t(&[1, 1, 2, 2], &[10.0, 30.0, 70.0, 95.0]));
        let wide = conv().attr("dilations", vec![2, 2]);
        wide.gives("Output", t(&[1, 1, 1, 1], &[91.0]));
    }

    #[test]
    fn groups_do_not_mix() {
        check("depthwise_conv2d")
            .input("Input", t(&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Filter", t(&[2, 1, 1, 1], &[10.0, 100.0]))
            .attr("groups", 2)
            .gives("Output", t(&[1, 2, 1, 2], &[10.0, 20.0, 300.0, 400.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let grad = |check: Check| check.output("Output").grad(&["Input", "Filter"]);
        grad(conv(&[2, 2, 3, 4], &[3, 2, 2, 2]));
        grad(conv(&[1, 2, 4, 4], &[2, 2, 3, 3]).attr("paddings", vec![1, 1]));
        let options = conv(&[2, 4, 5, 4], &[4, 2, 2, 2]).attr("groups", 2);
        let options = options.attr("strides", vec![2, 1]).attr("dilations", vec![2, 1]);
        grad(options.attr("paddings", vec![1, 0, 0, 2]));
    }

    /// The results of Fluid 1.8.5 for a filter that misses by less than a stride.
    #[test]
    fn a_filter_may_reach_over_the_edge() {
        check("conv2d")
            .input("Input", t(&[1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Filter", t(&[1, 1, 3, 3], &[1.0; 9]))
            .attr("strides", vec![2, 2])
            .gives("Output", t(&[1, 1, 1, 1], &[10.0]));
    }

    #[test]
    fn channels_may_come_last() {
        check("conv2d")
            .input("Input", t(&[1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
            .input("Filter", t(&[2, 3, 1, 1], &[1.0, 10.0, 100.0, 0.0, 0.0, 1.0]))
            .attr("data_format", "NHWC")
            .gives("Output", t(&[1, 1, 2, 2], &[321.0, 3.0, 654.0, 6.0]));
        check("depthwise_conv2d")
            .input("Input", t(&[2, 1, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input("Filter", t(&[2, 1, 1, 1], &[10.0, 100.0]))
            .attr("groups", 2)
            .attr("data_format", "NHWC")
            .gives("Output", t(&[2, 1, 1, 2], &[10.0, 200.0, 30.0, 400.0]));
        let options = conv(&[2, 5, 4, 4], &[4, 2, 2, 3]).attr("groups", 2);
        let options = options.attr("strides", vec![2, 1]).attr("dilations", vec![2, 1]);
        let options = options.attr("paddings", vec![1, 0, 0, 2]).attr("data_format", "NHWC");
        options.output("Output").grad(&["Input", "Filter"]);
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        for (x, filter) in [
            (&[1, 2, 3, 3][..], &[1, 1, 2, 2][..]),
            (&[1, 1, 2, 2], &[1, 1, 3, 3]),
            (&[1, 1, 2], &[1, 1, 1, 1]),
        ] {
            let error = conv(x, filter).output("Output").fails();
            assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        }
        let error = conv(&[1, 2, 3, 3], &[1, 2, 2, 2]).attr("groups", 0).output("Output").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
