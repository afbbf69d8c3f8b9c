//! `save`: a table is written to files. Other messages are served meanwhile.

use super::{Asker, Purpose, Server, Task};
use crate::message::Save;

pub(super) fn serve(server: &mut Server, asker: Asker, save: Save) {
    server.run(Purpose::Save(asker), Task::Save(save));
}
