//! Jobs whose trainers have something to do together: fleets in one process, on real sockets.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::thread;

use fleet::lifecycle::Minimize;
use fleet::ready::Watch;
use fleet::role::{UserDefined, user_defined};
use fleet::{Flags, Fleet, Role, RoleKind, Strategy};
use program::Net;
use program::backward::Limits;
use program::distributed::Mode;
use program::layers::{self, Data, Fc};
use program::optimizer::{Optimizer, Sgd};
use train::{Scope, TrainerJob};

use crate::cluster::free_endpoints;

/// A process of a job, up to `minimize`.
pub fn start(role: Role, mode: Mode) -> Fleet {
    let flags = Flags::default();
    let strategy = Strategy::new(mode, &flags, 1);
    let quiet = TrainerJob::new(Default::default(), std::sync::Arc::new(|_| {}));
    let mut fleet = Fleet::init(role, flags, quiet);
    fleet.set_log(std::sync::Arc::new(|_| {}));
    let mut net = Net::with_seed(7);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[3], Data::default()).unwrap();
    let guess = layers::fc(&mut b, &[x], 1, Fc::default()).unwrap();
    let loss = layers::mean(&mut b, &guess, None).unwrap();
    let mut optimizer = Optimizer::new(Sgd, 0.1);
    let mut watch = Watch { on_line: &mut |_| {}, stops: &mut || false };
    let optimizer = &mut optimizer;
    let loss = &loss;
    let limits = &Limits::default();
    let what = Minimize { optimizer, loss, limits, strategy };
    fleet.minimize(&mut b, what, &mut watch).unwrap();
    fleet
}

/// Runs `trainer` in every trainer of a job, by rank; returns their results.
pub fn job<R: Send>(
    n_servers: usize,
    n_trainers: usize,
    mode: Mode,
    trainer: impl Fn(usize, &mut Fleet) -> R + Sync,
) -> Vec<R> {
    let servers: Vec<String> = free_endpoints(n_servers).iter().map(ToString::to_string).collect();
    let role = |kind, id| {
        let (servers, n_trainers) = (servers.clone(), n_trainers as i64);
        user_defined(&UserDefined { current_id: id as i64, kind, n_trainers, servers }).unwrap()
    };
    thread::scope(|scope| {
        let serve = |id| {
            let role = role(RoleKind::Server, id);
            scope.spawn(move || {
                let (mut fleet, scope) = (start(role, mode), Scope::new());
                fleet.init_server(&scope, None).unwrap();
                fleet.run_server(&scope).unwrap();
            })
        };
        let serving: Vec<_> = (0..n_servers).map(serve).collect();
        let trainer = &trainer;
        let train = |id| {
            let role = role(RoleKind::Trainer, id);
            scope.spawn(move || {
                let mut fleet = start(role, mode);
                let done = trainer(id, &mut fleet);
                // One that told the others that it goes has no more to say.
                let _ = fleet.stop_worker(&Scope::new());
                done
            })
        };
        let training: Vec<_> = (0..n_trainers).map(train).collect();
        let done = training.into_iter().map(|trainer| trainer.join().unwrap()).collect();
        serving.into_iter().for_each(|server| server.join().unwrap());
        done
    })
}
