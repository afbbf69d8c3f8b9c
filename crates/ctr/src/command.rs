//! `paddlewheel fit`: the same from a shell.

use std::path::PathBuf;

use data::{DataFrame, Stores};
use fleet::Fleet;
use fleet::ready::Watch;

use crate::error::Result;
use crate::fit::{Trained, Training};
use crate::settings::Ctr;
use crate::words::Loss;

/// A call of the command.
#[derive(Clone, Debug, PartialEq)]
pub struct FitCommand {
    /// How it is trained.
    pub settings: Ctr,
    /// The table: a file, a pattern, or the name of a file in a store.
    pub file: String,
    /// How stores are asked.
    pub stores: Stores,
    /// Where the model goes.
    pub save: Option<PathBuf>,
    /// Rows to judge it by.
    pub test: Option<String>,
    /// Rows that decide when training stops, instead of a part of the table.
    pub validation: Option<String>,
}

impl FitCommand {
    /// Trains, judges and saves.
    pub fn run(&self, fleet: Option<Fleet>, watch: &mut Watch<'_>) -> Result<()> {
        let read_one =
            |file: &String| DataFrame::read_list(std::slice::from_ref(file), &self.stores);
        let train = read_one(&self.file)?;
        let read = |file: &Option<String>| file.as_ref().map(read_one).transpose();
        let (validation, test) = (read(&self.validation)?, read(&self.test)?);
        let what = Training { train: &train, validation: validation.as_ref(), fleet };
        let mut model = match self.settings.fit_with(what, watch)? {
            Trained::Model(model) => model,
            Trained::Served(_) => return Ok(()),
        };
        // The trained model is saved before the test rows are read: an error in them does not lose
        // it.
        if let Some(dir) = &self.save {
            model.save(dir)?;
            (watch.on_line)(&format!("saved to {}", dir.display()));
        }
        if let Some(test) = test {
            let line = match self.settings.loss {
                Loss::Log => format!("test AUC {:.5}", model.auc(&test)?),
                Loss::Squared => format!("test RMSE {:.5}", model.rmse(&test)?),
            };
            (watch.on_line)(&line);
        }
        Ok(())
    }
}
