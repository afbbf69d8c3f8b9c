//! Processes: the command line, launchers, servers over HTTP, savers that are killed.

#[path = "../command.rs"]
mod command;
#[path = "../distributed_ctr.rs"]
mod distributed_ctr;
#[path = "../launcher.rs"]
mod launcher;
#[path = "../saved_folders.rs"]
mod saved_folders;
#[path = "../serving.rs"]
mod serving;
