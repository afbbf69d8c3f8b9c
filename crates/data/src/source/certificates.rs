//! The authorities that `https` servers are checked against: the system's list, or one of the
//! user's.

use std::path::Path;

use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

use crate::error::{Error, Result};

/// Where systems keep their list.
const SYSTEM: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates of this file, or the system's. A system without a list trusts no server.
pub(super) fn trusted(file: Option<&Path>) -> Result<RootCerts> {
    let path = match file {
        Some(path) => path,
        None => match SYSTEM.iter().map(Path::new).find(|path| path.is_file()) {
            Some(path) => path,
            None => return Ok(RootCerts::new_with_certs(&[])),
        },
    };
    let name = path.display().to_string();
    let text =
        std::fs::read(path).map_err(|source| Error::ReadFile { file: name.clone(), source })?;
    let bad = |what: String| Error::StoreRefused { file: name.clone(), what };
    let mut found: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&text) {
        match item.map_err(|error| bad(format!("it cannot be read as PEM: {error}")))? {
            PemItem::Certificate(certificate) => found.push(certificate),
            _ => continue,
        }
    }
    if found.is_empty() {
        return Err(bad("there is no certificate in it".to_string()));
    }
    Ok(RootCerts::new_with_certs(&found))
}
