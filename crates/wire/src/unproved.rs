//! Why a process does not belong to a job, as far as its proof says.

/// A shorter secret could be guessed.
pub const SECRET_BYTES_MIN: usize = 16;

/// The reason why a proof is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproved {
    /// The other side says that our proof is wrong, or we say so of its.
    #[error("secret")]
    Secret,
    /// The process that listens there does not know the secret.
    #[error("the process that listens there does not know the secret of this job")]
    Impostor,
    /// A process without a secret met one that shows no key, or one that did not sign.
    #[error(
        "its key: without a secret, every process shows a key of its own; give all processes of a job the same \
         PADDLEWHEEL_SECRET_FILE, or none of them"
    )]
    Key,
    /// Another process listens there than before.
    #[error(
        "the process that listens there shows another key than before: if it was started again and has lost its key, start the \
         whole job again; if not, somebody has taken its place: give all processes the same PADDLEWHEEL_SECRET_FILE"
    )]
    OtherKey,
    /// Another version of the protocol.
    #[error(
        "protocol version {theirs} is spoken, {ours} is needed: install the same release on all machines"
    )]
    Version {
        /// The version of this side.
        ours: u32,
        /// The version of the other side.
        theirs: u32,
    },
    /// Something else of this package listens there.
    #[error("another kind of process listens there: is the address right?")]
    Service,
    /// Only the other side encrypts.
    #[error(
        "it uses TLS, and this process does not: give all processes of a job the same PADDLEWHEEL_TLS (--tls), \
         or certificates, or neither"
    )]
    Encrypted,
    /// The first bytes are not ours.
    #[error("the first bytes are not ours (an HTTP client, another service?)")]
    NotOurs,
}
