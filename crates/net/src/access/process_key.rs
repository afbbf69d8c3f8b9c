//! Keys of processes, for jobs without a secret: each process signs with a key of its own.

use std::fmt;

use protocol::PublicKey;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// Whether the owner of a key has signed something.
pub(super) fn has_signed(key: PublicKey, what: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, &key.0).verify(what, signature).is_ok()
}

/// The key of a process.
pub struct ProcessKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// A key is never printed.
impl fmt::Debug for ProcessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProcessKey")
    }
}

impl ProcessKey {
    /// From the bytes of a file.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8(bytes).ok()?;
        let public = PublicKey(pair.public_key().as_ref().try_into().ok()?);
        Some(Self { pair, public })
    }

    /// A new one, as bytes of a file.
    pub(super) fn made() -> Option<Vec<u8>> {
        let made = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new());
        made.ok().map(|made| made.as_ref().to_vec())
    }

    /// The part that others are shown.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    pub(crate) fn sign(&self, what: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes.copy_from_slice(self.pair.sign(what).as_ref());
        bytes
    }
}
