//! Options of a command line about access to a job, and the variables that pass them to its
//! processes.

use std::path::{Path, PathBuf};

use crate::access::{self, is_on};
use crate::env::{EnvVars, INSECURE, SECRET_FILE, TLS, TLS_CA, TLS_CERT, TLS_KEY, TLS_NAME};
use crate::error::{Error, Result, Usage};

/// The credentials of a job, and the folder below which its servers write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafetyOptions {
    /// The file with the secret.
    pub secret_file: Option<PathBuf>,
    /// Other machines are spoken to without a secret.
    pub insecure: bool,
    /// The folders below which servers save.
    pub save_root: Option<String>,
    /// Connections are encrypted with keys that are made for the job.
    pub tls: bool,
    /// The certificate of each process.
    pub tls_cert: Option<PathBuf>,
    /// Its private key.
    pub tls_key: Option<PathBuf>,
    /// The authorities whose certificates are taken.
    pub tls_ca: Option<PathBuf>,
    /// The name that all certificates have.
    pub tls_name: Option<String>,
}

/// One of the three files of a certificate.
pub(crate) struct TlsFile<'a> {
    /// The variable that names it to a process.
    pub(crate) variable: &'static str,
    /// Its key in a Secret of Kubernetes, as the tools that make certificates name it.
    pub(crate) key: &'static str,
    pub(crate) path: &'a Path,
}

impl SafetyOptions {
    /// Fills missing options from an environment.
    pub(crate) fn or_environment(self, var: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let vars = EnvVars(var);
        let text = |names| vars.first(names).map(|found| found.value);
        let path = |names| text(names).map(PathBuf::from);
        Ok(Self {
            secret_file: self.secret_file.or_else(|| path(SECRET_FILE)),
            insecure: self.insecure || is_on(vars, INSECURE)?,
            save_root: self.save_root,
            tls: self.tls || is_on(vars, TLS)?,
            tls_cert: self.tls_cert.or_else(|| path(TLS_CERT)),
            tls_key: self.tls_key.or_else(|| path(TLS_KEY)),
            tls_ca: self.tls_ca.or_else(|| path(TLS_CA)),
            tls_name: self.tls_name.or_else(|| text(TLS_NAME)),
        })
    }

    /// Whether processes take part without a proof.
    pub(crate) fn has_no_secret(&self) -> bool {
        self.insecure && self.secret_file.is_none()
    }

    /// An error if a file cannot be used, or if keys are to be made without anything that proves
    /// them.
    pub(crate) fn check_files(&self) -> Result<()> {
        let given = self.variables()?;
        let find = |name: &str| given.iter().find(|(known, _)| *known == name);
        let found = access::from_environment(&|name| find(name).map(|(_, value)| value.clone()))?;
        if self.has_no_secret() { Ok(found.check_keys()?) } else { Ok(()) }
    }

    /// The files of a certificate; none without one.
    pub(crate) fn certificate(&self) -> Result<Vec<TlsFile<'_>>> {
        let all = [
            ("--tls_cert", TLS_CERT[0], "tls.crt", &self.tls_cert),
            ("--tls_key", TLS_KEY[0], "tls.key", &self.tls_key),
            ("--tls_ca", TLS_CA[0], "ca.crt", &self.tls_ca),
        ];
        let Some((given, ..)) = all.iter().find(|(.., path)| path.is_some()) else {
            return Ok(Vec::new());
        };
        all.iter()
            .map(|&(option, variable, key, path)| match path {
                Some(path) => Ok(TlsFile { variable, key, path }),
                None => Err(Usage::Incomplete { given, missing: option }.into()),
            })
            .collect()
    }

    /// Variables of processes that see the files of this machine under the same paths.
    pub(crate) fn variables(&self) -> Result<Vec<(&'static str, String)>> {
        let mut found = Vec::new();
        let files = [
            (SECRET_FILE[0], &self.secret_file),
            (TLS_CERT[0], &self.tls_cert),
            (TLS_KEY[0], &self.tls_key),
            (TLS_CA[0], &self.tls_ca),
        ];
        for (name, path) in files {
            let Some(path) = path else { continue };
            found.push((name, full(path)?));
        }
        found.extend(self.words());
        Ok(found)
    }

    /// Those of them that name no file.
    pub(crate) fn words(&self) -> Vec<(&'static str, String)> {
        let switches = [(TLS[0], self.tls), (INSECURE[0], self.insecure)];
        let switches = switches.into_iter().filter(|(_, is_on)| *is_on);
        let texts = [(TLS_NAME[0], &self.tls_name), ("FLAGS_save_root", &self.save_root)];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?)));
        switches.map(|(name, _)| (name, "1".to_string())).chain(texts).collect()
    }
}

/// A path that means the same in every working directory.
pub(crate) fn full(path: &Path) -> Result<String> {
    let failed = |source| Error::File { what: "read", path: path.to_path_buf(), source };
    Ok(std::path::absolute(path).map_err(failed)?.to_string_lossy().into_owned())
}
