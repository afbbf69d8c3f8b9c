//! Actions of a script beside training, such as saving. Each is done once, even if the script or the job repeats.

use super::TrainerJob;
use super::events::ScriptEvent;
use crate::error::Result;
use crate::recover::{
    ByteReader, ByteWriter, EventKind, EventPrint, ReadValues, Repeat, Uses, WriteValues,
};

impl TrainerJob {
    /// Saves a model, as an event of a job that recovers: it is not saved again where an earlier
    /// process of this trainer has done so. `what` names it; `save` returns names for the caller.
    pub fn saves(
        &self,
        what: &str,
        save: &mut dyn FnMut() -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        let mut saving = Saves { what, save, names: Vec::new(), talks: false };
        self.do_event(&mut saving)?;
        Ok(saving.names)
    }

    /// Decides something at the start of a script, which a script that is started again must find decided.
    /// Unlike a save, it may be the first event of a job.
    pub fn decides(
        &self,
        what: &str,
        decide: &mut dyn FnMut() -> Result<Vec<String>>,
    ) -> Result<Vec<String>> {
        let mut deciding = Saves { what, save: decide, names: Vec::new(), talks: true };
        self.do_event(&mut deciding)?;
        Ok(deciding.names)
    }
}

struct Saves<'a> {
    what: &'a str,
    save: &'a mut dyn FnMut() -> Result<Vec<String>>,
    names: Vec<String>,
    talks: bool,
}

impl ScriptEvent for Saves<'_> {
    /// A save before anything was trained is nothing that is gone back behind.
    fn talks(&self) -> bool {
        self.talks
    }

    fn print(&self) -> EventPrint {
        EventPrint::named(EventKind::Save, self.what)
    }

    fn label(&self) -> String {
        self.what.to_string()
    }

    fn uses(&self) -> Option<Uses<'_>> {
        None
    }

    fn perform(&mut self, _: Option<&[u8]>) -> Result<Vec<u8>> {
        self.names = (self.save)()?;
        let mut answer = ByteWriter::default();
        answer.count(self.names.len());
        self.names.iter().for_each(|name| answer.str(name));
        Ok(answer.0)
    }

    fn answer(&mut self, answer: &[u8]) -> Result<()> {
        let mut reader = ByteReader::new(answer);
        let names: Result<_> =
            (0..reader.count()?).map(|_| reader.str().map(str::to_string)).collect();
        self.names = names?;
        Ok(())
    }

    /// A save is not repeated.
    fn repeat(&mut self) -> Option<Box<dyn Repeat<TrainerJob>>> {
        None
    }
}
