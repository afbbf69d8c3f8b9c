//! The fates of frames and connections on their way.

use wire::ConnId;

use super::{Conn, Event, Faults, Partition, World};

impl Conn {
    pub(super) fn new(trainer: Option<u32>, server: usize) -> Self {
        let (is_open, server_knows) = (true, true);
        let lost_from = None;
        let last = [0, 0];
        let tape = Vec::new();
        Self { trainer, server, is_open, lost_from, server_knows, last, tape }
    }
}

impl World {
    /// Sends a frame; direction 0 is to the server.
    pub(super) fn send(&mut self, conn: ConnId, direction: usize, bytes: Vec<u8>) {
        let faults = self.faults();
        let Some(line) = self.conns.get_mut(&conn).filter(|line| line.is_open) else { return };
        if direction == 0 && line.trainer.is_some() {
            line.tape.push(bytes.clone());
        }
        if self.rng.per_mille(faults.cut_per_mille) {
            return self.cut(conn);
        }
        if direction == 0 && self.rng.per_mille(faults.replay_per_mille) {
            self.replay(conn);
        }
        let mut copies = 1;
        if faults.loose {
            copies -= usize::from(self.rng.per_mille(faults.drop_per_mille));
            copies += usize::from(self.rng.per_mille(faults.double_per_mille));
        }
        for _ in 0..copies {
            let at = self.now + 1 + self.rng.below(faults.delay_ms_max);
            let at = at.max(self.way_is_cut(conn, direction).unwrap_or(0));
            self.carry(conn, direction, at, bytes.clone());
        }
    }

    /// The present faults.
    fn faults(&self) -> Faults {
        let Faults { delay_ms_max, work_ms_max, .. } = self.plan.faults;
        if self.plan.survival.is_some() && self.now >= self.plan.calm_ms() {
            Faults { delay_ms_max, work_ms_max, ..Faults::default() }
        } else {
            self.plan.faults
        }
    }

    /// Until when nothing passes, if so.
    fn way_is_cut(&self, conn: ConnId, direction: usize) -> Option<u64> {
        let conn = self.conns.get(&conn)?;
        self.cut_until(conn.trainer?, conn.server, direction)
    }

    /// Until when the way between two processes is cut.
    pub(super) fn cut_until(&self, trainer: u32, server: usize, direction: usize) -> Option<u64> {
        let partitions = &self.plan.survival.as_ref()?.partitions;
        let is_here = |it: &&Partition| {
            let is_now = (it.at_ms..it.at_ms + it.for_ms).contains(&self.now);
            is_now && it.trainer == trainer && it.server == server && it.cut[direction]
        };
        partitions.iter().filter(is_here).map(|it| it.at_ms + it.for_ms).max()
    }

    fn carry(&mut self, conn: ConnId, direction: usize, mut at: u64, bytes: Vec<u8>) {
        let Some(line) = self.conns.get_mut(&conn) else { return };
        let last = &mut line.last[direction];
        if !self.plan.faults.loose {
            at = at.max(*last);
        }
        *last = at.max(*last);
        let event = match direction {
            0 => Event::ToServer(conn, bytes),
            _ => Event::ToTrainer(conn, bytes),
        };
        self.at(at, event);
    }

    /// Breaks a connection: frames on their way may or may not arrive, and each side learns of it
    /// in its own time.
    fn cut(&mut self, conn: ConnId) {
        let delay = self.plan.faults.delay_ms_max;
        let lost_from = self.now + self.rng.below(delay);
        if let Some(line) = self.conns.get_mut(&conn) {
            (line.is_open, line.lost_from) = (false, Some(lost_from));
        }
        let rest = lost_from - self.now + 1;
        self.later(rest, delay, Event::ServerSeesEnd(conn));
        self.later(rest, delay, Event::TrainerSeesEnd(conn));
    }

    /// One side closes a connection; its earlier frames arrive first.
    pub(super) fn hang_up(&mut self, conn: ConnId, direction: usize) {
        let delay = self.plan.faults.delay_ms_max;
        let Some(line) = self.conns.get_mut(&conn) else { return };
        line.is_open = false;
        let rest = line.last[direction].max(self.now) - self.now + 1;
        if direction == 0 {
            self.later(rest, delay, Event::ServerSeesEnd(conn));
        } else {
            self.later(0, 2, Event::ServerSeesEnd(conn));
            self.later(rest, delay, Event::TrainerSeesEnd(conn));
        }
    }

    /// Plays what a connection has said so far from another socket, in its order.
    fn replay(&mut self, conn: ConnId) {
        let Some(line) = self.conns.get(&conn) else { return };
        let (server, tape) = (line.server, line.tape.clone());
        let copy = ConnId(self.conns.len() as u64);
        self.conns.insert(copy, Conn::new(None, server));
        let mut at = self.now + self.rng.below(200);
        for bytes in tape {
            at += 1 + self.rng.below(3);
            self.carry(copy, 0, at, bytes);
        }
        self.hang_up(copy, 0);
    }
}
