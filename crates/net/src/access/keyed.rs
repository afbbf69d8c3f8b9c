//! The identities of processes in a job without a secret: the key of each process, and which process has which number.

use std::sync::Arc;

pub use super::key_ring::KeyRing;
pub use super::process_key::ProcessKey;

use wire::Result;

/// The keys of a process, and the name that it has now.
#[derive(Clone, Debug, Default)]
pub struct Keys {
    ring: Arc<KeyRing>,
    /// The name under which its key is kept.
    name: Arc<str>,
    /// The key itself, where it is shown.
    own: Option<Arc<ProcessKey>>,
}

impl Keys {
    /// With the keys of this process.
    pub fn new(ring: Arc<KeyRing>) -> Self {
        Self { ring, ..Self::default() }
    }

    pub(crate) fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// The name under which its key, and what it knows, is kept.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn named(&self, name: String) -> Self {
        // It becomes the name of a file.
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '-' };
        let name: String = name.chars().map(plain).collect();
        Self { name: name.into(), own: None, ..self.clone() }
    }

    /// With the key that it shows.
    pub(super) fn shown(&self) -> Result<Self> {
        Ok(Self { own: Some(self.ring.own(&self.name)?), ..self.clone() })
    }

    /// The key that it shows, where it does.
    pub(crate) fn own(&self) -> Option<Arc<ProcessKey>> {
        self.own.clone()
    }
}
