//! `print`: Out = In, shown to the user on the way.
//!
//! `message`, the name, shape, type and sequences as asked for, and `summarize` numbers (-1: all).
//! `first_n` counts the runs of one prepared program; Fluid prepares one for each call, and so does
//! this: every call shows its numbers. Gradient: the same, for the gradient on its way back.

use std::fmt::Write;

use tensor::{DType, Tensor};

use super::{Grad, Infer, Op, Run, traits};
use crate::attr::Attrs;
use crate::block::OpDesc;
use crate::error::Result;

pub(super) struct Print;

impl Op for Print {
    traits!(Never; has_side_effect);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let x = infer.input("In")?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let attrs = run.attrs();
        let mut out = run.take("Out");
        out.copy_from(run.input("In")?);
        let forward = attrs.bool("is_forward", true)?;
        let silent = match attrs.str("print_phase", "BOTH")?.to_ascii_uppercase().as_str() {
            "FORWARD" => !forward,
            "BACKWARD" => forward,
            _ => false,
        };
        if !silent {
            let text = text(attrs, run.input_name("In"), &out)?;
            run.host().print(&text)?;
        }
        run.put("Out", out);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let mut op = OpDesc::new("print").input("In", grad.output_grad("Out"));
        op.attrs = grad.op().attrs.clone();
        op.attrs.set("is_forward", false);
        grad.emit(op.output("Out", grad.input_grad("In")))
    }
}

/// The output: a line with the message, and one for each thing asked for.
fn text(attrs: &Attrs, name: &str, tensor: &Tensor) -> Result<String> {
    let mut text = format!("{}\tThe place is:CPUPlace", attrs.str("message", "")?);
    let mut line = |part: std::fmt::Arguments<'_>| {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n{part}");
    };
    if attrs.bool("print_tensor_name", true)? {
        line(format_args!("Tensor[{name}]"));
    }
    if attrs.bool("print_tensor_shape", true)? {
        line(format_args!("\tshape: [{}]", list(tensor.dims())));
    }
    if attrs.bool("print_tensor_type", true)? {
        line(format_args!("\tdtype: {}", letter(tensor.dtype())));
    }
    if attrs.bool("print_tensor_lod", true)? && !tensor.lod().is_empty() {
        let levels = tensor.lod().levels().iter().map(|level| format!("[ {} ]", list(level)));
        line(format_args!("\tLoD: [{}]", levels.collect::<String>()));
    }
    let n_shown = match attrs.int("summarize", -1)? {
        n if n < 0 => tensor.len(),
        n => tensor.len().min(n as usize),
    };
    let data: String = (0..n_shown).map(|i| format!("{},", general(tensor.get_f64(i)))).collect();
    line(format_args!("\tdata: {data}"));
    Ok(text)
}

fn list(sizes: &[usize]) -> String {
    sizes.iter().map(|size| format!("{size},")).collect()
}

/// The letter C++ has for the type.
fn letter(dtype: DType) -> char {
    match dtype {
        DType::Bool => 'b',
        DType::U8 => 'h',
        DType::I8 => 'a',
        DType::I16 | DType::F16 => 's',
        DType::I32 => 'i',
        DType::I64 => 'l',
        DType::F32 => 'f',
        DType::F64 => 'd',
    }
}

/// Six digits, and an exponent only where it is shorter: C's `%g`.
fn general(x: f64) -> String {
    if !x.is_finite() {
        return if x.is_nan() {
            "nan"
        } else if x > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .to_string();
    }
    let scientific = format!("{x:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            text.to_string()
        }
    };
    if (-4..6).contains(&exponent) {
        return trimmed(&format!("{x:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(digits), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::seq;
    use crate::op::{Host, Spare, Wiring};
    use tensor::Value;

    struct Paper(Vec<String>);

    impl Host for Paper {
        fn print(&mut self, line: &str) -> Result<()> {
            self.0.push(line.to_string());
            Ok(())
        }
    }

    fn printed(op: OpDesc) -> Vec<String> {
        let op = op.input("In", "x").output("Out", "y");
        let x = seq(Tensor::new([3, 1], &[1.5f32, 1e-7, 3e10]).unwrap(), &[1, 2]);
        let wiring = Wiring::new(&op, |name| usize::from(name == "y"));
        let mut vars = [Value::Tensor(x.clone()), Value::Empty];
        let (mut spare, mut host) = (Spare::default(), Paper(Vec::new()));
        Print.run(&mut Run::new(&op, &wiring, &mut vars, &mut spare, &mut host)).unwrap();
        assert_eq!(vars[1], Value::Tensor(x), "passes its input on");
        host.0
    }

    #[test]
    fn shows_what_fluid_shows() {
        let text = printed(OpDesc::new("print").attr("message", "hello"));
        let expected = "hello\tThe place is:CPUPlace\nTensor[x]\n\tshape: [3,1,]\n\tdtype: f\n\t\
                        LoD: [[ 0,1,3, ]]\n\tdata: 1.5,1e-07,3e+10,";
        assert_eq!(text, [expected]);
    }

    #[test]
    fn leaves_out_what_is_not_wanted() {
        let mut op = OpDesc::new("print").attr("summarize", 1);
        for part in ["name", "shape", "type", "lod"] {
            op = op.attr(&format!("print_tensor_{part}"), false);
        }
        assert_eq!(printed(op.clone()), ["\tThe place is:CPUPlace\n\tdata: 1.5,"]);
        assert!(printed(op.attr("print_phase", "BACKWARD")).is_empty());
    }

    #[test]
    fn numbers_look_like_cs() {
        for (x, text) in [
            (1.0 / 3.0, "0.333333"),
            (-0.0, "-0"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.23457e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(x), text);
        }
    }
}
