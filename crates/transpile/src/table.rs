//! The table made with `is_distributed=True`: trained as any other, but that gradients of trainers are
//! added up. Fluid allows one.

use program::{Program, VarDesc};
use tensor::DType;

use crate::error::{Error, Result};

/// The one such table of a program.
pub(super) fn find(main: &Program) -> Result<Option<String>> {
    let mut name: Option<&String> = None;
    for op in main.blocks().iter().flat_map(|block| &block.ops).filter(|op| op.traits().looks_up) {
        if !op.attrs.bool("is_distributed", false)? {
            continue;
        }
        match (name, op.input_names("W").first()) {
            (Some(before), Some(now)) if before != now => {
                let tables = [before.clone(), now.clone()];
                return Err(Error::SeveralTables { tables });
            }
            (_, now) => name = now,
        }
    }
    let Some(name) = name else { return Ok(None) };
    let VarDesc { meta, .. } = main.need_var(0, name)?;
    if meta.dims.len() != 2 {
        return Err(Error::TableShape { table: name.clone(), dims: meta.dims.clone() });
    }
    match meta.dtype {
        DType::F32 => Ok(Some(name.clone())),
        actual => Err(Error::TableType { table: name.clone(), actual }),
    }
}
