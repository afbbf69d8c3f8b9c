//! What can go wrong between trainers and servers.

/// What can go wrong between trainers and servers.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Text that should be `host:port`.
    #[error("`{0}` is no end point: `host:port` is needed, such as 127.0.0.1:6174")]
    BadEndpoint(String),
}

/// Or what went wrong between trainers and servers.
pub type Result<T> = std::result::Result<T, Error>;
