//! Admission to a job: a process takes part if it knows the secret.
//!
//! Both sides of a connection prove that they know the secret before they exchange anything else
//! ([`proof`]). In a job without a secret on private addresses, each process proves to have a key of its own, and the
//! first key of each is remembered ([`keyed`]). [docs/reference/security.md](../../../../docs/reference/security.md) says what this protects
//! from.

pub(crate) mod guesses;
mod key_ring;
pub mod keyed;
mod process_key;
pub mod proof;
pub mod tls;
mod verifiers;

use std::net::IpAddr;
use std::sync::Arc;

use base::Endpoint;
use wire::unproved::SECRET_BYTES_MIN;
use wire::{Error, Result, TlsFailure};

use keyed::Keys;
use process_key::ProcessKey;
use tls::Tls;

/// The secret that only the processes of a job know.
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
        if bytes.len() >= SECRET_BYTES_MIN {
            Ok(Self(bytes.into()))
        } else {
            Err(Error::ShortSecret { n_bytes: bytes.len() })
        }
    }

    /// A new secret, as text that can be handed to processes.
    pub fn random_text() -> Result<String> {
        let bytes: [u8; 32] = random()?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The credentials that a process of a job shows, and asks others to show.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// The secret of the job, if it has one.
    pub secret: Option<Secret>,
    /// Whether other machines are spoken to without a secret.
    pub insecure: bool,
    /// How connections between machines are encrypted, if they are.
    pub tls: Option<Tls>,
    /// The keys of this process, if it speaks to private addresses without a secret.
    pub keys: Option<Keys>,
}

/// How far an end point can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distance {
    /// From this machine only.
    Loopback,
    /// From a network of one's own only.
    Private,
    /// From anywhere.
    Public,
}

impl Distance {
    /// How far an address can be reached.
    pub(crate) fn of(address: IpAddr) -> Self {
        let is_private = match address.to_canonical() {
            IpAddr::V4(address) => address.is_private() || address.is_link_local(),
            IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
        };
        if address.to_canonical().is_loopback() {
            Self::Loopback
        } else if is_private {
            Self::Private
        } else {
            Self::Public
        }
    }
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
        if is_made && self.secret.is_none() {
            Err(Error::Tls(TlsFailure::NoSecret))
        } else {
            Ok(())
        }
    }

    /// An error if an end point that is not of this machine alone would be used without a secret; one of a private
    /// network may be, with keys.
    pub(crate) fn check(&self, endpoint: &Endpoint, distance: Distance) -> Result<()> {
        let is_near = distance == Distance::Loopback || self.is_keyed(distance);
        if self.is_guarded() || self.insecure || is_near {
            Ok(())
        } else {
            Err(Error::NoSecret { endpoint: endpoint.clone() })
        }
    }

    /// Whether processes at this distance know each other by their keys.
    pub(crate) fn is_keyed(&self, distance: Distance) -> bool {
        let is_open = !self.is_guarded() && !self.insecure;
        is_open && self.keys.is_some() && distance == Distance::Private
    }

    /// The same with another name of this process, by which its key is kept.
    pub(crate) fn named(&self, name: impl Into<String>) -> Self {
        let keys = self.keys.as_ref().map(|keys| keys.named(name.into()));
        Self { keys, ..self.clone() }
    }

    /// The same for connections at a distance: with the key of this process, if it is shown there.
    pub(crate) fn at(&self, distance: Distance) -> Result<Self> {
        let keys = self.keys.as_ref().filter(|_| self.is_keyed(distance));
        let keys = keys.map(Keys::shown).transpose()?;
        Ok(Self { keys, ..self.clone() })
    }

    /// The key that this process shows.
    fn own_key(&self) -> Option<Arc<ProcessKey>> {
        self.keys.as_ref()?.own()
    }
}

/// Unpredictable random bytes.
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
        assert!(open.check(&endpoint, Distance::Loopback).is_ok());
        for far in [Distance::Private, Distance::Public] {
            assert!(matches!(open.check(&endpoint, far), Err(Error::NoSecret { .. })));
            let insecure = Access { insecure: true, ..Access::default() };
            let secret = Access::with(Secret::new("a secret of some length").unwrap());
            assert!(insecure.check(&endpoint, far).is_ok() && secret.check(&endpoint, far).is_ok());
        }
        let keyed = Access { keys: Some(Keys::default()), ..Access::default() };
        assert!(keyed.check(&endpoint, Distance::Private).is_ok());
        let refused = keyed.check(&endpoint, Distance::Public);
        assert!(matches!(refused, Err(Error::NoSecret { .. })));
    }

    #[test]
    fn keys_are_shown_in_private_networks_without_a_secret_only() {
        let keyed = Access { keys: Some(Keys::default()), ..Access::default() }.named("me");
        let shows = |access: &Access, distance| access.at(distance).unwrap().own_key().is_some();
        assert!(shows(&keyed, Distance::Private));
        assert!(!shows(&keyed, Distance::Loopback) && !shows(&keyed, Distance::Public));
        let insecure = Access { insecure: true, ..keyed.clone() };
        let secret = Some(Secret::new("a secret of some length").unwrap());
        let guarded = Access { secret, ..keyed };
        assert!(!shows(&insecure, Distance::Private) && !shows(&guarded, Distance::Private));
    }

    #[test]
    fn networks_of_ones_own_are_known() {
        let of = |text: &str| Distance::of(text.parse().unwrap());
        for text in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(text), Distance::Loopback, "{text}");
        }
        for text in [
            "10.89.176.11",
            "192.168.1.2",
            "172.16.0.1",
            "172.31.255.255",
            "169.254.1.1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "::ffff:10.0.0.1",
        ] {
            assert_eq!(of(text), Distance::Private, "{text}");
        }
        for text in [
            "11.0.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "169.253.1.1",
            "8.8.8.8",
            "100.64.0.1",
            "0.0.0.0",
            "::",
            "2001:db8::1",
            "fec0::1",
            "::ffff:8.8.8.8",
        ] {
            assert_eq!(of(text), Distance::Public, "{text}");
        }
    }
}
