//! Encryption of a job's connections: TLS 1.3, with certificates that were given or with keys that were made for
//! the job.
//!
//! Keys that were made for the job prove nothing by themselves. The proof of the secret is bound to the
//! session, so that no process in between can pass it on.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{AlwaysResolvesServerRawPublicKeys, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, ConfigBuilder, Connection,
    RootCertStore, ServerConfig, ServerConnection, WantsVerifier, version,
};
use wire::{CertificateFault, Error, Result, TlsFailure};

use super::verifiers::{AnyKey, ClientsOfName};

/// Files with certificates, as text (PEM).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate of this process, and those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose certificates are taken, of servers and of trainers.
    pub authorities: PathBuf,
    /// The name in all certificates of the job. Without it, a server's certificate must name the host of its end point, and the
    /// names of connecting processes are not checked.
    pub name: Option<String>,
}

/// How the connections of a process are encrypted.
#[derive(Clone, Debug)]
pub struct Tls {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    /// The file of the certificate; none for keys that were made.
    shown: Option<Arc<str>>,
    /// The name that all certificates have.
    name: Option<ServerName<'static>>,
}

impl Tls {
    /// With a key that was made for this process.
    pub fn for_job() -> Result<Self> {
        let random = ring::rand::SystemRandom::new();
        let key = ring::signature::Ed25519KeyPair::generate_pkcs8(&random);
        let key = key.map_err(|_| other("the system makes no key"))?;
        let key = PrivateKeyDer::Pkcs8(key.as_ref().to_vec().into());
        let key = provider::sign::any_supported_type(&key).map_err(other)?;
        let public = key.public_key().ok_or_else(|| other("a key has no public part"))?;
        let public = CertificateDer::from(public.as_ref().to_vec());
        let own = Arc::new(CertifiedKey::new(vec![public], key));
        let provider = Arc::new(provider::default_provider());
        let server = server_builder(&provider)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
        let verifier = AnyKey(provider.signature_verification_algorithms);
        let client = client_builder(&provider)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        // It is not sent.
        let name = ServerName::try_from("paddlewheel.invalid").map_err(other)?;
        Ok(Self::of(server, client, None, Some(name)))
    }

    /// With certificates, which both sides show and check.
    pub fn from_files(files: &CertificateFiles) -> Result<Self> {
        let CertificateFiles { certificate, key, authorities, name } = files;
        let name = name.clone().map(|name| {
            let bad = |_| other(format!("`{name}` (PADDLEWHEEL_TLS_NAME) is not a valid name"));
            ServerName::try_from(name.clone()).map_err(bad)
        });
        let (name, own) = (name.transpose()?, read_certificates(certificate)?);
        let own_key = PrivateKeyDer::from_pem_file(key).map_err(|error| bad_file(key, error))?;
        let mut roots = RootCertStore::empty();
        for authority in read_certificates(authorities)? {
            roots.add(authority).map_err(|error| bad_file(authorities, error))?;
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(provider::default_provider()));
        let clients =
            WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let mut clients: Arc<dyn ClientCertVerifier> =
            clients.map_err(|error| bad_file(authorities, error))?;
        check_time(&*clients, &own, certificate)?;
        if let Some(name) = name.clone() {
            clients = Arc::new(ClientsOfName { clients, name });
        }
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
        let servers = servers.map_err(|error| bad_file(authorities, error))?;
        let server = server_builder(&provider)?
            .with_client_cert_verifier(clients)
            .with_single_cert(own.clone(), own_key.clone_key())
            .map_err(|error| bad_pair(files, &error))?;
        let client = client_builder(&provider)?
            .with_webpki_verifier(servers)
            .with_client_auth_cert(own, own_key)
            .map_err(|error| bad_pair(files, &error))?;
        Ok(Self::of(server, client, Some(certificate), name))
    }

    /// Every session is a new one: connections last, and certificates are checked each time.
    fn of(
        mut server: ServerConfig,
        mut client: ClientConfig,
        shown: Option<&PathBuf>,
        name: Option<ServerName<'static>>,
    ) -> Self {
        server.send_tls13_tickets = 0;
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        let shown = shown.map(|path| Arc::from(path.to_string_lossy()));
        Self { server: Arc::new(server), client: Arc::new(client), shown, name }
    }

    /// Whether both sides show certificates.
    pub(crate) fn has_certificates(&self) -> bool {
        self.shown.is_some()
    }

    /// The file that this process shows.
    pub(crate) fn shown(&self) -> Option<Arc<str>> {
        self.shown.clone()
    }

    /// The session of the side that listens.
    pub(crate) fn host(&self) -> std::io::Result<Connection> {
        let session = ServerConnection::new(self.server.clone());
        session.map(Connection::Server).map_err(std::io::Error::other)
    }

    /// The session of the side that connects to a host.
    pub(crate) fn guest(&self, host: &str) -> std::io::Result<Connection> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => {
                let host = host.trim_matches(['[', ']']).to_string();
                let bad = |_| TlsFailure::Other(format!("no certificate has the name `{host}`"));
                ServerName::try_from(host.clone()).map_err(bad)?
            }
        };
        let session = ClientConnection::new(self.client.clone(), name);
        session.map(Connection::Client).map_err(std::io::Error::other)
    }
}

fn server_builder(
    provider: &Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ServerConfig, WantsVerifier>> {
    let builder = ServerConfig::builder_with_provider(provider.clone());
    builder.with_protocol_versions(&[&version::TLS13]).map_err(other)
}

fn client_builder(
    provider: &Arc<CryptoProvider>,
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    let builder = ClientConfig::builder_with_provider(provider.clone());
    builder.with_protocol_versions(&[&version::TLS13]).map_err(other)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| bad_file(path, error))?;
    let all: std::result::Result<Vec<_>, _> = all.collect();
    match all.map_err(|error| bad_file(path, error))? {
        none if none.is_empty() => Err(bad_file(path, "it has no certificate")),
        all => Ok(all),
    }
}

/// Rejects an expired certificate at the start. Whether its authority is known is checked by the other side.
fn check_time(
    verifier: &dyn ClientCertVerifier,
    own: &[CertificateDer<'_>],
    path: &Path,
) -> Result<()> {
    let Some((first, others)) = own.split_first() else { return Ok(()) };
    match verifier.verify_client_cert(first, others, UnixTime::now()) {
        Err(rustls::Error::InvalidCertificate(error)) => match fault(&error) {
            fault @ CertificateFault::Expired => Err(bad_file(path, format!("it {fault}"))),
            _ => Ok(()),
        },
        Ok(_) | Err(_) => Ok(()),
    }
}

fn bad_pair(files: &CertificateFiles, error: &rustls::Error) -> Error {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            let certificate = files.certificate.display();
            bad_file(&files.key, format!("it is not the key of the certificate in `{certificate}`"))
        }
        error => bad_file(&files.certificate, error),
    }
}

fn bad_file(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Tls(TlsFailure::File { path: path.to_path_buf(), why: why.to_string() })
}

fn other(why: impl std::fmt::Display) -> Error {
    Error::Tls(TlsFailure::Other(why.to_string()))
}

/// The meaning of a session's error; `shown` is the file of our certificate.
pub(crate) fn failure(error: &rustls::Error, shown: Option<&str>) -> TlsFailure {
    match error {
        rustls::Error::InvalidCertificate(error) => TlsFailure::Certificate(fault(error)),
        rustls::Error::NoCertificatesPresented => {
            TlsFailure::Certificate(CertificateFault::Missing)
        }
        rustls::Error::InvalidMessage(_) => TlsFailure::Plain,
        rustls::Error::PeerIncompatible(_) => TlsFailure::OtherKeys,
        rustls::Error::AlertReceived(alert) => told(*alert, shown),
        error => TlsFailure::Other(error.to_string()),
    }
}

/// The failure that the other side reports.
fn told(alert: AlertDescription, shown: Option<&str>) -> TlsFailure {
    let fault = match alert {
        AlertDescription::ProtocolVersion => return TlsFailure::Plain,
        AlertDescription::HandshakeFailure | AlertDescription::UnsupportedCertificate => {
            return TlsFailure::OtherKeys;
        }
        AlertDescription::CertificateExpired => CertificateFault::Expired,
        AlertDescription::UnknownCA => CertificateFault::UnknownAuthority,
        AlertDescription::CertificateRequired => CertificateFault::Missing,
        AlertDescription::BadCertificate => {
            CertificateFault::Bad("it is damaged, or for another name".to_string())
        }
        other => return TlsFailure::Other(format!("the other side says {other:?}")),
    };
    TlsFailure::Refused { shown: shown.unwrap_or("none").to_string(), fault }
}

fn fault(error: &CertificateError) -> CertificateFault {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    let other_name = |expected: &str, presented: &[String]| CertificateFault::OtherName {
        expected: expected.to_string(),
        presented: if presented.is_empty() { "no name".into() } else { presented.join(", ") },
    };
    match error {
        Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
            CertificateFault::Expired
        }
        UnknownIssuer => CertificateFault::UnknownAuthority,
        NotValidForName => other_name("its address", &[]),
        NotValidForNameContext { expected, presented } => other_name(&expected.to_str(), presented),
        error => CertificateFault::Bad(error.to_string()),
    }
}
