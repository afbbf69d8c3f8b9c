//! Gets a job ready to survive: takes the folder of snapshots and tells each process of it.

use std::path::PathBuf;
use std::time::Duration;

use super::logs::Logs;
use super::options::{PsOptions, RecoveryOptions};
use super::plan::{self, Job};
use super::restarts::Policy;
use super::snapshots::{self, FolderRequest, Identity, Snapshots, folder_of};
use crate::error::Result;
use crate::flags::Flags;
use crate::recovery::Recovery;

/// How long processes may take to write their snapshots when they are asked to end.
const GRACE: Duration = Duration::from_secs(30);

/// Takes the folder of snapshots, if there is one, and completes the plan. The command line takes
/// precedence over flags.
pub(super) fn prepare(
    job: &mut Job,
    options: &PsOptions,
    logs: &Logs,
    flags: &Flags,
) -> Result<Option<Snapshots>> {
    let (node, options) = (options.node.as_deref(), &options.recovery);
    let resume = options.resume.clone().or_else(|| flags.resume());
    let usual = || is_wanted(options, flags).then(|| logs.snapshots.clone());
    let Some(folder) = named(options, flags).or_else(usual) else {
        job.policy = Policy { grace: options.grace, ..Policy::default() };
        return Ok(None);
    };
    let snapshot_every = match options.snapshot_every {
        Some(every) => every,
        None => flags.snapshot_every()?,
    };
    let wanted = FolderRequest {
        folder: &folder,
        resume: resume.as_deref(),
        node: node.filter(|_| job.is_wide),
        identity: Identity::of(job),
    };
    let mut snapshots = Snapshots::take(&wanted)?;
    let own = job.processes.iter().map(|process| folder_of(process.kind, process.id));
    let is_cleared = snapshots.clear_finished(own)?;
    let shown = snapshots.folder.display();
    let line = match (is_cleared, &snapshots.resume) {
        (_, Some(from)) => format!("resuming from the snapshots in {}", from.display()),
        (true, None) => format!("the job in {shown} has finished, this is a new one"),
        (false, None) if snapshots.is_begun => format!("resuming the job in {shown}"),
        (false, None) => format!("snapshots go to {shown}"),
    };
    job.lines.push(line);
    let told = Recovery {
        snapshot_dir: Some(snapshots.folder.clone()),
        snapshot_every,
        resume: snapshots.resume.clone(),
        n_restarts: 0,
    };
    for process in &mut job.processes {
        process.variables.extend(told.variables());
    }
    job.snapshots = Some(snapshots.folder.clone());
    let flagged = usize::try_from(flags.max_restarts()).unwrap_or(usize::MAX);
    job.policy = Policy {
        max_restarts: options.max_restarts.unwrap_or(flagged),
        grace: Some(options.grace.unwrap_or(GRACE)),
        has_snapshots: true,
        resumes: snapshots.is_begun,
    };
    Ok(Some(snapshots))
}

/// Continues a job whose number of servers was changed while it ran, with the servers that it has: the same command
/// resumes it. Its servers look for their rows in the folder, because they may have died before all had taken them
/// over. Returns the number of servers that the job was started with, if it was changed.
pub(super) fn go_on_scaled(
    options: &mut PsOptions,
    logs: &Logs,
    flags: &Flags,
) -> Result<Option<usize>> {
    let RecoveryOptions { resume, .. } = &options.recovery;
    let is_asked = resume.is_some() || flags.resume().is_some();
    if is_asked || !options.nodes.is_empty() || !options.endpoints.is_empty() {
        return Ok(None);
    }
    let usual = || is_wanted(&options.recovery, flags).then(|| logs.snapshots.clone());
    let Some(folder) = named(&options.recovery, flags).or_else(usual) else { return Ok(None) };
    let n_servers = options.n_servers.unwrap_or(plan::N_SERVERS);
    let ours = Identity::of_script(&options.script, n_servers, options.n_trainers);
    let Some(found) = snapshots::scaled(&folder, &ours)? else { return Ok(None) };
    options.n_servers = Some(found.n_servers);
    (options.recovery.snapshot_dir, options.recovery.resume) = (Some(folder.clone()), Some(folder));
    Ok(Some(found.n_began))
}

/// The folder of snapshots, if one was named.
pub(super) fn named(options: &RecoveryOptions, flags: &Flags) -> Option<PathBuf> {
    let folder = options.snapshot_dir.clone().or_else(|| flags.snapshot_dir());
    folder.or_else(|| options.resume.clone()).or_else(|| flags.resume())
}

/// Whether to take snapshots although the user has not named a folder.
fn is_wanted(options: &RecoveryOptions, flags: &Flags) -> bool {
    let flagged = flags.given("max_restarts").is_some() && flags.max_restarts() > 0;
    options.max_restarts.map_or(flagged, |max| max > 0)
        || options.snapshot_every.is_some()
        || flags.given("snapshot_secs").is_some()
}
