//! `ask_stats`: the counters, with the sizes of the tables.

use super::{Asker, Purpose, Server, Task};

pub(super) fn serve(server: &mut Server, asker: Asker) {
    server.run(Purpose::Answer(asker), Task::Size);
}
