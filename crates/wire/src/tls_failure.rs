//! Why two processes do not come to an encrypted connection.

use std::path::PathBuf;

/// The reason why an encrypted connection does not exist, or cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsFailure {
    /// A file that is none of use.
    #[error("`{}` cannot be used: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The fault.
        why: String,
    },

    /// Keys that prove nothing, and no secret.
    #[error(
        "keys that are made for a job need its secret: give all processes the same PADDLEWHEEL_SECRET_FILE \
         (--secret_file), or certificates (PADDLEWHEEL_TLS_CERT)"
    )]
    NoSecret,

    /// The certificate of the other side is refused here.
    #[error("its certificate {0}")]
    Certificate(CertificateFault),

    /// The other side refuses ours.
    #[error("it refuses the certificate of this process ({shown}), which {fault}")]
    Refused {
        /// The file.
        shown: String,
        /// The fault that it reports.
        fault: CertificateFault,
    },

    /// The other side does not encrypt.
    #[error(
        "it does not use TLS, and this process does: give all processes of a job the same PADDLEWHEEL_TLS \
         (--tls), or certificates, or neither"
    )]
    Plain,

    /// Only the other side encrypts.
    #[error(
        "it uses TLS, and this process does not: give all processes of a job the same PADDLEWHEEL_TLS (--tls), \
         or certificates, or neither"
    )]
    Wanted,

    /// One side has certificates, the other keys that were made for the job.
    #[error(
        "one side has certificates, and the other keys that were made for the job: give all processes of a job \
         the same PADDLEWHEEL_TLS, or certificates"
    )]
    OtherKeys,

    /// Anything else.
    #[error("TLS: {0}")]
    Other(String),
}

/// A fault in a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// Its time is over.
    #[error("has expired, or is not valid yet: make a new one, and compare the clocks")]
    Expired,
    /// The authority that signed it is not known here.
    #[error("is of an authority that is not among those of the other side (PADDLEWHEEL_TLS_CA)")]
    UnknownAuthority,
    /// It is somebody else's.
    #[error(
        "is not for `{expected}` but for {presented}: make one with that name, or say with PADDLEWHEEL_TLS_NAME \
         (--tls_name) which name all of them have"
    )]
    OtherName {
        /// The name that was expected.
        expected: String,
        /// The name in the certificate.
        presented: String,
    },
    /// There is none.
    #[error("is missing: give all processes of a job certificates, or none of them")]
    Missing,
    /// Anything else.
    #[error("is refused: {0}")]
    Bad(String),
}

impl TlsFailure {
    /// The failure of encryption in an error of a socket, if it is one.
    pub fn of(error: &std::io::Error) -> Option<Self> {
        error.get_ref().and_then(|inner| inner.downcast_ref::<Self>()).cloned()
    }
}

impl From<TlsFailure> for std::io::Error {
    fn from(failure: TlsFailure) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, failure)
    }
}
