//! The origin of a job, for code that can split it again.

use std::any::Any;
use std::sync::Arc;

/// The origin of a job, if it can be split again; only code that splits programs knows its type. It
/// does not count when jobs are compared: all are equal.
#[derive(Clone, Debug, Default)]
pub struct Origin(pub Option<Arc<dyn Any + Send + Sync>>);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}
