//! Events of a job that recovers: done once, answered from the journal, or done again.

use super::Cluster;
use crate::error::Result;
use crate::recover::{Print, Repeat, Uses};

/// Something that a script asks of its job: one event of its timeline (see [`crate::recover`]).
///
/// In a job that does not recover, [`Cluster::act`] performs it and does nothing else.
pub(crate) trait Act {
    /// What it is, and on what: a script that is run again must ask for the same.
    fn print(&self) -> Print;

    /// The names in it, for the message if a script does not repeat itself.
    fn label(&self) -> String;

    /// The variables it works on, if any.
    fn uses(&self) -> Option<Uses<'_>>;

    /// Does it, and returns its answer for the journal. May be called again after an error, when the
    /// job has gone back to a cut: `from` is then what [`Cluster::cut`] was given inside of this
    /// act, if the cut lies there; otherwise the act begins from its beginning.
    fn perform(&mut self, from: Option<&[u8]>) -> Result<Vec<u8>>;

    /// Takes the answer that an earlier process got, instead of doing it.
    fn answer(&mut self, answer: &[u8]) -> Result<()>;

    /// What is needed to do it again without its answer; `None` if nothing comes of it that a cut
    /// would not have. Called once, after it was performed.
    fn repeat(&mut self) -> Option<Box<dyn Repeat<Cluster>>>;
}

impl Cluster {
    /// Whether the job of this trainer goes on after deaths; `false` as long as that is not known.
    pub(crate) fn recovers(&self) -> bool {
        false
    }

    /// Performs an act as the next event of the script. Returns when it is done, however often the
    /// job has gone back meanwhile. Inside of another act (a callback) it is performed as a part of
    /// that one.
    pub(crate) fn act(&self, act: &mut dyn Act) -> Result<()> {
        act.perform(None).map(drop)
    }

    /// Whether a cut is to be made at this boundary between two steps. Cheap: asked at every step.
    ///
    /// All threads of a trainer that step together get the same answer at the same boundary.
    pub(crate) fn is_cut_due(&self) -> bool {
        false
    }

    /// Takes part in the cut that is due, inside of an act. Nothing of this trainer runs meanwhile:
    /// an act with several threads has stopped them at a boundary. `inside` says how far the act is;
    /// it is asked for when all trainers are ready, and may be large.
    ///
    /// An error of which [`Cluster::act`] makes something (the job has gone back, or SIGTERM came)
    /// is to be returned from [`Act::perform`].
    pub(crate) fn cut(&self, inside: &mut dyn FnMut() -> Result<Vec<u8>>) -> Result<()> {
        inside().map(drop)
    }
}
