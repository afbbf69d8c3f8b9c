//! The secret of a job: given, or made for the processes of this launcher. It goes to them by their
//! environment, never by a command line or a log.

use base::Endpoint;
use net::{Access, Secret, tcp};

use super::options::SafetyOptions;
use super::plan::Job;
use crate::access;
use crate::env::SECRET;
use crate::error::Result;

/// Variables that all processes of a job get.
#[derive(Clone, Default)]
pub(crate) struct SecretVars(Vec<(&'static str, String)>);

/// A secret is not printed.
impl std::fmt::Debug for SecretVars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl SecretVars {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

/// The variables of access of a job's processes. A job on several machines must be given its secret:
/// launchers do not know each other.
pub(super) fn prepare(
    job: &Job,
    options: &SafetyOptions,
    var: &dyn Fn(&str) -> Option<String>,
) -> Result<SecretVars> {
    let mut shared = options.variables()?;
    // The value that each of them will find; an invalid secret is refused here.
    let given = |name: &str| {
        shared.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
    };
    let access = access::from_environment(&|name| given(name).or_else(|| var(name)))?;
    check(job, &access)?;
    if access.secret.is_none() && !access.insecure && !job.is_wide {
        shared.push((SECRET[0], Secret::random_text()?))
    } else {
        access.check_keys()?
    }
    Ok(SecretVars(shared))
}

/// An error if other machines take part and there is no secret.
fn check(job: &Job, access: &Access) -> Result<()> {
    if !job.is_wide {
        return Ok(());
    }
    let lists = ["PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINER_ENDPOINTS"];
    let variables = job.processes.iter().take(1).flat_map(|process| &process.variables);
    let found = variables.filter(|(name, _)| lists.contains(name));
    for endpoint in found.flat_map(|(_, list)| list.split(',')) {
        tcp::check_access(access, &endpoint.parse::<Endpoint>()?)?;
    }
    Ok(())
}
