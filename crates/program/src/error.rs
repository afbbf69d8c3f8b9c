//! Errors of building or running a program.

use base::DidYouMean;
use tensor::DType;

use crate::site::Site;
use crate::var::VarDesc;

/// A fact about a program or its data that does not hold.
#[derive(thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Error {
    #[error("Operator \"{op}\" has not been registered.{near}")]
    UnknownOp { op: String, near: DidYouMean },

    #[error("Input {port} not found: op `{op}` needs it")]
    MissingInput { op: String, port: String },

    #[error("Output {port} not found: op `{op}` needs it")]
    MissingOutput { op: String, port: String },

    #[error("var {var} not in this block.{near}")]
    UnknownVar { var: String, near: DidYouMean },

    #[error("variable {var} has been created before with {before}, and now {now} is asked for")]
    VarRedefined { var: String, before: String, now: String },

    /// Fluid's wording, with the variable named; users search for it.
    #[error(
        "The Input variable {port}({var}) has not been initialized. You may need to confirm if \
         you put exe.run(startup_program) after optimizer.minimize function."
    )]
    NotInitialized { port: String, var: String },

    #[error(
        "data variable `{var}` (input {port}) was not fed; give it in `feed`, for example \
         feed={{'{var}': array}}{}", fed_instead(.fed, .near)
    )]
    NotFed {
        port: String,
        var: String,
        /// The names that were fed.
        fed: Vec<String>,
        /// The name among them that is not a variable of the program and perhaps this one.
        near: DidYouMean,
    },

    #[error("input {port}({var}) holds {actual}, but {expected} is needed")]
    WrongKind { port: String, var: String, expected: &'static str, actual: &'static str },

    #[error("the blocks of this program are not inside of each other as they must be: {problem}")]
    BadBlocks { problem: String },

    #[error("attribute `{attr}` is missing")]
    MissingAttr { attr: String },

    #[error("attribute `{attr}` must be {expected}, but it is {actual}")]
    BadAttr { attr: String, expected: String, actual: String },

    /// A rule between shapes, with the shapes that break it.
    #[error("{rule}: {left} is {left_dims:?}, {right} is {right_dims:?}")]
    Shapes {
        rule: &'static str,
        left: String,
        left_dims: Vec<i64>,
        right: String,
        right_dims: Vec<i64>,
    },

    /// A rule about one shape.
    #[error("{rule}: {var} has shape {dims:?}")]
    Shape { rule: &'static str, var: String, dims: Vec<i64> },

    #[error("`{var}` is {actual}, but this op computes in {expected}")]
    DType { var: String, expected: &'static str, actual: DType },

    /// A layer's error about an argument; the words are Fluid's.
    #[error(
        "The data type of '{var}' in {op} must be [{}], but received {}.", quoted(allowed), actual.name()
    )]
    LayerDType { op: String, var: String, allowed: &'static [DType], actual: DType },

    #[error(
        "Variable value (input) of OP(fluid.layers.embedding) expected >= 0 and < {height}, but \
         got {}. Please check input value. ({var}, position {position})", id_text(*id)
    )]
    IdOutOfRange { var: String, position: usize, id: i64, height: i64 },

    #[error("label {label} of `{var}` (row {row}) is not in [0, {n_classes})")]
    LabelOutOfRange { var: String, row: usize, label: i64, n_classes: usize },

    /// A rule about the numbers inside a variable.
    #[error("{rule}: `{var}` holds {value} at {position}")]
    BadValue { rule: &'static str, var: String, position: usize, value: f64 },

    #[error("Input({port}) Tensor of {op} does not contain LoD information. (`{var}`)")]
    NoLod { op: &'static str, port: &'static str, var: String },

    #[error("`{var}` has {actual} ragged levels, but {op} works on {expected}")]
    LodLevels { op: &'static str, var: String, expected: usize, actual: usize },

    #[error("op `{op}` has no gradient: it is not differentiable")]
    NotDifferentiable { op: String },

    #[error("The loss.shape should be (1L,), but the current loss.shape is {dims:?}: `{var}`")]
    LossShape { var: String, dims: Vec<i64> },

    #[error("the loss `{var}` is not computed by any op of this program")]
    LossNotComputed { var: String },

    #[error(
        "the loss {var} is computed inside a block of a condition or a loop; gradients are computed \
         for losses of the main block only: return the loss from the block and minimize it outside"
    )]
    LossInBlock { var: String },

    /// Fluid's wording, with the variable named.
    #[error(
        "The target variable used for pruning should have an associated operator that generates \
         it: `{var}`"
    )]
    TargetNotComputed { var: String },

    #[error(
        "`{endpoint}` is none of this job's servers, which are {}",
        known.join(", ")
    )]
    UnknownServer { endpoint: String, known: Vec<String> },

    #[error("this job has no variable `{var}` on server `{endpoint}`")]
    NotOnServer { var: String, endpoint: String },

    #[error("op `{op}` needs {what}, which is not there when a program runs here")]
    NoHost { op: String, what: &'static str },

    #[error(
        "this program is a parameter server's: run it as the whole program of the process, with \
         exe.run(pserver_program), not as a part of another (op `{op}`)"
    )]
    ServesOnly { op: String },

    #[error("selected rows is full, then length exceed {capacity} (table `{table}`)")]
    TableFull { table: String, capacity: usize },

    #[error("reader `{reader}` is at the end of its pass: reset it and start it again")]
    EndOfPass { reader: String },

    #[error("reader `{reader}` gave a batch of {actual} fields where {expected} are declared")]
    BadBatch { reader: String, expected: usize, actual: usize },

    #[error("operator `{op}`'s output `{var}` contains NaN or Inf (first at element {position})")]
    NotFinite { op: String, var: String, position: usize },

    #[error("{rule}, but received {argument} of {layer} = {actual:?}")]
    BadSizes { layer: &'static str, argument: &'static str, rule: &'static str, actual: Vec<i64> },

    #[error("{argument} of {layer}: {rule}, got {actual}")]
    BadArgument { layer: &'static str, argument: &'static str, rule: &'static str, actual: String },

    #[error("these are not the bytes of a program: at offset {offset}, {problem}")]
    BadProgram { offset: usize, problem: String },

    /// Bytes that are not what a file of variables holds.
    #[error("at byte {offset}: {problem}")]
    BadStream { offset: usize, problem: Problem },

    #[error(
        "The Tensor in the {op} Op's Input Variable X({var}) is not initialized. Run the startup \
         program, or load a model, before saving."
    )]
    SavesNothing { op: String, var: String },

    #[error("{path} is existed, cannot save to it when overwrite is false.")]
    FileExists { path: String },

    #[error(transparent)]
    Tensor(#[from] tensor::Error),

    /// The error of the world outside of the program.
    #[error("{0}")]
    Host(Box<dyn std::error::Error + Send + Sync>),

    /// Which variable the inner error is about.
    #[error("`{var}`: {source}")]
    InVar { var: String, source: Box<Error> },

    /// Where in the program the inner error happened.
    #[error(
        "{source}\n  [op {index} of block {block}: {op}]\n  [operator < {kind} > error]{}",
        in_op_at(.kind, .site)
    )]
    InOp { block: usize, index: usize, kind: String, op: String, site: Site, source: Box<Error> },
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
/// An id as the user may have written it: ids of 2⁶³ and more have the bits of negative ones.
pub fn id_text(id: i64) -> String {
    match id {
        0.. => id.to_string(),
        _ => format!("{id} ({} without a sign)", id.cast_unsigned()),
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The errors of a stream.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // The fields are what the message names.
pub enum Problem {
    #[error("tensor version {0} is not supported, Only version 0 is supported")]
    Version(u32),

    #[error("{needed} bytes are needed for {what}, but {left} are left; the file is cut short")]
    Truncated { what: &'static str, needed: u64, left: usize },

    #[error("{0} bytes of a tensor's description are not a tensor description")]
    Description(i32),

    #[error("a tensor without dimensions")]
    NoDimensions,

    #[error("{0} bytes are not a list of offsets")]
    OffsetBytes(u64),

    #[error("the tensor has {actual} rows, but {expected} ids are listed")]
    RowCount { expected: usize, actual: usize },

    #[error("the file holds {found} variables, but {wanted} are asked for")]
    TooFew { found: usize, wanted: usize },

    #[error(
        "Not allowed to load partial data via load_combine_op, please use load_op instead. \
         ({left} bytes follow the last of {wanted} variables)"
    )]
    Partial { wanted: usize, left: usize },

    #[error("{left} bytes follow the variable")]
    TooLong { left: usize },

    #[error("elements {start}..{end} are asked for, but the tensor has {len}")]
    Slice { start: u64, end: u64, len: usize },

    #[error(transparent)]
    Tensor(#[from] tensor::Error),
}

/// The line that built an op, if it is known.
fn in_op_at(kind: &str, site: &Site) -> String {
    let at = site.to_string();
    if at.is_empty() { at } else { format!("\n  in op `{kind}`{at}") }
}

/// The names that were fed instead.
fn fed_instead(fed: &[String], near: &DidYouMean) -> String {
    let list = fed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (fed, &near.0) {
        ([], _) => "; nothing was fed".to_string(),
        (_, None) => format!("; the feed has {list}"),
        (_, Some(near)) => format!(
            "; the feed has {list}. `{near}` is not a variable of the program: write the name as in the \
             program"
        ),
    }
}

/// `'float32', 'float64'`
fn quoted(types: &[DType]) -> String {
    let names: Vec<String> = types.iter().map(|dtype| format!("'{}'", dtype.name())).collect();
    names.join(", ")
}

impl Error {
    /// That there is no such variable, and which of these was perhaps meant.
    pub fn unknown_var<'a>(name: &str, vars: impl Iterator<Item = &'a VarDesc>) -> Error {
        let near = DidYouMean::among(name, vars.map(|var| var.name.as_str()));
        Error::UnknownVar { var: name.to_string(), near }
    }

    /// The fact itself, without where it happened.
    pub fn root(&self) -> &Error {
        match self {
            Error::InOp { source, .. } | Error::InVar { source, .. } => source.root(),
            other => other,
        }
    }

    /// Names the op that asked for what is not there.
    pub(crate) fn of_op(self, kind: &str) -> Error {
        match self {
            Error::NoHost { what, .. } => Error::NoHost { op: kind.to_string(), what },
            other => other,
        }
    }

    /// The variable it is about, if there is one; the first of two.
    pub fn var(&self) -> Option<&str> {
        match self {
            Error::InOp { source, .. } => source.var(),
            Error::Shapes { left, .. } => Some(left),
            Error::InVar { var, .. }
            | Error::UnknownVar { var, .. }
            | Error::VarRedefined { var, .. }
            | Error::NotInitialized { var, .. }
            | Error::NotFed { var, .. }
            | Error::WrongKind { var, .. }
            | Error::Shape { var, .. }
            | Error::DType { var, .. }
            | Error::IdOutOfRange { var, .. }
            | Error::LabelOutOfRange { var, .. }
            | Error::BadValue { var, .. }
            | Error::NoLod { var, .. }
            | Error::LodLevels { var, .. }
            | Error::LossShape { var, .. }
            | Error::LossNotComputed { var }
            | Error::LossInBlock { var }
            | Error::TargetNotComputed { var }
            | Error::NotFinite { var, .. } => Some(var),
            _ => None,
        }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
