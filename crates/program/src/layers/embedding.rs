//! `embedding`: rows of a table by id.

use tensor::DType;

use super::append::append;
use crate::block::OpDesc;
use crate::builder::{Builder, NewParam, Var};
use crate::error::{Error, Result};
use crate::param::{Initializer, ParamAttr};

/// Options of [`embedding`]; defaults as in `fluid.layers.embedding`.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// Gradients are the rows that were looked up, not a dense table.
    pub is_sparse: bool,
    /// The table has no fixed vocabulary and lives on servers only.
    pub is_distributed: bool,
    /// This id reads as zeros; a negative one counts from the end of the table.
    pub padding_idx: Option<i128>,
    /// How the table is named, filled and trained.
    pub param_attr: ParamAttr,
    /// Element type of the table.
    pub dtype: DType,
}

/// Options of [`sparse_embedding`]; defaults as in `fluid.contrib.layers.sparse_embedding`.
#[derive(Clone, Debug, Default)]
pub struct SparseEmbedding {
    /// This id reads as zeros; a negative one counts from the end of the table.
    pub padding_idx: Option<i128>,
    /// Rows that do not exist on servers read as zeros and are not made.
    pub is_test: bool,
    /// Which rows servers take in: `count_filter_entry:<n>`, `probability_entry:<p>`.
    pub entry: Option<String>,
    /// How the table is named, filled and trained.
    pub param_attr: ParamAttr,
    /// Element type of the table.
    pub dtype: DType,
}

impl Default for Embedding {
    fn default() -> Self {
        Self {
            is_sparse: false,
            is_distributed: false,
            padding_idx: None,
            param_attr: ParamAttr::default(),
            dtype: DType::F32,
        }
    }
}

impl Embedding {
    /// A table of this name whose gradients are rows; it starts uniform within `-start..start`.
    pub fn sparse(name: &str, start: f32) -> Self {
        let initializer = Some(Initializer::Uniform { low: -start, high: start, seed: 0 });
        let param_attr = ParamAttr { initializer, ..ParamAttr::named(name) };
        Self { is_sparse: true, param_attr, ..Self::default() }
    }
}

/// Rows of a table of `size` (rows, width) for ids that end in a dimension of 1
/// (`fluid.layers.embedding`).
pub fn embedding(
    b: &mut Builder<'_>,
    input: &Var,
    size: [i64; 2],
    options: Embedding,
) -> Result<Var> {
    let op = OpDesc::new("lookup_table");
    LookUpOp { op, name: "embedding", size }.append(b, input, options)
}

/// Rows of a table of `size` for ids of any shape (`fluid.embedding`).
pub fn embedding_v2(
    b: &mut Builder<'_>,
    input: &Var,
    size: [i64; 2],
    options: Embedding,
) -> Result<Var> {
    let op = OpDesc::new("lookup_table_v2");
    LookUpOp { op, name: "embedding", size }.append(b, input, options)
}

/// Rows of a table that servers make when they are first used, for ids that end in a dimension of 1
/// (`fluid.contrib.layers.sparse_embedding`).
pub fn sparse_embedding(
    b: &mut Builder<'_>,
    input: &Var,
    size: [i64; 2],
    options: SparseEmbedding,
) -> Result<Var> {
    let SparseEmbedding { padding_idx, is_test, entry, param_attr, dtype } = options;
    let op = OpDesc::new("lookup_table")
        .attr("is_test", is_test)
        .attr("entry", entry.as_deref().unwrap_or("none"));
    let options =
        Embedding { is_sparse: true, is_distributed: false, padding_idx, param_attr, dtype };
    LookUpOp { op, name: "sparse_embedding", size }.append(b, input, options)
}

/// What tables hold.
const TABLES: &[DType] = &[DType::F16, DType::F32, DType::F64];

/// The op that looks up rows of a table of `size`, for the layer `name`.
struct LookUpOp {
    op: OpDesc,
    name: &'static str,
    size: [i64; 2],
}

/// No id reads as zeros.
const NO_PADDING: i64 = -1;

/// The row that a number stands for in a table of `height` rows; a negative one counts from the end.
fn row_of(id: i128, height: i64) -> Option<i64> {
    let row = if id < 0 { id + i128::from(height) } else { id };
    // From 2⁶³ on the bits are those of a negative number.
    let row = u64::try_from(row).ok()? as i64;
    (tensor::is_row(row, height) && row != NO_PADDING).then_some(row)
}

impl LookUpOp {
    fn append(self, b: &mut Builder<'_>, ids: &Var, options: Embedding) -> Result<Var> {
        let Self { op, name, size } = self;
        let Embedding { is_sparse, is_distributed, padding_idx, param_attr, dtype } = options;
        if !TABLES.contains(&dtype) {
            let (op, var) = (name.to_string(), "dtype".to_string());
            return Err(Error::LayerDType { op, var, allowed: TABLES, actual: dtype });
        }
        let padding = match padding_idx.map(|id| row_of(id, size[0]).ok_or(id)) {
            None => NO_PADDING,
            Some(Ok(row)) => row,
            Some(Err(id)) => {
                return Err(Error::BadArgument {
                    layer: name,
                    argument: "padding_idx",
                    rule: "it must be a row of the table, and not the last of all of 64 bits",
                    actual: id.to_string(),
                });
            }
        };
        let layer = b.layer_name(name, None);
        let table = b.table(&NewParam {
            layer: &layer,
            suffix: "w",
            attr: &param_attr,
            dims: &size,
            dtype,
            default_init: Initializer::XAVIER,
        })?;
        let desc = b.main.block_mut(0).var_mut(table.name());
        if let Some(info) = desc.and_then(|desc| desc.param.as_mut()) {
            info.is_distributed |= is_distributed;
        }
        let op = op
            .input("W", &table)
            .input("Ids", ids)
            .attr("is_sparse", is_sparse)
            .attr("is_distributed", is_distributed)
            .attr("remote_prefetch", is_sparse && !is_distributed)
            .attr("padding_idx", padding);
        append(b, name, Some(&layer), dtype, op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backward::{Limits, append_backward};
    use crate::layers::{self, Data};
    use crate::{Net, VarKind};

    fn ids(b: &mut Builder<'_>, name: &str) -> Var {
        layers::data(b, name, &[1], Data { dtype: DType::I64, ..Data::default() }).unwrap()
    }

    #[test]
    fn a_shared_table_is_made_once_and_its_gradients_are_merged() {
        let mut net = Net::default();
        let mut b = net.builder();
        let mut rows = Vec::new();
        for name in ["a", "b"] {
            let ids = ids(&mut b, name);
            let options = Embedding {
                is_sparse: true,
                param_attr: ParamAttr::named("table"),
                ..Embedding::default()
            };
            rows.push(embedding(&mut b, &ids, [10, 4], options).unwrap());
        }
        assert_eq!(rows[1].name(), "embedding_1.tmp_0");
        assert_eq!(b.meta(&rows[0]).unwrap().dims, [-1, 4]);
        let joined = layers::concat(&mut b, &rows, 1, None).unwrap();
        let loss = layers::mean(&mut b, &joined, None).unwrap();
        append_backward(&mut net.main, loss.name(), &Limits::default()).unwrap();
        let grad = &net.main.need_var(0, "table@GRAD").unwrap().meta;
        assert_eq!((grad.kind, &*grad.dims), (VarKind::SelectedRows, &[10, 4][..]));
        let part = net.main.need_var(0, "table@GRAD@RENAME@block0@0").unwrap();
        assert_eq!(part.meta.kind, VarKind::SelectedRows);
        assert_eq!(net.startup.block(0).ops.len(), 1, "one op fills the table");
    }

    #[test]
    fn negative_padding_counts_from_the_end() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = ids(&mut b, "x");
        let padded = |id| Embedding { padding_idx: Some(id), ..Embedding::default() };
        embedding_v2(&mut b, &x, [10, 4], padded(-2)).unwrap();
        let op = &b.main.block(0).ops[0];
        assert_eq!(op.kind, "lookup_table_v2");
        assert_eq!(op.attrs.int("padding_idx", 0).unwrap(), 8);
        for wrong in [10, -11, 1 << 63, (1 << 64) + 1] {
            let error = embedding(&mut b, &x, [10, 4], padded(wrong)).unwrap_err();
            assert!(matches!(error.root(), Error::BadArgument { .. }), "{error}");
        }
    }

    #[test]
    fn every_id_of_64_bits_but_the_last_may_be_padding() {
        let all = i64::MAX;
        let found = [5, all.into(), 1 << 63, (1 << 64) - 2, -1].map(|id| row_of(id, all));
        assert_eq!(found, [5, all, i64::MIN, -2, all - 1].map(Some));
        assert_eq!([(1 << 64) - 1, 1 << 64].map(|id| row_of(id, all)), [None; 2]);
    }
}
