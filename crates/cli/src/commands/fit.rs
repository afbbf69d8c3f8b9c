//! `paddlewheel fit`: from a table to a click-through model.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use ctr::{Architecture, Ctr, FeatureKind, FitCommand, Loss, mode_from_name};
use fleet::ready::Watch;
use fleet::{Fleet, env, flags, job_of_process, logging, role, stores};
use program::distributed::Mode;

use crate::error::Result;
use crate::values::{self, CommaList, one_of};

/// Trains a click-through model on a table.
///
/// The table is a CSV file, a Parquet file or a click log of Criteo, or several with the same columns: FILE may be a
/// pattern ('part-*.csv') or the name of a file in a store (s3://, hdfs://, http://). The kinds of its columns are
/// guessed. In a job of launch_ps, servers hold the model and workers share the rows.
#[derive(Args)]
#[command(
    rename_all = "snake_case",
    after_help = "\
Examples:
  paddlewheel fit clicks.parquet --target clicked --save model
  paddlewheel fit ratings.csv --target stars --loss squared --model fm --column year=number"
)]
pub(crate) struct Fit {
    /// The table
    #[arg(value_name = "FILE")]
    file: String,
    /// The column to predict
    #[arg(long, value_name = "COLUMN", required = true)]
    target: String,
    /// The model
    #[arg(
        long,
        value_name = "MODEL",
        default_value = "deepfm",
        value_parser = one_of(Architecture::names(), Architecture::from_name)
    )]
    model: Architecture,
    /// Where the model goes
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Rows to judge the model by
    #[arg(long, value_name = "FILE")]
    test: Option<String>,
    /// Rows that are kept back to stop early: a part of the table, or another file [default: 0.1]
    #[arg(long, value_name = "PART|FILE")]
    validation: Option<String>,
    /// The loss that training minimizes; squared predicts numbers, not clicks
    #[arg(
        long,
        value_name = "LOSS",
        default_value = "log",
        value_parser = one_of(Loss::names(), Loss::from_name)
    )]
    loss: Loss,
    /// The value of the target that is a click [default: the greater one]
    #[arg(long, value_name = "VALUE")]
    positive: Option<String>,
    /// The kind of a column, where the guess is wrong: NAME=number, NAME=count or NAME=category
    #[arg(long, value_name = "NAME=KIND", value_parser = column)]
    column: Vec<NamedKind>,
    /// How workers keep step under launch_ps
    #[arg(
        long,
        value_name = "MODE",
        default_value = "sync",
        value_parser = one_of(Mode::NAMES.iter().copied(), mode_from_name)
    )]
    mode: Mode,
    #[command(flatten)]
    numbers: Numbers,
}

/// Numbers of a training.
#[derive(Args)]
#[command(rename_all = "snake_case", next_help_heading = "Training")]
struct Numbers {
    /// Passes over the rows, at most [default: 10; squared: 30]
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Rows of a step [default: 256]
    #[arg(long, value_name = "N")]
    batch_size: Option<usize>,
    /// The step size of Adagrad [default: 0.02; squared: 0.05]
    #[arg(long, value_name = "X")]
    learning_rate: Option<f32>,
    /// Numbers that stand for a category [default: 9; squared: 16]
    #[arg(long, value_name = "N")]
    dim: Option<i64>,
    /// Widths of the hidden layers [default: 128,64,32]
    #[arg(long, value_name = "N,N,…", value_parser = values::widths)]
    hidden: Option<CommaList<i64>>,
    /// Weight decay of the tables and layers [default: 0; squared: 0.0005]
    #[arg(long, value_name = "X")]
    l2: Option<f32>,
    /// Ids of all categories together [default: chosen by the number of different ones]
    #[arg(long, value_name = "N")]
    ids: Option<u64>,
    /// Epochs without a better validation before training stops [default: 2]
    #[arg(long, value_name = "N")]
    patience: Option<u32>,
    /// Where random numbers start [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<i32>,
}

/// The kind of a column.
#[derive(Clone, Debug)]
struct NamedKind {
    name: String,
    kind: FeatureKind,
}

fn column(text: &str) -> std::result::Result<NamedKind, String> {
    let (name, kind) = text.rsplit_once('=').ok_or("it must be NAME=KIND")?;
    let kind = FeatureKind::from_name(kind).map_err(|error| error.to_string())?;
    Ok(NamedKind { name: name.to_string(), kind })
}

impl Fit {
    pub(crate) fn run(self: Box<Self>) -> Result<i32> {
        let fleet = match role::in_a_job(&env::process)? {
            Some(role) => Some(Fleet::init(role, flags::current()?, job_of_process()?)),
            None => None,
        };
        logging::begin()?;
        let mut on_line = |line: &str| {
            logging::make_room();
            // A closed output is not a reason to end training.
            let _ = writeln!(io::stdout(), "{}", logging::printable(line));
        };
        let mut watch = Watch { on_line: &mut on_line, stops: &mut || false };
        self.command().run(fleet, &mut watch)?;
        Ok(0)
    }

    pub(super) fn command(self: Box<Self>) -> FitCommand {
        let numbers = self.numbers;
        let mut settings = Ctr::for_loss(&self.target, self.loss);
        settings.architecture = self.model;
        settings.mode = self.mode;
        settings.positive = self.positive;
        settings.kinds = self.column.into_iter().map(|named| (named.name, named.kind)).collect();
        settings.epochs = numbers.epochs.unwrap_or(settings.epochs);
        settings.batch_size = numbers.batch_size.unwrap_or(settings.batch_size);
        settings.learning_rate = numbers.learning_rate.unwrap_or(settings.learning_rate);
        settings.dim = numbers.dim.unwrap_or(settings.dim);
        settings.hidden = numbers.hidden.map_or(settings.hidden, |widths| widths.0);
        settings.l2 = numbers.l2.unwrap_or(settings.l2);
        settings.n_ids = numbers.ids;
        settings.patience = numbers.patience.unwrap_or(settings.patience);
        settings.seed = numbers.seed.unwrap_or(settings.seed);
        let part = self.validation.as_deref().map(str::parse);
        let validation = match part {
            Some(Ok(part)) => {
                settings.validation = Some(part);
                None
            }
            _ => self.validation,
        };
        FitCommand {
            settings,
            file: self.file,
            stores: stores::stores(&env::process),
            save: self.save,
            test: self.test,
            validation,
        }
    }
}
