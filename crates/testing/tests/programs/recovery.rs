//! Cuts, snapshots and the way back.

#[path = "../recovery.rs"]
mod recovery;
#[path = "../recovery_passes.rs"]
mod recovery_passes;
#[path = "../resume.rs"]
mod resume;
#[path = "../simulation_recovery.rs"]
mod simulation_recovery;
#[path = "../snapshot_files.rs"]
mod snapshot_files;
#[path = "../snapshots.rs"]
mod snapshots;
#[path = "../terms.rs"]
mod terms;
