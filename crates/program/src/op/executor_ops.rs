//! Ops that say something to the executor, and compute nothing.
//!
//! `feed`: Out = column `col` of the caller's input. `fetch`: X becomes column `col` of the
//! caller's result. `delete_var`: X is not needed after this. `fake_init`: Out lives on a server;
//! here it has a shape but no memory.

use super::{Infer, Op, Run, traits};
use crate::error::Result;
use crate::var::{Meta, VarKind};

pub(super) struct DeleteVar;
pub(super) struct FakeInit;
pub(super) struct Feed;
pub(super) struct Fetch;

impl Op for Feed {
    traits!(Never);

    fn run(&self, _run: &mut Run<'_>) -> Result<()> {
        Ok(())
    }
}

impl Op for Fetch {
    traits!(Never);

    fn run(&self, _run: &mut Run<'_>) -> Result<()> {
        Ok(())
    }
}

impl Op for DeleteVar {
    traits!(Never);

    /// Memory is shared between variables already; there is nothing to give back.
    fn run(&self, _run: &mut Run<'_>) -> Result<()> {
        Ok(())
    }
}

impl Op for FakeInit {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let dims = infer.attrs().ints("shape")?;
        let dtype = super::sizes::dtype(infer.attrs())?;
        let meta = Meta { kind: VarKind::LodTensor, dtype, dims, lod_level: 0 };
        infer.set_output("Out", meta)
    }

    fn run(&self, _run: &mut Run<'_>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::op::check::check;
    use tensor::Value;

    #[test]
    fn a_table_elsewhere_takes_no_memory() {
        let op = check("fake_init").attr("shape", vec![1i64 << 40, 8]).output("Out");
        assert_eq!(op.run("Out"), Value::Empty);
        assert_eq!(op.inferred("Out").dims, [1 << 40, 8]);
    }
}
