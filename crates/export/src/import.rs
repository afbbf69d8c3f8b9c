//! Rows from a file into a table of a folder or of a scope.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use program::stream;
use tensor::{DidYouMean, Rows, Shape, Tensor, Value};
use train::Scope;
use train::folder::{About, SavedPart, SavedVar, Transaction};

use crate::contents::{Contents, HeldForm, HeldVar};
use crate::error::{Error, Result};
use crate::parquet::parquet_rows;
use crate::safetensors::safetensors_rows;

/// Rows that were read from a file, each id once.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRows {
    /// The file.
    pub path: PathBuf,
    /// The ids, in the order of the file.
    pub ids: Vec<i64>,
    /// A row for each id.
    pub value: Tensor,
}

/// What an import did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Rows that were there and have new numbers.
    pub replaced: usize,
    /// Rows that were not there.
    pub added: usize,
}

/// Where rows go to.
struct Target<'a> {
    table: &'a str,
    dims: Vec<i64>,
    dtype: tensor::DType,
}

impl NewRows {
    /// Checks that there is a row for each id, and that no id is there twice.
    pub(crate) fn new(path: &Path, ids: Vec<i64>, value: Tensor) -> Result<Self> {
        let path = path.to_path_buf();
        let n_rows = value.dims().first().copied().unwrap_or(0);
        if n_rows != ids.len() || value.dims().len() != 2 {
            let (n, dims) = (ids.len(), value.dims());
            let problem = format!("it has {n} ids, and rows of the shape {dims:?}");
            return Err(Error::BadFile { path, problem });
        }
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::IdTwice { path, id: pair[0] }),
            None => Ok(Self { path, ids, value }),
        }
    }

    /// Reads a file of either format, by its ending.
    pub fn read(path: &Path, table: &str) -> Result<Self> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("safetensors") => safetensors_rows(path, table),
            Some("parquet") => parquet_rows(path),
            _ => {
                let problem = "its name should end in .parquet or .safetensors".to_string();
                Err(Error::BadFile { path: path.to_path_buf(), problem })
            }
        }
    }

    fn fits(&self, target: &Target<'_>) -> Result<()> {
        let (path, table) = (self.path.clone(), target.table.to_string());
        let (height, width) = (target.dims[0], target.dims[1] as usize);
        let (found, dtype) = (self.value.dims()[1], self.value.dtype());
        if found != width {
            return Err(Error::RowWidth { path, table, expected: width, found });
        }
        if dtype != target.dtype {
            return Err(Error::RowType { path, table, expected: target.dtype, found: dtype });
        }
        match self.ids.iter().find(|&&id| id < 0 || id >= height) {
            Some(&id) => Err(Error::IdRange { path, table, id, height }),
            None => Ok(()),
        }
    }

    fn row(&self, at: usize) -> &[u8] {
        let n_bytes = self.value.dims()[1] * self.value.dtype().size();
        &self.value.bytes()[at * n_bytes..(at + 1) * n_bytes]
    }

    /// Puts the rows into a whole table.
    fn put(&self, tensor: &mut Tensor) -> Imported {
        let n_bytes = self.value.dims()[1] * self.value.dtype().size();
        let bytes = tensor.bytes_mut();
        for (at, &id) in self.ids.iter().enumerate() {
            let first = id as usize * n_bytes;
            bytes[first..first + n_bytes].copy_from_slice(self.row(at));
        }
        Imported { replaced: self.ids.len(), added: 0 }
    }

    /// Puts the rows among others. The result is in order of the ids.
    fn merge(&self, old: &Rows) -> Result<(Rows, Imported)> {
        let n_bytes = self.value.dims()[1] * self.value.dtype().size();
        let old_row = |at: usize| &old.value.bytes()[at * n_bytes..(at + 1) * n_bytes];
        let mut rows: BTreeMap<i64, &[u8]> =
            old.ids.iter().enumerate().map(|(at, &id)| (id, old_row(at))).collect();
        let n_old = rows.len();
        rows.extend(self.ids.iter().enumerate().map(|(at, &id)| (id, self.row(at))));
        let added = rows.len() - n_old;
        let mut value = Tensor::default();
        let shape = Shape::from([rows.len(), self.value.dims()[1]]);
        value.try_resize_as(self.value.dtype(), shape)?;
        let places = value.bytes_mut().chunks_exact_mut(n_bytes.max(1));
        places.zip(rows.values()).for_each(|(to, from)| to.copy_from_slice(from));
        let ids = rows.into_keys().collect();
        let imported = Imported { replaced: self.ids.len() - added, added };
        Ok((Rows { ids, height: old.height, value }, imported))
    }
}

/// Reads rows from a Parquet or safetensors file into a table of a saved folder. The folder is changed as by
/// a save: all of it, or nothing.
pub fn import_rows(dir: &Path, table: &str, file: &Path) -> Result<Imported> {
    let contents = Contents::read(dir)?;
    let near = || DidYouMean::among(table, contents.vars.iter().map(|var| var.name.as_str()));
    let var = contents.var(table).ok_or_else(|| Error::NoTable {
        path: dir.to_path_buf(),
        table: table.to_string(),
        near: near(),
    })?;
    let target = Target { table, dims: var.dims.clone(), dtype: var.dtype };
    if target.dims.len() != 2 || matches!(var.form, HeldForm::Waiting(_)) {
        let (path, table, dims) = (dir.to_path_buf(), table.to_string(), target.dims);
        return Err(Error::NotATable { path, table, dims });
    }
    let rows = NewRows::read(file, table)?;
    rows.fits(&target)?;
    let (value, imported) = match contents.value(var)? {
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

/// Writes the new value of a variable where the old one is.
fn save(contents: &Contents, var: &HeldVar, value: &Value) -> Result<()> {
    let file = &var.files[0];
    if file.ends_with(".pdparams") || file.ends_with(".pdopt") {
        let (path, table) = (contents.dir().join(file), var.name.clone());
        return Err(Error::NotReplaceable { path, table });
    }
    let transaction = Transaction::begin(contents.dir())?;
    let about = contents.saves.last().cloned().unwrap_or_default();
    let about = About { kind: "import".to_string(), ..about };
    match value {
        Value::Rows(rows) if file.starts_with("__lookup_table__/") => {
            save_part(&transaction, var, rows)?;
        }
        _ => {
            let mut writer = transaction.create(file)?;
            for other in contents.beside(var) {
                let (name, dtype) = (other.name.clone(), other.dtype);
                writer.holds(SavedVar { name, dtype, dims: other.dims.clone() });
                let bytes = match other.name == var.name {
                    true => stream::to_bytes(value),
                    false => stream::to_bytes(&contents.value(other)?),
                };
                let bytes = bytes.unwrap_or_default();
                writer.write_all(&bytes).map_err(|source| writer.failed(source))?;
            }
            writer.finish()?;
        }
    }
    Ok(transaction.commit(about)?)
}

/// All rows are one part. Servers of any number load it.
fn save_part(transaction: &Transaction, var: &HeldVar, rows: &Rows) -> Result<()> {
    let name = format!("__lookup_table__/{}", var.name);
    transaction.write(&format!("{name}_parts"), b"1")?;
    let mut writer = transaction.create(&format!("{name}_0of1"))?;
    writer.is_part(SavedPart { var: var.name.clone(), number: 0, n: 1 });
    let dims = var.dims.clone();
    writer.holds(SavedVar { name: var.name.clone(), dtype: var.dtype, dims });
    let head = stream::head_of_rows(rows);
    let written = writer.write_all(&head).and_then(|()| writer.write_all(rows.value.bytes()));
    written.map_err(|source| writer.failed(source))?;
    Ok(writer.finish()?)
}

/// Reads rows from a Parquet or safetensors file into a table of a scope.
pub fn import_rows_into_scope(scope: &Scope, table: &str, file: &Path) -> Result<Imported> {
    let names = scope.names();
    let not_there = || Error::NotInScope {
        table: table.to_string(),
        near: DidYouMean::among(table, names.iter().map(String::as_str)),
    };
    let mut value = scope.get(table).ok_or_else(not_there)?;
    value.unshare();
    let (dims, dtype) = match &value {
        Value::Rows(rows) => (vec![rows.height, rows.width() as i64], rows.value.dtype()),
        other => {
            let tensor = other.tensor().ok_or_else(not_there)?;
            (tensor.shape().to_i64(), tensor.dtype())
        }
    };
    if dims.len() != 2 {
        let (path, table) = ("the scope".into(), table.to_string());
        return Err(Error::NotATable { path, table, dims });
    }
    let rows = NewRows::read(file, table)?;
    rows.fits(&Target { table, dims, dtype })?;
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
