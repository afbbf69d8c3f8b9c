//! The secret of a job, as the environment gives it to a process.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base::Endpoint;
use net::access::keyed::{KeyRing, Keys};
use net::access::tls::{CertificateFiles, Tls};
use net::{Access, Secret};

use crate::env::{self, EnvVars};
use crate::error::{Error, Result};
use crate::flags;

/// A longer file is not a secret but a mistake.
const FILE_BYTES_MAX: u64 = 4096;

/// The keys of this process, which it makes when it first needs one.
static KEYS: OnceLock<Arc<KeyRing>> = OnceLock::new();

/// The credentials of this process, and the ones that it expects of others of its job: its own keys in a private
/// network if there is no secret.
pub fn current() -> Result<Access> {
    let access = from_environment(&env::process)?;
    access.check_keys()?;
    let folder = flags::current()?.snapshot_dir();
    let ring = || Arc::new(key_ring(folder, EnvVars(&env::process)));
    let needs_secret = is_on(EnvVars(&env::process), env::REQUIRE_SECRET)?;
    let keys = (!needs_secret).then(|| Keys::new(KEYS.get_or_init(ring).clone()));
    Ok(Access { keys, ..access })
}

/// An error if a server would be spoken to without a secret, in the words of the server.
pub(crate) fn check_all(access: &Access, servers: &[Endpoint]) -> Result<()> {
    let mut checked = servers.iter().map(|server| net::tcp::check_access(access, server));
    Ok(checked.try_for_each(|checked| checked.map_err(train::Error::from))?)
}

/// Keys are kept beside the state of the process, if it keeps one, and for its user otherwise.
fn key_ring(snapshots: Option<PathBuf>, vars: EnvVars<'_>) -> KeyRing {
    if let Some(folder) = snapshots {
        return KeyRing::new(Some(folder.join("keys")), true);
    }
    let home = || Some(Path::new(&vars.first(env::HOME)?.value).join(".local/state"));
    let state = vars.first(env::STATE_HOME).map(|found| found.value.into()).or_else(home);
    KeyRing::new(state.map(|state| state.join("paddlewheel/keys")), false)
}

/// The same, from any environment: the secret from a file or a variable, if there is one.
pub fn from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Access> {
    let vars = EnvVars(var);
    let secret = match (vars.first(env::SECRET_FILE), vars.first(env::SECRET)) {
        (Some(file), _) => Some(read(Path::new(&file.value))?),
        (None, Some(text)) => Some(Secret::new(&text.value)?),
        (None, None) => None,
    };
    let insecure = is_on(vars, env::INSECURE)? && !is_on(vars, env::REQUIRE_SECRET)?;
    Ok(Access { secret, insecure, tls: tls(vars)?, keys: None })
}

pub(crate) fn is_on(vars: EnvVars<'_>, names: &'static [&'static str]) -> Result<bool> {
    let Some(found) = vars.first(names) else { return Ok(false) };
    match found.value.as_str() {
        "1" | "true" | "True" | "yes" | "on" => Ok(true),
        "0" | "false" | "False" | "no" | "off" => Ok(false),
        _ => Err(found.bad("1 or 0")),
    }
}

/// How connections are encrypted: with certificates if there are some.
fn tls(vars: EnvVars<'_>) -> Result<Option<Tls>> {
    const ENGINE: &str = "a job with certificates";
    let all = [env::TLS_CERT, env::TLS_KEY, env::TLS_CA];
    let Some(seen) = all.into_iter().find_map(|names| vars.first(names)) else {
        return Ok(if is_on(vars, env::TLS)? { Some(Tls::for_job()?) } else { None });
    };
    let path = |names| -> Result<PathBuf> { Ok(vars.with(names, ENGINE, &seen)?.value.into()) };
    let files = CertificateFiles {
        certificate: path(env::TLS_CERT)?,
        key: path(env::TLS_KEY)?,
        authorities: path(env::TLS_CA)?,
        name: vars.first(env::TLS_NAME).map(|found| found.value),
    };
    Ok(Some(Tls::from_files(&files)?))
}

/// The secret in a file.
fn read(path: &Path) -> Result<Secret> {
    let failed = |source| Error::File { what: "read", path: path.to_path_buf(), source };
    if fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
        return Err(failed(std::io::Error::other("it is too long for a secret")));
    }
    Ok(Secret::new(&fs::read_to_string(path).map_err(failed)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::vars;

    #[test]
    fn a_secret_comes_from_a_file_or_a_variable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "0123456789abcdef\n").unwrap();
        let path = path.to_string_lossy().into_owned();
        let access = |list: &[(&str, &str)]| from_environment(&vars(list)).unwrap();
        let own = Secret::new("0123456789abcdef").unwrap();
        let both = [
            ("PADDLEWHEEL_SECRET_FILE", path.as_str()),
            ("PADDLEWHEEL_SECRET", "another one 1234"),
        ];
        assert_eq!(access(&both).secret, Some(own.clone()));
        assert_eq!(access(&[("PADDLEWHEEL_SECRET", " 0123456789abcdef ")]).secret, Some(own));
        let open = access(&[("PADDLEWHEEL_INSECURE", "1")]);
        assert_eq!((open.secret, open.insecure), (None, true));
        assert!(!access(&[]).insecure);
        let both = [("PADDLEWHEEL_INSECURE", "1"), ("PADDLEWHEEL_REQUIRE_SECRET", "1")];
        assert!(!access(&both).insecure);
        // Launchers decide by this.
        assert!(access(&[]).keys.is_none());
    }

    #[test]
    fn a_secret_that_is_none_is_an_error() {
        let error = |list: &[(&str, &str)]| from_environment(&vars(list)).unwrap_err().to_string();
        let missing = error(&[("PADDLEWHEEL_SECRET_FILE", "/no/such/file")]);
        assert!(missing.contains("/no/such/file"), "{missing}");
        let long = error(&[("PADDLEWHEEL_SECRET_FILE", "/proc/self/exe")]);
        assert!(long.contains("too long"), "{long}");
        let short = error(&[("PADDLEWHEEL_SECRET", "short")]);
        assert!(short.contains("at least 16") && !short.contains("short"), "{short}");
        let odd = error(&[("PADDLEWHEEL_INSECURE", "maybe")]);
        assert!(odd.contains("PADDLEWHEEL_INSECURE"), "{odd}");
    }
}
