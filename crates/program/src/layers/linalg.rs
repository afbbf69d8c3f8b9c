//! Products, diagonals and distances: `addmm`, `bmm`, `dot`, `cross`, `kron`, `diag`, `trace`, `tril`, `dist` and
//! the like.

use tensor::DType;

use super::append::one_op;
use super::fill::stop_gradient;
use super::sizes::Amount;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};

layers! { linear_algebra;
    /// `beta` input + `alpha` x y, a product of matrices.
    fn addmm(input: Floats, x: Floats, y: Floats; Addmm<'a> {
        alpha: f32 = 1.0, beta: f32 = 1.0, name: Name = None,
    }) -> Var { |b, kind|
        let dtype = b.meta(x)?.dtype;
        let op = one_op(b, kind, name).input("Input", input).input("X", x).input("Y", y);
        op.attr("Alpha", alpha).attr("Beta", beta).out_of("Out", dtype)
    }

    /// input + `value` tensor1 tensor2, number by number; written into `out` if it is given.
    fn addcmul(input: Input, tensor1: Input, tensor2: Input; Addcmul<'a> {
        value: f32 = 1.0, out: MaybeInput = None, name: Name = None,
    }) -> Var { |b|
        let _ = name; // Fluid gives it to nothing.
        let product = super::elementwise_mul(b, tensor1, tensor2, super::Elementwise::default())?;
        let scale = super::Scale { scale: Amount::Is(value), ..super::Scale::default() };
        let product = super::scale(b, &product, scale)?;
        let sum = super::elementwise_add(b, input, &product, super::Elementwise::default())?;
        match out {
            Some(out) => super::assign(b, &sum, Some(out)),
            None => Ok(sum),
        }
    }

    /// The product of matrices, one of `x` with one of `y` each.
    fn bmm(x: Floats, y: Floats; name: Name = None) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).input("Y", y).out("Out")
    }

    /// The p-norm of x - y.
    fn dist(x: Floats, y: Floats; p: f32 = [2.0, "2"]) -> Var { |b, kind|
        one_op(b, kind, None).input("X", x).input("Y", y).attr("p", p).out("Out")
    }

    /// The sum of the products along the last dimension. A name is that of the result.
    fn dot(x: Input, y: Input; name: Name = None) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).input("Y", y).out_named("Out", name)
    }

    /// A matrix with rows and columns exchanged; a list stays as it is.
    fn t(input: Input; name: Name = None) -> Var { |b, kind|
        let rank = b.meta(input)?.dims.len();
        if rank > 2 {
            let (layer, argument) = ("t", "input");
            let rule = "must have at most 2 dimensions; transpose takes more";
            return Err(Error::BadArgument { layer, argument, rule, actual: rank.to_string() });
        }
        if rank < 2 {
            return Ok(input.clone());
        }
        let op = one_op(b, kind, name).of("transpose2").input("X", input);
        op.attr("axis", vec![1, 0]).also("Out")?.also("XShape")?.first()
    }

    /// The cross products of vectors along `dim`, or along the first dimension of size 3.
    fn cross(input: Input, other: Input; dim: MaybeI32 = None) -> Var { |b, kind|
        let op = one_op(b, kind, None).input("X", input).input("Y", other);
        // Fluid takes 0 for nothing, too.
        match dim.filter(|&dim| dim != 0) {
            Some(dim) => op.attr("dim", dim),
            None => op,
        }
        .out("Out")
    }

    /// A matrix of zeros with a list, a Variable or an array, on its diagonal.
    fn diag(diagonal: Given) -> Var { |b, kind|
        let out = one_op(b, kind, None).input("Diagonal", diagonal).out("Out")?;
        stop_gradient(b, &out);
        Ok(out)
    }

    /// The last dimension on the diagonals, `offset` above the main one, of new matrices in `dim1` and `dim2`.
    fn diag_embed(input: Given; DiagEmbed {
        offset: i32 = 0, dim1: i32 = (-2), dim2: i32 = (-1),
    }) -> Var { |b, kind|
        let rank = b.meta(input)?.dims.len() as i32;
        let from_front = |dim: i32| if dim < 0 { dim + rank + 1 } else { dim };
        let is_outside = |dim: i32| dim.abs() > rank;
        if rank < 1 || is_outside(dim1) || is_outside(dim2) || from_front(dim1) == from_front(dim2) {
            let (argument, rule) = ("dim1", "dim1 and dim2 must be two dimensions of the result");
            let actual = vec![dim1.into(), dim2.into()];
            return Err(Error::BadSizes { layer: "diag_embed", argument, rule, actual });
        }
        let op = one_op(b, kind, None).input("Input", input).attr("offset", offset);
        let out = op.attr("dim1", dim1).attr("dim2", dim2).out("Out")?;
        stop_gradient(b, &out);
        Ok(out)
    }

    /// The Kronecker product; written into `out` if it is given.
    fn kron(x: Input, y: Input; Kron<'a> { out: MaybeInput = None, name: Name = None }) -> Var { |b, kind|
        one_op(b, kind, name).input("X", x).input("Y", y).out_into("Out", out)
    }

    /// The sums of the diagonals, `offset` above the main one, of the matrices in `dim1` and `dim2`.
    fn trace(input: Input; TraceOptions<'a> {
        offset: i32 = 0, dim1: i32 = 0, dim2: i32 = 1, out: MaybeInput = None, name: Name = None,
    }) -> Var { |b, kind|
        let rank = b.meta(input)?.dims.len() as i32;
        let from_front = |dim: i32| if dim < 0 { dim + rank } else { dim };
        let is_inside = |dim: i32| (0..rank).contains(&from_front(dim));
        if rank < 2 || !is_inside(dim1) || !is_inside(dim2) || from_front(dim1) == from_front(dim2) {
            let (argument, rule) = ("dim1", "dim1 and dim2 must be two dimensions of the input");
            let actual = vec![dim1.into(), dim2.into()];
            return Err(Error::BadSizes { layer: "trace", argument, rule, actual });
        }
        let op = one_op(b, kind, name).input("Input", input).attr("offset", offset);
        op.attr("dim1", dim1).attr("dim2", dim2).out_into("Out", out)
    }

    /// The lower triangle, up to the diagonal `diagonal` above the main one; zeros above it.
    fn tril
    /// The upper triangle, from the diagonal `diagonal` above the main one on; zeros below it.
    fn triu
    (input: Input; diagonal: i32 = 0, name: Name = None) -> Var { |b, kind|
        if b.meta(input)?.dims.len() < 2 {
            let (argument, rule) = ("input", "must have 2 dimensions at least");
            let actual = format!("{:?}", b.meta(input)?.dims);
            return Err(Error::BadArgument { layer: kind, argument, rule, actual });
        }
        // The result has the name of the layer.
        let name = b.layer_name(kind, name);
        let op = one_op(b, kind, Some(&name)).of("tril_triu").input("X", input);
        op.attr("diagonal", diagonal).attr("lower", kind == "tril").out_named("Out", Some(&name))
    }

    /// The logarithm of the sum of e^x along `dim` (a number, a list, or None for all dimensions); written into
    /// `out` if it is given.
    fn logsumexp(x: Floats; Logsumexp<'a> {
        dim: Axes = None, keepdim: Flag = false, out: MaybeInput = None, name: Name = None,
    }) -> Var { |b, kind|
        let exp = super::exp(b, x, None)?;
        let options = super::Reduce { dim, keep_dim: keepdim, name: None };
        let sum = super::reduce_sum(b, &exp, options)?;
        match out {
            Some(_) => one_op(b, kind, name).of("log").input("X", &sum).out_into("Out", out),
            None => super::log(b, &sum, name),
        }
    }

    /// The logarithm of softmax along an axis (the last if None), computed in `dtype` if it is given.
    fn log_softmax(input: Input; LogSoftmax<'a> {
        axis: MaybeI32 = None, dtype: MaybeDtype = None, name: Name = None,
    }) -> Var { |b, kind|
        let layer = b.layer_name(kind, name);
        let from = b.meta(input)?.dtype;
        let mut x = input.clone();
        if let Some(dtype) = dtype {
            x = b.temp(&layer, dtype);
            b.op(super::scale::cast_op(input, from, dtype).output("Out", &x))?;
        }
        let op = OpDesc::new("softmax").attr("axis", axis.unwrap_or(-1)).attr("use_cudnn", false);
        let x = super::append(b, &layer, &x, op)?;
        super::append(b, &layer, &x, OpDesc::new("log"))
    }

    /// The input, but not below `min` and not above `max`, numbers or Variables; one of them may be None, which
    /// stands for 0 below, as in Fluid, and for no bound above. Written into `output` if it is given.
    fn clamp(input: Input; Clamp<'a> {
        min: MaybeFactor = None, max: MaybeFactor = None, output: MaybeInput = None, name: Name = None,
    }) -> Var { |b, kind|
        if min.is_none() && max.is_none() {
            let (argument, rule) = ("min", "either min or max should be defined.");
            return Err(Error::BadSizes { layer: "clamp", argument, rule, actual: vec![] });
        }
        let mut op = one_op(b, kind, name).of("clip").input("X", input);
        let mut stopped = Vec::new();
        for (port, attr, bound, usual) in [("Min", "min", min, 0.0), ("Max", "max", max, f32::INFINITY)] {
            op = match bound {
                Some(Amount::In(var)) => {
                    stopped.push(var.clone());
                    op.input(port, &var).attr(attr, usual)
                }
                Some(Amount::Is(value)) => op.attr(attr, value),
                None => op.attr(attr, usual),
            };
        }
        let out = op.out_into("Out", output)?;
        stopped.iter().for_each(|var| stop_gradient(b, var));
        Ok(out)
    }

    /// Whether all numbers of both are near each other: |input - other| <= atol + rtol |other|.
    fn allclose(input: Input, other: Input; Allclose<'a> {
        rtol: f32 = [1e-5, "1e-05"], atol: f32 = [1e-8, "1e-08"], equal_nan: bool = false,
        name: Name = None,
    }) -> Var { |b, kind|
        let op = one_op(b, kind, name).input("Input", input).input("Other", other);
        let op = op.attr("rtol", rtol).attr("atol", atol).attr("equal_nan", equal_nan);
        op.out_of("Out", DType::Bool)
    }

    /// Where x == y.
    fn elementwise_equal(x: Input, y: Input; name: Name = None) -> Var { |b, kind|
        let op = one_op(b, kind, name).of("equal").input("X", x).input("Y", y);
        op.attr("force_cpu", false).out_stopped("Out", DType::Bool)
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
        let whole = Data { append_batch_size: false, ..Data::default() };
        let x = layers::data(&mut b, "x", &[3, 4], whole.clone()).unwrap();
        let y = layers::data(&mut b, "y", &[4, 2], whole.clone()).unwrap();
        let list = layers::data(&mut b, "list", &[4], whole).unwrap();
        let is = |b: &Builder<'_>, var: Var, name: &str, dims: &[i64]| {
            assert_eq!((var.name(), &*b.meta(&var).unwrap().dims), (name, dims));
        };
        let one = layers::reduce_sum(&mut b, &x, layers::Reduce::default()).unwrap();
        let one = layers::reshape(&mut b, &one, &[1, 1], layers::Reshape::default()).unwrap();
        let z = addmm(&mut b, &one, &x, &y, Addmm::default()).unwrap();
        is(&b, z, "addmm_0.tmp_0", &[3, 2]);
        let z = dot(&mut b, &x, &x, Some("named")).unwrap();
        is(&b, z, "named", &[3, 1]);
        let z = t(&mut b, &x, None).unwrap();
        is(&b, z, "t_0.tmp_0", &[4, 3]);
        assert_eq!(t(&mut b, &list, None).unwrap(), list);
        let z = tril(&mut b, &x, 0, None).unwrap();
        is(&b, z, "tril_0", &[3, 4]);
        let z = diag(&mut b, &list).unwrap();
        assert!(b.desc(&z).unwrap().stop_gradient);
        is(&b, z, "diag_0.tmp_0", &[4, 4]);
        let z = diag_embed(&mut b, &x, DiagEmbed { offset: 1, ..DiagEmbed::default() }).unwrap();
        is(&b, z, "diag_embed_0.tmp_0", &[3, 5, 5]);
        let z = trace(&mut b, &x, TraceOptions::default()).unwrap();
        is(&b, z, "trace_0.tmp_0", &[1]);
        let z = kron(&mut b, &x, &list, Kron::default()).unwrap();
        is(&b, z, "kron_0.tmp_0", &[3, 16]);
        let z = log_softmax(&mut b, &x, LogSoftmax::default()).unwrap();
        is(&b, z, "log_softmax_0.tmp_1", &[3, 4]);
        let bounds = Clamp { min: Some(Amount::Is(1.0)), ..Clamp::default() };
        let z = clamp(&mut b, &x, bounds).unwrap();
        is(&b, z, "clamp_0.tmp_0", &[3, 4]);
        let z = logsumexp(&mut b, &x, Logsumexp::default()).unwrap();
        is(&b, z, "log_0.tmp_0", &[1]);
        let z = addcmul(&mut b, &x, &x, &x, Addcmul { out: Some(&x), ..Addcmul::default() });
        assert_eq!(z.unwrap(), x);
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = layers::data(&mut b, "x", &[3, 4], Data::default()).unwrap();
        let list = layers::reshape(&mut b, &x, &[-1], layers::Reshape::default()).unwrap();
        for error in [
            t(&mut b, &x, None).unwrap_err(),
            tril(&mut b, &list, 0, None).unwrap_err(),
            clamp(&mut b, &x, Clamp::default()).unwrap_err(),
            trace(&mut b, &list, TraceOptions::default()).unwrap_err(),
            diag_embed(&mut b, &x, DiagEmbed { dim2: 2, ..DiagEmbed::default() }).unwrap_err(),
        ] {
            let is_one = matches!(error, Error::BadArgument { .. } | Error::BadSizes { .. });
            assert!(is_one, "{error}");
        }
    }
}
