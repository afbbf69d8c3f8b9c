//! Windows that slide over images: convolution and pooling.

use super::convert::{CUT, Convert, FIXED, ints};
use super::graph::NodeFields;
use super::proto::NodeField;
use crate::error::Result;

/// From channels last to channels first, and back.
const FIRST: [i64; 4] = [0, 3, 1, 2];
const LAST: [i64; 4] = [0, 2, 3, 1];

/// The pixels of an image along one dimension, and how a window slides over them. A size below 0 is not known.
#[derive(Clone, Copy)]
struct WindowSide {
    size: i64,
    out: i64,
    kernel: i64,
    stride: i64,
    dilation: i64,
    before: i64,
    after: i64,
}

/// The height and the width of an image.
struct WindowSides {
    height: WindowSide,
    width: WindowSide,
}

impl WindowSides {
    fn both(&self) -> [WindowSide; 2] {
        [self.height, self.width]
    }

    /// The attributes that convolution and pooling have in common.
    fn fields(&self) -> NodeFields {
        let each = |of: fn(&WindowSide) -> i64| self.both().iter().map(of).collect::<Vec<_>>();
        let pads = [each(|side| side.before), each(|side| side.after)].concat();
        vec![
            ("kernel_shape", NodeField::Ints(each(|side| side.kernel))),
            ("pads", NodeField::Ints(pads)),
            ("strides", NodeField::Ints(each(|side| side.stride))),
        ]
    }
}

pub(super) fn conv2d(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["ResidualData"])?;
    let kernels = match c.meta("Filter")?.dims[..] {
        [_, _, height, width] => [height, width],
        _ => return Err(c.refuse("its filter has not four dimensions", CUT)),
    };
    let sides = sides(c, "Input", "Output", kernels)?;
    let mut fields = sides.fields();
    let dilations = sides.both().iter().map(|side| side.dilation).collect();
    fields.push(("dilations", NodeField::Ints(dilations)));
    fields.push(("group", NodeField::Int(c.op.attrs.int("groups", 1)?.max(1))));
    let mut inputs = vec![images(c, "Input")?, c.input("Filter")?];
    if c.has("Bias") {
        inputs.push(c.input("Bias")?);
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    out_images(c, "Output", "Conv", &inputs, fields)
}

pub(super) fn pool2d(c: &mut Convert<'_>) -> Result<()> {
    let attrs = &c.op.attrs;
    let is_max = attrs.str("pooling_type", "max")? == "max";
    let is_adaptive = attrs.bool("adaptive", false)?;
    let ksize = attrs.ints("ksize")?;
    let is_global = attrs.bool("global_pooling", false)? || is_adaptive && ksize == [1, 1];
    let x = images(c, "X")?;
    if is_global {
        let op = if is_max { "GlobalMaxPool" } else { "GlobalAveragePool" };
        return out_images(c, "Out", op, &[&x], Vec::new());
    }
    let &[height, width] = &ksize[..] else {
        return Err(c.refuse("its window has not two sizes", CUT));
    };
    let sides = if is_adaptive {
        shared_out(c, [height, width])?
    } else {
        sides(c, "X", "Out", [height, width])?
    };
    // A runtime takes no window that may lie on nothing but padding.
    if sides.both().iter().any(|side| side.before >= side.kernel || side.after >= side.kernel) {
        return Err(c.refuse("its padding is as large as its window", CUT));
    }
    let mut fields = sides.fields();
    if is_max {
        return out_images(c, "Out", "MaxPool", &[&x], fields);
    }
    let counts_padding = !c.op.attrs.bool("exclusive", true)? && !is_adaptive;
    fields.push(("count_include_pad", NodeField::Int(counts_padding.into())));
    out_images(c, "Out", "AveragePool", &[&x], fields)
}

fn is_last(c: &Convert<'_>) -> Result<bool> {
    Ok(c.op.attrs.str("data_format", "NCHW")? == "NHWC")
}

/// Images, channels first.
fn images(c: &mut Convert<'_>, port: &str) -> Result<String> {
    let value = c.input(port)?;
    Ok(if is_last(c)? {
        c.node("Transpose", &[&value], ints("perm", FIRST.to_vec()))
    } else {
        value
    })
}

/// Adds the node that makes images, in the order of the op.
fn out_images(
    c: &mut Convert<'_>,
    port: &str,
    op: &'static str,
    inputs: &[&str],
    fields: NodeFields,
) -> Result<()> {
    if !is_last(c)? {
        return c.out(port, op, inputs, fields);
    }
    let made = c.node(op, inputs, fields);
    c.out(port, "Transpose", &[&made], ints("perm", LAST.to_vec()))
}

/// Height and width of a variable of images.
fn pixels(c: &Convert<'_>, dims: &[i64]) -> Result<[i64; 2]> {
    match (dims, is_last(c)?) {
        (&[_, _, height, width], false) | (&[_, height, width, _], true) => Ok([height, width]),
        _ => Err(c.refuse("its images have not four dimensions", CUT)),
    }
}

fn pair(c: &Convert<'_>, attr: &str) -> Result<[i64; 2]> {
    match c.op.attrs.ints(attr)?[..] {
        [] => Ok([1, 1]),
        [height, width] => Ok([height, width]),
        _ => Err(c.refuse(format!("its {attr} are not two"), CUT)),
    }
}

/// How a window of this size slides.
fn sides(c: &Convert<'_>, from: &str, to: &str, kernels: [i64; 2]) -> Result<WindowSides> {
    let sizes = pixels(c, &c.meta(from)?.dims)?;
    let outs = pixels(c, &c.out_meta(to)?.dims)?;
    let (strides, dilations) = (pair(c, "strides")?, pair(c, "dilations")?);
    let attrs = &c.op.attrs;
    let paddings = match (attrs.str("padding_algorithm", "EXPLICIT")?, &attrs.ints("paddings")?[..])
    {
        ("SAME", _) => None,
        ("VALID", _) | (_, []) => Some([0; 4]),
        (_, &[height, width]) => Some([height, height, width, width]),
        (_, &[top, bottom, left, right]) => Some([top, bottom, left, right]),
        _ => return Err(c.refuse("its paddings are neither two nor four", CUT)),
    };
    let ceils = attrs.bool("ceil_mode", false)?;
    let side = |at: usize| -> Result<WindowSide> {
        let mut side = WindowSide {
            size: sizes[at],
            out: outs[at],
            kernel: kernels[at],
            stride: strides[at],
            dilation: dilations[at],
            before: 0,
            after: 0,
        };
        match paddings {
            Some(paddings) => (side.before, side.after) = (paddings[2 * at], paddings[2 * at + 1]),
            // The window does not spread then, whatever the op says.
            None => side.dilation = 1,
        }
        if paddings.is_none() || ceils {
            fill_up(c, &mut side, paddings.is_none())?;
        }
        Ok(side)
    };
    Ok(WindowSides { height: side(0)?, width: side(1)? })
}

/// Pads so much that the window has as many places as the op gives it. Runtimes round up differently.
fn fill_up(c: &Convert<'_>, side: &mut WindowSide, is_same: bool) -> Result<()> {
    if side.size < 0 || side.out < 0 {
        return Err(
            c.refuse("its padding depends on the size of an image, which is not known", FIXED)
        );
    }
    let covered = (side.out - 1) * side.stride + side.dilation * (side.kernel - 1) + 1;
    let total = (covered - side.size).max(0);
    if is_same {
        side.before = total / 2;
    }
    side.after = side.after.max(total - side.before);
    if is_same {
        side.after = total - side.before;
    }
    Ok(())
}

/// Windows that share an image out: equal ones only.
fn shared_out(c: &Convert<'_>, outs: [i64; 2]) -> Result<WindowSides> {
    let sizes = pixels(c, &c.meta("X")?.dims)?;
    let side = |at: usize| -> Result<WindowSide> {
        let (size, out) = (sizes[at], outs[at]);
        if size <= 0 || out <= 0 || size % out != 0 {
            let problem =
                format!("it shares {size} pixels out to {out} windows of different sizes");
            return Err(c.refuse(problem, FIXED));
        }
        let kernel = size / out;
        Ok(WindowSide { size, out, kernel, stride: kernel, dilation: 1, before: 0, after: 0 })
    };
    Ok(WindowSides { height: side(0)?, width: side(1)? })
}
