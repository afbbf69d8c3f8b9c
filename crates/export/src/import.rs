//! Rows from a file into a table of a folder or of a scope.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use base::DidYouMean;
use metrics::Phase;
use program::distributed::server_of;
use program::stream;
use tensor::{Rows, Value};
use train::Scope;
use train::folder::{About, SavedPart, SavedVar, Transaction};

use crate::contents::{Contents, HeldForm, HeldVar};
use crate::error::{Error, Result};
use crate::new_rows::{ImportTarget, Imported, NewRows};
use crate::parquet::parquet_rows;
use crate::safetensors::safetensors_rows;

/// Folder of the parts of tables.
const TABLES: &str = "__lookup_table__/";

/// Reads a file of either format, by its ending.
pub fn read_rows(path: &Path, table: &str) -> Result<NewRows> {
    match path.extension().and_then(|end| end.to_str()) {
        Some("safetensors") => safetensors_rows(path, table),
        Some("parquet") => parquet_rows(path),
        _ => {
            let problem = "its name should end in .parquet or .safetensors".to_string();
            Err(Error::BadFile { path: path.to_path_buf(), problem })
        }
    }
}

/// The size of a file; one that cannot be asked says so when it is read.
fn size_of(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |about| about.len())
}

/// Reads rows from a Parquet or safetensors file into a table of a saved folder. The folder is changed as by
/// a save: all of it, or nothing.
///
/// ```
/// use export::{ExportFormat, ExportOptions, export, import_rows};
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
/// // The rows of a variable leave the folder, are changed elsewhere, and come back.
/// let out = dir.path().with_extension("parquet");
/// let options = ExportOptions {
///     out: Some(out),
///     table: Some("fc_0.w_0".to_string()),
///     ..ExportOptions::new(ExportFormat::Parquet)
/// };
/// let rows = export(dir.path(), &options)?.path;
/// assert_eq!(import_rows(dir.path(), "fc_0.w_0", &rows)?.replaced, 2);
/// # std::fs::remove_file(rows)?;
/// # Ok(()) }
/// ```
pub fn import_rows(dir: &Path, table: &str, file: &Path) -> Result<Imported> {
    let contents = Contents::read_in(dir, Phase::begin("importing", "bytes"))?;
    let near = || DidYouMean::among(table, contents.vars.iter().map(|var| var.name.as_str()));
    let var = contents.var(table).ok_or_else(|| Error::NoTable {
        path: dir.to_path_buf(),
        table: table.to_string(),
        near: near(),
    })?;
    let target = ImportTarget { table, dims: var.dims.clone(), dtype: var.dtype };
    if target.dims.len() != 2 || matches!(var.form, HeldForm::Waiting(_)) {
        let path = dir.to_path_buf();
        let table = table.to_string();
        let dims = target.dims;
        return Err(Error::NotATable { path, table, dims });
    }
    let n_new = size_of(file);
    contents.expect(n_new + var.n_bytes);
    let rows = read_rows(file, table)?;
    contents.done(n_new);
    rows.fits(&target)?;
    let (value, imported) = match contents.value(var)? {
        Value::Rows(old) if var.files[0].starts_with(TABLES) => {
            check_states(&contents, var, &rows, &old)?;
            return save_parts(&contents, var, &rows, &old);
        }
        Value::Rows(old) => {
            let (merged, imported) = rows.merge(&old)?;
            (Value::Rows(merged), imported)
        }
        Value::Tensor(mut tensor) => {
            let imported = rows.put(&mut tensor);
            (Value::Tensor(tensor), imported)
        }
        _ => {
            let (path, table) = (dir.to_path_buf(), table.to_string());
            return Err(Error::NotReplaceable { path, table });
        }
    };
    save(&contents, var, &value)?;
    Ok(imported)
}

/// The states of an optimizer have the rows of their table, and the initial states of new rows are not
/// known.
fn check_states(contents: &Contents, var: &HeldVar, rows: &NewRows, old: &Rows) -> Result<()> {
    let prefix = format!("{}_", var.name);
    let is_state = |other: &&HeldVar| {
        matches!(other.form, HeldForm::Rows(_)) && other.name.starts_with(&prefix)
    };
    let Some(state) = contents.vars.iter().find(is_state) else { return Ok(()) };
    // Rows of a folder are in order of their ids.
    let is_new = |id: &&i64| old.ids.binary_search(id).is_err();
    match rows.ids.iter().find(is_new) {
        Some(&id) => {
            let (path, table) = (rows.path.clone(), var.name.clone());
            Err(Error::StateLacksRow { path, table, state: state.name.clone(), id })
        }
        None => Ok(()),
    }
}

/// Writes the new value of a variable where the old one is.
fn save(contents: &Contents, var: &HeldVar, value: &Value) -> Result<()> {
    let file = &var.files[0];
    if file.ends_with(".pdparams") || file.ends_with(".pdopt") {
        let (path, table) = (contents.dir().join(file), var.name.clone());
        return Err(Error::NotReplaceable { path, table });
    }
    let transaction = Transaction::begin(contents.dir())?;
    let mut writer = transaction.create(file)?;
    for other in contents.beside(var) {
        let (name, dtype) = (other.name.clone(), other.dtype);
        writer.holds(SavedVar { name, dtype, dims: other.dims.clone() });
        let bytes = if other.name == var.name {
            stream::to_bytes(value)
        } else {
            stream::to_bytes(&contents.value(other)?)
        };
        let bytes = bytes.unwrap_or_default();
        writer.write_all(&bytes).map_err(|source| writer.failed(source))?;
    }
    writer.finish()?;
    Ok(transaction.commit(about(contents))?)
}

fn about(contents: &Contents) -> About {
    let about = contents.saves.last().cloned().unwrap_or_default();
    About { kind: "import".to_string(), ..about }
}

/// Writes the parts of a table again, each with its rows: facts about a part stay true.
fn save_parts(contents: &Contents, var: &HeldVar, rows: &NewRows, old: &Rows) -> Result<Imported> {
    let (n, by_hash) = (var.files.len(), contents.is_spread_by_hash(var)?);
    let home = |id: i64| match by_hash {
        _ if n == 1 => Some(0),
        true => Some(server_of(id, n)),
        false => None,
    };
    let is_new = |id: i64| old.ids.binary_search(&id).is_err();
    if let Some(&id) = rows.ids.iter().find(|&&id| is_new(id) && home(id).is_none()) {
        let (path, table) = (rows.path.clone(), var.name.clone());
        return Err(Error::NoPart { path, table, id, n });
    }
    let transaction = Transaction::begin(contents.dir())?;
    let mut imported = Imported { replaced: 0, added: 0 };
    for file in &var.files {
        let number = part_number(file);
        let part = contents.part(file)?;
        let of_part: BTreeSet<i64> = part.ids.iter().copied().collect();
        let is_own = |id: i64| of_part.contains(&id) || is_new(id) && home(id) == Some(number);
        let own: Vec<usize> = (0..rows.ids.len()).filter(|&at| is_own(rows.ids[at])).collect();
        let (mut merged, done) = rows.only(&own)?.merge(&part)?;
        merged.height = part.height;
        imported.replaced += done.replaced;
        imported.added += done.added;
        let mut writer = transaction.create(file)?;
        writer.is_part(SavedPart { var: var.name.clone(), number, n });
        let dims = var.dims.clone();
        writer.holds(SavedVar { name: var.name.clone(), dtype: var.dtype, dims });
        let head = stream::head_of_rows(&merged);
        let written = writer.write_all(&head).and_then(|()| writer.write_all(merged.value.bytes()));
        written.map_err(|source| writer.failed(source))?;
        writer.finish()?;
    }
    transaction.commit(about(contents))?;
    Ok(imported)
}

/// The number in the name of a part: `<table>_<number>of<n>` or `<table>_<number>`.
fn part_number(file: &str) -> usize {
    let end = file.rsplit_once('_').map_or("", |(_, end)| end);
    let digits = end.split_once("of").map_or(end, |(number, _)| number);
    digits.parse().unwrap_or(0)
}

/// Reads rows from a Parquet or safetensors file into a table of a scope.
pub fn import_rows_into_scope(scope: &Scope, table: &str, file: &Path) -> Result<Imported> {
    let phase = Phase::begin("importing", "bytes");
    let n_new = size_of(file);
    // Reading the file is about half of it.
    phase.set_total(2 * n_new);
    let names = scope.names();
    let not_there = || Error::NotInScope {
        table: table.to_string(),
        near: DidYouMean::among(table, names.iter().map(String::as_str)),
    };
    let mut value = scope.get(table).ok_or_else(not_there)?;
    value.unshare();
    let (dims, dtype) = match &value {
        Value::Rows(rows) => (vec![rows.height, rows.width() as i64], rows.value.dtype()),
        Value::Keyed(_) => return Err(Error::OnlyRead { table: table.to_string() }),
        other => {
            let tensor = other.tensor().ok_or_else(not_there)?;
            (tensor.shape().to_i64(), tensor.dtype())
        }
    };
    if dims.len() != 2 {
        let (path, table) = ("the scope".into(), table.to_string());
        return Err(Error::NotATable { path, table, dims });
    }
    let rows = read_rows(file, table)?;
    phase.add(n_new);
    rows.fits(&ImportTarget { table, dims, dtype })?;
    let imported = match &mut value {
        Value::Rows(old) => {
            let (merged, imported) = rows.merge(old)?;
            *old = merged;
            imported
        }
        Value::Tensor(tensor) => rows.put(tensor),
        _ => return Err(not_there()),
    };
    scope.set(table, value);
    Ok(imported)
}
