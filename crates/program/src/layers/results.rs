//! What layers give whose number of results depends on their arguments.

use crate::builder::Var;

/// One variable, or several that Python gets as a tuple.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Results {
    /// One.
    One(Var),
    /// A tuple.
    Several(Vec<Var>),
}

impl Results {
    /// All of them.
    pub fn list(&self) -> &[Var] {
        match self {
            Results::One(var) => std::slice::from_ref(var),
            Results::Several(vars) => vars,
        }
    }
}
