//! Who may take part in a job: whoever knows its secret.
//!
//! Both sides of a connection prove that they know the secret before anything else is said
//! ([`proof`]). [docs/security.md](../../../../docs/security.md) says what this protects from.

pub mod proof;
pub mod tls;
mod verifiers;

use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::tls_failure::TlsFailure;
use crate::unproved::SECRET_BYTES_MIN;
use tls::Tls;

/// What the processes of a job know, and nobody else.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

/// A secret is never printed.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// A secret as it was given: text without the white space around it.
    pub fn new(text: &str) -> Result<Self> {
        let bytes = text.trim().as_bytes();
        match bytes.len() >= SECRET_BYTES_MIN {
            true => Ok(Self(bytes.into())),
            false => Err(Error::ShortSecret { n_bytes: bytes.len() }),
        }
    }

    /// A new secret, as text that can be handed to processes.
    pub fn random_text() -> Result<String> {
        let bytes: [u8; 32] = random()?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// What a process of a job shows, and asks others to show.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The secret of the job, if it has one.
    pub secret: Option<Secret>,
    /// Whether other machines are spoken to without a secret.
    pub insecure: bool,
    /// How connections between machines are encrypted, if they are.
    pub tls: Option<Tls>,
}

impl Access {
    /// With a secret.
    pub fn with(secret: Secret) -> Self {
        Self { secret: Some(secret), ..Self::default() }
    }

    /// The key of the proofs. A job without a secret has a key that everybody knows: the proof then
    /// only finds out processes that do have a secret.
    fn key(&self) -> &[u8] {
        self.secret.as_ref().map_or(&[], |secret| &secret.0)
    }

    /// Whether the other side must prove something.
    pub(crate) fn is_guarded(&self) -> bool {
        self.secret.is_some() || self.tls.as_ref().is_some_and(Tls::has_certificates)
    }

    /// An error if there are keys that prove nothing, and no secret that does.
    pub fn check_keys(&self) -> Result<()> {
        let is_made = self.tls.as_ref().is_some_and(|tls| !tls.has_certificates());
        match is_made && self.secret.is_none() {
            true => Err(Error::Tls(TlsFailure::NoSecret)),
            false => Ok(()),
        }
    }

    /// An error if an end point that is not of this machine alone would be used without a secret.
    pub(crate) fn check(&self, endpoint: &Endpoint, is_loopback: bool) -> Result<()> {
        match self.is_guarded() || self.insecure || is_loopback {
            true => Ok(()),
            false => Err(Error::NoSecret { endpoint: endpoint.clone() }),
        }
    }
}

/// Bytes that nobody can foresee.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    use ring::rand::SecureRandom;
    let mut bytes = [0; N];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::Socket(std::io::Error::other("the system gives no random bytes")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_long_and_is_not_shown() {
        let secret = Secret::new(" 0123456789abcdef\n").unwrap();
        assert_eq!(secret, Secret::new("0123456789abcdef").unwrap());
        assert_eq!(format!("{:?}", Access::with(secret)).matches("0123").count(), 0);
        for short in ["", "  ", "0123456789abcde"] {
            let error = Secret::new(short).unwrap_err();
            assert!(matches!(error, Error::ShortSecret { .. }), "{error}");
        }
        let (one, other) = (Secret::random_text().unwrap(), Secret::random_text().unwrap());
        assert_eq!(one.len(), 64);
        assert_ne!(one, other);
    }

    #[test]
    fn only_this_machine_is_spoken_to_without_a_secret() {
        let endpoint: Endpoint = "10.0.0.1:80".parse().unwrap();
        let open = Access::default();
        assert!(open.check(&endpoint, true).is_ok());
        assert!(matches!(open.check(&endpoint, false), Err(Error::NoSecret { .. })));
        let insecure = Access { insecure: true, ..Access::default() };
        let secret = Access::with(Secret::new("a secret of some length").unwrap());
        assert!(insecure.check(&endpoint, false).is_ok() && secret.check(&endpoint, false).is_ok());
    }
}
