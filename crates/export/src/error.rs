//! Errors of showing, exporting or importing into a folder.

use std::io;
use std::path::PathBuf;

use base::DidYouMean;
use tensor::DType;

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong in this crate.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Error {
    #[error(transparent)]
    Train(#[from] train::Error),

    #[error(transparent)]
    Program(#[from] program::Error),

    #[error(transparent)]
    Tensor(#[from] tensor::Error),

    #[error("{0}")]
    Usage(String),

    #[error("there is no folder {}", path.display())]
    NoFolder { path: PathBuf },

    #[error(
        "{} holds no variables and no program: name a folder that save_persistables, \
         save_inference_model, save_checkpoint or fluid.save wrote", path.display()
    )]
    NothingSaved { path: PathBuf },

    #[error("{} cannot be read: {problem}", path.display())]
    BadFile { path: PathBuf, problem: String },

    #[error("there is no format `{found}`: use onnx, safetensors or parquet.{near}")]
    UnknownFormat { found: String, near: DidYouMean },

    #[error("{} is there already: use --force to replace it, or name another file with -o", path.display())]
    Exists { path: PathBuf },

    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },

    #[error("{} cannot be read: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },

    #[error(
        "{} holds no inference model, which ONNX needs: save one with fluid.io.save_inference_model",
        path.display()
    )]
    NoModel { path: PathBuf },

    #[error("{} holds no variable `{var}`, which the program needs", path.display())]
    NoValue { path: PathBuf, var: String },

    #[error(
        "`{op}` (op {index} of block {block}, which makes `{var}`) cannot go to ONNX: {problem}. {advice}"
    )]
    NoOnnx {
        op: String,
        block: usize,
        index: usize,
        var: String,
        problem: String,
        advice: &'static str,
    },

    #[error(
        "the ONNX file would have {n_bytes} bytes, and no reader takes more than {max}: let tables be \
         inputs with --table-bytes-max"
    )]
    TooLarge { n_bytes: u64, max: u64 },

    #[error("{} holds no table `{table}`.{near}", path.display())]
    NoTable { path: PathBuf, table: String, near: DidYouMean },

    #[error("there is no table `{table}` in the scope.{near}")]
    NotInScope { table: String, near: DidYouMean },

    #[error("`{table}` of {} is not a table: it has the shape {dims:?}, a table has rows and columns", path.display())]
    NotATable { path: PathBuf, table: String, dims: Vec<i64> },

    #[error("{} holds rows of {found} numbers, and those of `{table}` have {expected}", path.display())]
    RowWidth { path: PathBuf, table: String, expected: usize, found: usize },

    #[error(
        "{} holds {} numbers, and those of `{table}` are {}", path.display(), found.name(), expected.name()
    )]
    RowType { path: PathBuf, table: String, expected: DType, found: DType },

    #[error("{} has the id {id} twice", path.display())]
    IdTwice { path: PathBuf, id: i64 },

    #[error("{} has the id {id}, and `{table}` has ids from 0 to {}", path.display(), height - 1)]
    IdRange { path: PathBuf, table: String, id: i64, height: i64 },

    #[error(
        "{} has the row {id}, which `{table}` does not have, and the state `{state}` of its optimizer would not \
         have it either: import into a model without states (save_inference_model), or only rows that exist",
        path.display()
    )]
    StateLacksRow { path: PathBuf, table: String, state: String, id: i64 },

    #[error(
        "{} has the row {id}, which `{table}` does not have, and its {n} parts do not say which of them would: \
         load the table, import into it, and save it", path.display()
    )]
    NoPart { path: PathBuf, table: String, id: i64, n: usize },

    #[error("`{table}` is kept by rows and only read here: import into its folder instead")]
    OnlyRead { table: String },

    #[error("{} has a missing value: {place}", path.display())]
    MissingValue { path: PathBuf, place: String },

    #[error(
        "`{table}` is in {}, which cannot be changed in part: load it, import into the scope, and save it",
        path.display()
    )]
    NotReplaceable { path: PathBuf, table: String },

    #[error(
        "`{var}` has {n} numbers in a row, and a Parquet file has {max} columns at most: use safetensors"
    )]
    TooWide { var: String, n: usize, max: usize },
}
