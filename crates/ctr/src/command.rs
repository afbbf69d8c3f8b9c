//! `paddlewheel fit`: the same from a shell.

use std::path::PathBuf;

use data::DataFrame;
use fleet::Fleet;
use fleet::ready::Watch;

use crate::error::{Error, Result};
use crate::fit::{Trained, Training};
use crate::settings::Ctr;
use crate::words::{Architecture, FeatureKind, Loss, mode_from_name};

/// A call of the command.
#[derive(Clone, Debug, PartialEq)]
pub struct FitCommand {
    settings: Ctr,
    file: String,
    save: Option<PathBuf>,
    test: Option<String>,
    validation: Option<String>,
}

impl FitCommand {
    /// Reads arguments.
    pub fn from_arguments(arguments: &[String]) -> Result<Self> {
        let usage = |reason: String| Error::Usage { reason };
        let mut command = Self {
            settings: Ctr::new(""),
            file: String::new(),
            save: None,
            test: None,
            validation: None,
        };
        let (mut options, mut rest) = (Vec::new(), arguments.iter());
        while let Some(argument) = rest.next() {
            let Some(option) = argument.strip_prefix("--") else {
                if !command.file.is_empty() {
                    return Err(usage(format!(
                        "there are two files, `{}` and `{argument}`",
                        command.file
                    )));
                }
                command.file = argument.clone();
                continue;
            };
            let (option, value) = match option.split_once('=') {
                Some((option, value)) => (option, Some(value.to_string())),
                None => (option, rest.next().cloned()),
            };
            let value = value.ok_or_else(|| usage(format!("--{option} needs a value")))?;
            options.push((option.to_string(), value));
        }
        // What is usual depends on the loss, in whatever order they are given.
        options.sort_by_key(|(option, _)| option != "loss");
        options.iter().try_for_each(|(option, value)| command.set(option, value))?;
        if command.file.is_empty() {
            return Err(usage("the file is missing".to_string()));
        }
        if command.settings.target.is_empty() {
            return Err(usage("--target is missing: the column to predict".to_string()));
        }
        Ok(command)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<()> {
        let settings = &mut self.settings;
        match option {
            "target" => settings.target = value.to_string(),
            "positive" => settings.positive = Some(value.to_string()),
            "model" => settings.architecture = Architecture::from_name(value)?,
            "loss" => *settings = Ctr::for_loss("", Loss::from_name(value)?),
            "epochs" => settings.epochs = number(option, value)?,
            "batch_size" => settings.batch_size = number(option, value)?,
            "learning_rate" => settings.learning_rate = number(option, value)?,
            "dim" => settings.dim = number(option, value)?,
            "l2" => settings.l2 = number(option, value)?,
            "ids" => settings.n_ids = Some(number(option, value)?),
            "patience" => settings.patience = number(option, value)?,
            "seed" => settings.seed = number(option, value)?,
            "mode" => settings.mode = mode_from_name(value)?,
            "hidden" => {
                let widths = value.split(',').map(|width| number(option, width));
                settings.hidden = widths.collect::<Result<_>>()?;
            }
            "column" => {
                let bad =
                    || Error::Usage { reason: format!("--column is NAME=KIND, not `{value}`") };
                let (name, kind) = value.rsplit_once('=').ok_or_else(bad)?;
                settings.kinds.insert(name.to_string(), FeatureKind::from_name(kind)?);
            }
            "validation" => match value.parse() {
                Ok(part) => settings.validation = Some(part),
                Err(_) => self.validation = Some(value.to_string()),
            },
            "save" => self.save = Some(PathBuf::from(value)),
            "test" => self.test = Some(value.to_string()),
            _ => return Err(Error::Usage { reason: format!("--{option} is not known") }),
        }
        Ok(())
    }

    /// Trains, judges and saves.
    pub fn run(&self, fleet: Option<Fleet>, watch: &mut Watch<'_>) -> Result<()> {
        let train = DataFrame::read(&self.file)?;
        let read = |file: &Option<String>| file.as_deref().map(DataFrame::read).transpose();
        let (validation, test) = (read(&self.validation)?, read(&self.test)?);
        let what = Training { train: &train, validation: validation.as_ref(), fleet };
        let mut model = match self.settings.fit_with(what, watch)? {
            Trained::Model(model) => model,
            Trained::Served(_) => return Ok(()),
        };
        if let Some(test) = test {
            let line = match self.settings.loss {
                Loss::Log => format!("test AUC {:.5}", model.auc(&test)?),
                Loss::Squared => format!("test RMSE {:.5}", model.rmse(&test)?),
            };
            (watch.on_line)(&line);
        }
        if let Some(dir) = &self.save {
            model.save(dir)?;
            (watch.on_line)(&format!("saved to {}", dir.display()));
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(option: &str, value: &str) -> Result<T> {
    let reason = || format!("--{option} is a number, not `{value}`");
    value.parse().map_err(|_| Error::Usage { reason: reason() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<FitCommand> {
        FitCommand::from_arguments(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_settings() {
        let words =
            ["a.csv", "--target", "y", "--model=fm", "--hidden", "8,4", "--column", "a=b=count"];
        let command = parse(&words).unwrap();
        assert_eq!(command.settings.architecture, Architecture::Fm);
        assert_eq!(command.settings.hidden, [8, 4]);
        assert_eq!(command.settings.kinds["a=b"], FeatureKind::Count);
        assert_eq!(
            parse(&["a", "--target", "y", "--validation", "0.2"]).unwrap().settings.validation,
            Some(0.2)
        );
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for words in [
            &[][..],
            &["a.csv"],
            &["--target", "y"],
            &["a", "b", "--target", "y"],
            &["a", "--target"],
            &["a", "--target", "y", "--epochs", "many"],
            &["a", "--target", "y", "--what", "1"],
        ] {
            let error = parse(words).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{error}");
        }
        let error = parse(&["a", "--target", "y", "--model", "deepfn"]).unwrap_err();
        assert!(error.to_string().contains("Did you mean `deepfm`?"), "{error}");
    }
}
