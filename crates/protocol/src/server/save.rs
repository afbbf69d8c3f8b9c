//! `save`: a table is written to files. Other messages are served meanwhile.

use wire::message::Save;

use super::{Asker, Purpose, Server, Task};

pub(super) fn serve(server: &mut Server, asker: Asker, save: Save) {
    server.run(Purpose::Save(asker), Task::Save(save));
}
