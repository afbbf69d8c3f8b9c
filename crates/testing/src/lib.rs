//! Not shipped: the numbers of the real Fluid, tiny models, and the comparisons tests speak through.
//!
//! **Invariant:** nothing depends on this crate. It may panic: whatever it finds wrong is a failed
//! test.

pub mod big_table;
pub mod close;
pub mod cluster;
pub mod crowd;
pub mod doors;
pub mod fleets;
pub mod golden;
pub mod job;
pub mod kept_saves;
pub mod kept_snapshots;
pub mod linear;
pub mod mates;
pub mod models;
pub mod modules;
pub mod nets;
mod npz;
pub mod recorded;
pub mod recovery;
pub mod reference;
pub mod saver;
pub mod seeds;
pub mod served;
pub mod session;
pub mod sim;
pub mod soak;
pub mod stores;
pub mod tree;
pub mod turns;

/// The number of a variable in a store.
pub fn id_of(store: &impl protocol::server::Store, name: &str) -> wire::VarId {
    let at = store.vars().iter().position(|held| held.name == name);
    wire::VarId(at.unwrap_or_else(|| panic!("the store has no `{name}`")) as u32)
}
