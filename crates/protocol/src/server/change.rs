//! Changes: messages that are numbered, and served once and in order.

use wire::message::Ack;
use wire::{Millis, Refusal, TrainerId};

use super::{Asker, Server, turn};

/// A change that is being served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) trainer: TrainerId,
    /// The process of this rank that sent it.
    pub(super) incarnation: u64,
    pub(super) seq: u64,
}

/// How far a change got.
pub(super) enum Progress {
    Served,
    /// It is served when work under way is done.
    UnderWay,
}

/// Serves a change once, in order; a repeated one is acknowledged and not served.
pub(super) fn once(
    server: &mut Server,
    now: Millis,
    asker: Asker,
    serve: impl FnOnce(&mut Server, Change) -> Result<Progress, Refusal>,
) {
    let Asker { conn, trainer, id: seq } = asker;
    let accepted = server.term.members.of(trainer).accepted();
    if seq != accepted + 1 {
        server.stats.repeated += u64::from(seq <= accepted);
        if let Some((seq, refusal)) = server.term.members.of(trainer).refused() {
            return server.reply(conn, seq, refusal);
        }
        // After a gap the trainer learns what is missing, and sends again from there.
        return server.reply(conn, accepted, Ack);
    }
    server.term.members.accept(trainer, seq);
    let change =
        Change { trainer, incarnation: server.term.members.of(trainer).incarnation(), seq };
    let progress = serve(server, change);
    match progress {
        Ok(Progress::Served) => served(server, now, change, Ok(())),
        Ok(Progress::UnderWay) => {
            server.term.busy.entry(trainer).or_default();
        }
        Err(refusal) => served(server, now, change, Err(refusal)),
    }
}

/// Whether the process that sent a change still has its rank.
pub(super) fn is_current(server: &Server, change: Change) -> bool {
    server.term.members.of(change.trainer).incarnation() == change.incarnation
}

/// Says what became of a change, where its trainer is now.
pub(super) fn served(
    server: &mut Server,
    now: Millis,
    change: Change,
    served: Result<(), Refusal>,
) {
    let Change { trainer, seq, .. } = change;
    if let Err(refusal) = &served {
        server.warn(format!("{trainer}: {refusal}"));
    }
    if is_current(server, change) {
        if let Err(refusal) = &served {
            server.term.members.refuse(trainer, seq, refusal.clone());
        }
        if let Some(conn) = server.term.members.of(trainer).conn() {
            match served {
                Ok(()) => server.reply(conn, seq, Ack),
                Err(refusal @ Refusal::TooMuch { .. }) => {
                    server.refuse_and_close(conn, seq, refusal)
                }
                Err(refusal) => server.reply(conn, seq, refusal),
            }
        }
    }
    turn::next(server, now, trainer);
}
