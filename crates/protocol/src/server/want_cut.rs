//! `want_cut`: a trainer would like a cut soon.

use wire::message::Done;

use super::{Asker, Server};

pub(super) fn serve(server: &mut Server, asker: Asker) {
    server.want_cut();
    server.reply(asker.conn, asker.id, Done);
}
