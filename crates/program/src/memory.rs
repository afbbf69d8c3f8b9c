//! How much memory the results of a program take, as its descriptions say.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::program::Program;
use crate::var::{VarDesc, VarKind};

/// An estimate: between `low` and `high`, in `unit`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// `B`, `KB` or `MB`.
    pub unit: &'static str,
}

/// Adds up what the ops of the outermost block write for a batch of this size, and something on top.
pub fn usage(program: &Program, batch_size: i64) -> Result<Usage> {
    if batch_size <= 0 {
        return Err(refuse("batch_size", "The batch size need to be positive.", batch_size));
    }
    let block = program.block(0);
    let mut seen = HashSet::new();
    let mut total = 0.0;
    for name in block.ops.iter().flat_map(|op| op.writes()) {
        if let Some(var) = block.var(name).filter(|_| seen.insert(name)) {
            total += bytes(var, batch_size)?;
        }
    }
    let mut unit = "B";
    for larger in ["KB", "MB"] {
        if total > 1024.0 {
            (total, unit) = (total / 1024.0, larger);
        }
    }
    Ok(Usage { low: total * 1.05, high: total * 1.1, unit })
}

/// Bytes of a dense variable; 0 for others.
fn bytes(var: &VarDesc, batch_size: i64) -> Result<f64> {
    if var.meta.kind != VarKind::LodTensor {
        return Ok(0.0);
    }
    if var.meta.dims.iter().filter(|&&dim| dim < 0).count() > 1 {
        let rule = "it has more than one negative dim.";
        return Err(refuse("program", rule, format!("Var {}", var.name)));
    }
    let size = |&dim: &i64| if dim < 0 { (batch_size * -dim) as f64 } else { dim as f64 };
    let elements: f64 = var.meta.dims.iter().map(size).product();
    Ok(elements * var.meta.dtype.size() as f64)
}

fn refuse(argument: &'static str, rule: &'static str, actual: impl ToString) -> Error {
    Error::BadArgument { layer: "memory_usage", argument, rule, actual: actual.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;
    use crate::layers::{Data, data, relu};

    fn net(dims: &[i64]) -> Net {
        let mut net = Net::default();
        let mut b = net.builder();
        let whole = Data { append_batch_size: false, ..Data::default() };
        let x = data(&mut b, "x", dims, whole).unwrap();
        relu(&mut b, &x, None).unwrap();
        net
    }

    #[test]
    fn counts_what_is_written_for_a_batch() {
        let usage = usage(&net(&[-1, 8]).main, 100).unwrap();
        assert_eq!(usage.unit, "KB");
        assert!((usage.low - 3.125 * 1.05).abs() < 1e-9, "{usage:?}");
        assert!((usage.high - 3.125 * 1.1).abs() < 1e-9, "{usage:?}");
    }

    #[test]
    fn refuses_what_it_cannot_know() {
        assert!(matches!(usage(&net(&[-1, -1]).main, 2), Err(Error::BadArgument { .. })));
        assert!(matches!(usage(&net(&[-1, 2]).main, 0), Err(Error::BadArgument { .. })));
    }
}
