//! Weights that were arranged for products before the first run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use program::Program;
use tensor::{DType, PackedMatrix, Value};

use crate::scope::Scope;

/// The weights of a program that never change, arranged once for all executors that run it.
///
/// The variables themselves stay as they are, for other readers.
#[derive(Clone, Debug, Default)]
pub struct PackedWeights(Arc<HashMap<String, Arc<PackedMatrix>>>);

impl PackedWeights {
    /// Arranges what the products of a program multiply with. The program may not be changed
    /// afterwards, nor the variables.
    pub fn new(program: &Program, scope: &Scope) -> Self {
        let ops = || program.blocks().iter().flat_map(|block| &block.ops);
        let written: HashSet<&str> = ops().flat_map(|op| op.writes()).collect();
        let mut packed = HashMap::new();
        for op in ops().filter(|op| op.kind == "mul") {
            let is_matrix = op.attrs.int("y_num_col_dims", 1).is_ok_and(|n| n == 1);
            let [weights] = op.input_names("Y") else { continue };
            let is_steady = !written.contains(weights.as_str())
                && program.find_var(0, weights).is_some_and(|var| var.persistable);
            if is_matrix && is_steady && !packed.contains_key(weights) {
                let matrix = scope.read(weights, pack).flatten();
                packed.extend(matrix.map(|matrix| (weights.clone(), Arc::new(matrix))));
            }
        }
        Self(Arc::new(packed))
    }

    pub(super) fn get(&self, var: &str) -> Option<Arc<PackedMatrix>> {
        self.0.get(var).cloned()
    }

    /// Bytes of all of them.
    pub fn n_bytes(&self) -> usize {
        self.0.values().map(|matrix| matrix.n_bytes()).sum()
    }
}

fn pack(value: &Value) -> Option<PackedMatrix> {
    let tensor = value.tensor().filter(|tensor| tensor.dtype() == DType::F32)?;
    let &[rows, columns] = tensor.dims() else { return None };
    Some(PackedMatrix::new(tensor.data::<f32>().ok()?, rows, columns))
}
