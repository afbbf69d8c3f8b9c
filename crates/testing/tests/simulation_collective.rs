//! Laws of exchanges between trainers, with messages in any order that connections allow, and deaths.
//!
//! - Every trainer gets the same bits, those of a sum in the order of ranks.
//! - A trainer that dies is named to all others; no trainer waits for ever.
//!
//! `SEED=n cargo test -p testing --test protocol simulation_collective` repeats one run.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use protocol::collective::{Collective, Exchanged, Exchanges, Part, ReduceOp, Terms};
use tensor::{Tensor, Value};
use testing::seeds::seeds;
use testing::sim::Rng;
use wire::Failure;

/// Messages on their way from one trainer to another, in order.
type Wires = BTreeMap<(u32, u32), VecDeque<Message>>;

enum Message {
    Part(Part),
    Failed(Failure),
    /// The connection ends.
    End,
}

struct World {
    rng: Rng,
    trainers: Vec<Exchanges>,
    wires: Wires,
    is_dead: Vec<bool>,
    /// Exchanges that each has begun, and what came of those that are done.
    begun: Vec<u64>,
    results: Vec<Vec<Value>>,
    told: Vec<bool>,
}

/// The exchanges of a run: all trainers do them in this order.
fn plan(rng: &mut Rng, n: u64) -> Vec<(Collective, usize)> {
    let kinds = [
        Collective::AllReduce(ReduceOp::Sum),
        Collective::AllReduce(ReduceOp::Sum),
        Collective::AllReduce(ReduceOp::Max),
        Collective::Broadcast { root: rng.below(n) as u32 },
        Collective::AllGather,
        Collective::ReduceScatter(ReduceOp::Sum),
    ];
    let sizes = [0, 1, 3, 100, 8191, 8193, 20_000, 300_000];
    let one = |rng: &mut Rng| {
        let collective = rng.one_of(&kinds);
        let size = rng.one_of(&sizes);
        let even = matches!(collective, Collective::ReduceScatter(_));
        (collective, if even { size / n as usize * n as usize } else { size })
    };
    (0..1 + rng.below(6)).map(|_| one(rng)).collect()
}

fn value(rank: u32, number: u64, n: usize) -> Value {
    let at = |at: usize| ((at as f32).sin() + number as f32) * (1.0 + rank as f32 / 3.0);
    Value::Tensor(Tensor::new([n], &(0..n).map(at).collect::<Vec<f32>>()).unwrap())
}

impl World {
    fn new(seed: u64, n: u32) -> Self {
        let endpoints: Vec<String> = (0..n).map(|rank| format!("h:{rank}")).collect();
        let trainers = (0..n).map(|me| Exchanges::new(me, endpoints.clone())).collect();
        let n = n as usize;
        Self {
            rng: Rng::new(seed),
            trainers,
            wires: Wires::new(),
            is_dead: vec![false; n],
            begun: vec![0; n],
            results: vec![Vec::new(); n],
            told: vec![false; n],
        }
    }

    fn n(&self) -> u32 {
        self.trainers.len() as u32
    }

    fn send(&mut self, from: u32, to: u32, message: Message) {
        if !self.is_dead[from as usize] {
            self.wires.entry((from, to)).or_default().push_back(message);
        }
    }

    fn begin(&mut self, rank: u32, plan: &[(Collective, usize)]) {
        let at = rank as usize;
        let number = self.begun[at];
        let (collective, size) = plan[number as usize];
        let terms = Terms { collective, var: format!("v{number}"), ring: 0 };
        let (begun, outgoing) = self.trainers[at].begin(&terms, value(rank, number, size));
        assert_eq!(begun, number);
        self.begun[at] += 1;
        outgoing.into_iter().for_each(|out| self.send(rank, out.to, Message::Part(out.part)));
    }

    /// Delivers the first message of a connection that has one.
    fn deliver(&mut self) -> bool {
        self.wires.retain(|_, wire| !wire.is_empty());
        let open: Vec<(u32, u32)> = self.wires.keys().copied().collect();
        if open.is_empty() {
            return false;
        }
        let (from, to) = self.rng.one_of(&open);
        let message = self.wires.get_mut(&(from, to)).unwrap().pop_front().unwrap();
        if self.is_dead[to as usize] {
            return true;
        }
        let trainer = &mut self.trainers[to as usize];
        match message {
            Message::Part(part) => {
                let outgoing = trainer.receive(from, part);
                outgoing.into_iter().for_each(|out| self.send(to, out.to, Message::Part(out.part)));
            }
            Message::Failed(failure) => trainer.fail(failure),
            Message::End => trainer.lose(from, "its connection ended".to_string()),
        }
        true
    }

    /// A trainer that has noticed an error tells all others, once.
    fn gossip(&mut self) {
        for rank in 0..self.n() {
            let failure = self.trainers[rank as usize].failure().cloned();
            let Some(failure) = failure.filter(|_| !self.told[rank as usize]) else { continue };
            self.told[rank as usize] = true;
            let others = (0..self.n()).filter(|&other| other != rank);
            for other in others.collect::<Vec<_>>() {
                self.send(rank, other, Message::Failed(failure.clone()));
            }
        }
    }

    /// Takes what is done, in order.
    fn collect(&mut self) {
        for rank in 0..self.trainers.len() {
            while !self.is_dead[rank] && (self.results[rank].len() as u64) < self.begun[rank] {
                let next = self.results[rank].len() as u64;
                let Some(Ok(outcome)) = self.trainers[rank].take(next) else { break };
                self.results[rank].push(match outcome {
                    Exchanged::One(value) => value,
                    Exchanged::All(all) => one_below_the_other(&all),
                });
            }
        }
    }

    fn die(&mut self, rank: u32) {
        let others = (0..self.n()).filter(|&other| other != rank);
        for other in others.collect::<Vec<_>>() {
            // Messages that were written may be lost.
            let wire = self.wires.entry((rank, other)).or_default();
            let kept = self.rng.below(wire.len() as u64 + 1) as usize;
            wire.truncate(kept);
            wire.push_back(Message::End);
        }
        self.is_dead[rank as usize] = true;
    }
}

fn one_below_the_other(all: &[Arc<Value>]) -> Value {
    let numbers = |value: &Arc<Value>| value.tensor().unwrap().data::<f32>().unwrap().to_vec();
    let numbers: Vec<f32> = all.iter().flat_map(numbers).collect();
    Value::Tensor(Tensor::new([numbers.len()], &numbers).unwrap())
}

/// Runs one job; `dies` names the trainer that dies after so many events.
fn run(seed: u64, n: u32, dies: Option<(u64, u32)>) -> World {
    let mut world = World::new(seed, n);
    let plan = plan(&mut world.rng, u64::from(n));
    let mut n_events = 0;
    loop {
        n_events += 1;
        assert!(n_events < 1_000_000, "seed {seed}: it goes on for ever");
        if dies.is_some_and(|(when, _)| when == n_events) {
            world.die(dies.unwrap().1);
        }
        let can_begin = |rank: &u32| {
            let at = *rank as usize;
            let well = world.trainers[at].failure().is_none();
            !world.is_dead[at] && well && world.begun[at] < plan.len() as u64
        };
        let ready: Vec<u32> = (0..n).filter(can_begin).collect();
        let begins = !ready.is_empty() && world.rng.per_mille(300);
        let moved = if begins {
            let rank = world.rng.one_of(&ready);
            world.begin(rank, &plan);
            true
        } else {
            world.deliver()
        };
        world.gossip();
        world.collect();
        let waits_to_die = dies.is_some_and(|(when, _)| n_events < when);
        if !moved
            && ready.is_empty()
            && world.wires.values().all(VecDeque::is_empty)
            && !waits_to_die
        {
            break;
        }
    }
    check(seed, &world, &plan, dies.map(|(_, rank)| rank));
    world
}

fn check(seed: u64, world: &World, plan: &[(Collective, usize)], dead: Option<u32>) {
    for rank in 0..world.n() {
        let at = rank as usize;
        if world.is_dead[at] {
            continue;
        }
        let failure = world.trainers[at].failure();
        match dead {
            None => {
                assert_eq!(failure, None, "seed {seed}");
                assert_eq!(
                    world.results[at].len(),
                    plan.len(),
                    "seed {seed}: trainer {rank} waits"
                );
            }
            Some(dead) => {
                let named =
                    matches!(failure, Some(Failure::Lost { trainer, .. }) if *trainer == dead);
                assert!(named, "seed {seed}: trainer {rank} knows {failure:?}");
            }
        }
        for (number, result) in world.results[at].iter().enumerate() {
            let (collective, size) = plan[number];
            let expected = expected(collective, rank, world.n(), number as u64, size);
            assert_eq!(result, &expected, "seed {seed}: exchange {number} of trainer {rank}");
        }
    }
}

/// The result of an exchange, worked out in the order of ranks.
fn expected(collective: Collective, rank: u32, n: u32, number: u64, size: usize) -> Value {
    let of = |rank: u32| match value(rank, number, size) {
        Value::Tensor(tensor) => tensor.data::<f32>().unwrap().to_vec(),
        _ => Vec::new(),
    };
    let together = |with: fn(f32, f32) -> f32| {
        let pair = |one: Vec<f32>, other: Vec<f32>| {
            one.into_iter().zip(other).map(|(a, b)| with(a, b)).collect()
        };
        (1..n).map(of).fold(of(0), pair)
    };
    let numbers: Vec<f32> = match collective {
        Collective::AllReduce(ReduceOp::Max) => together(|a, b| if b > a { b } else { a }),
        Collective::AllReduce(_) => together(|a, b| a + b),
        Collective::Broadcast { root } => of(root),
        Collective::AllGather => (0..n).flat_map(of).collect(),
        Collective::ReduceScatter(_) => {
            let width = size / n as usize;
            together(|a, b| a + b)[rank as usize * width..][..width].to_vec()
        }
    };
    Value::Tensor(Tensor::new([numbers.len()], &numbers).unwrap())
}

#[test]
fn every_trainer_gets_the_same_bits_in_any_order() {
    for seed in seeds(120) {
        run(seed, 1 + (seed % 5) as u32, None);
    }
}

#[test]
fn who_dies_is_named_to_all() {
    for seed in seeds(120) {
        let mut rng = Rng::new(seed ^ 0xdead);
        let n = 2 + rng.below(4) as u32;
        let dead = rng.below(u64::from(n)) as u32;
        run(seed, n, Some((1 + rng.below(40), dead)));
    }
}
