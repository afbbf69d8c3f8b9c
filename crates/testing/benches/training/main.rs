//! The benches of the core: one `BENCH <name> ratio=…` line per figure.
#![allow(clippy::print_stdout, missing_docs)]

mod alloc;
mod ceiling;
mod data;

use std::time::Instant;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

const N_ROWS: usize = 1_000_001;

fn main() {
    let samples = data::Samples::new(20_000, N_ROWS);
    for batch in [100, 1000] {
        let mut ceiling = ceiling::Ceiling::new(N_ROWS, batch, 1e-4);
        for _ in 0..4 {
            let start = Instant::now();
            let mut loss = 0.0;
            for at in (0..samples.len()).step_by(batch) {
                loss += ceiling.step(&samples, at, batch);
            }
            let rate = samples.len() as f64 / start.elapsed().as_secs_f64();
            println!("ceiling batch {batch}: {rate:.0} samples/s loss {loss}");
        }
    }
}
