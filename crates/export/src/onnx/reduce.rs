//! Sums, means and extremes along dimensions.

use super::convert::{Convert, int};
use super::proto::NodeField;
use crate::error::Result;

/// The mean of all numbers, in the shape [1].
pub(super) fn mean(c: &mut Convert<'_>) -> Result<()> {
    let x = c.input("X")?;
    let mean = c.node("ReduceMean", &[&x], int("keepdims", 0));
    let shape = c.graph.ints(&[1]);
    c.out("Out", "Reshape", &[&mean, &shape], Vec::new())
}

pub(super) fn reduce(c: &mut Convert<'_>, op: &'static str) -> Result<()> {
    let rank = c.rank("X")? as i64;
    let attrs = &c.op.attrs;
    let keeps = attrs.bool("keep_dim", false)?;
    let given = match c.op.attrs.get("dim") {
        Some(program::Attr::Int(dim)) => vec![i64::from(*dim)],
        None => vec![0],
        _ => attrs.ints("dim")?,
    };
    let mut axes: Vec<i64> = if attrs.bool("reduce_all", false)? {
        (0..rank).collect()
    } else {
        given.iter().map(|&dim| if dim < 0 { dim + rank } else { dim }).collect()
    };
    axes.sort_unstable();
    axes.dedup();
    let is_whole = axes.len() as i64 == rank && !keeps;
    let x = c.input("X")?;
    let mut fields = int("keepdims", i64::from(keeps));
    let list = c.graph.ints(&axes);
    let inputs = match op {
        // Of all these, only the sum has its axes as an input.
        "ReduceSum" => vec![x.as_str(), &list],
        _ => {
            fields.push(("axes", NodeField::Ints(axes)));
            vec![x.as_str()]
        }
    };
    if !is_whole {
        return c.out("Out", op, &inputs, fields);
    }
    let reduced = c.node(op, &inputs, fields);
    let shape = c.graph.ints(&[1]);
    c.out("Out", "Reshape", &[&reduced, &shape], Vec::new())
}
