//! A job in one thread: shipping servers and links, a clock that jumps, and a network that does
//! its worst. The same seed gives the same run, to the bit.

mod disk;
mod going_back;
mod ledger;
mod network;
mod orders;
mod planned;
mod processes;
mod rng;
mod seen;
mod survival;
mod trainer;

use std::collections::BTreeMap;

use protocol::server::{Action, Apply, End, Server, Work, WorkDone};
use wire::frame::{self, FRAME_BYTES_MAX, Frame};
use wire::message::{Reply, Request};
use wire::{ConnId, Millis, Refusal};

use self::orders::{Asked, Resizing};

pub use disk::Disk;
pub use ledger::{Applied, Book, GRAD, Ledger, SHARED, SHARED_VAR, TABLE, grad, own, vars};
pub use rng::Rng;
pub use seen::Seen;
pub use survival::{
    Bug, Damage, Death, Moment, Partition, Pause, Resize, Survival, Who, Wish, damaging_plan,
    surviving_plan, wishing_plan,
};
pub use trainer::{Outcome, Step, Trainer, tag};

/// How many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Servers.
    pub servers: usize,
    /// Trainers.
    pub trainers: u32,
}

/// The faults of the network and of machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames overtake each other, and each is lost or doubled on its own; a stream keeps them in
    /// order until it breaks.
    pub loose: bool,
    /// How many of a thousand frames are lost (only when loose).
    pub drop_per_mille: u64,
    /// How many of a thousand frames come twice (only when loose).
    pub double_per_mille: u64,
    /// How many of a thousand frames break their connection.
    pub cut_per_mille: u64,
    /// The longest way of a frame.
    pub delay_ms_max: u64,
    /// How many of a thousand connections are played a second time from another socket.
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

/// A job: its processes, their scripts and the faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How many there are.
    pub size: Size,
    /// When gradients count.
    pub apply: Apply,
    /// The script of each trainer.
    pub scripts: Vec<Vec<Step>>,
    /// The faults.
    pub faults: Faults,
    /// The process that dies.
    pub kill: Option<Kill>,
    /// Whether the job survives deaths, and which.
    pub survival: Option<Survival>,
}

/// A trainer whose connection broke has so long to come back.
pub const GRACE_MS: u64 = 3_000;
/// A trainer silent for so long is dead.
pub const LEASE_MS: u64 = 6_000;
/// A job that is not over by then hangs; for one that survives, counted from its last fault.
pub const DEADLINE_MS: u64 = 300_000;

const SERVER_TICK_MS: u64 = 100;
const TRAINER_TICK_MS: u64 = 50;

/// The results of a job.
#[derive(Debug)]
pub struct Report {
    /// How each trainer ended and when; `None` for one that was killed.
    pub outcomes: Vec<Option<(Outcome, Millis)>>,
    /// The observations of each trainer.
    pub seen: Vec<Seen>,
    /// How each server ended, with what it wrote down.
    pub servers: Vec<(Option<End>, Ledger)>,
    /// When the last one was done.
    pub end: Millis,
    /// When a trainer was killed: as planned, but not before all servers knew it.
    pub killed: Option<Millis>,
    /// Pushes that came again and were not applied.
    pub n_repeated: u64,
    /// The log lines of the servers.
    pub log: Vec<String>,
    /// Events that happened.
    pub n_events: u64,
    /// Deaths, how often trainers went back, steps that were computed again, and cuts.
    pub survived: Survived,
}

/// The events that a job survived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survived {
    /// Processes that died.
    pub deaths: u64,
    /// Times that a living trainer went back to a cut.
    pub back: u64,
    /// Steps that were computed again.
    pub redone: u64,
    /// Cuts that the servers have on disk.
    pub cuts: u64,
    /// Servers that ended when they were asked to, with a cut.
    pub wishes: u64,
    /// Those that had waited for one too long.
    pub unmet: u64,
    /// Cuts that were damaged.
    pub damaged: u64,
    /// Changes of the number of servers.
    pub resized: u64,
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
    Die(Death),
    StartServer(usize),
    Pause(Who, u64),
    Wish(Wish),
    Damage(Damage),
    Resize,
    Follow(u32),
    Work(Task),
    Done(Task<WorkDone>),
}

/// Work of a process of a server.
#[derive(Debug)]
struct Task<T = Work> {
    server: usize,
    /// Which process.
    process: u64,
    of_cuts: bool,
    what: T,
}

#[derive(Debug)]
struct Conn {
    /// `None`: a connection that is played a second time, without a trainer behind it.
    trainer: Option<u32>,
    server: usize,
    /// Whether frames still arrive; those sent after it is closed are lost.
    is_open: bool,
    /// Frames that would arrive after this are lost.
    lost_from: Option<u64>,
    server_knows: bool,
    /// When the last frame in each direction arrives.
    last: [u64; 2],
    /// The frames to the server, to be played again.
    tape: Vec<Vec<u8>>,
}

struct World {
    plan: Plan,
    rng: Rng,
    now: u64,
    n_events: u64,
    events: BTreeMap<(u64, u64), Event>,
    servers: Vec<Machine>,
    trainers: Vec<Option<Trainer>>,
    /// Until when trainers stand still.
    paused_until: Vec<u64>,
    conns: BTreeMap<ConnId, Conn>,
    n_processes: u64,
    killed: Option<Millis>,
    log: Vec<String>,
    /// Events that happened.
    n_happened: u64,
    survived: Survived,
    /// Old servers end, because others take their place.
    resizing: Option<Resizing>,
    /// How often the servers were replaced, and how often each trainer has turned to others.
    n_resizes: u64,
    follows: Vec<u64>,
}

/// Where a server runs.
struct Machine {
    /// Its process, unless that died.
    server: Option<Server>,
    /// How many processes there were before.
    process: u64,
    book: Book,
    stalled_until: u64,
    /// It was asked to end.
    asked: Option<Asked>,
}

impl World {
    fn new(plan: Plan) -> Self {
        let n_trainers = plan.size.trainers;
        let mut world = Self {
            rng: Rng::new(plan.seed),
            now: 0,
            n_events: 0,
            events: BTreeMap::new(),
            servers: (0..plan.size.servers).map(|_| Machine::new(&plan)).collect(),
            trainers: (0..n_trainers).map(|_| None).collect(),
            paused_until: vec![0; n_trainers as usize],
            conns: BTreeMap::new(),
            n_processes: 0,
            killed: None,
            log: Vec::new(),
            n_happened: 0,
            survived: Survived::default(),
            resizing: None,
            n_resizes: 0,
            follows: vec![0; n_trainers as usize],
            plan,
        };
        for server in 0..world.servers.len() {
            world.start_server(server);
            world.later(0, SERVER_TICK_MS, Event::TickServer(server));
        }
        world.plan_deaths();
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
        let last = |trainer: &Trainer| trainer.outcome.as_ref().map(|(_, at)| at.0);
        let last: Option<Vec<u64>> = self.trainers.iter().flatten().map(last).collect();
        let Some(last) = last else { return false };
        let to_come = |event: &Event| match event {
            Event::Start(_) | Event::Kill(_) | Event::StartServer(_) => true,
            Event::Die(death) => self.can_die(death.who),
            _ => false,
        };
        if self.events.values().any(to_come) {
            return false;
        }
        // Servers end with their trainers, unless those only left or never came.
        let patience = 2 * (GRACE_MS + LEASE_MS + self.plan.faults.stall_ms);
        let until = last.into_iter().max().unwrap_or(0) + patience;
        self.now > until || self.servers.iter().all(|machine| machine.end().is_some())
    }

    fn state(&self) -> String {
        let state = |trainer: &Option<Trainer>| match trainer {
            Some(trainer) => trainer.state(),
            None => "dead".to_string(),
        };
        let trainers: Vec<String> = self.trainers.iter().map(state).collect();
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
                self.tell(server, |server, now| server.closed(now, conn));
            }
            Event::TrainerSeesEnd(conn) => self.trainer_sees_end(conn),
            Event::Connect(trainer, server) => self.connect(trainer, server),
            Event::TickServer(server) if server >= self.servers.len() => {}
            Event::TickServer(server) => {
                self.tell(server, |server, now| server.tick(now));
                self.look_after(server);
                self.later(SERVER_TICK_MS, 5, Event::TickServer(server));
            }
            Event::TickTrainer(trainer) => self.tick_trainer(trainer),
            Event::Stall(server) => {
                self.pause(Who::Server(server), self.plan.faults.stall_ms);
            }
            Event::Kill(trainer) => self.kill(trainer),
            Event::Start(trainer) => self.start(trainer),
            Event::Die(death) => self.die(death),
            Event::StartServer(server) => self.start_server(server),
            Event::Pause(who, ms) => self.pause(who, ms),
            Event::Wish(wish) => self.wish(wish),
            Event::Damage(damage) => self.damage(damage),
            Event::Resize => self.resize(),
            Event::Follow(trainer) => self.follow(trainer),
            Event::Work(Task { server, process, of_cuts, what }) => {
                if self.is_process(server, process) {
                    let what = what.run(&self.servers[server].book);
                    let ms = self.work_ms_max(of_cuts);
                    self.later(0, ms, Event::Done(Task { server, process, of_cuts, what }));
                }
            }
            Event::Done(Task { server, process, of_cuts, what }) => {
                if self.is_process(server, process) {
                    self.done(server, of_cuts, what);
                }
            }
        }
    }

    /// When a process that stands still takes notice of this.
    fn stalled(&self, event: &Event) -> Option<u64> {
        let server = |server: usize| self.servers.get(server).map_or(0, |it| it.stalled_until);
        let trainer = |trainer: u32| self.paused_until[trainer as usize];
        let until = match event {
            Event::ToServer(conn, _) | Event::ServerSeesEnd(conn) => {
                server(self.conns.get(conn)?.server)
            }
            Event::TickServer(at) => server(*at),
            Event::Work(Task { server: at, .. }) => server(*at),
            Event::Done(Task { server: at, .. }) => server(*at),
            Event::ToTrainer(conn, _) | Event::TrainerSeesEnd(conn) => {
                trainer(self.conns.get(conn)?.trainer?)
            }
            Event::TickTrainer(id) | Event::Connect(id, _) => trainer(*id),
            _ => return None,
        };
        Some(until).filter(|&until| self.now < until)
    }

    /// Feeds an event to a server, if there is a process.
    fn tell(&mut self, server: usize, event: impl FnOnce(&mut Server, Millis) -> Vec<Action>) {
        let now = Millis(self.now);
        let machine = self.servers.get_mut(server).and_then(|machine| machine.server.as_mut());
        let actions = machine.map(|server| event(server, now));
        self.act(server, actions.unwrap_or_default());
    }

    /// Whether this process of a server runs.
    fn is_process(&self, server: usize, process: u64) -> bool {
        self.servers.get(server).is_some_and(|machine| machine.is_process(process))
    }

    /// The longest that work waits for a thread, or takes.
    fn work_ms_max(&self, of_cuts: bool) -> u64 {
        let disk_ms = self.plan.survival.as_ref().map_or(0, |survival| survival.disk_ms_max);
        if of_cuts { disk_ms } else { self.plan.faults.work_ms_max }
    }

    fn reach_server(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(line) = self.conns.get(&conn).filter(|conn| conn.server_knows) else { return };
        if line.lost_from.is_some_and(|at| self.now > at) {
            return;
        }
        let (id, request) = frame::read::<Request>(&mut &*bytes, FRAME_BYTES_MAX)
            .unwrap_or_else(|error| panic!("{error}, SEED={}", self.plan.seed));
        let server = line.server;
        self.tell(server, |server, now| server.handle(now, conn, id, request));
    }

    fn done(&mut self, server: usize, of_cuts: bool, done: WorkDone) {
        if of_cuts {
            self.servers[server].book.disk().commit();
        }
        self.tell(server, |server, now| server.done(now, done));
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
                Action::Run(work) if self.work_ms_max(work.is_of_cuts()) == 0 => {
                    let of_cuts = work.is_of_cuts();
                    let done = work.run(&self.servers[server].book);
                    self.done(server, of_cuts, done);
                }
                // As threads would: work overtakes work, and its outcome comes when it comes.
                Action::Run(what) => {
                    let (process, of_cuts) = (self.servers[server].process, what.is_of_cuts());
                    let task = Task { server, process, of_cuts, what };
                    self.later(0, self.work_ms_max(of_cuts), Event::Work(task));
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
        let Some(line) = trainer.lines.get_mut(server) else { return };
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
        let old: Vec<ConnId> =
            trainer.lines.iter_mut().filter_map(|line| line.old.take()).collect();
        let idle = |(_, line): &(usize, &trainer::Line)| line.conn.is_none();
        let idle = trainer.lines.iter().enumerate().filter(idle).map(|(server, _)| server);
        let idle: Vec<usize> = if old.is_empty() { Vec::new() } else { idle.collect() };
        // The server has not noticed yet that the earlier process is dead: the launcher starts this
        // one again.
        let may_forget =
            self.plan.survival.as_ref().is_some_and(|survival| !survival.damages.is_empty());
        let can_go_on = |outcome: &Outcome| match outcome {
            Outcome::Refused(Refusal::DuplicateTrainer { .. }) => true,
            // It ends with an error, and the launcher starts it again.
            Outcome::TooFarBack => may_forget,
            _ => false,
        };
        let again = trainer.outcome.as_ref().is_some_and(|(outcome, _)| can_go_on(outcome));
        for (conn, bytes) in out {
            self.send(conn, 0, bytes);
        }
        old.into_iter().for_each(|conn| self.hang_up(conn, 0));
        idle.into_iter().for_each(|server| self.later(1, 5, Event::Connect(id, server)));
        if over {
            self.end_process(id);
        }
        let survives = self.plan.survival.is_some();
        if again && (survives || self.plan.kill.is_some_and(|kill| kill.trainer == id)) {
            self.trainers[id as usize] = None;
            self.later(100, 1, Event::Start(id));
        }
    }

    fn trainer_sees_end(&mut self, conn: ConnId) {
        let Some(&Conn { trainer: Some(id), server, .. }) = self.conns.get(&conn) else { return };
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let Some(line) = trainer.lines.get_mut(server) else { return };
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
        let (now, survives) = (Millis(self.now), self.plan.survival.is_some());
        let mut silent = Vec::new();
        for line in &mut trainer.lines {
            let Some(conn) = line.conn else { continue };
            line.link.tick(now);
            // As a client does of a job that survives.
            if survives && now.since(line.link.heard()) >= LEASE_MS {
                silent.push(conn);
            }
        }
        silent.into_iter().for_each(|conn| self.trainer_sees_end(conn));
        self.go_on(id);
        self.later(TRAINER_TICK_MS, 5, Event::TickTrainer(id));
    }

    fn report(self) -> Report {
        let Self { servers, trainers, mut survived, .. } = self;
        let repeated = |machine: &Machine| machine.server.as_ref().map(|it| it.stats().repeated);
        let n_repeated = servers.iter().filter_map(repeated).sum();
        let backs = || trainers.iter().flatten().filter_map(|trainer| trainer.back.as_ref());
        survived.back += backs().map(|back| back.n_back).sum::<u64>();
        survived.redone += backs().map(|back| back.n_redone).sum::<u64>();
        let cuts = |machine: &Machine| machine.book.disk().on_disk().cuts.last().copied();
        survived.cuts = servers.iter().filter_map(cuts).min().unwrap_or(0);
        let seen = |trainer: &Option<Trainer>| {
            trainer.as_ref().map_or_else(Seen::default, |trainer| Seen::all(&trainer.steps))
        };
        let outcome = |trainer: &Option<Trainer>| trainer.as_ref()?.outcome.clone();
        Report {
            outcomes: trainers.iter().map(outcome).collect(),
            seen: trainers.iter().map(seen).collect(),
            servers: servers.into_iter().map(Machine::into_end).collect(),
            end: Millis(self.now),
            killed: self.killed,
            n_repeated,
            log: self.log,
            n_events: self.n_happened,
            survived,
        }
    }
}
