//! Places: the greatest, chosen rows, rows with a single 1.

use tensor::{DType, Tensor};

use super::convert::{CUT, Convert, int};
use super::proto::{NodeField, type_code};
use crate::error::Result;

pub(super) fn arg(c: &mut Convert<'_>, op: &'static str) -> Result<()> {
    let axis = c.axis("axis", -1, c.rank("X")?)?;
    let keeps = c.op.attrs.bool("keepdims", false)?;
    let x = c.input("X")?;
    let fields = vec![("axis", NodeField::Int(axis)), ("keepdims", NodeField::Int(keeps.into()))];
    c.out("Out", op, &[&x], fields)
}

pub(super) fn cumsum(c: &mut Convert<'_>) -> Result<()> {
    let axis = c.axis("axis", -1, c.rank("X")?)?;
    let attrs = &c.op.attrs;
    let flags = [attrs.bool("exclusive", false)?, attrs.bool("reverse", false)?];
    let [exclusive, reverse] = flags.map(|flag| NodeField::Int(flag.into()));
    let x = c.input("X")?;
    let axis = c.graph.scalar(DType::I64, axis as f64);
    c.out("Out", "CumSum", &[&x, &axis], vec![("exclusive", exclusive), ("reverse", reverse)])
}

pub(super) fn gather(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["Axis"])?;
    let rank = c.rank("Index")?;
    let (x, mut index) = (c.input("X")?, c.input("Index")?);
    if rank == 2 {
        index = c.reshaped(&index, &[-1]);
    }
    c.out("Out", "Gather", &[&x, &index], int("axis", 0))
}

pub(super) fn top_k(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["K"])?;
    let k = c.op.attrs.int("k", 1)?;
    let x = c.input("X")?;
    let k = c.graph.ints(&[k]);
    let mut names = Vec::new();
    for port in ["Out", "Indices"] {
        let var = c.op.output_names(port).first().cloned();
        let var = var.ok_or_else(|| c.refuse(format!("it has no output {port}"), CUT))?;
        let name = c.graph.name_for(&var);
        c.graph.set(&var, name.clone());
        names.push(name);
    }
    c.graph.node_to("TopK", &[&x, &k], names, int("axis", -1));
    Ok(())
}

pub(super) fn one_hot(c: &mut Convert<'_>) -> Result<()> {
    hot(c, true)
}

pub(super) fn one_hot_v2(c: &mut Convert<'_>) -> Result<()> {
    hot(c, false)
}

fn hot(c: &mut Convert<'_>, drops_last: bool) -> Result<()> {
    c.without(&["depth_tensor"])?;
    let depth = c.op.attrs.int("depth", 1)?;
    let dtype = c.out_meta("Out")?.dtype;
    let rank = c.rank("X")? as i64;
    let mut x = c.input("X")?;
    if drops_last {
        let last = c.graph.ints(&[rank - 1]);
        x = c.node("Squeeze", &[&x, &last], Vec::new());
    }
    let depth = c.graph.scalar(DType::I64, depth as f64);
    let values = c.graph.constant("off_on", Tensor::new([2], &[0.0f32, 1.0])?);
    let hot = c.node("OneHot", &[&x, &depth, &values], int("axis", -1));
    c.out("Out", "Cast", &[&hot], int("to", type_code(dtype)))
}
