//! What a job was split from, for who can split it again.

use std::any::Any;
use std::sync::Arc;

/// What a job was split from, if that can be done again; only who splits programs knows what it is. No
/// part of what a job is: all are equal.
#[derive(Clone, Debug, Default)]
pub struct Origin(pub Option<Arc<dyn Any + Send + Sync>>);

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Origin {}
