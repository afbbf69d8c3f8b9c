//! Weight decay: a term of the parameter added to its gradient.

use crate::backward::ParamGrad;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;
use crate::param::Regularizer;
use crate::role;
use crate::var::{Meta, VarDesc, VarKind};

/// Suffix of a sparse gradient that became dense by its term.
const NEW_GRAD: &str = "@NEWGRAD@";

/// Adds each parameter's term to its gradient: its own, or else `default`.
pub(super) fn append(
    b: &mut Builder<'_>,
    pairs: &[ParamGrad],
    default: Option<Regularizer>,
) -> Result<Vec<ParamGrad>> {
    let mut regularized = Vec::new();
    for pair in pairs {
        let info = b.desc(&Var::from(&*pair.param))?.param.as_ref();
        let regularizer = info.and_then(|info| info.regularizer).or(default);
        let grad = match regularizer {
            None => pair.grad.clone(),
            Some(regularizer) => b.with_role(role::OPTIMIZE, &[&pair.param, &pair.grad], |b| {
                let term = term(b, &pair.param, regularizer)?;
                add(b, pair, &term)
            })?,
        };
        regularized.push(ParamGrad { param: pair.param.clone(), grad });
    }
    Ok(regularized)
}

/// The term, in a variable of its own.
fn term(b: &mut Builder<'_>, param: &str, regularizer: Regularizer) -> Result<String> {
    let meta = b.meta(&Var::from(param))?;
    let term = b.names.generate("_generated_var");
    declare(b, &term, Meta::dense(meta.dtype, &meta.dims));
    let (from, factor) = match regularizer {
        Regularizer::L2(factor) => (param, factor),
        Regularizer::L1(factor) => {
            b.op(OpDesc::new("sign").input("X", param).output("Out", &term))?;
            (&*term, factor)
        }
    };
    b.op(OpDesc::new("scale").input("X", from).output("Out", &term).attr("scale", factor))?;
    Ok(term)
}

/// Adds the term in place, or into a new dense gradient if the old one is sparse: every row decays.
fn add(b: &mut Builder<'_>, pair: &ParamGrad, term: &str) -> Result<String> {
    let mut sum = pair.grad.clone();
    if b.meta(&Var::from(&*pair.grad))?.kind == VarKind::SelectedRows {
        sum.push_str(NEW_GRAD);
        let meta = b.meta(&Var::from(&*pair.param))?;
        declare(b, &sum, Meta::dense(meta.dtype, &meta.dims));
    }
    let parts = vec![pair.grad.clone(), term.to_string()];
    b.op(OpDesc::new("sum").input("X", parts).output("Out", &sum))?;
    Ok(sum)
}

fn declare(b: &mut Builder<'_>, name: &str, meta: Meta) {
    let block = b.main.current_block();
    b.main.block_mut(block).put_var(VarDesc::new(name, meta));
}
