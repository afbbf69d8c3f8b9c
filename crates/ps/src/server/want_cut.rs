//! `want_cut`: a trainer would like a cut soon.

use super::{Asker, Server};
use crate::message::Done;

pub(super) fn serve(server: &mut Server, asker: Asker) {
    server.want_cut();
    server.reply(asker.conn, asker.id, Done);
}
