//! Errors of splitting a program.

use base::BadEndpoint;
use program::distributed::TableTooLarge;
use tensor::DType;

/// Everything that can go wrong in this crate.
#[derive(thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Error {
    /// Something inside the program.
    #[error(transparent)]
    Program(#[from] program::Error),

    #[error(transparent)]
    TableTooLarge(#[from] TableTooLarge),

    #[error("DistributeTranspilerConfig.{field} {rule}, got {actual}")]
    BadConfig { field: &'static str, rule: &'static str, actual: String },

    #[error("there are no parameter servers: give pservers=\"ip:port,ip:port\"")]
    NoEndpoints,

    #[error("parameter server `{text}`: {source}")]
    Endpoint { text: String, source: BadEndpoint },

    #[error("parameter server `{endpoint}` is in the list twice")]
    EndpointTwice { endpoint: String },

    #[error("`{endpoint}` is not one of the parameter servers of this job: {}", endpoints.join(","))]
    UnknownEndpoint { endpoint: String, endpoints: Vec<String> },

    #[error(
        "trainer_id {trainer_id} of {n_trainers} trainers: ids count from 0 and end before the \
         number of trainers"
    )]
    TrainerId { trainer_id: usize, n_trainers: usize },

    #[error("must set trainer_id > 0: it is {trainer_id}, and the first trainer has the number 0")]
    NegativeTrainer { trainer_id: i64 },

    #[error("invalid trainer number in distributed: 1")]
    OneTrainer,

    #[error("trainer `{endpoint}` is in the list twice")]
    TrainerTwice { endpoint: String },

    #[error("current endpoint {endpoint} is not in {endpoints:?}")]
    NotATrainer { endpoint: String, endpoints: Vec<String> },

    #[error(
        "trainer {trainer_id} is at {own} in the list of trainers, but current_endpoint is {current}"
    )]
    OtherEndpoint { trainer_id: usize, own: String, current: String },

    #[error("the program updates no parameter: call optimizer.minimize(loss) before transpile")]
    NothingToOptimize,

    #[error("this program was transpiled already: transpile the one it was made from, once")]
    TranspiledTwice,

    #[error(
        "all distributed lookup_table_ops should have only one table (`{}` and `{}` are two)",
        tables[0],
        tables[1]
    )]
    SeveralTables { tables: [String; 2] },

    #[error("distributed table `{table}` has shape {dims:?}; a table has two dimensions")]
    TableShape { table: String, dims: Vec<i64> },

    #[error("distributed table `{table}` holds {actual}; its rows must be float32")]
    TableType { table: String, actual: DType },

    #[error(
        "table `{table}` has the entry rule `{rule}`; rules are count_filter_entry:<n> and \
         probability_entry:<p>"
    )]
    EntryRule { table: String, rule: String },

    #[error("look-ups of table `{table}` have different entry rules: {} and {}", rules[0], rules[1])]
    EntryRules { table: String, rules: [String; 2] },

    #[error(
        "table `{table}` has an entry rule, so servers must keep it row by row, but {why}; leave \
         out the entry, or change that"
    )]
    EntryNeedsRows { table: String, why: String },

    #[error("the gradient `{grad}` of `{param}` is computed by no op of the outermost block")]
    GradNotComputed { param: String, grad: String },

    #[error("the startup program starts no variable `{var}`")]
    NoInit { var: String },

    #[error("a dispatcher gave {actual} end points for {expected} blocks")]
    BadDispatch { expected: usize, actual: usize },
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
