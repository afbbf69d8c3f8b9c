//! Errors on the way from a table to a model.

use std::path::PathBuf;

use base::DidYouMean;

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a table cannot be trained on or predicted for.
#[derive(thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Error {
    #[error("there is no column `{target}` to predict.{near} There are: {columns}")]
    NoTarget { target: String, columns: String, near: DidYouMean },
    #[error("the table has no rows")]
    NoRows,
    #[error("the table has no column besides the target `{target}`")]
    NoFeatures { target: String },
    #[error(
        "the target `{target}` has only one value, `{value}`: a model needs rows of both classes"
    )]
    OneClass { target: String, value: String },
    #[error(
        "the target `{target}` has more than two values (`{a}`, `{b}`, `{c}` …): a click model needs two; \
         to predict numbers, say loss=\"squared\""
    )]
    ManyClasses { target: String, a: String, b: String, c: String },
    #[error(
        "the target `{target}` is `{value}` in row {row}, but the model was trained on `{a}` and `{b}`"
    )]
    UnknownClass { target: String, row: usize, value: String, a: String, b: String },
    #[error("`{value}` is not a value of the target `{target}`, which has `{a}` and `{b}`")]
    NoPositive { target: String, value: String, a: String, b: String },
    #[error(
        "the target `{target}` is missing in row {row}: remove the rows whose outcome is not known"
    )]
    MissingTarget { target: String, row: usize },
    #[error("the target `{target}` is not a number in row {row}: `{value}`")]
    TargetNotANumber { target: String, row: usize, value: String },
    #[error(
        "column `{column}` has mixed types: {first} in the rows before, {found} in row {row}; make all of \
         them texts or all of them numbers"
    )]
    MixedColumn { column: String, row: usize, first: &'static str, found: &'static str },
    #[error(
        "column `{column}` holds {found}, which is not supported: use numbers, texts, times or truth values"
    )]
    Unsupported { column: String, found: String },
    #[error(
        "{}: the model was trained with {}.{near}",
        are_missing(.columns),
        if .columns.len() == 1 { "it" } else { "them" }
    )]
    MissingColumn { columns: Vec<String>, near: DidYouMean },
    #[error(
        "row {row} has no `{column}`, which other rows have: give null or None where a value is missing"
    )]
    MissingValue { column: String, row: usize },
    #[error("column `{column}` held {expected} when the model was trained, and holds {found} now")]
    ColumnType { column: String, expected: &'static str, found: &'static str },
    #[error("column `{column}` holds texts: it can only be a category")]
    NotNumbers { column: String },
    #[error(
        "column `{column}` held {expected} when the model was trained, and has `{text}` in row {row}"
    )]
    NotANumber { column: String, row: usize, expected: &'static str, text: String },
    #[error("column `{column}` is infinite in row {row}")]
    Infinite { column: String, row: usize },
    #[error("column `{column}` has a kind in the settings, but the table does not have it.{near}")]
    UnknownColumn { column: String, near: DidYouMean },
    #[error("there is no {what} `{name}`.{near} There are: {known}")]
    UnknownWord { what: &'static str, name: String, known: String, near: DidYouMean },
    #[error("{setting} must be {expected}, not {found}")]
    BadSetting { setting: &'static str, expected: &'static str, found: String },
    #[error(
        "training failed in epoch {epoch}: the loss is not finite; try a smaller learning_rate"
    )]
    Diverged { epoch: u32 },
    #[error("the AUC is of models with loss=\"log\"; this one predicts numbers, see rmse")]
    NoAuc,
    #[error(
        "the workers of this job have different tables: give every process the same one, the rows are \
         divided by fit"
    )]
    WorkersDiffer,
    #[error("training was stopped")]
    Stopped,
    #[error("{} holds no model that CTR saved: {reason}", .dir.display())]
    NotSaved { dir: PathBuf, reason: String },
    #[error(transparent)]
    Data(#[from] data::Error),
    #[error(transparent)]
    Program(#[from] program::Error),
    #[error(transparent)]
    Tensor(#[from] tensor::Error),
    #[error(transparent)]
    Train(#[from] train::Error),
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
}

impl Error {
    /// The error of columns that a model reads and that are missing; `unread` are the columns that
    /// it does not read.
    pub fn missing(mut columns: Vec<String>, unread: &[String]) -> Self {
        columns.sort();
        let near = |name: &String| DidYouMean::among(name, unread.iter().map(String::as_str));
        let near = columns.iter().map(near).find(|near| *near != DidYouMean::default());
        let near = near.unwrap_or_default();
        Self::MissingColumn { columns, near }
    }
}

fn are_missing(columns: &[String]) -> String {
    let each = columns.iter().map(|name| format!("column `{name}` is missing"));
    each.collect::<Vec<_>>().join(", ")
}

/// A `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
