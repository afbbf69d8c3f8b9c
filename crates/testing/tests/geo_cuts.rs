//! A cut of a GEO job copies what was learnt, and not the tables that it was learnt in.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

#[path = "../benches/training/alloc.rs"]
mod alloc;

use program::Net;
use program::distributed::Mode;
use program::optimizer::{Optimizer, Sgd};
use tensor::{Lod, Tensor};
use testing::models::{self, Ctr};
use testing::recovery::{Death, Plan, Victim, run_script};
use train::Feed;
use transpile::Config;

#[global_allocator]
static COUNTING: alloc::Counting = alloc::Counting;

const N_ROWS: usize = 250_000;
const DIM: usize = 16;
const TABLE_BYTES: u64 = (N_ROWS * DIM * 4) as u64;

fn net() -> (Net, program::Var) {
    let model = Ctr {
        n_slots: 1,
        n_dense: 2,
        n_rows: N_ROWS as i64,
        dim: DIM as i64,
        hidden: vec![4],
        num_thresholds: 15,
        slide_steps: 1,
        pooled: true,
        is_sparse: true,
    };
    let mut net = Net::with_seed(7);
    let vars = models::ctr(&mut net, &model, Optimizer::new(Sgd, 0.01)).unwrap();
    (net, vars.loss)
}

fn feed(step: usize) -> Feed {
    let mut feed = Feed::new();
    let mut ids = Tensor::new([2, 1], &[step as i64 % 50, 100 + step as i64 % 50]).unwrap();
    ids.set_lod(Lod::from_lengths(vec![1; 2]));
    feed.set("C1", ids);
    feed.set("dense_input", Tensor::full([2, 2], 0.5f32));
    feed.set("label", Tensor::full([2, 1], 1i64));
    feed
}

/// The allocations of all threads are counted, so a step in which a server copies its table for a base
/// says nothing. There is none after the first cut: the table hardly changes.
#[test]
fn no_step_copies_a_table_for_a_cut() {
    // Its own death is the last word: by then there were cuts.
    let deaths = [Death { by: 0, step: 30, n_cuts: 6, victim: Victim::Trainer(0) }];
    let plan = Plan {
        n_servers: 1,
        n_trainers: 1,
        config: Config::of(Mode::Geo { push_every: 2 }),
        n_steps: vec![0],
        cut_every_ms: 20,
        deaths: deaths.to_vec(),
    };
    run_script(&plan, net, |trainer, exe| {
        let mut most = 0;
        for step in 0..400 {
            let mut feed = feed(step);
            let asked = alloc::count(|| {
                exe.run(&trainer.net.main, trainer.scope, &mut feed, &[]).unwrap();
            });
            // The first run takes note of all parameters; so does the first one after a replay.
            if trainer.n_starts == 1 && step > 0 {
                most = most.max(asked);
            }
            trainer.stepped(step).inspect_err(|_| {
                assert!(most < TABLE_BYTES / 4, "{most} bytes in a step");
            })?;
        }
        Ok(Vec::new())
    });
}
