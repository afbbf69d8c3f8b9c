//! A server of the crowd tests and benches: `crowd_server <trainers> <sync|async>`. It says where it
//! listens, and serves until all trainers have completed.
#![allow(clippy::print_stdout)] // The other side reads it.

use std::sync::Arc;

use net::tcp::{Listener, Stop};
use protocol::server::{Apply, End, Server, ServerConfig};
use testing::crowd::{Sum, vars};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [n_trainers, mode] = args.as_slice() else { panic!("trainers and mode are needed") };
    let n_trainers = n_trainers.parse().expect("a number of trainers");
    let is_sync = mode == "sync";
    let apply = if is_sync { Apply::ByRound { ahead: 0 } } else { Apply::AtOnce };
    let config = ServerConfig { n_trainers, apply, ..ServerConfig::default() };
    let here = "127.0.0.1:0".parse().expect("an end point");
    let listener = Listener::bind(&here).expect("a free port");
    println!("{}", listener.endpoint());
    let server = Server::new(config, vars());
    let end = listener.serve(server, Arc::new(Sum::default()), &Stop::default(), |_, _| ());
    assert_eq!(end, Some(End::Completed));
}
