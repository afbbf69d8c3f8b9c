//! The inputs of a model.

use program::Program;
use tensor::DType;
use train::io::InferenceModel;

use crate::error::{Error, Result};

/// One input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The variable.
    pub name: String,
    /// The type of its numbers.
    pub dtype: DType,
    /// The shape of a sample, or of one element of a sequence; -1 where it is not fixed.
    pub dims: Vec<i64>,
    /// 0: a sample is one element. 1: a sample is a sequence.
    pub lod_level: usize,
}

impl Slot {
    /// The inputs of a model.
    pub(crate) fn all(model: &InferenceModel) -> Result<Vec<Slot>> {
        model.feeds.iter().map(|name| Self::new(&model.program, name)).collect()
    }

    fn new(program: &Program, name: &str) -> Result<Self> {
        let var = program.need_var(0, name).map_err(train::Error::from)?;
        let dims = var.meta.dims.get(1..).unwrap_or(&[]).to_vec();
        let lod_level = var.meta.lod_level.max(0) as usize;
        Ok(Self { name: name.to_string(), dtype: var.meta.dtype, dims, lod_level })
    }

    /// Whether a sample is a sequence.
    pub fn is_sequence(&self) -> bool {
        self.lod_level > 0
    }

    /// Numbers of a sample, or of one element of a sequence.
    pub fn width(&self) -> Result<usize> {
        let width = self
            .dims
            .iter()
            .try_fold(1usize, |width, &dim| width.checked_mul(usize::try_from(dim).ok()?));
        let is_plain = self.lod_level <= 1;
        width
            .filter(|&width| width > 0 && is_plain)
            .ok_or_else(|| Error::NoColumn { slot: self.name.clone(), dims: self.dims.clone() })
    }
}
