//! Tables that servers write themselves, as part of a save.

use program::distributed::ServerId;
use wire::message::{Phase, Reply, Save};

use super::links::Links;
use super::unexpected;
use crate::error::Result;
use crate::folder::{About, Transaction};

/// A part of a table that a server saves. It is named by text, because steps may not use it.
#[derive(Clone, Debug)]
pub(crate) struct SavedPart {
    pub(crate) server: ServerId,
    pub(crate) table: String,
    /// Without the state of its optimizer.
    pub(crate) weights_only: bool,
}

/// Parts of tables that servers write into the stage of a save.
pub(crate) struct Saving<'a> {
    links: &'a Links,
    parts: Vec<SavedPart>,
    stage: String,
}

impl<'a> Saving<'a> {
    /// Has all parts written.
    pub(crate) fn begin(
        links: &'a Links,
        parts: Vec<SavedPart>,
        transaction: &Transaction,
    ) -> Result<Self> {
        let stage = if parts.is_empty() {
            String::new()
        } else {
            transaction.open_to_others().to_string_lossy().into_owned()
        };
        let saving = Self { links, parts, stage };
        if let Err(error) = saving.all(Phase::Write) {
            saving.give_up();
            return Err(error);
        }
        Ok(saving)
    }

    /// Commits the save with the parts, which all count from then on; or none does.
    pub(crate) fn commit(self, mut transaction: Transaction, about: About) -> Result<()> {
        // Servers with disks of their own commit their files there when they are asked to.
        let mut names = self.parts.iter().map(|part| &part.table);
        let taken = names.try_for_each(|name| transaction.take_list(name).map(|_| ()));
        match taken.and_then(|()| transaction.commit(about)) {
            Ok(()) => self.all(Phase::Place),
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    /// Earlier saves stay.
    pub(crate) fn give_up(self) {
        // The error that matters is the first one.
        let _ = self.all(Phase::GiveUp);
    }

    /// All servers do it at the same time; waits for all answers and returns the first error.
    fn all(&self, phase: Phase) -> Result<()> {
        let ask = |part: &SavedPart| {
            let client = self.links.client(part.server)?;
            let (table, dir) = (part.table.clone(), self.stage.clone());
            let weights_only = part.weights_only;
            let ticket = client.ask(Save { table, dir, phase, weights_only })?;
            Ok((client, ticket))
        };
        let asked: Vec<Result<_>> = self.parts.iter().map(ask).collect();
        let mut answer = Ok(());
        for asked in asked {
            let done =
                asked.and_then(|(client, ticket)| match client.wait(ticket, "a saved table")? {
                    Reply::Done(_) => Ok(()),
                    other => Err(unexpected(&client, &other)),
                });
            answer = answer.and(done);
        }
        answer
    }
}
