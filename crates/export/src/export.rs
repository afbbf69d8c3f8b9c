//! A folder in another format.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use base::DidYouMean;
use metrics::Phase;

use crate::contents::{Contents, HeldForm, HeldVar};
use crate::error::{Error, Result};
use crate::onnx::{OnnxModel, OnnxOptions};
use crate::output::NewOutput;
use crate::parquet::{write_one, write_parquet};
use crate::safetensors::write_safetensors;
use crate::show::picture;

/// The formats of an export.
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
    /// The format.
    pub format: ExportFormat,
    /// Where to; beside the folder if it is not said.
    pub out: Option<PathBuf>,
    /// Replaces an existing file or folder.
    pub force: bool,
    /// Only this variable.
    pub table: Option<String>,
    /// Of ONNX files.
    pub onnx: OnnxOptions,
}

impl ExportOptions {
    /// To this format, nothing else said.
    pub fn new(format: ExportFormat) -> Self {
        let out = None;
        let force = false;
        let table = None;
        let onnx = OnnxOptions::default();
        Self { format, out, force, table, onnx }
    }
}

/// The output of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Where it is.
    pub path: PathBuf,
    /// Its description, for people.
    pub text: String,
}

/// Writes the contents of a folder in another format.
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
    let contents = Contents::read_in(dir, Phase::begin("exporting", "bytes"))?;
    if options.format == ExportFormat::Onnx {
        contents.expect(contents.vars.iter().map(|var| 2 * var.n_bytes).sum());
        return export_onnx(&contents, options, path);
    }
    let vars = chosen(&contents, dir, options.table.as_deref())?;
    contents.expect(vars.iter().map(|var| 2 * var.n_bytes).sum());
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
        return if vars.is_empty() {
            Err(Error::NothingSaved { path: dir.to_path_buf() })
        } else {
            Ok(vars)
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

/// Draws the program that a folder holds into an SVG file.
pub fn draw(dir: &Path, svg: &Path, force: bool) -> Result<()> {
    // Nothing is drawn for a file that may not be written.
    let output = NewOutput::new(svg, force)?;
    let drawn = picture(dir)?;
    output.file(|file| file.write_all(drawn.as_bytes()))
}
