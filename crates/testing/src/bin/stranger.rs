//! A process of another user, for tests: `stranger squat NAME` takes an abstract socket name and says how
//! much it hears on each connection; `stranger visit NAME` connects to one and says how that ends.
#![allow(clippy::print_stdout)] // The other side reads it.

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, name] = args.as_slice() else { panic!("what to do, and a name") };
    let name = SocketAddr::from_abstract_name(name).expect("a name");
    match what.as_str() {
        "squat" => squat(&name),
        "visit" => visit(&name),
        other => panic!("{other}?"),
    }
}

fn squat(name: &SocketAddr) {
    let listener = UnixListener::bind_addr(name).expect("the name is free");
    println!("ready");
    for stream in listener.incoming() {
        let mut heard = Vec::new();
        // How it ends does not matter.
        let _ = stream.expect("a connection").take(1 << 16).read_to_end(&mut heard);
        println!("heard {}", heard.len());
    }
}

fn visit(name: &SocketAddr) {
    let mut stream = UnixStream::connect_addr(name).expect("somebody listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let _ = stream.write_all(b"PWHS");
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    println!("heard {}", heard.len());
}
