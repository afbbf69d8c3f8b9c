//! Layers refuse variables of types that those of Fluid 1.8.5 do not take, before anything is built. Each op
//! says which those are.
//!
//! Ops that programs bring themselves are not held to this; their kernels report unsupported types
//! when they run.

use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names::EMPTY;
use crate::program::{BlockId, Program};

/// Refuses an op that a layer is about to append with a variable of a type it does not take.
pub(crate) fn check(program: &Program, block: BlockId, op: &OpDesc) -> Result<()> {
    let traits = op.traits();
    for (port, vars) in &op.inputs {
        let Some(allowed) = traits.types_at(port) else { continue };
        for var in vars.iter().filter(|var| *var != EMPTY) {
            let meta = &program.need_var(block, var)?.meta;
            if meta.kind.has_tensor() && !allowed.contains(&meta.dtype) {
                let op = op.kind.clone();
                let var = var.clone();
                let actual = meta.dtype;
                return Err(Error::LayerDType { op, var, allowed, actual });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tensor::DType::{self, I16, I64};

    use super::*;
    use crate::Net;
    use crate::layers::{self, Data};

    #[test]
    fn layers_refuse_types_as_fluid_does() {
        let mut net = Net::default();
        let mut b = net.builder();
        let of = |dtype| Data { dtype, lod_level: 1, ..Data::default() };
        let short = layers::data(&mut b, "short", &[2], of(I16)).unwrap();
        let whole = layers::data(&mut b, "whole", &[2], of(I64)).unwrap();
        let options = layers::SequencePool::default();
        let error = layers::sequence_pool(&mut b, &whole, "sum", options).unwrap_err();
        let text =
            "The data type of 'whole' in sequence_pool must be ['float32'], but received int64.";
        assert_eq!(error.to_string(), text);
        let error = layers::cast(&mut b, &short, DType::I32).unwrap_err();
        assert!(matches!(error, Error::LayerDType { actual: I16, .. }), "{error}");
        layers::cast(&mut b, &whole, DType::F32).unwrap();
    }
}
