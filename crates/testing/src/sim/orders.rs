//! Orders to a job: a server ends in order, the number of servers changes; and newest cuts that are
//! damaged.

use protocol::server::{CutRecord, KeptBytes, ServerShare, repartition};
use wire::recovery::common;

use super::ledger::Book;
use super::survival::{Bug, Damage, Resize, Who, Wish};
use super::{Disk, Event, Machine, SERVER_TICK_MS, World};

/// When the first of several servers has ended, the others have so long.
const TOGETHER_MS: u64 = 300;
/// Processes of servers that took the place of others have greater numbers.
const PROCESSES: u64 = 1_000_000;

/// A server was asked to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    at: u64,
    /// So many cuts will have been written.
    n_cuts: u64,
    /// Another process starts so much later, if one does.
    back_ms: Option<u64>,
}

/// Old servers end, because others take their place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resizing {
    resize: Resize,
    /// When the first one had ended.
    first: Option<u64>,
}

impl World {
    pub(super) fn plan_orders(&mut self) {
        let Some(survival) = self.plan.survival.clone() else { return };
        for wish in survival.wishes {
            self.at(wish.at_ms, Event::Wish(wish));
        }
        for damage in survival.damages {
            self.at(damage.at_ms, Event::Damage(damage));
        }
        if let Some(resize) = survival.resize {
            self.at(resize.at_ms, Event::Resize);
        }
    }

    /// Asks a server to end.
    pub(super) fn wish(&mut self, Wish { server, back_ms, .. }: Wish) {
        if self.can_die(Who::Server(server)) && self.servers[server].asked.is_none() {
            self.log.push(format!("{} ms: server {server} is asked to end", self.now));
            self.ask_to_end(server, Some(back_ms));
        }
    }

    fn ask_to_end(&mut self, server: usize, back_ms: Option<u64>) {
        let (at, machine) = (self.now, &mut self.servers[server]);
        // One that is under way may not have what was done until now.
        let is_under_way = machine.book.makes_cut();
        let n_cuts = machine.book.disk().n_cuts() + 1 + u64::from(is_under_way);
        machine.asked = Some(Asked { at, n_cuts, back_ms });
        self.tell(server, |server, _| {
            server.want_cut();
            Vec::new()
        });
    }

    /// A server that was asked to end ends when it has kept a cut, or has waited too long. Then others take the
    /// place of all, if they should.
    pub(super) fn look_after(&mut self, server: usize) {
        let machine = &self.servers[server];
        let is_over = machine.server.is_some() && machine.end().is_some();
        if let Some(asked) = machine.asked.filter(|_| !is_over) {
            let is_kept = machine.book.disk().n_cuts() >= asked.n_cuts;
            let end_ms = self.plan.survival.as_ref().map_or(0, |survival| survival.end_ms);
            let is_late = self.now >= asked.at + end_ms;
            if is_kept || is_late {
                let count =
                    if is_kept { &mut self.survived.wishes } else { &mut self.survived.unmet };
                *count += 1;
                self.log.push(format!("{} ms: server {server} ends in order", self.now));
                self.stop_server(server, 0);
                asked.back_ms.into_iter().for_each(|ms| self.start_server_after(server, ms));
            }
        }
        self.go_on_resizing();
    }

    /// Another process of a server, unless others take its place.
    pub(super) fn start_server_after(&mut self, server: usize, ms: u64) {
        self.later(ms, 1, Event::StartServer(server));
    }

    /// Whether no other process of this server starts.
    pub(super) fn is_retired(&self, server: usize) -> bool {
        let runs = self.servers.get(server).is_none_or(|machine| machine.server.is_some());
        self.resizing.is_some() || runs
    }

    /// A server dies, and its newest cut is damaged. A trainer that was through has nothing to go back with. What
    /// cannot be now may be later.
    pub(super) fn damage(&mut self, damage: Damage) {
        let Damage { server, until_ms, back_ms, in_journal, .. } = damage;
        let is_training = |trainer: &super::Trainer| trainer.at + 1 < trainer.script.len();
        let all_train = self.trainers.iter().all(|it| it.as_ref().is_some_and(is_training));
        let is_through = |trainer: &super::Trainer| trainer.at + 1 >= trainer.script.len();
        let is_over = self.trainers.iter().flatten().any(is_through);
        let can_be = self.can_die(Who::Server(server)) && all_train;
        if !can_be || !self.servers[server].book.disk().has_older() {
            if self.now < until_ms && !is_over {
                self.later(5, 20, Event::Damage(damage));
            }
            return;
        }
        let torn = self.plan.survival.as_ref().map_or(0, |it| it.torn_per_mille);
        self.survived.deaths += 1;
        self.stop_server(server, torn);
        let is_damaged = self.servers[server].book.disk().damage_newest(in_journal);
        self.survived.damaged += u64::from(is_damaged);
        self.log.push(format!("{} ms: server {server} dies, damaged: {is_damaged}", self.now));
        self.start_server_after(server, back_ms);
    }

    /// The number of servers changes: the old ones are asked to end.
    pub(super) fn resize(&mut self) {
        let Some(resize) = self.plan.survival.as_ref().and_then(|it| it.resize) else { return };
        let is_over = |machine: &Machine| machine.server.is_some() && machine.end().is_some();
        if self.servers.iter().any(is_over) {
            return;
        }
        self.log.push(format!("{} ms: the job is to have {} servers", self.now, resize.servers));
        self.resizing = Some(Resizing { resize, first: None });
        for server in 0..self.servers.len() {
            if self.servers[server].server.is_some() {
                self.ask_to_end(server, None);
            }
        }
    }

    fn go_on_resizing(&mut self) {
        let Some(Resizing { resize, first }) = self.resizing else { return };
        let runs = |machine: &Machine| machine.server.is_some();
        let n_running = self.servers.iter().filter(|machine| runs(machine)).count();
        if n_running == 0 {
            return self.replace_servers(resize);
        }
        let first = first.or((n_running < self.servers.len()).then_some(self.now));
        self.resizing = Some(Resizing { resize, first });
        if first.is_some_and(|first| self.now >= first + TOGETHER_MS) {
            let torn = self.plan.survival.as_ref().map_or(0, |it| it.torn_per_mille);
            (0..self.servers.len()).for_each(|server| self.stop_server(server, torn));
        }
    }

    /// Other servers resume from the greatest cut that all old ones have, as shipping ones do.
    fn replace_servers(&mut self, resize: Resize) {
        let bug = self.plan.survival.as_ref().and_then(|survival| survival.bug);
        let on_disk: Vec<_> =
            self.servers.iter().map(|machine| machine.book.disk().on_disk()).collect();
        let lists: Vec<Vec<u64>> = on_disk.iter().map(|it| it.cuts.clone()).collect();
        let cut = common(&lists).expect("all have a cut");
        let chosen = |list: &Vec<u64>| match bug {
            Some(Bug::ResizesFromNewest) => list.last().copied().unwrap_or(cut),
            _ => cut,
        };
        let files = self.servers.iter().zip(&lists).map(|(machine, list)| {
            machine.book.disk().file(chosen(list)).expect("it is listed").clone()
        });
        let files: Vec<_> = files.collect();
        let kept = files.iter().map(|file| KeptBytes {
            state: file.record.state.to_vec(),
            journal: file.journal.clone(),
        });
        let kept: Vec<KeptBytes> = kept.collect();
        let term = on_disk.iter().map(|it| it.term).chain(files.iter().map(|it| it.record.term));
        let term = term.max().unwrap_or(0) + 1;
        let next = lists.iter().flatten().max().copied().unwrap_or(0) + 1;
        let n_old = self.servers.len();
        self.servers = (0..resize.servers)
            .map(|server| {
                let (n_servers, n_trainers) = (resize.servers, self.plan.size.trainers as usize);
                let share = ServerShare { server, n_servers, keeps_trainers: true, n_trainers };
                let own = repartition(&kept, share, &|_| Vec::new());
                let KeptBytes { state, journal } = own.expect("it is whole");
                let (state, journal) = (state.into(), journal.into());
                let record = CutRecord { cut: next, term, complete: 0, state, journal };
                let ledger = files[server.min(files.len() - 1)].ledger.clone();
                let book = Book::on(self.plan.size.trainers, Disk::from_others(record, ledger));
                Machine { server: None, process: PROCESSES, book, stalled_until: 0, asked: None }
            })
            .collect();
        self.log.push(format!("{} ms: {} servers go on from cut {cut}", self.now, resize.servers));
        (self.resizing, self.n_resizes) = (None, self.n_resizes + 1);
        self.survived.resized += 1;
        for server in 0..resize.servers {
            self.later(1, resize.load_ms, Event::StartServer(server));
            if server >= n_old {
                self.later(0, SERVER_TICK_MS, Event::TickServer(server));
            }
        }
        for trainer in 0..self.trainers.len() {
            self.later(0, 150, Event::Follow(trainer as u32));
        }
    }

    /// A trainer learns that its servers are others.
    pub(super) fn follow(&mut self, id: u32) {
        if self.follows[id as usize] == self.n_resizes {
            return;
        }
        self.follows[id as usize] = self.n_resizes;
        let n_servers = self.servers.len();
        let Some(trainer) = self.trainers[id as usize].as_mut() else { return };
        if trainer.outcome.is_some() {
            return;
        }
        let old = trainer.follow(n_servers);
        old.into_iter().for_each(|conn| self.hang_up(conn, 0));
        (0..n_servers).for_each(|server| self.later(1, 20, Event::Connect(id, server)));
    }
}
