//! Images in other sizes, orders and places: `image_resize`, `pad2d`, `pixel_shuffle`, `grid_sampler`, `lrn` and the like.

use super::append::one_op;
use super::sizes::{Amount, Size, SizePorts, Sizes};
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { pictures;
    /// Images in another size: `out_shape` (numbers, Variables, or one Variable for all), else `scale`. `resample` is
    /// BILINEAR, TRILINEAR, NEAREST or BICUBIC.
    fn interpolate
    /// Images in another size: `out_shape` (numbers, Variables, or one Variable for all), else `scale`. `resample` is
    /// BILINEAR, TRILINEAR or NEAREST.
    fn image_resize
    (input: Input; Interpolate<'a> {
        out_shape: MaybeDims = None, scale: MaybeFactor = None, name: Name = None,
        resample: Text = ["BILINEAR", "'BILINEAR'"], actual_shape: MaybeInput = None, align_corners: bool = true,
        align_mode: i32 = 1, data_format: Text = ["NCHW", "'NCHW'"],
    }) -> Var { |b, kind|
        let given = Resize { out_shape, scale, actual_shape };
        let how = Resample { resample, align_corners, align_mode, data_format, name };
        if resample == "BICUBIC" && kind == "image_resize" {
            return Err(refuse("resample", "can only be BILINEAR, TRILINEAR or NEAREST", resample.to_string()));
        }
        resized(b, input, given, how)
    }

    /// Images of 2 dimensions in another size, between four neighbours.
    fn resize_bilinear(input: Input; ResizeBilinear<'a> {
        out_shape: MaybeDims = None, scale: MaybeFactor = None, name: Name = None,
        actual_shape: MaybeInput = None, align_corners: bool = true, align_mode: i32 = 1,
        data_format: Text = ["NCHW", "'NCHW'"],
    }) -> Var { |b|
        let given = Resize { out_shape, scale, actual_shape };
        resized(b, input, given, Resample { resample: BILINEAR, align_corners, align_mode, data_format, name })
    }

    /// Images of 3 dimensions in another size, between eight neighbours.
    fn resize_trilinear(input: Input; ResizeTrilinear<'a> {
        out_shape: MaybeDims = None, scale: MaybeFactor = None, name: Name = None,
        actual_shape: MaybeInput = None, align_corners: bool = true, align_mode: i32 = 1,
        data_format: Text = ["NCDHW", "'NCDHW'"],
    }) -> Var { |b|
        let given = Resize { out_shape, scale, actual_shape };
        resized(b, input, given, Resample { resample: "TRILINEAR", align_corners, align_mode, data_format, name })
    }

    /// Images of 2 dimensions in another size, each pixel that of the nearest.
    fn resize_nearest(input: Input; ResizeNearest<'a> {
        out_shape: MaybeDims = None, scale: MaybeFactor = None, name: Name = None,
        actual_shape: MaybeInput = None, align_corners: bool = true, data_format: Text = ["NCHW", "'NCHW'"],
    }) -> Var { |b|
        let given = Resize { out_shape, scale, actual_shape };
        resized(b, input, given, Resample { resample: "NEAREST", align_corners, align_mode: 1, data_format, name })
    }

    /// Images whose shorter side has this length, and the longer one as many times it as before.
    fn image_resize_short(input: Input, out_short_len: i32; resample: Text = ["BILINEAR", "'BILINEAR'"])
    -> Var { |b|
        let dims = b.meta(input)?.dims;
        let &[_, _, height, width] = &dims[..] else {
            let rule = "The rank of input must be 4 (num_batches, channels, in_h, in_w).";
            return Err(refuse("input", rule, format!("{dims:?}")));
        };
        let (short, long) = (height.min(width), height.max(width));
        if short < 1 {
            return Err(refuse("input", "must have a height and a width that are known", format!("{dims:?}")));
        }
        let longer = (long as f64 * (f64::from(out_short_len) / short as f64) + 0.5) as i32;
        let sizes = if height <= width { [out_short_len, longer] } else { [longer, out_short_len] };
        let options = Interpolate { out_shape: Some(Sizes::from(&sizes)), resample, ..Interpolate::default() };
        image_resize(b, input, options)
    }

    /// Images with something around them: `paddings` above, below, left and right, numbers or a Variable; `mode` is
    /// constant (`pad_value`), reflect or edge.
    fn pad2d(input: Input; Pad2d<'a> {
        paddings: MaybeDims = [None, "[0, 0, 0, 0]"], mode: Text = ["constant", "'constant'"],
        pad_value: f32 = 0.0, data_format: Text = ["NCHW", "'NCHW'"], name: Name = None,
    }) -> Var { |b, kind|
        if !["reflect", "edge", "constant"].contains(&mode) {
            let rule = "mode should be one of constant, reflect, edge.";
            return Err(Error::BadSizes { layer: "pad2d", argument: "mode", rule, actual: vec![] });
        }
        let paddings = paddings.unwrap_or_else(|| Sizes::from(&[0; 4]));
        let op = one_op(b, kind, name).input("X", input).attr("mode", mode).attr("pad_value", pad_value);
        let op = op.attr("data_format", data_format).attr("paddings", paddings.known_ints());
        match &paddings {
            Sizes::In(var) => op.input("Paddings", var),
            Sizes::List(_) => op,
        }
        .out("Out")
    }

    /// `y` in the shape of `x`, with `pad_value` behind it.
    fn pad_constant_like(x: Input, y: Input; pad_value: f32 = 0.0, name: Name = None) -> Var { |b, kind|
        let dtype = b.meta(y)?.dtype;
        let op = one_op(b, kind, name).input("X", x).input("Y", y);
        op.attr("pad_value", pad_value).out_of("Out", dtype)
    }

    /// Blocks of pixels become channels.
    fn space_to_depth(x: Input, blocksize: i64; name: Name = None) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).attr("blocksize", blocksize).out("Out")
    }

    /// Channels become blocks of pixels.
    fn pixel_shuffle(x: Floats, upscale_factor: i32) -> Var { |b, kind|
        one_op(b, kind, None).input("X", x).attr("upscale_factor", upscale_factor).out("Out")
    }

    /// Channels of `group` groups take turns.
    fn shuffle_channel(x: Input, group: i32; name: Name = None) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).attr("group", group).out("Out")
    }

    /// Of `seg_num` images in a row, a share of the channels moves to the next image, and another to the one before.
    fn temporal_shift(x: Floats, seg_num: i32; shift_ratio: f32 = 0.25, name: Name = None) -> Var { |b, kind|
        let op = one_op(b, kind, name).input("X", x).attr("seg_num", seg_num);
        op.attr("shift_ratio", shift_ratio).out("Out")
    }

    /// A column of numbers for each place of a sliding window.
    fn unfold(x: Floats, kernel_sizes: Ints; Unfold<'a> {
        strides: MaybeInts = [None, "1"], paddings: MaybeInts = [None, "0"], dilations: MaybeInts = [None, "1"],
        name: Name = None,
    }) -> Var { |b, kind|
        let rank = b.meta(x)?.dims.len();
        if rank != 4 {
            let (argument, rule) = ("x", "input should be the format of [N, C, H, W]");
            return Err(Error::BadSizes { layer: "unfold", argument, rule, actual: vec![rank as i64] });
        }
        let paddings = match paddings.unwrap_or(&[0]) {
            &[all] => vec![all; 4],
            &[height, width] => vec![height, width, height, width],
            list @ [_, _, _, _] => list.to_vec(),
            list => {
                let rule = "paddings should either be an integer or a list of 2 or 4 integers";
                return Err(bad_unfold("paddings", rule, list));
            }
        };
        let op = one_op(b, kind, name).input("X", x);
        let op = op.attr("kernel_sizes", pair("kernel_sizes", kernel_sizes)?);
        let op = op.attr("strides", pair("strides", strides.unwrap_or(&[1]))?);
        let op = op.attr("dilations", pair("dilations", dilations.unwrap_or(&[1]))?);
        op.attr("paddings", paddings).out("Y")
    }

    /// `act(x scale + bias)`, a number of both for each channel.
    fn affine_channel(x: Floats; AffineChannel<'a> {
        scale: MaybeInput = None, bias: MaybeInput = None, data_layout: Text = ["NCHW", "'NCHW'"],
        name: Name = None, act: Name = None,
    }) -> Var { |b, kind|
        let op = one_op(b, kind, name).input("X", x).maybe("Scale", scale).maybe("Bias", bias);
        op.attr("data_layout", data_layout).out_activated("Out", act)
    }

    /// The points of an image of this shape, moved by the matrices `theta`.
    fn affine_grid(theta: Floats, out_shape: Dims; name: Name = None) -> Var { |b, kind|
        let _ = name; // Fluid gives it to nothing.
        let op = one_op(b, kind, None).input("Theta", theta);
        match out_shape.into() {
            Sizes::In(var) => op.input("OutputShape", &var),
            sizes => op.attr("output_shape", sizes.known_ints()),
        }
        .out("Output")
    }

    /// Images at the points of a grid, between four neighbours.
    fn grid_sampler(x: Floats, grid: Floats; name: Name = None) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).input("Grid", grid).out("Output")
    }

    /// Each number divided by a power of the squares of neighbouring channels.
    fn lrn(input: Floats; Lrn<'a> {
        n: i32 = 5, k: f32 = 1.0, alpha: f32 = [1e-4, "0.0001"], beta: f32 = 0.75, name: Name = None,
        data_format: Text = ["NCHW", "'NCHW'"],
    }) -> Var { |b, kind|
        let meta = b.meta(input)?;
        if meta.dims.len() != 4 {
            let (argument, rule) = ("input", "Input's dimension size of Op(lrn) must be 4");
            let actual = format!("{:?}", meta.dims);
            return Err(Error::BadArgument { layer: "lrn", argument, rule, actual });
        }
        let op = one_op(b, kind, name).input("X", input).also_stopped("MidOut", meta.dtype);
        let op = op.attr("n", n).attr("k", k).attr("alpha", alpha).attr("beta", beta);
        op.attr("data_format", data_format).out("Out")
    }
}

const BILINEAR: &str = "BILINEAR";

/// The size that images get.
struct Resize<'a> {
    out_shape: Option<Sizes>,
    scale: Option<Amount<f32>>,
    actual_shape: Option<&'a Var>,
}

/// How images get another size.
struct Resample<'a> {
    resample: &'a str,
    align_corners: bool,
    align_mode: i32,
    data_format: &'a str,
    name: Option<&'a str>,
}

fn refuse(argument: &'static str, rule: &'static str, actual: String) -> Error {
    Error::BadArgument { layer: "image_resize", argument, rule, actual }
}

fn resized(b: &mut Builder<'_>, input: &Var, given: Resize<'_>, how: Resample<'_>) -> Result<Var> {
    let (method, n) = match how.resample {
        BILINEAR => ("bilinear", 2),
        "TRILINEAR" => ("trilinear", 3),
        "NEAREST" => ("nearest", 2),
        "BICUBIC" => ("bicubic", 2),
        other => {
            return Err(refuse("resample", "must be a method that Fluid has", other.to_string()));
        }
    };
    let dims = b.meta(input)?.dims;
    if dims.len() != n + 2 {
        let rule = "TRILINEAR needs 5 dimensions, the other methods 4";
        return Err(refuse("input", rule, format!("{dims:?}")));
    }
    let layout = match (n, how.data_format) {
        (2, "NCHW") | (3, "NCDHW") => "NCHW",
        (2, "NHWC") | (3, "NDHWC") => "NHWC",
        (_, other) => {
            return Err(refuse("data_format", "must fit the dimensions", other.to_string()));
        }
    };
    if ![0, 1].contains(&how.align_mode) {
        return Err(refuse("align_mode", "can only be 0 or 1", how.align_mode.to_string()));
    }
    let op = one_op(b, &format!("{method}_interp"), how.name).input("X", input);
    let op = op.attr("interp_method", method).attr("align_corners", how.align_corners);
    let op = op.attr("align_mode", how.align_mode).attr("data_layout", layout);
    let names = &["out_d", "out_h", "out_w"][3 - n..];
    let mut known = vec![-1; n];
    let op = match (given.out_shape, given.scale) {
        (Some(sizes), _) => {
            if let Sizes::List(list) = &sizes {
                let is_bad = |size: &Size| matches!(size, Size::Is(..=0));
                if list.len() != n || list.iter().any(is_bad) {
                    let rule = "must hold a positive size for each dimension";
                    return Err(refuse("out_shape", rule, format!("{:?}", sizes.known())));
                }
                known = sizes.known_ints();
            }
            let ports = SizePorts { whole: "OutSize", list: "SizeTensor" };
            op.with(|b, layer, op| sizes.on(b, layer, op, ports))?
        }
        (None, Some(Amount::In(scale))) => op.input("Scale", &scale),
        (None, Some(Amount::Is(scale))) if scale > 0.0 => op.attr("scale", scale),
        (None, Some(Amount::Is(scale))) => {
            return Err(refuse("scale", "must be greater than zero", scale.to_string()));
        }
        (None, None) => {
            let rule = "One of out_shape and scale must not be None.";
            return Err(refuse("out_shape", rule, "None".to_string()));
        }
    };
    let op = names.iter().zip(known).fold(op, |op, (name, size)| op.attr(name, size));
    op.maybe("OutSize", given.actual_shape).out("Out")
}

fn bad_unfold(argument: &'static str, rule: &'static str, actual: &[i32]) -> Error {
    Error::BadArgument { layer: "unfold", argument, rule, actual: format!("{actual:?}") }
}

/// One number for both dimensions, or two.
fn pair(argument: &'static str, given: &[i32]) -> Result<Vec<i32>> {
    match *given {
        [both] => Ok(vec![both, both]),
        [height, width] => Ok(vec![height, width]),
        _ => Err(bad_unfold(argument, "must be an integer or a list of two", given)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_and_shapes_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[4, 6, 8], Data::default()).unwrap();
        let is = |b: &Builder<'_>, var: Var, name: &str, dims: &[i64]| {
            assert_eq!((var.name(), &*b.meta(&var).unwrap().dims), (name, dims));
        };
        let sizes = || Some(Sizes::from(&[3, 5]));
        let y =
            image_resize(&mut b, &x, Interpolate { out_shape: sizes(), ..Interpolate::default() });
        is(&b, y.unwrap(), "bilinear_interp_0.tmp_0", &[-1, 4, 3, 5]);
        let options = ResizeNearest { scale: Some(Amount::Is(0.5)), ..ResizeNearest::default() };
        let y = resize_nearest(&mut b, &x, options).unwrap();
        is(&b, y, "nearest_interp_0.tmp_0", &[-1, 4, 3, 4]);
        let y = image_resize_short(&mut b, &x, 3, BILINEAR).unwrap();
        is(&b, y, "bilinear_interp_1.tmp_0", &[-1, 4, 3, 4]);
        let options = Pad2d { paddings: Some(Sizes::from(&[1, 1, 0, 2])), ..Pad2d::default() };
        let y = pad2d(&mut b, &x, options).unwrap();
        is(&b, y, "pad2d_0.tmp_0", &[-1, 4, 8, 10]);
        let y = pixel_shuffle(&mut b, &x, 2).unwrap();
        is(&b, y, "pixel_shuffle_0.tmp_0", &[-1, 1, 12, 16]);
        let y = space_to_depth(&mut b, &x, 2, None).unwrap();
        is(&b, y, "space_to_depth_0.tmp_0", &[-1, 16, 3, 4]);
        let y = unfold(&mut b, &x, &[3, 3], Unfold::default()).unwrap();
        is(&b, y, "unfold_0.tmp_0", &[-1, 36, 24]);
        let y = lrn(&mut b, &x, Lrn::default()).unwrap();
        is(&b, y, "lrn_0.tmp_1", &[-1, 4, 6, 8]);
        let y = shuffle_channel(&mut b, &x, 2, None).unwrap();
        is(&b, y, "shuffle_channel_0.tmp_0", &[-1, 4, 6, 8]);
    }

    #[test]
    fn refuses_bad_arguments() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[4, 6, 8], Data::default()).unwrap();
        let scale = || Some(Amount::Is(2.0));
        for options in [
            Interpolate::default(),
            Interpolate { scale: scale(), resample: "TRILINEAR", ..Interpolate::default() },
            Interpolate { scale: scale(), data_format: "NCDHW", ..Interpolate::default() },
            Interpolate { scale: scale(), align_mode: 2, ..Interpolate::default() },
            Interpolate { scale: Some(Amount::Is(-1.0)), ..Interpolate::default() },
        ] {
            let error = image_resize(&mut b, &x, options).unwrap_err();
            assert!(matches!(error, Error::BadArgument { .. }), "{error}");
        }
    }
}
