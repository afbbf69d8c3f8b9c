//! Input over the wire once a peer was let in: a trainer's requests, and a server's replies.

use std::hint::black_box;
use std::sync::Arc;

use program::Program;
use program::distributed::Mode;
use protocol::collective::{Collective, Exchanges, PeerHello, PeerMessage, ReduceOp, Terms};
use protocol::link::{Link, LinkConfig};
use protocol::server::{Action, Apply, Server, ServerConfig, Store};
use server::BlockStore;
use tensor::{Rows, Tensor, Value};
use train::Scope;
use transpile::{Config as SplitConfig, Job, RoundRobin, server_op, transpile};
use wire::frame::{self, FRAME_BYTES_MAX, Frame};
use wire::message::{
    Ack, AllGather, AllGatherResult, AllToAll, AskStats, Barrier, Complete, Done, Grad, Hello,
    LookUp, Notice, Ping, Pong, Pull, Push, Reply, Request, Stats, Values, VarInfo, Welcome,
};
use wire::{ConnId, Failure, Millis, Refusal, VarId};

use super::Target;
use crate::linear::{Linear, grad};
use crate::stores::started_server;

const SERVER: &str = "127.0.0.1:7001";
const WORDS: &[&[u8]] = &[b"PWL1", b"w@GRAD", b"table@GRAD", b"table", b"@LR_DECAY_COUNTER@", b"w"];

/// A server's program and what its scope holds after the start.
struct Start {
    main: Program,
    vars: Vec<(String, Value)>,
    config: ServerConfig,
}

impl Start {
    fn new(mode: Mode) -> Self {
        let (mut net, _) = Linear { table: true, is_distributed: false, halving: true }.build();
        let config = SplitConfig { mode, ..SplitConfig::default() };
        let job = Job::new(0, SERVER, 1);
        let (main, startup) = (&mut net.main, &mut net.startup);
        let split = transpile(main, startup, &config, &job, &mut RoundRobin::default());
        let split = split.expect("a net of ours");
        let (main, scope) = started_server(&split, SERVER);
        let var = |name: String| scope.get(&name).map(|value| (name, value));
        let apply = if mode.waits_for_all() { Apply::ByRound { ahead: 0 } } else { Apply::AtOnce };
        Self {
            main,
            vars: scope.names().into_iter().filter_map(var).collect(),
            config: ServerConfig { apply, check_finite: true, ..ServerConfig::default() },
        }
    }

    /// A server that has just started, with its only trainer let in.
    fn server(&self) -> (Server, BlockStore) {
        let scope = Scope::new();
        for (name, value) in &self.vars {
            scope.set(name, value.clone());
        }
        let op = server_op(&self.main).expect("a server's program");
        let store = BlockStore::new(&self.main, op, &scope).expect("a store");
        let mut server = Server::new(self.config.clone(), store.vars().to_vec());
        server.handle(Millis(1), ConnId(1), 0, Request::Hello(hello()));
        (server, store)
    }
}

fn hello() -> Hello {
    Hello::new("", 0, 1, NAMES.map(VarInfo::other).to_vec())
}

/// The variables that the trainer names.
const NAMES: [&str; 6] =
    ["w@GRAD", "table@GRAD", "@LR_DECAY_COUNTER@.trainer_0", "table", "w", "nobody has it"];

fn number(name: &str) -> VarId {
    VarId(NAMES.iter().position(|known| *known == name).expect("one of ours") as u32)
}

fn named(name: &str, value: impl Into<Value>) -> Grad {
    Grad { var: number(name), value: value.into() }
}

fn rows(ids: &[i64], height: i64) -> Value {
    let value = Tensor::full([ids.len(), 4], 0.5f32);
    Value::Rows(Rows { ids: ids.to_vec(), height, value })
}

fn joined<M: frame::Message>(messages: Vec<M>) -> Vec<u8> {
    let one = |(at, body): (usize, &M)| frame::to_bytes(&Frame { id: at as u64 + 1, body });
    messages.iter().enumerate().flat_map(one).collect()
}

/// Requests of a trainer that was let in, to a server in rounds and to one without.
pub(super) fn requests() -> Target {
    let w = || named("w@GRAD", Tensor::new([4, 1], &grad(0, 0)).expect("four numbers"));
    let table = || named("table@GRAD", rows(&[3, 9], 10_001));
    let steps = || named("@LR_DECAY_COUNTER@.trainer_0", Tensor::full([1], 1i64));
    let look_up = |keys| LookUp::new(0, number("table"), keys);
    let vars = vec![number("w"), number("table")];
    let pull = |changed| Pull { changed, ..Pull::new(0, vars.clone()) };
    let all_gather = AllGather { purpose: "here".to_string(), turn: 1, bytes: vec![1, 2] };
    let all_to_all = AllToAll { purpose: "here".to_string(), turn: 1, parts: vec![vec![7; 9]] };
    let round: Vec<Request> = vec![
        Push::new(vec![w(), table()]).into(),
        Barrier::new(1).into(),
        Push::new(vec![w()]).into(),
        Barrier::new(2).into(),
        pull(false).into(),
    ];
    let others: Vec<Request> = vec![
        Push::new(vec![steps(), table()]).into(),
        look_up(vec![1, 2, 1]).into(),
        pull(true).into(),
        all_gather.into(),
        all_to_all.into(),
        Ping.into(),
        AskStats.into(),
        Complete.into(),
    ];
    let starts = [Start::new(Mode::Sync), Start::new(Mode::Async)];
    Target {
        name: "requests",
        inputs: vec![joined(round), joined(others)],
        words: WORDS,
        read: Box::new(move |bytes: &[u8]| {
            for start in &starts {
                let (mut server, store) = start.server();
                serve(&mut server, &store, bytes);
            }
        }),
        share: 80,
    }
}

fn act(server: &mut Server, store: &BlockStore, now: Millis, actions: Vec<Action>) {
    for action in actions {
        match action {
            Action::Reply(_, id, body) => {
                black_box(frame::to_bytes(&Frame { id, body: &body }));
            }
            Action::Run(work) => {
                let actions = server.done(now, work.run(store));
                act(server, store, now, actions);
            }
            _ => {}
        }
    }
}

fn serve(server: &mut Server, store: &BlockStore, mut bytes: &[u8]) {
    let mut now = 2;
    while let Ok((id, request)) = frame::read::<Request>(&mut bytes, FRAME_BYTES_MAX) {
        now += 1;
        // That would write to any folder of this machine.
        if matches!(request, Request::Save(_)) {
            continue;
        }
        let actions = server.handle(Millis(now), ConnId(1), id, request);
        act(server, store, Millis(now), actions);
    }
    server.tick(Millis(now + 100));
    server.closed(Millis(now + 200), ConnId(1));
    let actions = server.tick(Millis(now + 90_000));
    act(server, store, Millis(now + 90_000), actions);
    black_box((server.stats(), store.size()));
}

/// Replies of a server to a trainer that has changes and questions under way.
pub(super) fn replies() -> Target {
    let tensor = Value::Tensor(Tensor::full([4, 1], 1.0f32));
    let first: Vec<Reply> = vec![
        Welcome { accepted: 0, round: 3 }.into(),
        Ack.into(),
        Values(vec![Arc::new(tensor), Arc::new(rows(&[1], 9))]).into(),
        Pong { round: 4, missing: vec![0, 1], absent: vec![1], notice: Notice::default() }.into(),
    ];
    let second: Vec<Reply> = vec![
        Welcome { accepted: 2, round: 1 }.into(),
        Reply::Rows(Tensor::full([2, 4], 0.5f32)),
        AllGatherResult(vec![vec![1], Vec::new()]).into(),
        Done.into(),
        Stats::default().into(),
        Refusal::Stuck { gathering: vec![0], round_of: vec![1], round: 7 }.into(),
    ];
    Target {
        name: "replies",
        inputs: vec![joined(first), joined(second)],
        words: WORDS,
        read: Box::new(|mut bytes: &[u8]| {
            let mut link = Link::new(hello(), LinkConfig::default());
            link.connected(Millis(0));
            link.change(Millis(0), Push::new(Vec::new()));
            link.change(Millis(0), Barrier::new(1));
            let id = link.ask(Millis(0), Ping);
            let mut now = 0;
            while let Ok((id, reply)) = frame::read::<Reply>(&mut bytes, FRAME_BYTES_MAX) {
                now += 1;
                link.received(Millis(now), id, reply);
                black_box(link.take_out().len());
            }
            link.tick(Millis(now + 10_000));
            black_box((link.answer(id).is_some(), link.round(), link.broken().is_some()));
        }),
        share: 30,
    }
}

/// Parts of exchanges that another trainer sends, to one that has begun some.
pub(super) fn peers() -> Target {
    let collectives = [
        Collective::AllReduce(ReduceOp::Sum),
        Collective::Broadcast { root: 1 },
        Collective::AllGather,
        Collective::ReduceScatter(ReduceOp::Sum),
    ];
    let begun = move |me: u32| {
        let mut exchanges = Exchanges::new(me, vec![SERVER.to_string(); 3]);
        let mut parts = Vec::new();
        for (at, collective) in collectives.into_iter().enumerate() {
            let terms = Terms { collective, var: "w".to_string(), ring: at as i64 };
            let value = Value::Tensor(Tensor::full([6, 3000], 0.5f32));
            parts.extend(exchanges.begin(&terms, value).1);
        }
        (exchanges, parts)
    };
    let parts = begun(1).1.into_iter().filter(|outgoing| outgoing.to == 0);
    let parts = parts.map(|outgoing| PeerMessage::Part(outgoing.part)).collect();
    let failure = Failure::Missing {
        waiting: 1,
        waited_ms: 7,
        what: "w".to_string(),
        missing: "trainer 0".to_string(),
    };
    let hello = PeerMessage::Hello(PeerHello { rank: 1, job: "3 trainers".to_string() });
    let others = vec![hello, PeerMessage::Ready, PeerMessage::Failed(failure), PeerMessage::Bye];
    Target {
        name: "peers",
        inputs: vec![joined(parts), joined(others)],
        words: WORDS,
        read: Box::new(move |mut bytes: &[u8]| {
            let (mut exchanges, _) = begun(0);
            while let Ok((from, message)) = frame::read::<PeerMessage>(&mut bytes, FRAME_BYTES_MAX)
            {
                match message {
                    PeerMessage::Part(part) => {
                        black_box(exchanges.receive(1 + (from % 2) as u32, part));
                    }
                    PeerMessage::Failed(failure) => exchanges.fail(failure),
                    PeerMessage::Bye => exchanges.leave(1),
                    _ => {}
                }
            }
            for number in 0..collectives.len() as u64 {
                black_box((exchanges.waits_for(number), exchanges.take(number)));
            }
        }),
        share: 20,
    }
}
