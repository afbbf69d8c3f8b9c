//! `data`: an input of the program.

use tensor::DType;

use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::var::{Meta, VarDesc, VarKind};

/// What an input may be besides its name and shape; defaults as in `fluid.layers.data`.
#[derive(Clone, Debug)]
pub struct Data {
    /// The shape is that of one sample: -1 is put before it.
    pub append_batch_size: bool,
    /// Element type.
    pub dtype: DType,
    /// How deep sequences are nested; 0 for none.
    pub lod_level: i32,
    /// No gradient is computed for it.
    pub stop_gradient: bool,
    /// Shape and type of what is fed are checked.
    pub need_check_feed: bool,
}

impl Default for Data {
    fn default() -> Self {
        Self {
            append_batch_size: true,
            dtype: DType::F32,
            lod_level: 0,
            stop_gradient: true,
            need_check_feed: false,
        }
    }
}

impl Data {
    /// An input of whole numbers, such as ids or labels.
    pub fn ids() -> Self {
        Self { dtype: DType::I64, ..Self::default() }
    }
}

/// Declares an input. A batch dimension of -1 goes first unless the shape has a -1 of its own.
pub fn data(b: &mut Builder<'_>, name: &str, shape: &[i64], options: Data) -> Result<Var> {
    let mut dims = shape.to_vec();
    if options.append_batch_size && dims.iter().all(|&dim| dim >= 0) {
        dims.insert(0, -1);
    }
    let Data { dtype, lod_level, stop_gradient, need_check_feed, .. } = options;
    let meta = Meta { kind: VarKind::LodTensor, dtype, dims, lod_level };
    let var = VarDesc { stop_gradient, need_check_feed, is_data: true, ..VarDesc::new(name, meta) };
    b.main.block_mut(0).create_var(var)?;
    Ok(Var::from(name))
}
