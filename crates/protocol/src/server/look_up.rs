//! `look_up`: rows of a table are found, perhaps after a round.

use wire::message::LookUp;

use super::question::{self, Question};
use super::{Asker, Purpose, Server, Task};

pub(super) fn serve(server: &mut Server, asker: Asker, mut look_up: LookUp) {
    match server.vars.resolve(asker.trainer, &mut look_up.table) {
        Ok(()) => question::ask(server, asker, look_up.after, Question::LookUp(look_up)),
        Err(refusal) => server.reply(asker.conn, asker.id, refusal),
    }
}

/// Has the rows found.
pub(super) fn give(server: &mut Server, asker: Asker, look_up: LookUp) {
    server.run(Purpose::Answer(asker), Task::LookUp(look_up));
}
