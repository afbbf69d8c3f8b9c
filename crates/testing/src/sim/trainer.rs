//! A trainer of the simulation: a script, and a shipping link to each server.

use protocol::link::{Broken, Link, LinkConfig};
use tensor::Value;
use wire::message::{
    AllGather, AllToAll, Barrier, Complete, Grad, Hello, Leave, LookUp, Pull, Push, Reply, VarInfo,
};
use wire::{ConnId, Millis, Refusal, VarId};

use super::Size;
use super::going_back::GoingBack;
use super::ledger::{self, SHARED, own, vars};
use super::seen::Seen;

/// The next step of a trainer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends its part of a round (so many gradients to each server) and closes it.
    Part(u64, u64),
    /// Sends so many gradients; the first number is the step's.
    Push(u64, u64),
    /// Fetches parameters and rows, after its last round.
    Fetch,
    /// Asks what others changed.
    News,
    /// Waits for all others and exchanges bytes.
    AllGather(u64),
    /// Exchanges with all others, through all servers.
    AllToAll(u64),
    /// Ends its job.
    Complete,
    /// Ends its process in order.
    Leave,
}

/// How a trainer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With its script.
    Done,
    /// A server said no.
    Refused(Refusal),
    /// A server had forgotten what it served.
    Restarted,
    /// It does not remember so much: another process of it can continue.
    TooFarBack,
    /// It cannot go back to where the others are.
    Stranded(String),
}

/// A conversation with one server.
#[derive(Debug)]
pub struct Line {
    /// The shipping state machine.
    pub link: Link,
    /// The connection, if there is one.
    pub conn: Option<ConnId>,
    /// A connection that is not used any longer.
    pub old: Option<ConnId>,
    was_up: bool,
}

/// One process.
#[derive(Debug)]
pub struct Trainer {
    /// Its rank.
    pub id: u32,
    /// A conversation with each server.
    pub lines: Vec<Line>,
    /// How it ended, and when.
    pub outcome: Option<(Outcome, Millis)>,
    /// Its observations, by step.
    pub steps: Vec<Seen>,
    /// How it goes back to cuts, if it does.
    pub back: Option<GoingBack>,
    /// When it has computed what comes before its next step.
    pub thinks_until: Millis,
    pub(super) script: Vec<Step>,
    pub(super) at: usize,
    /// Questions by server and number, with their answers.
    pub(super) waiting: Vec<(usize, u64, Option<Reply>)>,
    /// The input of gradients: all that was fetched, where that is the same in every run.
    pub(super) memory: u64,
    n_trainers: u32,
    incarnation: u64,
    /// All servers hold the same: the answer of one of them is enough.
    pub is_uniform: bool,
    /// The variables that it names, by their numbers.
    vars: Vec<VarInfo>,
}

/// Faster than the shipping one: a simulated network loses more than a real one.
const LINK: LinkConfig = LinkConfig { resend_ms: 300, ping_ms: 200, window: 16 };

/// A number for a gradient: whose, of which step, which of it.
pub fn tag(trainer: u32, step: u64, k: u64) -> i64 {
    (u64::from(trainer) * 1_000_000 + step * 100 + k) as i64
}

/// Whose gradient has such a number.
pub(super) fn whose(tag: i64) -> u32 {
    (tag / 1_000_000) as u32
}

impl Trainer {
    /// A process that has just started.
    pub fn new(id: u32, incarnation: u64, size: Size, script: Vec<Step>) -> Self {
        // Every process has numbers of its own.
        let mut vars = vars(size.trainers);
        let n_vars = vars.len();
        vars.rotate_left(incarnation as usize % n_vars);
        let mut trainer = Self {
            id,
            lines: Vec::new(),
            n_trainers: size.trainers,
            incarnation,
            is_uniform: false,
            outcome: None,
            steps: Vec::new(),
            back: None,
            thinks_until: Millis(0),
            script,
            at: 0,
            waiting: Vec::new(),
            memory: 0,
            vars,
        };
        trainer.lines = trainer.new_lines(size.servers);
        trainer
    }

    /// Conversations with so many servers, which have not begun.
    fn new_lines(&self, n_servers: usize) -> Vec<Line> {
        let line = |_| {
            let hello = Hello::new("sim", self.id, self.incarnation, self.vars.clone());
            Line { link: Link::new(hello, LINK), conn: None, old: None, was_up: false }
        };
        (0..n_servers).map(line).collect()
    }

    /// Turns to other servers; the connections to the old ones are returned.
    pub(super) fn follow(&mut self, n_servers: usize) -> Vec<ConnId> {
        let old = std::mem::take(&mut self.lines);
        self.lines = self.new_lines(n_servers);
        self.greet_anew();
        old.into_iter().flat_map(|line| [line.conn, line.old]).flatten().collect()
    }

    /// Whether every server has greeted it.
    pub fn has_met_all(&self) -> bool {
        self.lines.iter().all(|line| line.was_up)
    }

    /// Where it stands, for messages.
    pub(super) fn state(&self) -> String {
        let line = |line: &Line| {
            let (link, is_here) = (&line.link, line.conn.is_some());
            let up = link.is_up();
            let settled = link.is_settled();
            let round = link.round();
            let broken = link.broken();
            let notice = link.notice();
            let term = link.term();
            format!(
                "conn {is_here} up {up} settled {settled} round {round} {broken:?} {notice:?} {term}"
            )
        };
        let lines: Vec<String> = self.lines.iter().map(line).collect();
        let at = self.at;
        let n_waiting = self.waiting.len();
        let outcome = &self.outcome;
        format!("at {at}, {n_waiting} answers missing, {outcome:?}, {lines:?}, {:?}", self.back)
    }

    /// Continues the script as far as possible.
    pub fn advance(&mut self, now: Millis) {
        while self.outcome.is_none() {
            if self.back.is_some() {
                if !self.go_back(now) {
                    return;
                }
            } else if let Some(broken) = self.lines.iter().find_map(|line| line.link.broken()) {
                let outcome = match broken {
                    Broken::Refused(refusal) => Outcome::Refused(refusal.clone()),
                    Broken::Restarted
                    | Broken::OtherTerm(_)
                    | Broken::NotEncrypted(_)
                    | Broken::Unproved(_) => Outcome::Restarted,
                };
                return self.end(now, outcome);
            }
            for line in &mut self.lines {
                line.was_up |= line.link.is_up();
            }
            if !self.has_met_all() || !self.take_answers(now) {
                return;
            }
            if self.back.is_some() && !self.stop_for_cut(now) {
                return;
            }
            let Some(step) = self.script.get(self.at).cloned() else {
                let is_settled = self.lines.iter().all(|line| line.link.is_settled());
                if is_settled && self.may_end(now) {
                    self.end(now, Outcome::Done);
                }
                return;
            };
            // A trainer that waits for all others has delivered all that it sent.
            let must_settle = matches!(step, Step::AllGather(_));
            let stays = |link: &Link| link.is_full() || must_settle && !link.is_settled();
            if now < self.thinks_until || self.lines.iter().any(|line| stays(&line.link)) {
                return;
            }
            self.at += 1;
            self.take_step(now, &step);
        }
    }

    pub(super) fn end(&mut self, now: Millis, outcome: Outcome) {
        self.outcome.get_or_insert((outcome, now));
    }

    /// Takes answers that are there; returns whether all have come.
    fn take_answers(&mut self, now: Millis) -> bool {
        for (server, id, answer) in self.waiting.iter_mut().filter(|(_, _, reply)| reply.is_none())
        {
            match self.lines[*server].link.answer(*id) {
                None => {}
                Some(Ok(reply)) => *answer = Some(reply),
                Some(Err(refusal)) => {
                    self.end(now, Outcome::Refused(refusal));
                    return false;
                }
            }
        }
        if self.waiting.iter().any(|(_, _, reply)| reply.is_none()) {
            return false;
        }
        // In the order of asking, so that what was seen can be compared between runs.
        let (mut params, mut seen) = (Vec::new(), Seen::default());
        let mut of_others: Vec<Vec<u32>> = vec![Vec::new(); self.lines.len()];
        for (server, _, reply) in std::mem::take(&mut self.waiting) {
            let params = if self.is_uniform { &mut of_others[server] } else { &mut params };
            match reply {
                Some(Reply::Values(values)) => values.0.iter().for_each(|value| match &**value {
                    Value::Rows(rows) => {
                        seen.news.extend(rows.ids.iter().map(|&tag| (server, tag)));
                    }
                    Value::Tensor(tensor) => params.push((tensor.get_f64(0) as f32).to_bits()),
                    other => panic!("{other:?} was never asked for"),
                }),
                Some(Reply::Rows(rows)) => params.push((rows.get_f64(0) as f32).to_bits()),
                Some(Reply::AllGatherResult(gathered)) => seen.gathered.push(gathered.0),
                Some(Reply::AllToAllResult(exchanged)) => seen.exchanged.push(exchanged.0.to_vec()),
                other => panic!("{other:?} answers nothing that was asked"),
            }
        }
        if self.is_uniform {
            params = of_others.swap_remove(0);
            // Where servers may be ahead, they may be so by different numbers of rounds.
            let is_exact = self.back.as_ref().is_some_and(|back| back.feeds_back);
            if is_exact && of_others.iter().any(|other| *other != params) {
                let why = format!("servers hold {params:?} and {of_others:?}");
                self.end(now, Outcome::Stranded(why));
                return false;
            }
        }
        if !params.is_empty() {
            seen.params.push(params);
        }
        self.see(seen);
        true
    }

    /// The last step is over, and this is what it saw.
    fn see(&mut self, seen: Seen) {
        if self.at == 0 || self.back.as_ref().is_some_and(GoingBack::has_seen) {
            return;
        }
        for bits in seen.params.iter().flatten() {
            self.memory = (self.memory ^ u64::from(*bits)).wrapping_mul(0x0100_0000_01b3);
        }
        match &mut self.back {
            Some(back) => back.see(&mut self.steps, self.at - 1, seen),
            None => {
                self.steps.resize_with(self.at, Seen::default);
                let step = &mut self.steps[self.at - 1];
                *step = Seen::all(&[step.clone(), seen]);
            }
        }
    }

    fn take_step(&mut self, now: Millis, step: &Step) {
        let id = self.id;
        if let Some(back) = &mut self.back {
            back.begin_step();
            let pause = back.pause();
            self.thinks_until = now + pause;
        }
        // As shipping trainers number their parts: the same on all servers.
        let after = self.lines.iter().map(|line| line.link.round()).min().unwrap_or(0);
        let number = |name: &str| {
            let at = self.vars.iter().position(|held| held.name == name);
            VarId(at.expect("it greets with all names") as u32)
        };
        let memory = self.back.as_ref().filter(|back| back.feeds_back).map_or(0, |_| self.memory);
        let is_uniform = self.is_uniform;
        for (server, line) in self.lines.iter_mut().enumerate() {
            let link = &mut line.link;
            let push = |link: &mut Link, step, n| {
                for k in 0..n {
                    let place = if is_uniform { 0 } else { server };
                    let grad = ledger::grad_after(tag(id, step, k), place, memory);
                    let grads = vec![Grad { var: number("grad"), ..grad }];
                    link.change(now, Push::new(grads));
                }
            };
            match *step {
                // A process before this one may have closed the part already, on all servers; one
                // that has it drops it.
                Step::Part(round, _) if after >= round => {}
                Step::Part(round, n) => {
                    push(link, round, n);
                    link.change(now, Barrier::new(round));
                }
                Step::Push(step, n) => push(link, step, n),
                Step::Fetch => {
                    let vars = vec![number(&own(id)), number(SHARED)];
                    let pull = Pull::new(after, vars);
                    self.waiting.push((server, link.ask(now, pull), None));
                    let (table, keys) = (number("table"), vec![1, 2]);
                    let rows = LookUp::new(after, table, keys);
                    self.waiting.push((server, link.ask(now, rows), None));
                }
                Step::News => {
                    let pull = Pull { changed: true, ..Pull::new(after, vec![number("news")]) };
                    self.waiting.push((server, link.ask(now, pull), None));
                }
                Step::AllGather(turn) if server == 0 => {
                    let all_gather =
                        AllGather { purpose: "sim".to_string(), turn, bytes: vec![id as u8] };
                    self.waiting.push((server, link.ask(now, all_gather), None));
                }
                Step::AllGather(_) => {}
                Step::AllToAll(turn) => {
                    let part = |to| vec![id as u8, to as u8, turn as u8, server as u8];
                    let parts = (0..self.n_trainers).map(part).collect();
                    let all_to_all = AllToAll { purpose: "sim".to_string(), turn, parts };
                    self.waiting.push((server, link.ask(now, all_to_all), None));
                }
                Step::Complete => {
                    link.change(now, Complete);
                }
                Step::Leave => {
                    link.change(now, Leave);
                }
            }
        }
    }
}
