//! Frames that were damaged or never were any: typed errors, no panic, no memory beyond the claim.

#[path = "../benches/training/alloc.rs"]
mod alloc;

use std::sync::Arc;

use tensor::{Rows, Tensor, Value};
use testing::seeds::{is_one, seeds};
use testing::sim::Rng;
use wire::frame::{self, Frame, Message};
use wire::message::{
    Ack, AllGather, AllGatherResult, AllToAll, AllToAllResult, AskStats, Barrier, Grad, Hello,
    LookUp, Notice, Phase, Pong, Pull, Push, Reply, Request, Save, Stats, Values, VarInfo, Welcome,
};
use wire::{Error, Refusal, TrainerId, VarId};

#[global_allocator]
static COUNTING: alloc::Counting = alloc::Counting;

/// Larger frames are refused in these tests, as before a greeting.
const N_BYTES_MAX: u64 = 1 << 16;

fn requests() -> Vec<Request> {
    let rows = Rows { ids: vec![1, 2], height: 9, value: Tensor::full([2, 3], 0.5f32) };
    let grad = |var, value| Grad { var: VarId(var), value };
    let grads = vec![
        grad(0, Value::Tensor(Tensor::full([4, 2], 1f64))),
        grad(1, Value::Rows(rows)),
        grad(2, Value::Empty),
    ];
    let name = || "table".to_string();
    let vars = vec![VarInfo::param("table", &[9, 3]), VarInfo::other("table@GRAD")];
    vec![
        Hello::new(name(), 1, 5, vars).into(),
        Push::new(grads).into(),
        Barrier::new(3).into(),
        Pull { changed: true, ..Pull::new(3, vec![VarId(0), VarId(7)]) }.into(),
        LookUp::new(1, VarId(0), vec![1, -2, 3]).into(),
        AllGather { purpose: name(), turn: 2, bytes: vec![1, 2, 3] }.into(),
        Save { table: name(), dir: name(), phase: Phase::GiveUp, weights_only: false }.into(),
        AllToAll { purpose: name(), turn: 2, parts: vec![vec![1, 2], Vec::new()] }.into(),
        AskStats.into(),
    ]
}

fn replies() -> Vec<Reply> {
    let lost = Refusal::TrainerLost {
        trainer: TrainerId(1).0,
        how: "silent".to_string(),
        silent_ms: 5,
        round: 2,
    };
    vec![
        Welcome { accepted: 4, round: 2 }.into(),
        Ack.into(),
        Values(vec![Arc::new(Value::Tensor(Tensor::full([3], 1f32))), Arc::default()]).into(),
        Tensor::full([2, 2], 7i64).into(),
        AllGatherResult(vec![vec![1], Vec::new()]).into(),
        Pong { round: 1, missing: vec![0, 2], absent: vec![2], notice: Notice::default() }.into(),
        Stats::default().into(),
        lost.into(),
        AllToAllResult(Arc::new(vec![vec![1, 2, 3], vec![4]])).into(),
    ]
}

/// Decodes; whether that went well. Errors are of the kinds that cost a peer its connection.
fn check<M: Message>(bytes: &[u8], seed: u64) -> bool {
    let mut read = None;
    let n_bytes = alloc::count(|| read = Some(frame::read::<M>(&mut &*bytes, N_BYTES_MAX)));
    // The size that the frame claims, and the size of small messages in memory.
    let limit = N_BYTES_MAX + 256 * bytes.len() as u64 + 4096;
    assert!(n_bytes < limit, "{n_bytes} bytes for {} of seed {seed}", bytes.len());
    match read.expect("it was read") {
        Ok(_) => true,
        Err(Error::Malformed(_) | Error::FrameTooLong { .. }) => false,
        Err(Error::Socket(error)) => {
            let kind = error.kind();
            assert_eq!(kind, std::io::ErrorKind::UnexpectedEof, "{error}, seed {seed}");
            false
        }
        Err(other) => panic!("{other}, seed {seed}"),
    }
}

fn encoded<M: Message>(bodies: &[M]) -> Vec<Vec<u8>> {
    bodies.iter().map(|body| frame::to_bytes(&Frame { id: 1, body })).collect()
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(6) {
            0 => bytes[at] = rng.bits() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes.truncate(at.max(1)),
            3 => bytes.insert(at, rng.bits() as u8),
            4 => {
                let n = 4.min(bytes.len() - at);
                bytes[at..at + n].copy_from_slice(&[0xff; 4][..n]);
            }
            _ => {
                let n = 8.min(bytes.len() - at);
                bytes[at..at + n].fill(0);
            }
        }
    }
}

/// One test: the allocator counts for the whole process.
#[test]
fn whatever_comes_is_a_frame_or_a_typed_error() {
    damaged_frames_are_typed_errors();
    random_bytes_are_typed_errors();
}

fn damaged_frames_are_typed_errors() {
    let requests = encoded(&requests());
    let replies = encoded(&replies());
    let (mut n_passed, mut n_refused) = (0, 0);
    for seed in seeds(150_000) {
        let mut rng = Rng::new(seed);
        let list = if seed % 2 == 0 { &requests } else { &replies };
        let mut bytes = list[rng.below(list.len() as u64) as usize].clone();
        damage(&mut rng, &mut bytes);
        let passed = match seed % 2 {
            0 => check::<Request>(&bytes, seed),
            _ => check::<Reply>(&bytes, seed),
        };
        *(if passed { &mut n_passed } else { &mut n_refused }) += 1;
    }
    // Damage to a number in a tensor cannot be seen; damage to the head must be.
    assert!(
        (n_refused > 50_000 && n_passed > 1_000) || is_one(),
        "{n_refused} refused, {n_passed} passed"
    );
}

fn random_bytes_are_typed_errors() {
    for seed in seeds(50_000) {
        let mut rng = Rng::new(seed);
        let n = rng.below(200) as usize;
        let mut bytes: Vec<u8> = (0..n).map(|_| rng.bits() as u8).collect();
        // Half of them begin like a frame of a kind that exists.
        if seed % 2 == 0 && n >= 24 {
            bytes[..4].copy_from_slice(b"PWL1");
            let kind = if rng.per_mille(500) { rng.below(12) } else { 128 + rng.below(10) };
            bytes[4..6].copy_from_slice(&(kind as u16).to_le_bytes());
            let n_meta = rng.below(n as u64 - 23) as u32;
            bytes[8..12].copy_from_slice(&n_meta.to_le_bytes());
            bytes[12..16].copy_from_slice(&(n as u32 - 24 - n_meta).to_le_bytes());
        }
        check::<Request>(&bytes, seed);
        check::<Reply>(&bytes, seed);
    }
}
