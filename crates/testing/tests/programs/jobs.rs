//! Jobs of servers and trainers in one process.

#[path = "../async_training.rs"]
mod async_training;
#[path = "../checkpoints.rs"]
mod checkpoints;
#[path = "../collective.rs"]
mod collective;
#[path = "../fleet.rs"]
mod fleet;
#[path = "../global_metrics.rs"]
mod global_metrics;
#[path = "../global_shuffle.rs"]
mod global_shuffle;
#[path = "../growing.rs"]
mod growing;
#[path = "../rendezvous.rs"]
mod rendezvous;
#[path = "../resplit.rs"]
mod resplit;
#[path = "../row_tables.rs"]
mod row_tables;
#[path = "../spread_table.rs"]
mod spread_table;
#[path = "../sync_training.rs"]
mod sync_training;
#[path = "../threads.rs"]
mod threads;
