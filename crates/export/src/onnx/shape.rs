//! The same numbers in other shapes and other places.

use super::convert::{CUT, Convert, FIXED, int, ints};
use crate::error::Result;

pub(super) fn reshape(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["Shape", "ShapeTensor"])?;
    let shape = c.op.attrs.ints("shape")?;
    let x = c.input("X")?;
    // 0 and -1 mean the same in both: the size that X has there, and what is left.
    let shape = c.graph.ints(&shape);
    c.out("Out", "Reshape", &[&x, &shape], Vec::new())
}

pub(super) fn transpose(c: &mut Convert<'_>) -> Result<()> {
    let order = c.op.attrs.ints("axis")?;
    let x = c.input("X")?;
    c.out("Out", "Transpose", &[&x], ints("perm", order))
}

pub(super) fn concat(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["AxisTensor"])?;
    let axis = c.axis("axis", 0, c.rank("X")?)?;
    let parts = c.inputs("X")?;
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    c.out("Out", "Concat", &parts, int("axis", axis))
}

pub(super) fn stack(c: &mut Convert<'_>) -> Result<()> {
    let axis = c.axis("axis", 0, c.rank("X")? + 1)?;
    let list = c.graph.ints(&[axis]);
    let mut parts = Vec::new();
    for part in c.inputs("X")? {
        parts.push(c.node("Unsqueeze", &[&part, &list], Vec::new()));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    c.out("Y", "Concat", &parts, int("axis", axis))
}

pub(super) fn split(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["AxisTensor", "SectionsTensorList"])?;
    let dims = c.meta("X")?.dims;
    let axis = c.axis("axis", 0, dims.len())?;
    let outputs = c.op.output_names("Out").to_vec();
    let mut sections = c.op.attrs.ints("sections")?;
    let whole = dims[axis as usize];
    if sections.is_empty() {
        let n = outputs.len() as i64;
        if whole < 0 || n == 0 || whole % n != 0 {
            return Err(c.refuse(format!("a dimension of {whole} is cut into {n} parts"), FIXED));
        }
        sections = vec![whole / n; outputs.len()];
    }
    if let Some(at) = sections.iter().position(|&section| section < 0) {
        if whole < 0 {
            return Err(c.refuse("the size of a part is not known", FIXED));
        }
        sections[at] = 0;
        sections[at] = whole - sections.iter().sum::<i64>();
    }
    let x = c.input("X")?;
    let sections = c.graph.ints(&sections);
    let names: Vec<String> = outputs.iter().map(|var| c.graph.name_for(var)).collect();
    c.graph.node_to("Split", &[&x, &sections], names.clone(), int("axis", axis));
    outputs.iter().zip(names).for_each(|(var, name)| c.graph.set(var, name));
    Ok(())
}

pub(super) fn unstack(c: &mut Convert<'_>) -> Result<()> {
    let axis = c.axis("axis", 0, c.rank("X")?)?;
    let outputs = c.op.output_names("Y").to_vec();
    let x = c.input("X")?;
    let list = c.graph.ints(&[axis]);
    for (at, var) in outputs.iter().enumerate() {
        let (start, end) = (c.graph.ints(&[at as i64]), c.graph.ints(&[at as i64 + 1]));
        let part = c.node("Slice", &[&x, &start, &end, &list], Vec::new());
        c.out_var(var, "Squeeze", &[&part, &list], Vec::new());
    }
    Ok(())
}

pub(super) fn slice(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["StartsTensor", "StartsTensorList", "EndsTensor", "EndsTensorList"])?;
    let attrs = &c.op.attrs;
    let (axes, dropped) = (attrs.ints("axes")?, attrs.ints("decrease_axis")?);
    let (starts, ends) = (attrs.ints("starts")?, attrs.ints("ends")?);
    let rank = c.rank("Input")?;
    let x = c.input("Input")?;
    let lists = [&starts, &ends, &axes].map(|list| c.graph.ints(list));
    let inputs = [x.as_str(), &lists[0], &lists[1], &lists[2]];
    if dropped.is_empty() {
        return c.out("Out", "Slice", &inputs, Vec::new());
    }
    let part = c.node("Slice", &inputs, Vec::new());
    if dropped.len() == rank {
        let shape = c.graph.ints(&[1]);
        return c.out("Out", "Reshape", &[&part, &shape], Vec::new());
    }
    let dropped = c.graph.ints(&dropped);
    c.out("Out", "Squeeze", &[&part, &dropped], Vec::new())
}

pub(super) fn squeeze(c: &mut Convert<'_>) -> Result<()> {
    let dims = c.meta("X")?.dims;
    let mut axes = c.op.attrs.ints("axes")?;
    if axes.is_empty() {
        let ones = (0..).zip(&dims).filter(|&(_, &dim)| dim == 1);
        axes = ones.map(|(axis, _): (i64, _)| axis).collect();
    }
    // A dimension of another size stays.
    let rank = dims.len() as i64;
    axes.retain(|&axis| {
        let axis = if axis < 0 { axis + rank } else { axis };
        dims.get(axis as usize).is_some_and(|&dim| dim == 1 || dim < 0)
    });
    let x = c.input("X")?;
    if axes.is_empty() {
        return c.out("Out", "Identity", &[&x], Vec::new());
    }
    let axes = c.graph.ints(&axes);
    c.out("Out", "Squeeze", &[&x, &axes], Vec::new())
}

pub(super) fn unsqueeze(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["AxesTensor", "AxesTensorList"])?;
    let axes = c.op.attrs.ints("axes")?;
    let mut value = c.input("X")?;
    let Some((last, before)) = axes.split_last() else {
        return c.out("Out", "Identity", &[&value], Vec::new());
    };
    // Each axis counts those that were put in before it.
    for &axis in before {
        let axis = c.graph.ints(&[axis]);
        value = c.node("Unsqueeze", &[&value, &axis], Vec::new());
    }
    let last = c.graph.ints(&[*last]);
    c.out("Out", "Unsqueeze", &[&value, &last], Vec::new())
}

pub(super) fn flatten(c: &mut Convert<'_>) -> Result<()> {
    let axis = c.op.attrs.int("axis", 1)?;
    let x = c.input("X")?;
    c.out("Out", "Flatten", &[&x], int("axis", axis))
}

pub(super) fn expand(c: &mut Convert<'_>) -> Result<()> {
    c.without(&["ExpandTimes", "expand_times_tensor"])?;
    let times = c.op.attrs.ints("expand_times")?;
    if times.len() != c.rank("X")? {
        return Err(c.refuse("it repeats other dimensions than X has", CUT));
    }
    let x = c.input("X")?;
    let times = c.graph.ints(&times);
    c.out("Out", "Tile", &[&x, &times], Vec::new())
}
