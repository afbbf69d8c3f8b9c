//! Processes: how they start, die, stand still and come back.

use protocol::server::{End, Server};
use wire::{ConnId, Millis};

use super::going_back::GoingBack;
use super::ledger::{Book, Ledger, vars};
use super::survival::{Bug, Death, Moment, Pause, Who};
use super::{Conn, Event, Kill, Machine, Plan, Size, TRAINER_TICK_MS, Trainer, World};

impl Machine {
    /// A machine on which nothing runs yet.
    pub(super) fn new(plan: &Plan) -> Self {
        let book = Book::new(plan.size.trainers);
        Self { server: None, process: 0, book, stalled_until: 0, asked: None }
    }

    pub(super) fn is_process(&self, process: u64) -> bool {
        self.server.is_some() && self.process == process
    }

    pub(super) fn end(&self) -> Option<End> {
        self.server.as_ref().and_then(Server::end)
    }

    /// How it ended and its ledger: from memory, or from disk if its last process did not load it.
    pub(super) fn into_end(self) -> (Option<End>, Ledger) {
        let end = self.end();
        let is_empty = self.book.ledger().applied.is_empty();
        let last = self.book.disk().last().map(|file| file.ledger.clone());
        match last.filter(|_| is_empty) {
            Some(ledger) => (end, ledger),
            None => (end, self.book.into_ledger()),
        }
    }
}

impl World {
    /// Plans the deaths.
    pub(super) fn plan_deaths(&mut self) {
        if let Some(Kill { trainer, at_ms, back_ms }) = self.plan.kill {
            self.at(at_ms, Event::Kill(trainer));
            if let Some(back_ms) = back_ms {
                self.at(at_ms + back_ms, Event::Start(trainer));
            }
        }
        let Some(survival) = self.plan.survival.clone() else { return };
        for death in survival.deaths {
            if let Moment::Ms(at) = death.at {
                self.at(at, Event::Die(death));
            }
        }
        for Pause { who, at_ms, for_ms } in survival.pauses {
            self.at(at_ms, Event::Pause(who, for_ms));
        }
        self.plan_orders();
    }

    /// Lets those die whose moment is the next event.
    pub(super) fn die_by_number(&mut self) {
        let Some(survival) = &self.plan.survival else { return };
        let is_now = |death: &&Death| death.at == Moment::Event(self.n_happened);
        let deaths: Vec<Death> = survival.deaths.iter().filter(is_now).copied().collect();
        deaths.into_iter().for_each(|death| self.die(death));
    }

    /// Whether there is a process that has not ended.
    pub(super) fn can_die(&self, who: Who) -> bool {
        match who {
            Who::Server(server) => self
                .servers
                .get(server)
                .is_some_and(|machine| machine.server.is_some() && machine.end().is_none()),
            Who::Trainer(id) => {
                let trainer = self.trainers[id as usize].as_ref();
                trainer.is_some_and(|trainer| trainer.outcome.is_none())
            }
        }
    }

    pub(super) fn die(&mut self, death: Death) {
        let Death { who, back_ms, .. } = death;
        if !self.can_die(who) {
            return;
        }
        self.survived.deaths += 1;
        self.log.push(format!("{} ms: {who:?} dies", self.now));
        match who {
            Who::Trainer(id) => {
                self.end_process(id);
                let trainer = self.trainers[id as usize].take();
                if let Some(back) = trainer.and_then(|trainer| trainer.back) {
                    self.survived.back += back.n_back;
                    self.survived.redone += back.n_redone;
                }
                self.paused_until[id as usize] = 0;
                self.later(back_ms, 1, Event::Start(id));
            }
            Who::Server(server) => {
                let torn = self.plan.survival.as_ref().map_or(0, |it| it.torn_per_mille);
                self.stop_server(server, torn);
                self.start_server_after(server, back_ms);
            }
        }
    }

    /// Ends the process of a server; so many of a thousand writes that are under way are damaged.
    pub(super) fn stop_server(&mut self, server: usize, torn_per_mille: u64) {
        let machine = &mut self.servers[server];
        (machine.server, machine.asked) = (None, None);
        machine.stalled_until = 0;
        machine.book.disk().crash(&mut self.rng, torn_per_mille);
        let of_it = |(_, conn): &(&ConnId, &mut Conn)| conn.server == server;
        let mut conns = Vec::new();
        for (&id, conn) in self.conns.iter_mut().filter(of_it) {
            if conn.server_knows {
                (conn.server_knows, conn.is_open) = (false, false);
                conns.push(id);
            }
        }
        let delay = self.plan.faults.delay_ms_max;
        conns.into_iter().for_each(|conn| self.later(1, delay, Event::TrainerSeesEnd(conn)));
    }

    /// A process of a server starts, with the disk of the one before.
    pub(super) fn start_server(&mut self, server: usize) {
        if self.is_retired(server) {
            return;
        }
        let (config, n_trainers) = (self.plan.config(server), self.plan.size.trainers);
        let machine = &mut self.servers[server];
        let disk = std::mem::take(&mut *machine.book.disk());
        machine.book = Book::on(n_trainers, disk);
        machine.process += 1;
        let started = Server::start(config, vars(n_trainers), &machine.book);
        machine.server = Some(started.expect("a disk that can be read"));
        let bug = self.plan.survival.as_ref().and_then(|survival| survival.bug);
        let mut disk = machine.book.disk();
        disk.commit();
        disk.trusts_all = bug == Some(Bug::TornUnnoticed);
        disk.is_lazy = bug == Some(Bug::DurableTooEarly);
        disk.loads_another = bug == Some(Bug::LoadsAnother);
        disk.recalls_in_vain = bug == Some(Bug::RecallsInVain);
        disk.n_older = self.plan.survival.as_ref().map_or(0, |survival| survival.n_older);
    }

    pub(super) fn pause(&mut self, who: Who, ms: u64) {
        let until = self.now + ms;
        match who {
            Who::Server(server) => {
                let Some(machine) = self.servers.get_mut(server) else { return };
                let stalled_until = &mut machine.stalled_until;
                *stalled_until = until.max(*stalled_until);
                // The first thing it sees when it wakes is the clock.
                self.at(until, Event::TickServer(server));
            }
            Who::Trainer(id) => {
                let paused_until = &mut self.paused_until[id as usize];
                *paused_until = until.max(*paused_until);
            }
        }
    }

    /// Closes the connections of a process that has ended, as the system does.
    pub(super) fn end_process(&mut self, id: u32) {
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let conns: Vec<_> = trainer.lines.iter_mut().filter_map(|line| line.conn.take()).collect();
        for conn in conns {
            self.hang_up(conn, 0);
        }
    }

    pub(super) fn kill(&mut self, id: u32) {
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

    pub(super) fn start(&mut self, id: u32) {
        self.n_processes += 1;
        let script = self.plan.scripts[id as usize].clone();
        let incarnation = self.n_processes * 1000 + u64::from(id);
        let size = Size { servers: self.servers.len(), ..self.plan.size };
        let mut trainer = Trainer::new(id, incarnation, size, script);
        trainer.is_uniform = self.plan.survival.as_ref().is_some_and(|it| it.is_uniform);
        self.follows[id as usize] = self.n_resizes;
        trainer.back = GoingBack::new(&self.plan, incarnation);
        self.trainers[id as usize] = Some(trainer);
        for server in 0..self.servers.len() {
            self.later(0, 20, Event::Connect(id, server));
        }
        self.later(TRAINER_TICK_MS, 5, Event::TickTrainer(id));
    }

    pub(super) fn connect(&mut self, id: u32, server: usize) {
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let Some(line) = trainer.lines.get(server) else { return };
        if trainer.outcome.is_some() || line.conn.is_some() {
            return;
        }
        // Its servers have ended, and it does not know the others yet.
        if self.follows[id as usize] != self.n_resizes {
            return self.later(50, 50, Event::Connect(id, server));
        }
        let is_cut = (0..2).any(|direction| self.cut_until(id, server, direction).is_some());
        if is_cut || self.servers[server].server.is_none() {
            return self.later(50, 50, Event::Connect(id, server));
        }
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        let line = &mut trainer.lines[server];
        let conn = ConnId(self.conns.len() as u64);
        line.conn = Some(conn);
        line.link.connected(Millis(self.now));
        self.conns.insert(conn, Conn::new(Some(id), server));
        self.go_on(id);
    }
}
