//! A job in one thread: shipping servers and links, a clock that jumps, and a network that does
//! its worst. The same seed gives the same run, to the bit.

mod ledger;
mod rng;
mod trainer;

use std::collections::BTreeMap;

use ps::frame::{self, FRAME_BYTES_MAX, Frame};
use ps::message::{Reply, Request};
use ps::server::{Action, Apply, Config, Done, End, Server, Work};
use ps::{ConnId, Millis, Refusal};

pub use ledger::{Applied, Book, GRAD, Ledger, SHARED, SHARED_VAR, TABLE, grad, own, vars};
pub use rng::Rng;
pub use trainer::{Outcome, Seen, Step, Trainer, tag};

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Servers.
    pub servers: usize,
    /// Trainers.
    pub trainers: u32,
}

/// What the network and the machines do to a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames overtake each other, and each is lost or doubled on its own; a stream keeps them in
    /// order until it breaks.
    pub loose: bool,
    /// Of a thousand frames, so many are lost (only when loose).
    pub drop_per_mille: u64,
    /// Of a thousand frames, so many come twice (only when loose).
    pub double_per_mille: u64,
    /// Of a thousand frames, so many break their connection.
    pub cut_per_mille: u64,
    /// The longest way of a frame.
    pub delay_ms_max: u64,
    /// Of a thousand connections, so many are played a second time from another socket.
    pub replay_per_mille: u64,
    /// A server stands still for so long, once.
    pub stall_ms: u64,
    /// The longest that work on data waits for a thread, and as long again until the server hears of
    /// its outcome. Without it, work is done at once.
    pub work_ms_max: u64,
}

/// A process that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Its rank.
    pub trainer: u32,
    /// When.
    pub at_ms: u64,
    /// Another process of this rank starts so much later.
    pub back_ms: Option<u64>,
}

/// A job: who, what and what happens to them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How many there are.
    pub size: Size,
    /// When gradients count.
    pub apply: Apply,
    /// What each trainer does.
    pub scripts: Vec<Vec<Step>>,
    /// What goes wrong.
    pub faults: Faults,
    /// Who dies.
    pub kill: Option<Kill>,
}

/// A trainer whose connection broke has so long to come back.
pub const GRACE_MS: u64 = 3_000;
/// A trainer silent for so long is dead.
pub const LEASE_MS: u64 = 6_000;
/// A job that is not over by then hangs.
pub const DEADLINE_MS: u64 = 300_000;

const SERVER_TICK_MS: u64 = 100;
const TRAINER_TICK_MS: u64 = 50;

/// What is left when a job is over.
#[derive(Debug)]
pub struct Report {
    /// How each trainer ended and when; `None` for one that was killed.
    pub outcomes: Vec<Option<(Outcome, Millis)>>,
    /// What each trainer saw.
    pub seen: Vec<Seen>,
    /// How each server ended, with what it wrote down.
    pub servers: Vec<(Option<End>, Ledger)>,
    /// When the last one was done.
    pub end: Millis,
    /// When a trainer was killed: as planned, but not before all servers knew it.
    pub killed: Option<Millis>,
    /// Pushes that came again and were not applied.
    pub n_repeated: u64,
    /// What the servers said.
    pub log: Vec<String>,
}

#[derive(Debug)]
enum Event {
    ToServer(ConnId, Vec<u8>),
    ToTrainer(ConnId, Vec<u8>),
    ServerSeesEnd(ConnId),
    TrainerSeesEnd(ConnId),
    Connect(u32, usize),
    TickServer(usize),
    TickTrainer(u32),
    Stall(usize),
    Kill(u32),
    Start(u32),
    Work(usize, Work),
    Done(usize, Done),
}

#[derive(Debug)]
struct Conn {
    /// `None`: a connection that is played a second time, with nobody behind it.
    trainer: Option<u32>,
    server: usize,
    /// What is sent from now on is lost.
    is_open: bool,
    /// What would arrive after this is lost.
    lost_from: Option<u64>,
    server_knows: bool,
    /// When the last frame in each direction arrives.
    last: [u64; 2],
    /// What was sent to the server, to be played again.
    tape: Vec<Vec<u8>>,
}

struct World {
    plan: Plan,
    rng: Rng,
    now: u64,
    n_events: u64,
    events: BTreeMap<(u64, u64), Event>,
    servers: Vec<Server>,
    stores: Vec<Book>,
    stalled_until: Vec<u64>,
    trainers: Vec<Option<Trainer>>,
    conns: BTreeMap<ConnId, Conn>,
    n_processes: u64,
    killed: Option<Millis>,
    log: Vec<String>,
}

impl Plan {
    /// The same job on a perfect network.
    pub fn undisturbed(&self) -> Plan {
        Plan { faults: Faults::default(), kill: None, ..self.clone() }
    }

    /// Runs the job. Panics if it hangs.
    pub fn run(&self) -> Report {
        let mut world = World::new(self.clone());
        while !world.is_over() {
            let ((at, _), event) = world.events.pop_first().expect("clocks tick");
            world.now = at;
            assert!(at < DEADLINE_MS, "the job hangs: SEED={}, {}", self.seed, world.state());
            world.happen(event);
        }
        world.report()
    }
}

impl World {
    fn new(plan: Plan) -> Self {
        let n_trainers = plan.size.trainers;
        let config = Config {
            job: "sim".to_string(),
            n_trainers,
            apply: plan.apply,
            lease_ms: LEASE_MS,
            grace_ms: GRACE_MS,
            ..Config::default()
        };
        let server = |_| Server::new(config.clone(), vars(n_trainers));
        let mut world = Self {
            rng: Rng::new(plan.seed),
            now: 0,
            n_events: 0,
            events: BTreeMap::new(),
            servers: (0..plan.size.servers).map(server).collect(),
            stores: (0..plan.size.servers).map(|_| Book::new(n_trainers)).collect(),
            stalled_until: vec![0; plan.size.servers],
            trainers: (0..n_trainers).map(|_| None).collect(),
            conns: BTreeMap::new(),
            n_processes: 0,
            killed: None,
            log: Vec::new(),
            plan,
        };
        for server in 0..world.servers.len() {
            world.later(0, SERVER_TICK_MS, Event::TickServer(server));
        }
        for trainer in 0..n_trainers {
            world.later(0, 20, Event::Start(trainer));
        }
        if let Some(Kill { trainer, at_ms, back_ms }) = world.plan.kill {
            world.at(at_ms, Event::Kill(trainer));
            if let Some(back_ms) = back_ms {
                world.at(at_ms + back_ms, Event::Start(trainer));
            }
        }
        if world.plan.faults.stall_ms > 0 {
            let server = world.rng.below(world.servers.len() as u64) as usize;
            world.later(50, 300, Event::Stall(server));
        }
        world
    }

    fn at(&mut self, at: u64, event: Event) {
        self.n_events += 1;
        self.events.insert((at, self.n_events), event);
    }

    /// Between `ms` and `ms + chance` from now.
    fn later(&mut self, ms: u64, chance: u64, event: Event) {
        let at = self.now + ms + self.rng.below(chance);
        self.at(at, event);
    }

    fn is_over(&self) -> bool {
        let to_come =
            self.events.values().any(|event| matches!(event, Event::Start(_) | Event::Kill(_)));
        let last = |trainer: &Trainer| trainer.outcome.as_ref().map(|(_, at)| at.0);
        let last: Option<Vec<u64>> = self.trainers.iter().flatten().map(last).collect();
        let (false, Some(last)) = (to_come, last) else { return false };
        // Servers end with their trainers, unless those only left or never came.
        let patience = 2 * (GRACE_MS + LEASE_MS + self.plan.faults.stall_ms);
        let until = last.into_iter().max().unwrap_or(0) + patience;
        self.now > until || self.servers.iter().all(|server| server.end().is_some())
    }

    fn state(&self) -> String {
        let trainers: Vec<_> = self.trainers.iter().flatten().collect();
        format!("{:?}\n{trainers:#?}\n{:#?}", self.plan, self.log)
    }

    fn happen(&mut self, event: Event) {
        if let Some(until) = self.stalled(&event) {
            return self.at(until, event);
        }
        match event {
            Event::ToServer(conn, bytes) => self.reach_server(conn, &bytes),
            Event::ToTrainer(conn, bytes) => self.reach_trainer(conn, &bytes),
            Event::ServerSeesEnd(conn) => {
                let end = self.conns.get_mut(&conn).filter(|conn| conn.server_knows);
                let Some(end) = end else { return };
                (end.server_knows, end.is_open) = (false, false);
                let server = end.server;
                let actions = self.servers[server].closed(Millis(self.now), conn);
                self.act(server, actions);
            }
            Event::TrainerSeesEnd(conn) => self.trainer_sees_end(conn),
            Event::Connect(trainer, server) => self.connect(trainer, server),
            Event::TickServer(server) => {
                let actions = self.servers[server].tick(Millis(self.now));
                self.act(server, actions);
                self.later(SERVER_TICK_MS, 5, Event::TickServer(server));
            }
            Event::TickTrainer(trainer) => self.tick_trainer(trainer),
            Event::Stall(server) => {
                let until = self.now + self.plan.faults.stall_ms;
                self.stalled_until[server] = until;
                // The first thing it sees when it wakes is the clock.
                self.at(until, Event::TickServer(server));
            }
            Event::Kill(trainer) => self.kill(trainer),
            Event::Start(trainer) => self.start(trainer),
            Event::Work(server, work) => {
                let done = work.run(&self.stores[server]);
                self.later(0, self.plan.faults.work_ms_max, Event::Done(server, done));
            }
            Event::Done(server, done) => self.done(server, done),
        }
    }

    /// When a server that stands still takes notice of this.
    fn stalled(&self, event: &Event) -> Option<u64> {
        let server = match event {
            Event::ToServer(conn, _) | Event::ServerSeesEnd(conn) => self.conns.get(conn)?.server,
            Event::TickServer(server) | Event::Work(server, _) | Event::Done(server, _) => *server,
            _ => return None,
        };
        Some(self.stalled_until[server]).filter(|&until| self.now < until)
    }

    fn reach_server(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(line) = self.conns.get(&conn).filter(|conn| conn.server_knows) else { return };
        if line.lost_from.is_some_and(|at| self.now > at) {
            return;
        }
        let (id, request) = frame::read::<Request>(&mut &*bytes, FRAME_BYTES_MAX)
            .unwrap_or_else(|error| panic!("{error}, SEED={}", self.plan.seed));
        let server = line.server;
        let actions = self.servers[server].handle(Millis(self.now), conn, id, request);
        self.act(server, actions);
    }

    fn done(&mut self, server: usize, done: Done) {
        let actions = self.servers[server].done(Millis(self.now), done);
        self.act(server, actions);
    }

    fn act(&mut self, server: usize, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Reply(conn, id, reply) => {
                    let bytes = frame::to_bytes(&Frame { id, body: &reply });
                    self.send(conn, 1, bytes);
                }
                Action::Close(conn) => self.hang_up(conn, 1),
                Action::Log(_, line) => self.log.push(format!("{} ms: {line}", self.now)),
                Action::Run(work) if self.plan.faults.work_ms_max == 0 => {
                    let done = work.run(&self.stores[server]);
                    self.done(server, done);
                }
                // As threads would: work overtakes work, and its outcome comes when it comes.
                Action::Run(work) => {
                    self.later(0, self.plan.faults.work_ms_max, Event::Work(server, work));
                }
            }
        }
    }

    fn reach_trainer(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(line) = self.conns.get(&conn) else { return };
        if line.lost_from.is_some_and(|at| self.now > at) {
            return;
        }
        let (Some(id), server) = (line.trainer, line.server) else { return };
        let (number, reply) = frame::read::<Reply>(&mut &*bytes, FRAME_BYTES_MAX)
            .unwrap_or_else(|error| panic!("{error}, SEED={}", self.plan.seed));
        let now = Millis(self.now);
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let line = &mut trainer.lines[server];
        if line.conn == Some(conn) {
            line.link.received(now, number, reply);
            self.go_on(id);
        }
    }

    /// Lets a trainer act and sends what it says.
    fn go_on(&mut self, id: u32) {
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        trainer.advance(Millis(self.now));
        let mut out = Vec::new();
        for line in &mut trainer.lines {
            if let Some(conn) = line.conn {
                out.extend(
                    line.link.take_out().into_iter().map(|(id, request)| {
                        (conn, frame::to_bytes(&Frame { id, body: &*request }))
                    }),
                );
            }
        }
        let over = trainer.outcome.is_some();
        // The server has not noticed yet that the process before is dead: whoever starts
        // processes starts this one again.
        let duplicate = |outcome: &Outcome| {
            matches!(outcome, Outcome::Refused(Refusal::DuplicateTrainer { .. }))
        };
        let again = trainer.outcome.as_ref().is_some_and(|(outcome, _)| duplicate(outcome));
        for (conn, bytes) in out {
            self.send(conn, 0, bytes);
        }
        if over {
            self.end_process(id);
        }
        if again && self.plan.kill.is_some_and(|kill| kill.trainer == id) {
            self.trainers[id as usize] = None;
            self.later(100, 1, Event::Start(id));
        }
    }

    /// The system closes the connections of a process that is no more.
    fn end_process(&mut self, id: u32) {
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let conns: Vec<_> = trainer.lines.iter_mut().filter_map(|line| line.conn.take()).collect();
        for conn in conns {
            self.hang_up(conn, 0);
        }
    }

    fn kill(&mut self, id: u32) {
        let Some(trainer) = &self.trainers[id as usize] else { return };
        if trainer.outcome.is_some() {
            // It was done; nothing comes back.
            self.events.retain(|_, event| !matches!(event, Event::Start(_)));
            return;
        }
        let comes_back = self.plan.kill.is_some_and(|kill| kill.back_ms.is_some());
        if !comes_back && !trainer.has_met_all() {
            return self.later(20, 1, Event::Kill(id));
        }
        self.killed = Some(Millis(self.now));
        self.end_process(id);
        self.trainers[id as usize] = None;
    }

    fn start(&mut self, id: u32) {
        self.n_processes += 1;
        let script = self.plan.scripts[id as usize].clone();
        let incarnation = self.n_processes * 1000 + u64::from(id);
        let trainer = Trainer::new(id, incarnation, self.plan.size, script);
        self.trainers[id as usize] = Some(trainer);
        for server in 0..self.servers.len() {
            self.later(0, 20, Event::Connect(id, server));
        }
        self.later(TRAINER_TICK_MS, 5, Event::TickTrainer(id));
    }

    fn connect(&mut self, id: u32, server: usize) {
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let line = &mut trainer.lines[server];
        if trainer.outcome.is_some() || line.conn.is_some() {
            return;
        }
        let conn = ConnId(self.conns.len() as u64);
        line.conn = Some(conn);
        line.link.connected(Millis(self.now));
        self.conns.insert(conn, Conn::new(Some(id), server));
        self.go_on(id);
    }

    fn trainer_sees_end(&mut self, conn: ConnId) {
        let Some(&Conn { trainer: Some(id), server, .. }) = self.conns.get(&conn) else { return };
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let line = &mut trainer.lines[server];
        if line.conn == Some(conn) {
            line.conn = None;
            line.link.closed();
            self.hang_up(conn, 0);
            self.later(10, 100, Event::Connect(id, server));
        }
    }

    fn tick_trainer(&mut self, id: u32) {
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        if trainer.outcome.is_some() {
            return;
        }
        for line in trainer.lines.iter_mut().filter(|line| line.conn.is_some()) {
            line.link.tick(Millis(self.now));
        }
        self.go_on(id);
        self.later(TRAINER_TICK_MS, 5, Event::TickTrainer(id));
    }

    fn report(self) -> Report {
        let n_repeated = self.servers.iter().map(|server| server.stats().repeated).sum();
        let ledgers = self.stores.into_iter().map(Book::into_ledger);
        let servers = self.servers.iter().map(Server::end).zip(ledgers);
        let outcomes = self.trainers.iter().map(|t| t.as_ref().and_then(|t| t.outcome.clone()));
        Report {
            outcomes: outcomes.collect(),
            seen: self
                .trainers
                .iter()
                .map(|t| t.as_ref().map(|t| t.seen.clone()))
                .map(Option::unwrap_or_default)
                .collect(),
            servers: servers.collect(),
            end: Millis(self.now),
            killed: self.killed,
            n_repeated,
            log: self.log,
        }
    }
}

mod network;
