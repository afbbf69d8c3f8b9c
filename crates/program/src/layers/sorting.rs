//! What is largest, and where: `topk`, `argmax`, `argmin`, `argsort`.

use tensor::DType;

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// How many of the largest to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// As many.
    Is(i32),
    /// As many as a variable holds when it runs.
    In(Var),
}

/// The `k` largest of each row and their places: (values, indices).
pub fn topk(b: &mut Builder<'_>, input: &Var, k: &Count, name: Option<&str>) -> Result<(Var, Var)> {
    let layer = b.layer_name("top_k", name);
    let dtype = b.meta(input)?.dtype;
    let (values, indices) = (b.temp_stopped(&layer, dtype), b.temp_stopped(&layer, DType::I64));
    let op = OpDesc::new("top_k").input("X", input);
    let op = match k {
        Count::Is(k) => op.attr("k", *k),
        Count::In(var) => op.input("K", var),
    };
    b.op(op.output("Out", &values).output("Indices", &indices))?;
    Ok((values, indices))
}

/// Where along an axis the largest element is; Fluid's default axis is 0.
pub fn argmax(b: &mut Builder<'_>, x: &Var, axis: i64) -> Result<Var> {
    arg("arg_max", b, x, axis)
}

/// Where along an axis the smallest element is; Fluid's default axis is 0.
pub fn argmin(b: &mut Builder<'_>, x: &Var, axis: i64) -> Result<Var> {
    arg("arg_min", b, x, axis)
}

fn arg(kind: &str, b: &mut Builder<'_>, x: &Var, axis: i64) -> Result<Var> {
    let layer = b.layer_name(kind, None);
    let out = b.temp_stopped(&layer, DType::I64);
    b.op(OpDesc::new(kind).input("X", x).output("Out", &out).attr("axis", axis))?;
    Ok(out)
}

/// Options of [`argsort`]; defaults as in `fluid.layers.argsort`.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // The names are Fluid's.
pub struct Argsort<'a> {
    pub axis: i32,
    pub descending: bool,
    pub name: Option<&'a str>,
}

impl Default for Argsort<'_> {
    fn default() -> Self {
        Self { axis: -1, descending: false, name: None }
    }
}

/// The sorted elements and where they were: (values, indices).
pub fn argsort(b: &mut Builder<'_>, input: &Var, options: Argsort<'_>) -> Result<(Var, Var)> {
    let layer = b.layer_name("argsort", options.name);
    let dtype = b.meta(input)?.dtype;
    let (values, indices) = (b.temp_stopped(&layer, dtype), b.temp_stopped(&layer, DType::I64));
    b.op(OpDesc::new("argsort")
        .input("X", input)
        .output("Out", &values)
        .output("Indices", &indices)
        .attr("axis", options.axis)
        .attr("descending", options.descending))?;
    Ok((values, indices))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
        let (values, indices) = topk(&mut b, &x, &Count::Is(2), None).unwrap();
        assert_eq!((values.name(), indices.name()), ("top_k_0.tmp_0", "top_k_0.tmp_1"));
        assert!(b.desc(&values).unwrap().stop_gradient);
        let max = argmax(&mut b, &x, -1).unwrap();
        assert_eq!((max.name(), &*b.meta(&max).unwrap().dims), ("arg_max_0.tmp_0", &[-1i64][..]));
        let (_, indices) = argsort(&mut b, &x, Argsort::default()).unwrap();
        assert_eq!(indices.name(), "argsort_0.tmp_1");
    }
}
