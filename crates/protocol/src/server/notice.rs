//! `notice`: news about cuts for trainers.

use wire::ConnId;
use wire::message::Notice;

use super::Server;

/// News about cuts for trainers.
pub(super) fn notice(server: &Server) -> Notice {
    let cut_requests = server.cuts.cut_requests;
    Notice {
        next_cut: server.term.schedule.next_cut(),
        kept: server.cuts.kept().to_vec(),
        cut_requests,
    }
}

/// Tells a trainer.
pub(super) fn tell(server: &mut Server, conn: ConnId) {
    if server.config.recovers {
        let notice = notice(server);
        server.reply(conn, 0, notice);
    }
}

/// Tells all trainers.
pub(super) fn tell_all(server: &mut Server) {
    let conns = server.term.members.conns();
    conns.into_iter().for_each(|(conn, _)| tell(server, conn));
}
