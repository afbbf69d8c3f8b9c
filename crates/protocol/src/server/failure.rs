//! The failure of a job.

use wire::Refusal;

use super::{Server, all_to_all};

/// The job cannot continue: every waiting process gets the reason.
pub(super) fn set(server: &mut Server, refusal: Refusal) {
    server.warn(format!("the job cannot go on: {refusal}"));
    server.failure.get_or_insert_with(|| refusal.clone());
    for waiting in std::mem::take(&mut server.term.waiting).into_values() {
        server.reply(waiting.asker.conn, waiting.asker.id, refusal.clone());
    }
    for asker in server.term.all_gathers.dissolve() {
        server.reply(asker.conn, asker.id, refusal.clone());
    }
    all_to_all::dissolve(server, &refusal);
}
