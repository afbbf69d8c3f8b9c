//! `Print`: shows a variable whenever the program runs.

use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

use super::append::append;

/// Options of [`print`]; defaults as in `fluid.layers.Print`.
#[derive(Clone, Copy, Debug)]
pub struct Print<'a> {
    /// How many runs show it; -1 for all.
    pub first_n: i32,
    /// Text in front.
    pub message: Option<&'a str>,
    /// How many elements are shown; -1 for all.
    pub summarize: i32,
    /// Shows the name of the variable.
    pub print_tensor_name: bool,
    /// Shows the element type.
    pub print_tensor_type: bool,
    /// Shows the shape.
    pub print_tensor_shape: bool,
    /// Shows the sequence offsets.
    pub print_tensor_lod: bool,
    /// `forward`, `backward` or `both`.
    pub print_phase: &'a str,
}

impl Default for Print<'_> {
    fn default() -> Self {
        Self {
            first_n: -1,
            message: None,
            summarize: 20,
            print_tensor_name: true,
            print_tensor_type: true,
            print_tensor_shape: true,
            print_tensor_lod: true,
            print_phase: "both",
        }
    }
}

/// The input, shown on its way.
pub fn print(b: &mut Builder<'_>, input: &Var, options: Print<'_>) -> Result<Var> {
    let dtype = b.meta(input)?.dtype;
    let op = OpDesc::new("print")
        .input("In", input)
        .attr("first_n", options.first_n)
        .attr("message", options.message.unwrap_or(""))
        .attr("summarize", options.summarize)
        .attr("print_tensor_name", options.print_tensor_name)
        .attr("print_tensor_type", options.print_tensor_type)
        .attr("print_tensor_shape", options.print_tensor_shape)
        .attr("print_tensor_lod", options.print_tensor_lod)
        .attr("print_phase", options.print_phase.to_ascii_uppercase())
        .attr("is_forward", true);
    append(b, &format!("print_{}", input.name()), None, dtype, op)
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
        let x = layers::data(&mut b, "x", &[6], Data::default()).unwrap();
        let shown = print(&mut b, &x, Print::default()).unwrap();
        assert_eq!(shown.name(), "print_x_0.tmp_0");
        assert_eq!(b.main.block(0).ops[0].attrs.str("print_phase", "").unwrap(), "BOTH");
    }
}
