//! The faults of a job that survives: deaths, processes that stop for a while, and cut connections.

use protocol::server::Apply;

use super::{Faults, Plan, Rng, Size, Step};

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A server, by its number.
    Server(usize),
    /// A trainer, by its rank.
    Trainer(u32),
}

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// At this time.
    Ms(u64),
    /// Before the event with this number.
    Event(u64),
}

/// A process dies; another one takes its place.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// The process.
    pub who: Who,
    /// When.
    pub at: Moment,
    /// The next process starts so much later.
    pub back_ms: u64,
}

/// A process stands still.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// The process.
    pub who: Who,
    /// When it stops.
    pub at_ms: u64,
    /// For how long.
    pub for_ms: u64,
}

/// Nothing passes between two processes.
#[derive(Clone, Copy, Debug)]
pub struct Partition {
    /// The rank.
    pub trainer: u32,
    /// The server.
    pub server: usize,
    /// Which ways are cut: to the server, from it.
    pub cut: [bool; 2],
    /// When.
    pub at_ms: u64,
    /// For how long.
    pub for_ms: u64,
}

/// A server is asked to end. It wants a cut first, and ends when it has kept one; then another process of it
/// starts.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// The server.
    pub server: usize,
    /// When it is asked.
    pub at_ms: u64,
    /// The next process starts so much after its end.
    pub back_ms: u64,
}

/// A server dies, and its newest cut is damaged, which shows when it is loaded, or when a trainer asks for what it gave.
#[derive(Clone, Copy, Debug)]
pub struct Damage {
    /// The server.
    pub server: usize,
    /// When, or as soon after that as there are older cuts to go back to.
    pub at_ms: u64,
    /// Not later than this.
    pub until_ms: u64,
    /// The next process starts so much later.
    pub back_ms: u64,
    /// The cut can be loaded, and its journal cannot be read.
    pub in_journal: bool,
}

/// The job gets another number of servers.
#[derive(Clone, Copy, Debug)]
pub struct Resize {
    /// When the old servers are asked to end.
    pub at_ms: u64,
    /// So many take their place.
    pub servers: usize,
    /// The longest that a new one takes to load what it needs.
    pub load_ms: u64,
}

/// A mistake, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A store says that a cut is durable before it is.
    DurableTooEarly,
    /// A store does not notice that a file is torn.
    TornUnnoticed,
    /// A trainer that goes back does not compute again what it had computed.
    RedoSkipped,
    /// A trainer forgets its inputs when it took part in a cut, not when all servers have kept it.
    ForgetsTooEarly,
    /// A trainer does not tell the lead that another server wants a cut.
    WishNotPassedOn,
    /// A server that cannot load a cut loads the one before, and does not tell.
    LoadsAnother,
    /// A server that cannot read a journal refuses the trainer, and offers the cut again.
    RecallsInVain,
    /// Servers that take the place of others resume from the newest cut of each, not from one that all
    /// have.
    ResizesFromNewest,
}

/// How a job survives, and what.
#[derive(Clone, Debug)]
pub struct Survival {
    /// Between cuts.
    pub cut_every_ms: u64,
    /// How long trainers wait for each other before a cut.
    pub ready_ms: u64,
    /// The longest that a cut takes to be written, or to be loaded.
    pub disk_ms_max: u64,
    /// How many of a thousand writes that are under way at a crash are damaged.
    pub torn_per_mille: u64,
    /// The deaths.
    pub deaths: Vec<Death>,
    /// The processes that stand still.
    pub pauses: Vec<Pause>,
    /// Which ways are cut.
    pub partitions: Vec<Partition>,
    /// Which servers are asked to end.
    pub wishes: Vec<Wish>,
    /// Whose newest cut is damaged.
    pub damages: Vec<Damage>,
    /// How many cuts a disk has before the one that all servers have kept.
    pub n_older: usize,
    /// For so long a server that was asked to end waits for a cut.
    pub end_ms: u64,
    /// Another number of servers.
    pub resize: Option<Resize>,
    /// All servers hold the same, so that any number of them does.
    pub is_uniform: bool,
    /// The time after the last fault.
    pub calm_ms: u64,
    /// The longest that a trainer computes between two steps.
    pub pace_ms: u64,
    /// A planted mistake.
    pub bug: Option<Bug>,
}

impl Default for Survival {
    fn default() -> Self {
        Self {
            cut_every_ms: 200,
            ready_ms: 300,
            disk_ms_max: 20,
            torn_per_mille: 900,
            deaths: Vec::new(),
            pauses: Vec::new(),
            partitions: Vec::new(),
            wishes: Vec::new(),
            damages: Vec::new(),
            n_older: 0,
            end_ms: 20_000,
            resize: None,
            is_uniform: false,
            calm_ms: 0,
            pace_ms: 0,
            bug: None,
        }
    }
}

/// One of these, or nothing of the kind.
fn sometimes(rng: &mut Rng, per_mille: u64, below: u64) -> u64 {
    if rng.per_mille(per_mille) { rng.below(below) } else { 0 }
}

fn faults(rng: &mut Rng) -> Faults {
    Faults {
        loose: rng.per_mille(300),
        drop_per_mille: sometimes(rng, 500, 300),
        double_per_mille: sometimes(rng, 500, 300),
        cut_per_mille: sometimes(rng, 500, 30),
        delay_ms_max: rng.one_of(&[1, 5, 30, 150]),
        replay_per_mille: sometimes(rng, 200, 30),
        stall_ms: 0,
        work_ms_max: rng.one_of(&[0, 1, 10, 60]),
    }
}

/// `step_ms` is about what a step takes without what goes wrong.
fn survival(rng: &mut Rng, size: Size, n_steps: u64, step_ms: u64) -> Survival {
    let pace_ms = rng.one_of(&[0, 20, 200]);
    let calm_ms = 100 + rng.below(2 * n_steps * (step_ms + pace_ms / 2));
    let who = |rng: &mut Rng| {
        if rng.per_mille(500) {
            Who::Server(rng.below(size.servers as u64) as usize)
        } else {
            Who::Trainer(rng.below(size.trainers.into()) as u32)
        }
    };
    let n_deaths = rng.below_one_of(&[2, 4, 12]);
    let deaths = (0..n_deaths).map(|_| Death {
        who: who(rng),
        at: Moment::Ms(rng.below(calm_ms)),
        back_ms: 10 + rng.below_one_of(&[100, 1_000, 8_000]),
    });
    let deaths = deaths.collect();
    let n_pauses = sometimes(rng, 400, 4);
    let pauses = (0..n_pauses).map(|_| Pause {
        who: who(rng),
        at_ms: rng.below(calm_ms),
        for_ms: 1 + rng.below_one_of(&[300, 3_000, 15_000]),
    });
    let pauses = pauses.collect();
    let n_partitions = sometimes(rng, 400, 4);
    let partitions = (0..n_partitions).map(|_| Partition {
        trainer: rng.below(size.trainers.into()) as u32,
        server: rng.below(size.servers as u64) as usize,
        cut: [[true, true], [true, false], [false, true]][rng.below(3) as usize],
        at_ms: rng.below(calm_ms),
        for_ms: 1 + rng.below_one_of(&[300, 3_000, 15_000]),
    });
    let partitions = partitions.collect();
    Survival {
        cut_every_ms: rng.one_of(&[20, 100, 500, 3_000]),
        ready_ms: rng.one_of(&[50, 300, 2_000]),
        disk_ms_max: rng.one_of(&[1, 20, 400]),
        torn_per_mille: 800 + rng.below(201),
        deaths,
        pauses,
        partitions,
        calm_ms,
        pace_ms,
        ..Survival::default()
    }
}

/// Adds other orders to a job: servers are asked to end, newest cuts are damaged, or the number of servers
/// changes.
fn add_orders(rng: &mut Rng, plan: &mut Plan) {
    let (size, has_rounds) = (plan.size, plan.apply != Apply::AtOnce);
    let Some(survival) = &mut plan.survival else { return };
    let calm_ms = survival.calm_ms;
    let server = |rng: &mut Rng| rng.below(size.servers as u64) as usize;
    match rng.below(5) {
        0 | 1 => {
            let n_more = sometimes(rng, 500, 4);
            let wish = |_| Wish {
                server: server(rng),
                at_ms: rng.below(calm_ms),
                back_ms: 10 + rng.below_one_of(&[100, 1_000, 8_000]),
            };
            survival.wishes = (0..=n_more).map(wish).collect();
        }
        2 => {
            survival.n_older = 4 + rng.below(5) as usize;
            let n_damages = 2 + rng.below(5);
            let damage = |_| Damage {
                server: server(rng),
                at_ms: rng.below(calm_ms),
                until_ms: calm_ms,
                back_ms: 10 + rng.below_one_of(&[100, 1_000, 8_000]),
                in_journal: rng.per_mille(500),
            };
            survival.damages = (0..n_damages).map(damage).collect();
        }
        3 if has_rounds => {
            survival.is_uniform = true;
            survival.resize = Some(Resize {
                at_ms: rng.below(calm_ms),
                servers: 1 + rng.below(4) as usize,
                load_ms: rng.one_of(&[1, 20, 400]),
            });
        }
        _ => {}
    }
}

/// Rounds, with a fetch after each; trainers may have different numbers of them.
fn rounds(rng: &mut Rng, size: Size) -> Vec<Vec<Step>> {
    let (n_rounds, n_grads) = (3 + rng.below(40), 1 + rng.below(3));
    let (is_even, gathers) = (rng.per_mille(700), rng.per_mille(500));
    let mut script = || {
        let n_rounds = if is_even { n_rounds } else { 1 + rng.below(n_rounds) };
        let mut script = vec![Step::Fetch];
        if gathers && is_even {
            script.push(Step::AllGather(0));
        }
        for round in 1..=n_rounds {
            script.extend([Step::Part(round, n_grads), Step::Fetch]);
            if gathers && is_even && round == n_rounds / 2 {
                script.push(Step::AllGather(1));
            }
        }
        script.push(Step::Complete);
        script
    };
    (0..size.trainers).map(|_| script()).collect()
}

/// Steps that count when they come.
fn pushes(rng: &mut Rng, size: Size) -> Vec<Vec<Step>> {
    let (n_steps, n_grads) = (3 + rng.below(40), 1 + rng.below(3));
    let (n_exchanges, asks_news) = (rng.below(3), rng.per_mille(500));
    let mut script = || {
        let mut script: Vec<Step> = (1..=n_exchanges).map(Step::AllToAll).collect();
        for step in 1..=1 + rng.below(n_steps) {
            script.extend([Step::Push(step, n_grads), Step::Fetch]);
            if asks_news {
                script.push(Step::News);
            }
        }
        script.push(Step::Complete);
        script
    };
    (0..size.trainers).map(|_| script()).collect()
}

/// A job of a seed that survives what the seed has in store.
pub fn surviving_plan(seed: u64) -> Plan {
    let mut rng = Rng::new(seed.wrapping_mul(15_485_863) ^ 0x5eed);
    let size = Size { servers: 1 + rng.below(3) as usize, trainers: 1 + rng.below(3) as u32 };
    let apply = match rng.below(4) {
        0 | 1 => Apply::ByRound { ahead: 0 },
        2 => Apply::ByRound { ahead: 1 + rng.below(3) as u32 },
        _ => Apply::AtOnce,
    };
    let scripts = match apply {
        Apply::AtOnce => pushes(&mut rng, size),
        Apply::ByRound { .. } => rounds(&mut rng, size),
    };
    let faults = faults(&mut rng);
    let n_steps = scripts.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let step_ms = 2 + faults.delay_ms_max + faults.work_ms_max;
    let survival = Some(survival(&mut rng, size, n_steps, step_ms));
    let mut plan = Plan { seed, size, apply, scripts, faults, kill: None, survival };
    add_orders(&mut rng, &mut plan);
    plan
}

/// How long trainers that are ready for a cut wait for those that are behind, which take up to 200 ms for a step.
fn ready_ms(apply: Apply) -> u64 {
    match apply {
        Apply::ByRound { ahead } => 600 * (1 + u64::from(ahead)),
        Apply::AtOnce => 600,
    }
}

/// A job of a seed without faults, except that a server is asked to end. Cuts are made when a process
/// wants one.
pub fn wishing_plan(seed: u64) -> Plan {
    let mut plan = surviving_plan(seed);
    let mut rng = Rng::new(seed ^ 0x3157);
    plan.faults = Faults { delay_ms_max: rng.one_of(&[1, 5, 30]), ..Faults::default() };
    let at_ms = 50 + rng.below(200);
    let server = rng.below(plan.size.servers as u64) as usize;
    plan.survival = Some(Survival {
        cut_every_ms: super::DEADLINE_MS,
        // Trainers that exchange samples cannot come to a boundary: such a cut is cancelled, and there is time for more.
        ready_ms: ready_ms(plan.apply),
        end_ms: 5_000,
        pace_ms: 200,
        wishes: vec![Wish { server, at_ms, back_ms: 100 }],
        ..Survival::default()
    });
    plan
}

/// A job of a seed to which nothing happens, except that newest cuts are damaged: at least one is, whatever the
/// seed. It is long enough for several cuts.
pub fn damaging_plan(seed: u64) -> Plan {
    let mut plan = surviving_plan(seed);
    let mut rng = Rng::new(seed ^ 0xdaa6ed);
    plan.faults = Faults { delay_ms_max: rng.one_of(&[1, 5, 30]), ..Faults::default() };
    // Where trainers run ahead, there are fewer cuts.
    let (has_rounds, n_ahead) = match plan.apply {
        Apply::ByRound { ahead } => (true, u64::from(ahead)),
        Apply::AtOnce => (false, 0),
    };
    let (n_steps, n_grads) = (25 * (1 + n_ahead) + rng.below(20), 1 + rng.below(3));
    let step = |number| {
        if has_rounds {
            [Step::Part(number, n_grads), Step::Fetch]
        } else {
            [Step::Push(number, n_grads), Step::Fetch]
        }
    };
    let steps = (1..=n_steps).flat_map(step);
    let script: Vec<Step> =
        [Step::Fetch].into_iter().chain(steps).chain([Step::Complete]).collect();
    plan.scripts = vec![script; plan.size.trainers as usize];
    let n_servers = plan.size.servers as u64;
    let damage = |_| Damage {
        server: rng.below(n_servers) as usize,
        at_ms: rng.below(2_000),
        until_ms: super::DEADLINE_MS,
        back_ms: 10 + rng.below_one_of(&[100, 1_000]),
        in_journal: rng.per_mille(500),
    };
    let damages = (0..3).map(damage).collect();
    plan.survival = Some(Survival {
        cut_every_ms: 20,
        ready_ms: ready_ms(plan.apply),
        pace_ms: 200,
        n_older: 4 + (seed % 5) as usize,
        damages,
        ..Survival::default()
    });
    plan
}
