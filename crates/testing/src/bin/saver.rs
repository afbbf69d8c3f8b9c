//! Saves without end, for tests that kill it: `saver FOLDER WAY FROM`. Every number of save n is n; after each
//! save it prints n.

use std::path::Path;

use testing::saver::{Way, fill};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, way, from] = &arguments[..] else { panic!("FOLDER WAY FROM, not {arguments:?}") };
    let (way, from) = (Way::named(way), from.parse::<u32>().expect("a number"));
    let (program, scope) = way.program();
    for n in from.. {
        fill(&program, &scope, n);
        way.save(&program, &scope, Path::new(folder)).unwrap_or_else(|error| panic!("{error}"));
        say(n);
    }
}

#[allow(clippy::print_stdout)] // The test reads it.
fn say(n: u32) {
    println!("{n}");
}
