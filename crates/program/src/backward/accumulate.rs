//! A variable used twice gets two gradients: they are renamed and summed before the first reader.

use std::collections::HashMap;

use crate::block::OpDesc;
use crate::names::EMPTY;

/// Marks the parts of a sum: `<grad>@RENAME@block0@0`.
pub(super) const RENAME: &str = "@RENAME@block0@";

/// One argument of an op's output.
#[derive(Clone, Copy, Debug)]
struct Argument {
    op: usize,
    port: usize,
    arg: usize,
}

/// Where a gradient was written since it was last complete.
#[derive(Debug, Default)]
struct GradParts {
    places: Vec<Argument>,
    /// Parts named so far; names of a later sum continue from here.
    n_named: usize,
}

/// Gives every repeated output a name of its own and inserts the `sum` ops.
/// Gradients of lists (`is_list`) are added to in place by every op that has a part of them.
pub(super) fn sum_repeated(mut ops: Vec<OpDesc>, is_list: impl Fn(&str) -> bool) -> Vec<OpDesc> {
    let mut parts: HashMap<String, GradParts> = HashMap::new();
    // In order of first writing, so that sums at the end come out the same every time.
    let mut order: Vec<String> = Vec::new();
    let mut sums: Vec<(usize, OpDesc)> = Vec::new();
    for at in 0..ops.len() {
        let reads: Vec<String> = ops[at].reads().map(str::to_string).collect();
        for grad in &reads {
            let Some(part) = parts.get_mut(grad) else { continue };
            sums.extend(complete(&mut ops, grad, part).map(|sum| (at, sum)));
            // The op that wrote the variable reads its gradient: what stood there before has another.
            part.places.clear();
        }
        for (place, grad) in outputs(&ops[at], at) {
            if is_list(&grad) {
                continue;
            }
            let entry = parts.entry(grad.clone()).or_insert_with(|| {
                order.push(grad);
                GradParts::default()
            });
            entry.places.push(place);
        }
    }
    let end = ops.len();
    for grad in &order {
        if let Some(sum) = parts.get_mut(grad).and_then(|p| complete(&mut ops, grad, p)) {
            sums.push((end, sum));
        }
    }
    interleave(ops, sums)
}

fn outputs(op: &OpDesc, at: usize) -> Vec<(Argument, String)> {
    let ports = op.outputs.iter().enumerate();
    let places = ports.flat_map(|(port, (_, vars))| {
        let vars = vars.iter().enumerate().filter(|(_, var)| *var != EMPTY);
        vars.map(move |(arg, var)| (Argument { op: at, port, arg }, var.clone()))
    });
    places.collect()
}

/// If the gradient was written more than once: renames the parts, returns their sum.
fn complete(ops: &mut [OpDesc], grad: &str, parts: &mut GradParts) -> Option<OpDesc> {
    if parts.places.len() < 2 {
        return None;
    }
    let mut names = Vec::new();
    for place in &parts.places {
        let name = format!("{grad}{RENAME}{}", parts.n_named);
        parts.n_named += 1;
        ops[place.op].outputs[place.port].1[place.arg] = name.clone();
        names.push(name);
    }
    // From here on the sum is the one place that writes it.
    parts.places.clear();
    Some(OpDesc::new("sum").input("X", names).output("Out", grad).attr("use_mkldnn", false))
}

fn interleave(ops: Vec<OpDesc>, sums: Vec<(usize, OpDesc)>) -> Vec<OpDesc> {
    let mut result = Vec::with_capacity(ops.len() + sums.len());
    let mut sums = sums.into_iter().peekable();
    for (at, op) in ops.into_iter().enumerate() {
        while let Some((_, sum)) = sums.next_if(|(before, _)| *before == at) {
            result.push(sum);
        }
        result.push(op);
    }
    result.extend(sums.map(|(_, sum)| sum));
    result
}
