//! Strangers, secrets and TLS.

#[path = "../security.rs"]
mod security;
#[path = "../security_files.rs"]
mod security_files;
#[path = "../security_floods.rs"]
mod security_floods;
#[path = "../security_tls.rs"]
mod security_tls;
#[path = "../security_tls_jobs.rs"]
mod security_tls_jobs;
