//! Turns: messages of one trainer are served one after another.
//!
//! A message that arrives while another is being served waits. [`serve`] knows which file serves which message.

use wire::budget::Held;
use wire::message::Request;
use wire::{ConnId, Millis, Refusal, TrainerId};

use super::{
    Asker, Server, all_gather, all_to_all, ask_stats, barrier, change, cut, hello, leave, look_up,
    ping, pull, push, ready, recall, save, want_cut,
};

/// A message that waits for its turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) conn: ConnId,
    pub(super) id: u64,
    pub(super) request: Request,
}

/// A message that waits for its turn, and what it costs.
#[derive(Debug)]
pub(super) struct HeldMessage {
    message: Queued,
    _held: Held,
}

/// Serves a message, unless one of the same trainer is being served. A ping is answered at any
/// time.
pub(super) fn take(server: &mut Server, now: Millis, trainer: TrainerId, message: Queued) {
    let is_free = matches!(message.request, Request::Ping(_));
    if is_free || !server.term.busy.contains_key(&trainer) {
        return serve(server, now, trainer, message);
    }
    let Queued { conn, id, .. } = message;
    match (server.hold(trainer, message.request.n_bytes()), server.term.busy.get_mut(&trainer)) {
        (Ok(held), Some(queue)) => queue.push_back(HeldMessage { message, _held: held }),
        (Ok(_), None) => {}
        (Err(refusal), _) => server.refuse_and_close(conn, id, refusal),
    }
}

/// Serves a message: one line for each.
fn serve(server: &mut Server, now: Millis, trainer: TrainerId, message: Queued) {
    let Queued { conn, id, request } = message;
    let asker = Asker { conn, trainer, id };
    match request {
        // Changes are numbered, and served once and in order.
        Request::Push(push) => {
            change::once(server, now, asker, |server, change| push::serve(server, change, push));
        }
        Request::Barrier(barrier) => {
            change::once(server, now, asker, |server, change| {
                barrier::serve(server, change, barrier)
            });
        }
        Request::Cut(piece) => {
            change::once(server, now, asker, |server, change| cut::serve(server, change, piece));
        }
        Request::Complete(_) => change::once(server, now, asker, leave::complete),
        Request::Leave(_) => change::once(server, now, asker, leave::serve),
        // Questions change nothing that matters, and may come twice.
        Request::Pull(pull) => pull::serve(server, asker, pull),
        Request::LookUp(look_up) => look_up::serve(server, asker, look_up),
        Request::AllGather(ask) => all_gather::serve(server, asker, ask),
        Request::AllToAll(parts) => all_to_all::serve(server, asker, parts),
        Request::Ready(ready) => ready::serve(server, asker, ready),
        Request::WantCut(_) => want_cut::serve(server, asker),
        Request::Recall(recall) => recall::serve(server, asker, &recall),
        Request::Save(save) => save::serve(server, asker, save),
        Request::Ping(_) => ping::serve(server, asker),
        Request::AskStats(_) => ask_stats::serve(server, asker),
        // The driver of a server reads these.
        Request::Hello(_) | Request::Lend(_) => {
            hello::refuse_peer(server, conn, id, Refusal::Malformed("out of place".to_string()));
        }
    }
}

/// A message of a trainer was served: what came meanwhile is next, unless its connection is gone.
pub(super) fn next(server: &mut Server, now: Millis, trainer: TrainerId) {
    let mut queue = server.term.busy.remove(&trainer).unwrap_or_default();
    server.term.members.heard(trainer, now);
    while let Some(HeldMessage { message, .. }) = queue.pop_front() {
        if server.term.members.who(message.conn) == Some(trainer) {
            serve(server, now, trainer, message);
        }
        if let Some(busy) = server.term.busy.get_mut(&trainer) {
            // Nothing can have come in between.
            *busy = queue;
            return;
        }
    }
}
