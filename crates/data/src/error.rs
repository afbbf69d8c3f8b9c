//! Errors on the way from a text file to a batch.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The result of operations of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an exchange failed, in the words of the code that connects trainers.
pub type ExchangeError = Box<dyn std::error::Error + Send + Sync>;

/// Characters of a bad line that an error shows.
pub(crate) const SHOWN_MAX: usize = 200;

/// Why data could not be read. Every variant names what the user can look at.
#[derive(thiserror::Error)]
pub enum Error {
    /// The dataset has no slots.
    #[error("the dataset has no slots: call set_use_var with the variables to be fed")]
    NoSlots,
    /// The dataset has no files.
    #[error("the dataset has no files: call set_filelist with at least one path")]
    NoFiles,
    /// Two slots of one name.
    #[error("slot `{slot}` is there twice: each variable is used once")]
    SlotTwice {
        /// The name.
        slot: String,
    },
    /// A dense slot of a shape that does not say how many values a sample has.
    #[error(
        "slot `{slot}` is dense with shape {shape:?}: at most one dimension may be -1 and none 0; \
         give the variable lod_level=1 if its length differs from sample to sample"
    )]
    DenseShape {
        /// The slot.
        slot: String,
        /// Its shape.
        shape: Vec<i64>,
    },
    /// A setting out of range.
    #[error("{setting} must be {expected}, not {found}")]
    BadSetting {
        /// Which setting.
        setting: &'static str,
        /// The values that it can have.
        expected: &'static str,
        /// Its value.
        found: String,
    },
    /// There is not enough memory for the input.
    #[error(
        "there is no memory for {what}: {} MB more were needed; use fewer rows or columns, or a machine with more \
         memory (a dataset and train_from_dataset read files piece by piece)", n_bytes.div_ceil(1_000_000)
    )]
    NoMemory {
        /// The purpose of the memory.
        what: &'static str,
        /// How much was asked for.
        n_bytes: usize,
    },
    /// A file that is not there or cannot be read.
    #[error("file `{file}` cannot be read: {source}")]
    ReadFile {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A name that says no place known here.
    #[error("`{file}` cannot be reached: {reason}")]
    BadAddress {
        /// The name.
        file: String,
        /// The reason.
        reason: String,
    },
    /// A pattern in a list of files that matches none.
    #[error("no file matches `{pattern}`")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },
    /// A store that could not be reached for as long as patience lasts.
    #[error(
        "`{file}` could not be read from byte {offset} on: {what} ({n_tries} tries; gave up after \
         {patience:?}, which set_remote_timeout changes)"
    )]
    Unreachable {
        /// The file.
        file: String,
        /// The first byte that is missing.
        offset: u64,
        /// How often it was tried.
        n_tries: u32,
        /// For how long.
        patience: Duration,
        /// The failure of the last try.
        what: String,
    },
    /// A store that answers, but not with the file.
    #[error("`{file}` cannot be used: {what}")]
    StoreRefused {
        /// The file.
        file: String,
        /// Its answer.
        what: String,
    },
    /// A store that has no such file.
    #[error("there is no `{file}`: {what}")]
    NotInStore {
        /// The file.
        file: String,
        /// The answer of the store.
        what: String,
    },
    /// A file that has changed.
    #[error(
        "`{file}` has changed while it was read: it was {was}, it is {is}; read it again from its beginning"
    )]
    FileChanged {
        /// The file.
        file: String,
        /// Its size and version before.
        was: String,
        /// Its size and version now.
        is: String,
    },
    /// A file that cannot be written.
    #[error("`{file}` cannot be written: {source}")]
    WriteFile {
        /// The file or folder.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A folder for a log in which something else lies.
    #[error(
        "`{name}` in `{folder}` is not part of the log to be written, and scripts that count files \
         would take it for one: remove it or choose another folder"
    )]
    ForeignFile {
        /// The folder.
        folder: String,
        /// The name of the file in it.
        name: String,
    },
    /// A line that is not as the slots say.
    #[error("{file}:{line}{}: {refusal}\nplease check this error line: {text}", through(.command))]
    BadLine {
        /// The file.
        file: String,
        /// The line, from 1, of the file or of the output of the command.
        line: u64,
        /// The pipe command it came through; empty if there is none.
        command: String,
        /// The reason.
        refusal: Refusal,
        /// The line, shortened.
        text: String,
    },
    /// A row that is not as the slots say.
    #[error("{file}, row {row}, column `{column}`{}: {refusal}", through(.command))]
    BadRow {
        /// The file.
        file: String,
        /// The row, from 1.
        row: u64,
        /// The column.
        column: String,
        /// The pipe command it came through; empty if there is none.
        command: String,
        /// The reason.
        refusal: Refusal,
    },
    /// A column that is not there or cannot be read.
    #[error("{file}, column `{column}`: {reason}")]
    BadColumn {
        /// The file.
        file: String,
        /// The column.
        column: String,
        /// The reason.
        reason: String,
    },
    /// A file that is not Parquet, or damaged.
    #[error("`{file}` cannot be read as Parquet: {reason}")]
    BadParquet {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// The values of a dense slot do not fill its shape.
    #[error("slot `{slot}` is dense with shape {shape:?}, which {found} values do not fill")]
    DenseFill {
        /// The slot.
        slot: String,
        /// Its shape.
        shape: Vec<i64>,
        /// The values of the batch.
        found: usize,
    },
    /// The shell could not be started.
    #[error("the shell for pipe command `{command}` could not be started: {source}")]
    StartPipe {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// A command that the shell does not find.
    #[error("pipe command `{command}` was not found (file `{file}`): {stderr}")]
    PipeMissing {
        /// The command.
        command: String,
        /// The file it should have read.
        file: String,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// A command that failed.
    #[error(
        "pipe command `{command}` failed on file `{file}` with {status}{}: {stderr}",
        ran(python)
    )]
    PipeFailed {
        /// The command.
        command: String,
        /// The file it read.
        file: String,
        /// Its exit code or signal.
        status: String,
        /// The program that `python` meant, if the command names it.
        python: Option<PathBuf>,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// A command that read a file with text in it and printed nothing.
    #[error(
        "pipe command `{command}` printed nothing for file `{file}`, which is not empty; does it \
         read standard input and write to standard output?"
    )]
    PipeSilent {
        /// The command.
        command: String,
        /// The file.
        file: String,
    },
    /// A command that neither prints nor ends.
    #[error(
        "pipe command `{command}` printed nothing for {waited:?} on file `{file}`; it was ended (one \
         that needs longer gets it by set_pipe_timeout)"
    )]
    PipeStalled {
        /// The command.
        command: String,
        /// The file it should read.
        file: String,
        /// For how long it was waited for.
        waited: Duration,
    },
    /// All files were read and there was no sample in them.
    #[error("no sample in any of {n_files} files (the first is `{first}`){}", through(.command))]
    NoRows {
        /// How many files.
        n_files: usize,
        /// One of them.
        first: String,
        /// The pipe command; empty if there is none.
        command: String,
    },
    /// More bad lines or files than the user wanted to bear.
    #[error("more than {max} bad lines or files; the last: {last}")]
    TooManySkipped {
        /// How many may be skipped.
        max: u64,
        /// The last one.
        last: Box<Error>,
    },
    /// A native reader given arguments it does not know.
    #[error("`{command}`: {reason}. `paddlewheel {command} --help` says more")]
    Usage {
        /// The command.
        command: &'static str,
        /// The reason.
        reason: String,
    },
    /// A native reader makes other slots than the dataset has.
    #[error("`{command}` makes {makes}, but the dataset has {has}")]
    NativeSlots {
        /// The command.
        command: String,
        /// The slots it makes.
        makes: String,
        /// The slots there are.
        has: String,
    },
    /// A generator prints a slot in another place than the dataset has it.
    #[error(
        "slot `{slot}` is number {made} of the generator's slots, but number {expected} of the \
         dataset's: slots are matched by position. The generator makes: {makes}; set_use_var has: {has}"
    )]
    SlotPlace {
        /// The slot.
        slot: String,
        /// Its number in the generator, from 1.
        made: usize,
        /// Its number in the dataset, from 1.
        expected: usize,
        /// The slots of the dataset.
        has: String,
        /// The slots of the generator.
        makes: String,
    },
    /// Data in memory was wanted before it was loaded.
    #[error("the dataset holds no data: call load_into_memory() first")]
    NotLoaded,
    /// An operation that only a dataset in memory has.
    #[error("QueueDataset does not support {what}, please use InMemoryDataset for {method}")]
    OnlyInMemory {
        /// The operation in words.
        what: &'static str,
        /// The method.
        method: &'static str,
    },
    /// A slot that is not there.
    #[error("there is no slot `{slot}`; there are: {slots}")]
    NoSuchSlot {
        /// The name.
        slot: String,
        /// The names there are.
        slots: String,
    },
    /// A text that is not a description of a dataset.
    #[error("{line}:{column} : {reason}")]
    BadDesc {
        /// The line, from 1.
        line: usize,
        /// The character of it, from 1.
        column: usize,
        /// The reason.
        reason: String,
    },
    /// A slot of another type than there are.
    #[error("slot `{slot}` is of type `{found}`: expected float or uint64")]
    SlotType {
        /// The slot.
        slot: String,
        /// Its type.
        found: String,
    },
    /// A description whose slots cannot be changed.
    #[error("Only MultiSlotDataFeed needs {method}, please check your datafeed.proto")]
    NotMultiSlot {
        /// The method.
        method: &'static str,
    },
    /// A shuffle of slots was asked for and not switched on.
    #[error("slots_shuffle needs set_fea_eval(record_candidate_size, True) before it")]
    NoFeatureEval,
    /// The other trainers could not be reached.
    #[error("samples could not be exchanged with the other trainers: {source}")]
    Exchange {
        /// The failure.
        source: ExchangeError,
    },
    /// Samples of another trainer that do not fit our slots.
    #[error("trainer {from} sent samples of other slots than ours; do all trainers use the same?")]
    ForeignSamples {
        /// Which trainer.
        from: usize,
    },
    /// Bytes that are not positions of readers.
    #[error("these are not positions of readers: {reason}")]
    BadPositions {
        /// The reason.
        reason: String,
    },
    /// A pass that was begun with other data than the dataset has now.
    #[error(
        "the pass was begun with another {about}: to continue in the middle of it, the script must set \
         up its datasets as it did before"
    )]
    OtherData {
        /// The setting that differs.
        about: &'static str,
    },
    /// A file that has fewer lines than were read of it before.
    #[error(
        "`{file}` has {found} lines or rows now, but {expected} of it were read before the pass was \
         interrupted: the pass cannot continue in a file that has changed"
    )]
    FileShorter {
        /// The file.
        file: String,
        /// Lines or rows that were read before.
        expected: u64,
        /// Lines or rows that the file has now.
        found: u64,
    },
    /// A file with the samples of a trainer that is damaged or of another shuffle.
    #[error("`{file}` cannot be read as the samples that this trainer has shuffled: {reason}")]
    BadShare {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// Samples of a shuffle are wanted whose file was removed.
    #[error(
        "the samples of this shuffle are gone: they were removed when a later shuffle took their place, \
         so the script does not repeat what it did before it was started again"
    )]
    ShareGone,
    /// Reading was stopped by its user.
    #[error("reading was stopped")]
    Stopped,
    /// A thread that reads is gone without a word.
    #[error("a reader thread ended unexpectedly")]
    ReaderLost,
    /// A tensor refused its numbers.
    #[error(transparent)]
    Tensor(#[from] tensor::Error),
}

/// Reads like `Display`: a `main` that returns it prints a sentence.
impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The error of reading a file; one of ours that came through a reader is itself.
pub(crate) fn of_read(file: &str, source: io::Error) -> Error {
    let file = file.to_string();
    match source.downcast::<Error>() {
        Ok(ours) => ours,
        Err(source) => Error::ReadFile { file, source },
    }
}

/// Which Python it was, if that is known.
fn ran(python: &Option<PathBuf>) -> String {
    python
        .as_ref()
        .map_or_else(String::new, |python| format!(" (`python` is {})", python.display()))
}

fn through(command: &str) -> String {
    if command.is_empty() { String::new() } else { format!(" (through `{command}`)") }
}

/// The reason why a line is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A slot begins with no number of values, or with 0.
    #[error(
        "slot `{slot}`: expected the number of values, 1 or more, found `{found}`. The number of \
         ids can not be zero, you need padding it in data generator; or if there is something \
         wrong with the data, please check if the data contains unresolvable characters."
    )]
    Count {
        /// The slot.
        slot: String,
        /// The text that was found.
        found: String,
    },
    /// The line ends before its slots do.
    #[error(
        "the line ends where slot `{slot}` should begin: expected {expected} slots, found {found}"
    )]
    TooFewSlots {
        /// The first slot that is missing.
        slot: String,
        /// How many slots there should be.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// The line ends within a slot.
    #[error("slot `{slot}`: expected {expected} values, the line ends after {found}")]
    TooFewValues {
        /// The slot.
        slot: String,
        /// How many values were announced.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A value that is not a number of its kind.
    #[error("slot `{slot}`, value {position}: expected {expected}, found `{found}`")]
    Value {
        /// The slot.
        slot: String,
        /// Which value, from 1.
        position: usize,
        /// The kind of value that the slot needs.
        expected: &'static str,
        /// The text that was found.
        found: String,
    },
    /// An id that 64 bits do not hold.
    #[error("slot `{slot}`, value {position}: id {found} is beyond 2^64 - 1")]
    IdTooLarge {
        /// The slot.
        slot: String,
        /// Which value, from 1.
        position: usize,
        /// The id.
        found: String,
    },
    /// A dense slot with another number of values than its shape says.
    #[error(
        "slot `{slot}` is dense: expected {expected} values, found {found}; give the variable \
         lod_level=1 if their number differs from sample to sample"
    )]
    DenseCount {
        /// The slot.
        slot: String,
        /// The number of values of its shape.
        expected: usize,
        /// The number of values in the line.
        found: usize,
    },
    /// Text behind the last slot.
    #[error("expected the end of the line after {n_slots} slots, found `{found}`")]
    Trailing {
        /// How many slots there are.
        n_slots: usize,
        /// The first word too many.
        found: String,
    },
    /// A line with another number of fields than the format has.
    #[error("expected {expected} fields separated by {separator}, found {found}")]
    Fields {
        /// How many there should be.
        expected: usize,
        /// How many there are.
        found: usize,
        /// The separator of fields.
        separator: String,
    },
    /// A cell of a table that is not what its slot holds.
    #[error("slot `{slot}`, column `{column}`: expected {expected}, found `{found}`")]
    Cell {
        /// The slot.
        slot: String,
        /// The column.
        column: String,
        /// The kind of value that the slot needs.
        expected: &'static str,
        /// The text that was found.
        found: String,
    },
    /// A cell of a table with nothing in it.
    #[error(
        "column `{column}` is empty here; na=VALUE, for example na=0, says what an empty cell stands \
         for"
    )]
    EmptyCell {
        /// The column.
        column: String,
    },
    /// An id below 0.
    #[error("column `{column}`: id {found} is below 0")]
    NegativeId {
        /// The column.
        column: String,
        /// The id.
        found: String,
    },
    /// A quotation mark that is not closed.
    #[error("a quotation mark is not closed on its line")]
    OpenQuote,
    /// A column that the header of a file does not have.
    #[error("the header has no column `{column}`; it has: {columns}")]
    NoColumn {
        /// The column.
        column: String,
        /// Those there are.
        columns: String,
    },
    /// A line that never ends.
    #[error("the line is longer than {max} bytes")]
    TooLong {
        /// How long a line may be.
        max: usize,
    },
}

/// Text of a user, shortened for a message.
pub(crate) fn shown(text: &[u8]) -> String {
    let cut = &text[..text.len().min(SHOWN_MAX)];
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", String::from_utf8_lossy(cut).trim_end())
}
