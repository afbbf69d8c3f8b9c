//! Variables as a safetensors file: the length of a JSON text, the text, and the numbers.
//!
//! A table of which only some rows exist is two tensors: `<table>.ids` and `<table>.rows`.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use tensor::{DType, Shape, Tensor, Value};

use crate::contents::{Contents, HeldForm, HeldVar};
use crate::error::{Error, Result};
use crate::new_rows::NewRows;
use crate::output::{NewOutput, failed};

/// Suffixes of the two tensors of a table by rows.
const IDS: &str = ".ids";
const ROWS: &str = ".rows";
/// The text is as long as a multiple of this, so that numbers are where processors like them.
const ALIGNED: usize = 8;
/// Longer texts are refused by every reader.
const HEAD_BYTES_MAX: u64 = 100_000_000;

const NAMES: [(DType, &str); 9] = [
    (DType::Bool, "BOOL"),
    (DType::I16, "I16"),
    (DType::I32, "I32"),
    (DType::I64, "I64"),
    (DType::F16, "F16"),
    (DType::F32, "F32"),
    (DType::F64, "F64"),
    (DType::U8, "U8"),
    (DType::I8, "I8"),
];

fn type_name(dtype: DType) -> &'static str {
    NAMES.iter().find(|entry| entry.0 == dtype).expect("the table lists every type").1
}

/// The text of a file, while tensors are listed.
#[derive(Default)]
struct TensorList {
    entries: Map<String, Json>,
    n_bytes: u64,
}

impl TensorList {
    fn add(&mut self, name: &str, dtype: DType, dims: &[u64]) -> Result<()> {
        let n_bytes = dims.iter().product::<u64>() * dtype.size() as u64;
        let (begin, end) = (self.n_bytes, self.n_bytes + n_bytes);
        let entry = json!({"dtype": type_name(dtype), "shape": dims, "data_offsets": [begin, end]});
        self.n_bytes = end;
        match self.entries.insert(name.to_string(), entry) {
            None => Ok(()),
            Some(_) => Err(Error::Usage(format!(
                "two tensors of the file would be called `{name}`: export one table at a time with --table"
            ))),
        }
    }

    fn add_var(&mut self, var: &HeldVar) -> Result<()> {
        let size = |dim: &i64| dim.unsigned_abs();
        match var.form {
            HeldForm::Dense => {
                self.add(&var.name, var.dtype, &var.dims.iter().map(size).collect::<Vec<_>>())
            }
            HeldForm::Rows(n) | HeldForm::Waiting(n) => {
                self.add(&format!("{}{IDS}", var.name), DType::I64, &[n])?;
                let width = var.dims.get(1..).unwrap_or_default().iter().map(size).product();
                self.add(&format!("{}{ROWS}", var.name), var.dtype, &[n, width])
            }
        }
    }

    /// The length and the text, padded.
    fn bytes(mut self, vars: &[&HeldVar]) -> Vec<u8> {
        let mut facts = Map::new();
        facts.insert("format".to_string(), json!("paddlewheel"));
        for var in vars.iter().filter(|var| var.form != HeldForm::Dense) {
            let height = var.dims.first().copied().unwrap_or(0);
            facts.insert(format!("{}.height", var.name), json!(height.to_string()));
        }
        self.entries.insert("__metadata__".to_string(), Json::Object(facts));
        let mut text = Json::Object(self.entries).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(ALIGNED), b' ');
        [&(text.len() as u64).to_le_bytes()[..], &text].concat()
    }
}

/// Writes variables into one file.
pub fn write_safetensors(
    contents: &Contents,
    vars: &[&HeldVar],
    path: &Path,
    force: bool,
) -> Result<()> {
    let output = NewOutput::new(path, force)?;
    let mut head = TensorList::default();
    vars.iter().try_for_each(|var| head.add_var(var))?;
    let head = head.bytes(vars);
    output.file_of(|file| {
        let unwritten = |source| failed(path, source);
        file.write_all(&head).map_err(unwritten)?;
        for var in vars {
            write_value(file, &contents.value(var)?).map_err(unwritten)?;
            contents.done(var.n_bytes);
        }
        Ok(())
    })
}

fn write_value(file: &mut impl Write, value: &Value) -> io::Result<()> {
    match value {
        Value::Rows(rows) => {
            for id in &rows.ids {
                file.write_all(&id.to_le_bytes())?;
            }
            file.write_all(rows.value.bytes())
        }
        other => file.write_all(other.tensor().map_or(&[], Tensor::bytes)),
    }
}

/// The rows of a table in a file: `<table>.ids` and `<table>.rows`, `ids` and `rows`, or all rows as
/// `<table>`.
pub fn safetensors_rows(path: &Path, table: &str) -> Result<NewRows> {
    let bad = |problem: String| Error::BadFile { path: path.to_path_buf(), problem };
    let unreadable = |source| Error::Read { path: path.to_path_buf(), source };
    let mut file = fs::File::open(path).map_err(unreadable)?;
    let n_bytes = file.metadata().map_err(unreadable)?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| bad("it is not a safetensors file".to_string()))?;
    let n_head = u64::from_le_bytes(length);
    if n_head > HEAD_BYTES_MAX || n_head + 8 > n_bytes {
        return Err(bad("it is not a safetensors file, or is cut short".to_string()));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    let (text, numbers) = bytes.split_at(n_head as usize);
    let head: Map<String, Json> =
        serde_json::from_slice(text).map_err(|error| bad(error.to_string()))?;
    let tensor = |name: &str| {
        let entry = head.get(name)?;
        Some(read_tensor(entry, numbers).ok_or_else(|| bad(format!("`{name}` is damaged"))))
    };
    for (ids, rows) in
        [(format!("{table}{IDS}"), format!("{table}{ROWS}")), ("ids".into(), "rows".into())]
    {
        let (Some(ids), Some(rows)) = (tensor(&ids), tensor(&rows)) else { continue };
        let (ids, rows) = (ids?, rows?);
        let ids = ids.data::<i64>().map_err(|_| bad("its ids are not int64".to_string()))?;
        return NewRows::new(path, ids.to_vec(), rows);
    }
    match tensor(table) {
        Some(rows) => {
            let rows = rows?;
            let n = rows.dims().first().copied().unwrap_or(0) as i64;
            NewRows::new(path, (0..n).collect(), rows)
        }
        None => Err(bad(format!(
            "it has neither `{table}{IDS}` and `{table}{ROWS}`, nor `ids` and `rows`, nor `{table}`"
        ))),
    }
}

fn read_tensor(entry: &Json, numbers: &[u8]) -> Option<Tensor> {
    let name = entry.get("dtype")?.as_str()?;
    // Ids without a sign are ids of the same bits.
    let name = if name == "U64" { "I64" } else { name };
    let dtype = NAMES.iter().find(|known| known.1 == name)?.0;
    let whole = |list: &Json| list.as_array()?.iter().map(Json::as_i64).collect::<Option<Vec<_>>>();
    let dims = whole(entry.get("shape")?)?;
    let offsets = whole(entry.get("data_offsets")?)?;
    let &[begin, end] = offsets.as_slice() else { return None };
    let bytes = numbers.get(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)?;
    let shape = Shape::from_dims(&dims).ok()?;
    Tensor::from_bytes(dtype, shape, bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of two rows.
    fn example() -> Vec<u8> {
        let text = json!({
            "t.ids": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]},
            "t.rows": {"dtype": "F32", "shape": [2, 1], "data_offsets": [16, 24]},
        });
        let text = text.to_string().into_bytes();
        let numbers = [7i64.to_le_bytes(), 9i64.to_le_bytes()].concat();
        let rows = [1.5f32.to_le_bytes(), 2.5f32.to_le_bytes()].concat();
        [&(text.len() as u64).to_le_bytes()[..], &text, &numbers, &rows].concat()
    }

    #[test]
    fn damaged_files_are_errors_and_never_panics() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.safetensors");
        let good = example();
        fs::write(&path, &good).unwrap();
        let rows = safetensors_rows(&path, "t").unwrap();
        assert_eq!((rows.ids, rows.value.data::<f32>().unwrap()), (vec![7, 9], &[1.5, 2.5][..]));
        for n in 0..good.len() {
            fs::write(&path, &good[..n]).unwrap();
            let cut = safetensors_rows(&path, "t");
            assert!(matches!(cut, Err(Error::BadFile { .. })), "{n}: {cut:?}");
        }
        for at in 0..good.len() {
            for bit in [1, 0x40, 0x80] {
                let mut bytes = good.clone();
                bytes[at] ^= bit;
                fs::write(&path, &bytes).unwrap();
                // Other ids and numbers are fine; all else is an error.
                let _ = safetensors_rows(&path, "t");
            }
        }
    }
}
