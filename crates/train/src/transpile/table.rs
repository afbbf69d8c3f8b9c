//! The table made with `is_distributed=True`: its rows are spread over all servers by id and exist
//! from their first use on.

use program::{Attrs, OpDesc, Program, role};
use tensor::DType;

use crate::error::{Error, Result};

/// The table, as the program describes it.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) height: i64,
    pub(super) width: i64,
    pub(super) dtype: DType,
    /// Its gradient.
    pub(super) grad: String,
    /// The variable with the learning rate of its update.
    pub(super) rate: Option<String>,
    /// How a row starts: the attributes of its init op, with the op's name as `init`.
    pub(super) init: Attrs,
}

impl Table {
    /// The one such table of a program.
    pub(super) fn find(
        main: &Program,
        startup: &Program,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>> {
        let mut name: Option<&String> = None;
        for op in
            main.blocks().iter().flat_map(|block| &block.ops).filter(|op| op.traits().looks_up)
        {
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
        let meta = &main.need_var(0, name)?.meta;
        let [height, width] = *meta.dims else {
            return Err(Error::TableShape { table: name.clone(), dims: meta.dims.clone() });
        };
        if meta.dtype != DType::F32 {
            return Err(Error::TableType { table: name.clone(), actual: meta.dtype });
        }
        let update = main.block(0).ops.iter().find(|op| updates(op, name));
        if let Some(op) = update.filter(|op| op.kind != "sgd") {
            warnings.push(format!(
                "distributed table `{name}` is trained by sgd instead of {}: its rows have no \
                 other state",
                op.kind
            ));
        }
        let grad = update.and_then(|op| op.input_names("Grad").first().cloned());
        Ok(Some(Self {
            name: name.clone(),
            height,
            width,
            dtype: meta.dtype,
            grad: grad.unwrap_or_else(|| program::names::grad(name)),
            rate: update.and_then(|op| op.input_names("LearningRate").first().cloned()),
            init: init(startup, name),
        }))
    }

    /// Rows that one of `n` servers has room for.
    pub(super) fn capacity(&self, n_servers: usize) -> i64 {
        let n = n_servers as i64;
        (self.height + n - 1) / n
    }

    /// What a trainer's gradient of rows of one server is called.
    pub(super) fn sent(&self, trainer: Option<usize>, server: usize) -> String {
        match trainer {
            Some(trainer) => format!("{}.trainer_{trainer}.pserver_{server}", self.grad),
            None => format!("{}.pserver_{server}", self.grad),
        }
    }
}

fn updates(op: &OpDesc, table: &str) -> bool {
    op.role() & role::OPTIMIZE != 0 && op.input_names("Param").first().is_some_and(|p| p == table)
}

/// The numbers that the table's init op is made of.
fn init(startup: &Program, table: &str) -> Attrs {
    let mut init = Attrs::default();
    let op = startup.block(0).ops.iter().find(|op| op.writes().any(|var| var == table));
    if let Some(op) = op {
        init.set("init", op.kind.as_str());
        for name in ["seed", "min", "max", "mean", "std", "value"] {
            if let Some(value) = op.attrs.get(name) {
                init.set(name, value.clone());
            }
        }
    }
    init
}
