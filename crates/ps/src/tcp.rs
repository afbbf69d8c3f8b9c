//! Sockets: the only file that opens one.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::Endpoint;

/// Whether somebody accepts connections there, within `timeout`.
pub fn answers(endpoint: &Endpoint, timeout: Duration) -> bool {
    let host = endpoint.host.trim_matches(['[', ']']);
    let Ok(addresses) = (host, endpoint.port).to_socket_addrs() else { return false };
    addresses.into_iter().any(|address| TcpStream::connect_timeout(&address, timeout).is_ok())
}
