//! The protocol: simulated networks, real sockets, many trainers.

#[path = "../idle_trainers.rs"]
mod idle_trainers;
#[path = "../server_ends.rs"]
mod server_ends;
#[path = "../simulation.rs"]
mod simulation;
#[path = "../simulation_collective.rs"]
mod simulation_collective;
#[path = "../sockets.rs"]
mod sockets;
#[path = "../watching.rs"]
mod watching;
