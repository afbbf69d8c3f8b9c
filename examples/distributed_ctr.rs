//! Click-through rate on several processes: one program, two roles, no Python.
//!
//! `cargo build --example distributed_ctr`, then
//! `paddlewheel launch_ps --worker_num 2 --server_num 2 target/debug/examples/distributed_ctr`,
//! or each process in a shell of its own with the variables that tell it who it is
//! (`PADDLE_PSERVERS_IP_PORT_LIST`, `PADDLE_TRAINERS_NUM`, `TRAINING_ROLE`, …). Options:
//! `--mode sync|ssp|half_async|async|geo` and `--batches N`. The clicks are made up in `support/clicks.rs`.

#![allow(clippy::print_stdout)] // An example talks to its user.

#[path = "support/clicks.rs"]
mod clicks;

use clicks::{Clicks, N_ROWS, N_SLOTS, Options, Report, slot_name};
use paddlewheel::{Result, prelude::*};

fn main() -> Result<()> {
    let options = Options::parse()?;
    let mut session = Session::new(90);
    let loss = model(&mut session.builder())?;
    match session.join(options.mode, Optimizer::new(Adagrad::default(), 0.05), &loss)? {
        Member::Server(server) => println!("{}", server.serve()?),
        Member::Trainer(mut trainer) => {
            let (mut clicks, mut report) = (Clicks::of(trainer.id()), Report::default());
            for _ in 0..options.n_batches {
                report.add(trainer.run(&mut clicks.batch()?, &[&loss])?[0].get_f64(0));
            }
            println!("trained on {} samples together", trainer.sum(&[report.n_samples()])?[0]);
            trainer.finish(Some("ctr.model".as_ref()))?;
        }
    }
    Ok(())
}

/// Slots of ids that share one sparse table, two layers; returns the mean loss.
fn model(b: &mut Builder<'_>) -> Result<Var> {
    let mut rows = Vec::new();
    for slot in 0..N_SLOTS {
        let ids = layers::data(b, &slot_name(slot), &[1], Data::ids())?;
        let table = Embedding::sparse("SparseFeatFactors", 0.1);
        rows.push(layers::embedding(b, &ids, [N_ROWS, 8], table)?);
    }
    let label = layers::data(b, "label", &[1], Data::ids())?;
    let hidden = layers::fc(b, &rows, 32, Fc { act: Some("relu"), ..Fc::default() })?;
    let scores = layers::fc(b, &[hidden], 2, Fc { act: Some("softmax"), ..Fc::default() })?;
    let cost = layers::cross_entropy(b, &scores, &label, CrossEntropy::default())?;
    Ok(layers::mean(b, &cost, None)?)
}
