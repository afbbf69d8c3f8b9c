//! `conv3d`: Output = Input convolved with Filter, as `conv2d` with one dimension more.
//!
//! `conv2d_transpose`, `depthwise_conv2d_transpose`, `conv3d_transpose`: Output = the gradient that a convolution with
//! Filter, [in channels, out channels / groups, sizes], would give its input if that of its output were Input.
//! `output_size` may be larger than what follows from the sizes, by less than a stride: zeros are behind it.

use tensor::gemm::{Matrix, gemm};
use tensor::{Float, Shape, Tensor};

use super::layout::{channels_last, transpose_each};
use super::moves::for_each_place;
use super::slide::{self, Slide};
use super::{Grad, Infer, Keep, Kernel, Op, Run, for_float, traits};
use crate::attr::Attrs;
use crate::error::Result;

const RANK: &str = "images and filters need as many dimensions as the op has";
const CHANNELS: &str = "a filter needs the channels of its group, and groups must divide both";
const SMALL: &str = "the filter must fit into the padded image";

/// A convolution of `N` dimensions, seen from its input (`x`, of `size`) to its output (`y`, of `out`).
#[derive(Clone, Copy)]
struct Convolution<const N: usize> {
    last: bool,
    n_images: usize,
    groups: usize,
    /// Channels of x of a group.
    c: usize,
    /// Channels of y of a group.
    m: usize,
    slides: [Slide; N],
}

fn groups(attrs: &Attrs) -> Result<i64> {
    match attrs.int("groups", 1)? {
        groups @ 1.. => Ok(groups),
        other => Err(slide::bad("groups", "positive", other.to_string())),
    }
}

/// Images and channels, and the sizes, of dimensions in either layout.
fn parts<const N: usize>(dims: &[i64], last: bool) -> Option<([i64; 2], [i64; N])> {
    if dims.len() != N + 2 {
        return None;
    }
    let first = if last { 1 } else { 2 };
    let sizes = <[i64; N]>::try_from(&dims[first..first + N]).ok()?;
    Some(([dims[0], dims[if last { N + 1 } else { 1 }]], sizes))
}

/// Dimensions in either layout.
fn joined<const N: usize>([n, c]: [i64; 2], sizes: [i64; N], last: bool) -> Vec<i64> {
    if last { [&[n][..], &sizes, &[c]].concat() } else { [&[n, c][..], &sizes].concat() }
}

/// The shapes of the images and the filter of an op.
struct ConvShapes<const N: usize> {
    last: bool,
    n: i64,
    /// Channels of the images, of the filter's first and second dimension, and groups.
    channels: i64,
    first: i64,
    second: i64,
    groups: i64,
    slides: [Slide; N],
}

impl<const N: usize> ConvShapes<N> {
    /// None if ranks differ.
    fn new(attrs: &Attrs, input: &[i64], filter: &[i64]) -> Result<Option<Self>> {
        let last = channels_last(attrs, "data_format")?;
        let Some(([n, channels], sizes)) = parts::<N>(input, last) else { return Ok(None) };
        let &[first, second, ref kernels @ ..] = filter else { return Ok(None) };
        let Ok(kernels) = <[i64; N]>::try_from(kernels) else { return Ok(None) };
        let slides = slide::slides(attrs, sizes, kernels)?;
        Ok(Some(Self { last, n, channels, first, second, groups: groups(attrs)?, slides }))
    }

    /// Whether channels and groups of a convolution fit.
    fn fits(&self) -> bool {
        let known = self.channels < 0 || self.channels == self.second * self.groups;
        known && self.first % self.groups == 0
    }

    /// Whether channels and groups of a transposed convolution fit.
    fn fits_transposed(&self) -> bool {
        let known = self.channels < 0 || self.channels == self.first;
        known && self.first % self.groups == 0
    }

    /// The slides of the convolution whose input is the op's output.
    fn transposed(&self, attrs: &Attrs) -> Result<[Slide; N]> {
        let given = attrs.ints("output_size")?;
        let mut slides = self.slides;
        for (d, slide) in slides.iter_mut().enumerate() {
            let least = match slide.size {
                ..0 => -1,
                size => {
                    let taps = slide.dilation * (slide.kernel - 1) + 1;
                    (size - 1) * slide.stride - slide.before - slide.after + taps
                }
            };
            let size = match given.get(d) {
                None => least,
                Some(&size) if least < 0 || (least..least + slide.stride).contains(&size) => size,
                Some(_) => {
                    let expected = format!("from {least} to before a stride more");
                    return Err(slide::bad("output_size", &expected, format!("{given:?}")));
                }
            };
            *slide = Slide { size, out: slide.size, ..*slide };
        }
        Ok(slides)
    }
}

impl<const N: usize> Convolution<N> {
    fn of(run: &Run<'_>) -> Result<Self> {
        let (x, filter) = (run.input("Input")?.shape(), run.input("Filter")?.shape());
        let it = ConvShapes::<N>::new(run.attrs(), &x.to_i64(), &filter.to_i64())?;
        let it = it.ok_or_else(|| run.shapes(RANK, "Input", "Filter"))?;
        if !it.fits() {
            return Err(run.shapes(CHANNELS, "Input", "Filter"));
        }
        if it.slides.iter().any(|slide| slide.out < 1) {
            return Err(run.shapes(SMALL, "Input", "Filter"));
        }
        let (groups, n_images) = (it.groups as usize, it.n as usize);
        let (c, m) = (it.second as usize, it.first as usize / groups);
        Ok(Self { last: it.last, n_images, groups, c, m, slides: it.slides })
    }

    /// The convolution whose input is the op's output.
    fn of_transposed(run: &Run<'_>) -> Result<Self> {
        let (x, filter) = (run.input("Input")?.shape(), run.input("Filter")?.shape());
        let it = ConvShapes::<N>::new(run.attrs(), &x.to_i64(), &filter.to_i64())?;
        let it = it.ok_or_else(|| run.shapes(RANK, "Input", "Filter"))?;
        if !it.fits_transposed() {
            return Err(run.shapes(CHANNELS, "Input", "Filter"));
        }
        let slides = it.transposed(run.attrs())?;
        if slides.iter().any(|slide| slide.size < 1 || slide.out < 1) {
            return Err(run.shapes(SMALL, "Input", "Filter"));
        }
        let (groups, n_images) = (it.groups as usize, it.n as usize);
        let (c, m) = (it.second as usize, it.first as usize / groups);
        Ok(Self { last: it.last, n_images, groups, c, m, slides })
    }

    fn taps(&self) -> usize {
        self.c * self.slides.iter().map(|slide| slide.kernel as usize).product::<usize>()
    }

    fn x_pixels(&self) -> usize {
        self.slides.iter().map(|slide| slide.size as usize).product()
    }

    fn y_pixels(&self) -> usize {
        self.slides.iter().map(|slide| slide.out as usize).product()
    }

    /// The shape of x as variables have it.
    fn x_shape(&self) -> Result<Shape> {
        let sizes = self.slides.map(|slide| slide.size);
        let dims = joined([self.n_images as i64, (self.groups * self.c) as i64], sizes, self.last);
        Ok(Shape::from_dims(&dims)?)
    }

    /// The shape of y as variables have it.
    fn y_shape(&self) -> Result<Shape> {
        let sizes = self.slides.map(|slide| slide.out);
        let dims = joined([self.n_images as i64, (self.groups * self.m) as i64], sizes, self.last);
        Ok(Shape::from_dims(&dims)?)
    }

    /// Calls `f(tap and place, pixel)` for all that is not padding, of the channels of a group.
    fn for_each_tap(&self, mut f: impl FnMut(usize, usize)) {
        let mut dims = [0; 9];
        dims[0] = self.c;
        for (d, slide) in self.slides.iter().enumerate() {
            (dims[1 + d], dims[1 + N + d]) = (slide.kernel as usize, slide.out as usize);
        }
        for_each_place(Shape::new(&dims[..1 + 2 * N]), |place, at| {
            let mut pixel = at[0];
            for (d, slide) in self.slides.iter().enumerate() {
                let Some(i) = slide.pixel(at[1 + N + d], at[1 + d]) else { return };
                pixel = pixel * slide.size as usize + i;
            }
            f(place, pixel);
        });
    }

    /// For each group of each image: `f(group, where it is in x, where it is in y)`.
    fn for_each_group(
        &self,
        mut f: impl FnMut(usize, std::ops::Range<usize>, std::ops::Range<usize>),
    ) {
        let (x, y) = (self.c * self.x_pixels(), self.m * self.y_pixels());
        for block in 0..self.n_images * self.groups {
            f(block % self.groups, block * x..(block + 1) * x, block * y..(block + 1) * y);
        }
    }

    /// y = x convolved.
    fn forward<T: Float>(
        &self,
        x: &[T],
        filter: &[T],
        y: &mut [T],
        columns: &mut Tensor,
    ) -> Result<()> {
        let (taps, places) = (self.taps(), self.y_pixels());
        let columns = columns.try_resize::<T>(Shape::from([taps, places]))?;
        self.for_each_group(|group, x_at, y_at| {
            columns.fill(T::zero());
            let x = &x[x_at];
            self.for_each_tap(|at, pixel| columns[at] = x[pixel]);
            let filter =
                Matrix::new(&filter[group * self.m * taps..][..self.m * taps], self.m, taps);
            gemm(T::one(), filter, Matrix::new(columns, taps, places), T::zero(), &mut y[y_at]);
        });
        Ok(())
    }

    /// dx = the gradient of y carried back; `d_x` holds zeros.
    fn to_x<T: Float>(
        self,
        d_y: &[T],
        filter: &[T],
        d_x: &mut [T],
        columns: &mut Tensor,
    ) -> Result<()> {
        let (taps, places) = (self.taps(), self.y_pixels());
        let columns = columns.try_resize::<T>(Shape::from([taps, places]))?;
        self.for_each_group(|group, x_at, y_at| {
            let filter =
                Matrix::new(&filter[group * self.m * taps..][..self.m * taps], self.m, taps);
            let d_y = Matrix::new(&d_y[y_at], self.m, places);
            gemm(T::one(), filter.t(), d_y, T::zero(), columns);
            let d_x = &mut d_x[x_at];
            self.for_each_tap(|at, pixel| d_x[pixel] += columns[at]);
        });
        Ok(())
    }

    /// dFilter from x and the gradient of y; `d_filter` holds zeros.
    fn to_filter<T: Float>(
        self,
        x: &[T],
        d_y: &[T],
        d_filter: &mut [T],
        columns: &mut Tensor,
    ) -> Result<()> {
        let (taps, places) = (self.taps(), self.y_pixels());
        let columns = columns.try_resize::<T>(Shape::from([taps, places]))?;
        self.for_each_group(|group, x_at, y_at| {
            columns.fill(T::zero());
            let x = &x[x_at];
            self.for_each_tap(|at, pixel| columns[at] = x[pixel]);
            let d_y = Matrix::new(&d_y[y_at], self.m, places);
            let of_group = &mut d_filter[group * self.m * taps..][..self.m * taps];
            gemm(T::one(), d_y, Matrix::new(columns, taps, places).t(), T::one(), of_group);
        });
        Ok(())
    }

    /// Numbers with channels first, moved into `memory` if need be.
    fn front<'a, T: Float>(
        &self,
        data: &'a [T],
        channels: usize,
        memory: &'a mut Tensor,
    ) -> Result<&'a [T]> {
        if !self.last {
            return Ok(data);
        }
        let pixels = data.len() / (self.n_images * channels).max(1);
        let moved = memory.try_resize::<T>(Shape::from([data.len()]))?;
        transpose_each(data, moved, pixels, channels);
        Ok(moved)
    }

    /// Gives a tensor of channels first the layout and shape of variables.
    fn store<T: Float>(&self, tensor: &mut Tensor, channels: usize, shape: Shape) -> Result<()> {
        if self.last {
            let mut moved = Tensor::default();
            let pixels = shape.n_elements() / (self.n_images * channels).max(1);
            transpose_each(tensor.data::<T>()?, moved.try_resize::<T>(shape)?, channels, pixels);
            std::mem::swap(tensor, &mut moved);
        }
        tensor.reshape(shape)?;
        Ok(())
    }
}

fn infer<const N: usize>(infer: &mut Infer<'_>, transposed: bool) -> Result<()> {
    let (x, filter) = (infer.input("Input")?, infer.input("Filter")?);
    let it = ConvShapes::<N>::new(infer.attrs(), &x.dims, &filter.dims)?;
    let it = it.ok_or_else(|| infer.shapes(RANK, "Input", "Filter"))?;
    if !(if transposed { it.fits_transposed() } else { it.fits() }) {
        return Err(infer.shapes(CHANNELS, "Input", "Filter"));
    }
    let (channels, sizes) = if transposed {
        let sizes = it.transposed(infer.attrs())?.map(|slide| slide.size);
        (it.second * it.groups, sizes)
    } else {
        (it.first, it.slides.map(|slide| slide.out))
    };
    if sizes.contains(&0) || sizes.iter().any(|&size| size < -1) {
        return Err(infer.shapes(SMALL, "Input", "Filter"));
    }
    infer.set_output("Output", x.with_dims(joined([it.n, channels], sizes, it.last)))
}

fn run<const N: usize>(run: &mut Run<'_>, transposed: bool) -> Result<()> {
    let mut out = run.take("Output");
    let mut spare: [Tensor; 2] = std::array::from_fn(|_| run.spare().tensor());
    let [columns, moved] = &mut spare;
    let conv =
        if transposed { Convolution::<N>::of_transposed(run)? } else { Convolution::<N>::of(run)? };
    let shape = if transposed { conv.x_shape()? } else { conv.y_shape()? };
    let (from, to) = if transposed { (conv.m, conv.c) } else { (conv.c, conv.m) };
    let x = run.input("Input")?;
    for_float!(x.dtype(), run.input_name("Input"), T => {
        let data = conv.front(x.data::<T>()?, conv.groups * from, moved)?;
        let filter = run.data::<T>("Filter")?;
        let written = out.try_resize_zeroed::<T>(Shape::from([shape.n_elements()]))?;
        if transposed {
            conv.to_x(data, filter, written, columns)?;
        } else {
            conv.forward(data, filter, written, columns)?;
        }
        conv.store::<T>(&mut out, conv.groups * to, shape)
    })?;
    spare.into_iter().for_each(|tensor| run.spare().keep(tensor));
    run.put("Output", out);
    Ok(())
}

fn run_grad<const N: usize>(run: &mut Run<'_>, transposed: bool) -> Result<()> {
    let (mut d_x, mut d_filter) = (run.take("Input@GRAD"), run.take("Filter@GRAD"));
    let mut spare: [Tensor; 3] = std::array::from_fn(|_| run.spare().tensor());
    let [columns, x_front, d_front] = &mut spare;
    let conv =
        if transposed { Convolution::<N>::of_transposed(run)? } else { Convolution::<N>::of(run)? };
    let out = if transposed { conv.x_shape()? } else { conv.y_shape()? };
    if run.input("Output@GRAD")?.shape() != out {
        return Err(run.shapes(
            "the gradient must have the output's shape",
            "Output@GRAD",
            "Input",
        ));
    }
    let (from, to) = if transposed { (conv.m, conv.c) } else { (conv.c, conv.m) };
    let (x, filter_shape) = (run.input("Input")?, run.input("Filter")?.shape());
    for_float!(x.dtype(), run.input_name("Input"), T => {
        let data = conv.front(x.data::<T>()?, conv.groups * from, x_front)?;
        let d_out = conv.front(run.data::<T>("Output@GRAD")?, conv.groups * to, d_front)?;
        let filter = run.data::<T>("Filter")?;
        let flat = Shape::from([x.len()]);
        let to_filter = d_filter.try_resize_zeroed::<T>(filter_shape)?;
        let to_x = d_x.try_resize_zeroed::<T>(flat)?;
        if transposed {
            conv.forward(d_out, filter, to_x, columns)?;
            conv.to_filter(d_out, data, to_filter, columns)?;
        } else {
            conv.to_x(d_out, filter, to_x, columns)?;
            conv.to_filter(data, d_out, to_filter, columns)?;
        }
        conv.store::<T>(&mut d_x, conv.groups * from, x.shape())
    })?;
    d_x.set_lod(x.lod().clone());
    spare.into_iter().for_each(|tensor| run.spare().keep(tensor));
    run.put("Input@GRAD", d_x);
    run.put("Filter@GRAD", d_filter);
    Ok(())
}

/// One set of rules under several names.
macro_rules! convolution {
    ($op:ident, $grad_op:ident, $n:literal, $transposed:literal) => {
        pub(super) struct $op;
        pub(super) struct $grad_op;

        impl Op for $op {
            traits!(Rows("Input"), "Input": [F16, F32, F64]; knows_is_test);

            fn infer(&self, i: &mut Infer<'_>) -> Result<()> {
                infer::<$n>(i, $transposed)
            }

            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run::<$n>(r, $transposed)
            }

            fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
                let keep = Keep::grads(&["Output"], &["Input", "Filter"]);
                grad.emit_usual(keep.inputs(&["Input", "Filter"]))
            }
        }

        impl Kernel for $grad_op {
            fn run(&self, r: &mut Run<'_>) -> Result<()> {
                run_grad::<$n>(r, $transposed)
            }
        }
    };
}

convolution!(Conv3d, Conv3dGrad, 3, false);
convolution!(Conv2dTranspose, Conv2dTransposeGrad, 2, true);
convolution!(DepthwiseConv2dTranspose, DepthwiseConv2dTransposeGrad, 2, true);
convolution!(Conv3dTranspose, Conv3dTransposeGrad, 3, true);

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{Check, check, some, t};

    fn conv(kind: &str, x: &[usize], filter: &[usize]) -> Check {
        check(kind).input("Input", some(x)).input("Filter", some(filter))
    }

    #[test]
    fn a_flat_conv3d_is_a_conv2d() {
        let image = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        check("conv3d")
            .input("Input", t(&[1, 1, 1, 3, 3], &image))
            .input("Filter", t(&[1, 1, 1, 2, 2], &[1.0, 0.0, 0.0, 10.0]))
            .gives("Output", t(&[1, 1, 1, 2, 2], &[51.0, 62.0, 84.0, 95.0]));
    }

    #[test]
    fn spreads_each_pixel_over_the_filter() {
        let conv = || {
            check("conv2d_transpose")
                .input("Input", t(&[1, 1, 1, 2], &[1.0, 2.0]))
                .input("Filter", t(&[1, 1, 1, 2], &[3.0, 4.0]))
        };
        conv().gives("Output", t(&[1, 1, 1, 3], &[3.0, 10.0, 8.0]));
        conv().attr("strides", vec![1, 2]).gives("Output", t(&[1, 1, 1, 4], &[3.0, 4.0, 6.0, 8.0]));
        let larger = conv().attr("strides", vec![1, 2]).attr("output_size", vec![1, 5]);
        larger.gives("Output", t(&[1, 1, 1, 5], &[3.0, 4.0, 6.0, 8.0, 0.0]));
        let padded = conv().attr("paddings", vec![0, 1]);
        padded.gives("Output", t(&[1, 1, 1, 1], &[10.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let grad = |check: Check| check.output("Output").grad(&["Input", "Filter"]);
        grad(conv("conv3d", &[1, 2, 2, 3, 3], &[2, 1, 1, 2, 2]).attr("groups", 2));
        let last = conv("conv3d", &[1, 2, 3, 3, 2], &[1, 2, 2, 2, 2]).attr("data_format", "NDHWC");
        grad(last.attr("paddings", vec![0, 1, 0]).attr("strides", vec![1, 2, 1]));
        grad(conv("conv2d_transpose", &[1, 4, 2, 3], &[4, 1, 2, 2]).attr("groups", 2));
        let last = conv("conv2d_transpose", &[2, 2, 3, 2], &[2, 3, 2, 2]);
        grad(
            last.attr("data_format", "NHWC")
                .attr("strides", vec![2, 1])
                .attr("dilations", vec![1, 2]),
        );
        grad(conv("conv3d_transpose", &[1, 2, 1, 2, 2], &[2, 1, 2, 2, 1]));
        grad(conv("depthwise_conv2d_transpose", &[1, 2, 2, 2], &[2, 1, 2, 2]).attr("groups", 2));
    }

    #[test]
    fn refuses_shapes_that_do_not_fit() {
        for (kind, x, filter) in [
            ("conv3d", &[1, 2, 2, 2, 2][..], &[1, 1, 1, 1, 1][..]),
            ("conv3d", &[1, 1, 2, 2, 2], &[1, 1, 3, 1, 1]),
            ("conv3d", &[1, 1, 2, 2], &[1, 1, 1, 1]),
            ("conv2d_transpose", &[1, 2, 2, 2], &[1, 1, 1, 1]),
        ] {
            let error = conv(kind, x, filter).output("Output").fails();
            assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
        }
        let bad = conv("conv2d_transpose", &[1, 1, 2, 2], &[1, 1, 2, 2]);
        let error = bad.attr("output_size", vec![3, 9]).output("Output").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
