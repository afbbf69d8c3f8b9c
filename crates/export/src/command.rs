//! `paddlewheel show`, `export` and `import`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tensor::DidYouMean;

use crate::contents::{Contents, HeldForm, HeldVar};
use crate::error::{Error, Result};
use crate::import::import_rows;
use crate::onnx::{OnnxModel, OnnxOptions};
use crate::output::NewOutput;
use crate::parquet::{write_one, write_parquet};
use crate::safetensors::write_safetensors;
use crate::show::{picture, text};
use std::io::Write;

const SHOW: &str = "usage: paddlewheel show DIR [--svg FILE [--force]]
says what a save wrote into DIR: variables, rows, bytes, saves, and its program; DIR may also be the prefix of
fluid.save, a folder of checkpoints, or the folder of launch_ps --snapshot_dir. --svg draws the program.";
const EXPORT: &str = "usage: paddlewheel export DIR --to onnx|safetensors|parquet [-o OUT] [options]
writes what DIR holds into OUT, which is DIR with another ending if it is not given. --force replaces what is there.
  --table NAME            only this variable (safetensors, parquet: OUT is one file)
  --one-id                every sequence has exactly one id (onnx)
  --table-bytes-max N     tables larger than this are inputs of the graph (onnx; 1073741824 if not given)";
const IMPORT: &str = "usage: paddlewheel import DIR TABLE FILE
puts the rows of FILE (.parquet or .safetensors) into a table of DIR. Rows that are not there yet are added, if
DIR keeps only the rows that exist.";

/// What a folder can be exported to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// An inference model, for onnxruntime and others.
    Onnx,
    /// All variables in one file.
    Safetensors,
    /// A file for each variable, in a folder.
    Parquet,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [ExportFormat; 3] =
        [ExportFormat::Onnx, ExportFormat::Safetensors, ExportFormat::Parquet];

    /// Its name, which is also the ending of its files.
    pub fn name(self) -> &'static str {
        match self {
            ExportFormat::Onnx => "onnx",
            ExportFormat::Safetensors => "safetensors",
            ExportFormat::Parquet => "parquet",
        }
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|format| format.name() == name);
        known.ok_or_else(|| Error::UnknownFormat {
            found: name.to_string(),
            near: DidYouMean::among(name, Self::ALL.iter().map(|format| format.name())),
        })
    }
}

/// How a folder is exported.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportOptions {
    /// To what.
    pub format: ExportFormat,
    /// Where to; beside the folder if it is not said.
    pub out: Option<PathBuf>,
    /// Replaces what is there.
    pub force: bool,
    /// Only this variable.
    pub table: Option<String>,
    /// Of ONNX files.
    pub onnx: OnnxOptions,
}

impl ExportOptions {
    /// To this format, nothing else said.
    pub fn new(format: ExportFormat) -> Self {
        let (out, force, table, onnx) = (None, false, None, OnnxOptions::default());
        Self { format, out, force, table, onnx }
    }
}

/// What an export wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Where it is.
    pub path: PathBuf,
    /// What it is, for people.
    pub text: String,
}

/// Writes what a folder holds in another format.
///
/// ```
/// use export::{ExportFormat, ExportOptions, export, text};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use program::Net;
/// # use program::layers::{self, Data, Fc};
/// # use train::io::{SaveInference, save_inference_model};
/// # use train::{Executor, Feed, Scope};
/// # let mut net = Net::with_seed(1);
/// # let b = &mut net.builder();
/// # let x = layers::data(b, "x", &[2], Data::default())?;
/// # let out = layers::fc(b, &[x], 1, Fc::default())?;
/// # let scope = Scope::new();
/// # Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[])?;
/// # let dir = tempfile::tempdir()?;
/// # let (feeds, targets) = (["x"], [out.name()]);
/// # let what = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
/// # save_inference_model(&scope, dir.path(), &net.main, &what)?;
/// // `dir` has a model that was saved.
/// println!("{}", text(dir.path())?);
/// let out = dir.path().with_extension("onnx");
/// let options = ExportOptions { out: Some(out), ..ExportOptions::new(ExportFormat::Onnx) };
/// let exported = export(dir.path(), &options)?;
/// assert!(exported.path.exists());
/// # std::fs::remove_file(exported.path)?;
/// # Ok(()) }
/// ```
pub fn export(dir: &Path, options: &ExportOptions) -> Result<Exported> {
    let path = options.out.clone().unwrap_or_else(|| beside(dir, options.format));
    // Nothing is read for a file that may not be written.
    NewOutput::new(&path, options.force)?;
    let _phase = count::Phase::begin("exporting", "bytes");
    let contents = Contents::read(dir)?;
    if options.format == ExportFormat::Onnx {
        return export_onnx(&contents, options, path);
    }
    let vars = chosen(&contents, dir, options.table.as_deref())?;
    match (options.format, options.table.is_some()) {
        (ExportFormat::Parquet, true) => write_one(&contents, vars[0], &path, options.force)?,
        (ExportFormat::Parquet, false) => write_parquet(&contents, &vars, &path, options.force)?,
        _ => write_safetensors(&contents, &vars, &path, options.force)?,
    }
    let end = if vars.len() == 1 { "" } else { "s" };
    let text = format!("{}: {} variable{end}", path.display(), vars.len());
    Ok(Exported { path, text })
}

fn export_onnx(contents: &Contents, options: &ExportOptions, path: PathBuf) -> Result<Exported> {
    if options.table.is_some() {
        return Err(Error::Usage("--table is for safetensors and parquet".to_string()));
    }
    let model = OnnxModel::new(contents, &options.onnx)?;
    NewOutput::new(&path, options.force)?.file(|file| model.write(file))?;
    let mut text = format!(
        "{}: {} operations, inputs {}",
        path.display(),
        model.n_nodes(),
        model.inputs().join(", ")
    );
    for (input, what) in model.looked_up() {
        text.push_str(&format!("\n{input} is {what}"));
    }
    Ok(Exported { path, text })
}

/// The variables to export: one, or all that are not the business of entry rules.
fn chosen<'a>(contents: &'a Contents, dir: &Path, table: Option<&str>) -> Result<Vec<&'a HeldVar>> {
    let Some(table) = table else {
        let is_plain = |var: &&HeldVar| !matches!(var.form, HeldForm::Waiting(_));
        let vars: Vec<_> = contents.vars.iter().filter(is_plain).collect();
        return match vars.is_empty() {
            true => Err(Error::NothingSaved { path: dir.to_path_buf() }),
            false => Ok(vars),
        };
    };
    let near = || DidYouMean::among(table, contents.vars.iter().map(|var| var.name.as_str()));
    let no_table =
        || Error::NoTable { path: dir.to_path_buf(), table: table.to_string(), near: near() };
    contents.var(table).map(|var| vec![var]).ok_or_else(no_table)
}

/// `DIR.onnx` beside `DIR`.
fn beside(dir: &Path, format: ExportFormat) -> PathBuf {
    let mut name: OsString = dir.components().as_path().into();
    name.push(".");
    name.push(format.name());
    PathBuf::from(name)
}

/// Runs a command with its arguments; returns what to print.
pub fn run(arguments: &[String]) -> Result<String> {
    let (command, rest) = arguments.split_first().ok_or_else(|| Error::Usage(SHOW.to_string()))?;
    let usage = match command.as_str() {
        "export" => EXPORT,
        "import" => IMPORT,
        _ => SHOW,
    };
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(format!("{usage}\n"));
    }
    let given = GivenWords::new(rest, usage)?;
    match command.as_str() {
        "export" => run_export(&given),
        "import" => run_import(&given),
        _ => run_show(&given),
    }
}

fn run_show(given: &GivenWords<'_>) -> Result<String> {
    given.only(&["--svg", "--force"])?;
    let dir = given.one()?;
    let Some(svg) = given.value("--svg") else { return text(dir) };
    let output = NewOutput::new(Path::new(svg), given.has("--force"))?;
    let drawn = picture(dir)?;
    output.file(|file| file.write_all(drawn.as_bytes()))?;
    Ok(format!("{svg}\n"))
}

fn run_export(given: &GivenWords<'_>) -> Result<String> {
    given.only(&["--to", "-o", "--force", "--table", "--one-id", "--table-bytes-max"])?;
    let dir = given.one()?;
    let format = given.value("--to").ok_or_else(|| given.wrong("--to is missing"))?;
    let mut options = ExportOptions::new(ExportFormat::from_name(format)?);
    options.out = given.value("-o").map(PathBuf::from);
    options.force = given.has("--force");
    options.table = given.value("--table").map(str::to_string);
    options.onnx.one_id = given.has("--one-id");
    if let Some(max) = given.value("--table-bytes-max") {
        let wrong = || given.wrong("--table-bytes-max is no number of bytes");
        options.onnx.table_bytes_max = max.parse().map_err(|_| wrong())?;
    }
    Ok(format!("{}\n", export(dir, &options)?.text))
}

fn run_import(given: &GivenWords<'_>) -> Result<String> {
    given.only(&[])?;
    let [dir, table, file] = given.plain[..] else {
        return Err(given.wrong("a folder, a table and a file are needed"));
    };
    let imported = import_rows(Path::new(dir), table, Path::new(file))?;
    let (replaced, added) = (imported.replaced, imported.added);
    Ok(format!("{table}: {replaced} rows replaced, {added} added\n"))
}

/// The arguments of a command.
struct GivenWords<'a> {
    usage: &'static str,
    plain: Vec<&'a str>,
    options: Vec<(&'a str, Option<&'a str>)>,
}

/// ExportOptions without a value.
const SWITCHES: [&str; 2] = ["--force", "--one-id"];

impl<'a> GivenWords<'a> {
    fn new(arguments: &'a [String], usage: &'static str) -> Result<Self> {
        let mut given = Self { usage, plain: Vec::new(), options: Vec::new() };
        let mut rest = arguments.iter().map(String::as_str);
        while let Some(argument) = rest.next() {
            if !argument.starts_with('-') || argument == "-" {
                given.plain.push(argument);
                continue;
            }
            match argument.split_once('=') {
                Some((name, value)) => given.options.push((name, Some(value))),
                None if SWITCHES.contains(&argument) => given.options.push((argument, None)),
                None => {
                    let value = rest.next();
                    let missing = || given.wrong(&format!("{argument} needs a value"));
                    let value = value.ok_or_else(missing)?;
                    given.options.push((argument, Some(value)));
                }
            }
        }
        Ok(given)
    }

    fn wrong(&self, problem: &str) -> Error {
        Error::Usage(format!("{problem}\n{}", self.usage))
    }

    fn only(&self, known: &[&str]) -> Result<()> {
        match self.options.iter().find(|(name, _)| !known.contains(name)) {
            Some((name, _)) => Err(self.wrong(&format!("there is no option {name}"))),
            None => Ok(()),
        }
    }

    fn one(&self) -> Result<&'a Path> {
        match self.plain[..] {
            [dir] => Ok(Path::new(dir)),
            [] => Err(self.wrong("a folder is needed")),
            _ => Err(self.wrong("one folder at a time")),
        }
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.options.iter().rev().find(|(given, _)| *given == name).and_then(|(_, value)| *value)
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(given, _)| *given == name)
    }
}
