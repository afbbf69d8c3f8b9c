//! Variables as Parquet files: a row for each row of a variable, with its id and its numbers in columns.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use tensor::{DType, Element, Shape, Tensor, Value};

use crate::contents::{Contents, HeldVar};
use crate::error::{Error, Result};
use crate::new_rows::NewRows;
use crate::output::{NewOutput, failed};

/// The column of ids.
const ID: &str = "id";
/// Numbers in a group of rows.
const GROUP: usize = 1 << 22;
/// More columns are too slow for every reader.
const COLUMNS_MAX: usize = 1 << 15;

/// Writes variables: one into a file, or several into a folder with a file each.
pub fn write_parquet(
    contents: &Contents,
    vars: &[&HeldVar],
    path: &Path,
    force: bool,
) -> Result<()> {
    let output = NewOutput::new(path, force)?;
    output.folder(|folder| {
        for var in vars {
            write_file(contents, var, &folder.join(file_name(&var.name)))?;
        }
        Ok(())
    })
}

/// Writes one variable into a file.
pub(crate) fn write_one(
    contents: &Contents,
    var: &HeldVar,
    path: &Path,
    force: bool,
) -> Result<()> {
    // The library wants to own the file.
    NewOutput::new(path, force)?.file_of(|file| {
        let copy = file.get_ref().try_clone().map_err(|source| failed(path, source))?;
        write_to(contents, var, copy)
    })
}

/// A slash would be a folder.
fn file_name(var: &str) -> String {
    format!("{}.parquet", var.replace('%', "%25").replace('/', "%2F"))
}

fn write_file(contents: &Contents, var: &HeldVar, path: &Path) -> Result<()> {
    let unwritable = |source| Error::Write { path: path.to_path_buf(), source };
    let file = File::create_new(path).map_err(unwritable)?;
    let copy = file.try_clone().map_err(unwritable)?;
    write_to(contents, var, copy)?;
    file.sync_all().map_err(unwritable)
}

fn write_to(contents: &Contents, var: &HeldVar, file: File) -> Result<()> {
    let (ids, value) = match contents.value(var)? {
        Value::Rows(rows) => (rows.ids, rows.value),
        other => {
            let tensor = other.tensor().cloned().unwrap_or_default();
            let n = tensor.dims().first().copied().unwrap_or(0);
            ((0..n as i64).collect(), tensor)
        }
    };
    let width = if ids.is_empty() { 0 } else { value.len() / ids.len() };
    if width > COLUMNS_MAX {
        return Err(Error::TooWide { var: var.name.clone(), n: width, max: COLUMNS_MAX });
    }
    let unwritable = |error: ParquetError| Error::Write {
        path: contents.dir().join(&var.name),
        source: std::io::Error::other(error),
    };
    let columns = RowColumns { ids: &ids, value: &value, width };
    let n_each = value.bytes().len().checked_div(ids.len()).unwrap_or(0) as u64;
    let told = |n_rows: usize| contents.done(n_rows as u64 * n_each);
    write_columns(&columns, var, file, told).map_err(unwritable)
}

/// The columns to write: ids and numbers, row after row.
struct RowColumns<'a> {
    ids: &'a [i64],
    value: &'a Tensor,
    width: usize,
}

fn write_columns(
    columns: &RowColumns<'_>,
    var: &HeldVar,
    file: File,
    told: impl Fn(usize),
) -> std::result::Result<(), ParquetError> {
    let facts = vec![
        KeyValue::new("paddlewheel.variable".to_string(), var.name.clone()),
        KeyValue::new("paddlewheel.type".to_string(), var.dtype.name().to_string()),
        KeyValue::new("paddlewheel.shape".to_string(), format!("{:?}", var.dims)),
    ];
    let settings = WriterProperties::builder().set_key_value_metadata(Some(facts));
    let settings = settings.set_dictionary_enabled(false).build();
    let schema = schema(columns)?;
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(settings))?;
    let n_rows = (GROUP / columns.width.max(1)).max(1);
    let mut first = 0;
    while first < columns.ids.len() {
        let last = (first + n_rows).min(columns.ids.len());
        let mut group = writer.next_row_group()?;
        write_group(columns, first..last, &mut group)?;
        group.close()?;
        told(last - first);
        first = last;
    }
    writer.close().map(drop)
}

fn schema(columns: &RowColumns<'_>) -> std::result::Result<TypePtr, ParquetError> {
    let column = |name: &str, kind| {
        let column = Type::primitive_type_builder(name, kind);
        column.with_repetition(Repetition::REQUIRED).build().map(Arc::new)
    };
    let mut fields = vec![column(ID, Physical::INT64)?];
    for at in 0..columns.width {
        fields.push(column(&format!("v{at}"), physical(columns.value.dtype()))?);
    }
    Type::group_type_builder("rows").with_fields(fields).build().map(Arc::new)
}

/// Types that Parquet does not have go into wider ones.
fn physical(dtype: DType) -> Physical {
    match dtype {
        DType::F32 | DType::F16 => Physical::FLOAT,
        DType::F64 => Physical::DOUBLE,
        DType::I64 => Physical::INT64,
        DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::Bool => Physical::INT32,
    }
}

fn write_group(
    columns: &RowColumns<'_>,
    rows: std::ops::Range<usize>,
    group: &mut SerializedRowGroupWriter<'_, File>,
) -> std::result::Result<(), ParquetError> {
    let mut at = 0;
    while let Some(mut column) = group.next_column()? {
        if at == 0 {
            column.typed::<Int64Type>().write_batch(&columns.ids[rows.clone()], None, None)?;
        } else {
            let numbers = |row: usize| columns.value.get_f64(row * columns.width + at - 1);
            let wide = || rows.clone().map(numbers);
            match columns.value.dtype() {
                DType::F32 | DType::F16 => {
                    let numbers: Vec<f32> = wide().map(|number| number as f32).collect();
                    column.typed::<FloatType>().write_batch(&numbers, None, None)?
                }
                DType::F64 => {
                    let numbers: Vec<f64> = wide().collect();
                    column.typed::<DoubleType>().write_batch(&numbers, None, None)?
                }
                DType::I64 => {
                    // Not every whole number of 64 bits is a float.
                    let all = columns.value.data::<i64>().unwrap_or_default();
                    let place = |row: usize| all[row * columns.width + at - 1];
                    let numbers: Vec<i64> = rows.clone().map(place).collect();
                    column.typed::<Int64Type>().write_batch(&numbers, None, None)?
                }
                _ => {
                    let numbers: Vec<i32> = wide().map(|number| number as i32).collect();
                    column.typed::<Int32Type>().write_batch(&numbers, None, None)?
                }
            };
        }
        column.close()?;
        at += 1;
    }
    Ok(())
}

/// The rows in a file: the column `id`, and the columns `v0`, `v1`, and so on.
pub fn parquet_rows(path: &Path) -> Result<NewRows> {
    let file =
        File::open(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })?;
    // The library panics where a damaged file makes no sense.
    let read = catch_unwind(AssertUnwindSafe(|| read_rows(path, file)));
    let problem = "it is damaged".to_string();
    read.unwrap_or_else(|_| Err(Error::BadFile { path: path.to_path_buf(), problem }))
}

fn read_rows(path: &Path, file: File) -> Result<NewRows> {
    let bad = |problem: String| Error::BadFile { path: path.to_path_buf(), problem };
    let reader = SerializedFileReader::new(file).map_err(|error| bad(error.to_string()))?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let place = |name: &str| schema.columns().iter().position(|column| column.name() == name);
    let id = place(ID).ok_or_else(|| bad(format!("it has no column `{ID}`")))?;
    let mut columns = Vec::new();
    while let Some(at) = place(&format!("v{}", columns.len())) {
        columns.push(at);
    }
    let extra = schema.num_columns() - 1 - columns.len();
    let Some(&first) = columns.first() else {
        return Err(bad("it has no columns `v0`, `v1`, and so on".to_string()));
    };
    if extra > 0 {
        return Err(bad(format!(
            "it has {extra} columns that are neither `{ID}` nor `v0` to `v{}`",
            columns.len() - 1
        )));
    }
    let kind = |at: usize| schema.column(at).physical_type();
    if let Some(&other) = columns.iter().find(|&&at| kind(at) != kind(first)) {
        let name = schema.column(other).name().to_string();
        return Err(bad(format!("its column `{name}` has another type than `v0`")));
    }
    let wanted = ParquetColumns { path, reader: &reader, columns: &columns };
    let ids = wanted.column(id, ID, ColumnValues::ids)?;
    let value = match kind(first) {
        Physical::FLOAT => wanted.matrix::<f32>(ids.len(), ColumnValues::floats)?,
        Physical::DOUBLE => wanted.matrix::<f64>(ids.len(), ColumnValues::doubles)?,
        Physical::INT64 | Physical::INT32 => wanted.matrix::<i64>(ids.len(), ColumnValues::ids)?,
        other => return Err(bad(format!("its numbers are {other}"))),
    };
    NewRows::new(path, ids, value)
}

/// The columns to read from a file.
struct ParquetColumns<'a> {
    path: &'a Path,
    reader: &'a SerializedFileReader<File>,
    /// The columns of numbers, in order.
    columns: &'a [usize],
}

/// The numbers of a column of a group of rows.
struct ColumnValues;

type TakeColumn<T> = fn(ColumnReader, usize) -> std::result::Result<Option<Vec<T>>, ParquetError>;

impl ColumnValues {
    fn ids(column: ColumnReader, n: usize) -> std::result::Result<Option<Vec<i64>>, ParquetError> {
        match column {
            ColumnReader::Int64ColumnReader(column) => all::<Int64Type>(column, n),
            ColumnReader::Int32ColumnReader(column) => {
                let numbers = all::<Int32Type>(column, n)?;
                Ok(numbers.map(|numbers| numbers.into_iter().map(i64::from).collect()))
            }
            _ => Err(ParquetError::General("its ids are not whole numbers".to_string())),
        }
    }

    fn floats(
        column: ColumnReader,
        n: usize,
    ) -> std::result::Result<Option<Vec<f32>>, ParquetError> {
        match column {
            ColumnReader::FloatColumnReader(column) => all::<FloatType>(column, n),
            _ => Err(ParquetError::General("a column is of another type".to_string())),
        }
    }

    fn doubles(
        column: ColumnReader,
        n: usize,
    ) -> std::result::Result<Option<Vec<f64>>, ParquetError> {
        match column {
            ColumnReader::DoubleColumnReader(column) => all::<DoubleType>(column, n),
            _ => Err(ParquetError::General("a column is of another type".to_string())),
        }
    }
}

/// All values of a column; `None` if one is missing.
fn all<T: DataType>(
    mut column: ColumnReaderImpl<T>,
    n: usize,
) -> std::result::Result<Option<Vec<T::T>>, ParquetError> {
    let (mut values, mut present) = (Vec::new(), Vec::new());
    let mut n_records = 0;
    while n_records < n {
        let (records, ..) =
            column.read_records(n - n_records, Some(&mut present), None, &mut values)?;
        if records == 0 {
            break;
        }
        n_records += records;
    }
    Ok((values.len() == n).then_some(values))
}

impl ParquetColumns<'_> {
    fn column<T>(&self, at: usize, name: &str, take: TakeColumn<T>) -> Result<Vec<T>> {
        let bad = |error: ParquetError| Error::BadFile {
            path: self.path.to_path_buf(),
            problem: error.to_string(),
        };
        let mut values = Vec::new();
        for number in 0..self.reader.num_row_groups() {
            let group = self.reader.get_row_group(number).map_err(bad)?;
            let n = group.metadata().num_rows().max(0) as usize;
            let column = group.get_column_reader(at).map_err(bad)?;
            let taken = take(column, n).map_err(bad)?;
            let place = format!("in column `{name}`");
            let path = self.path.to_path_buf();
            values.extend(taken.ok_or(Error::MissingValue { path, place })?);
        }
        Ok(values)
    }

    fn matrix<T: Element>(&self, n_rows: usize, take: TakeColumn<T>) -> Result<Tensor> {
        let width = self.columns.len();
        let mut value = Tensor::default();
        let numbers = value.try_resize_zeroed::<T>(Shape::from([n_rows, width]))?;
        for (at, &column) in self.columns.iter().enumerate() {
            let taken = self.column(column, &format!("v{at}"), take)?;
            if taken.len() != n_rows {
                let problem = "its columns have different lengths".to_string();
                return Err(Error::BadFile { path: self.path.to_path_buf(), problem });
            }
            taken
                .into_iter()
                .enumerate()
                .for_each(|(row, number)| numbers[row * width + at] = number);
        }
        Ok(value)
    }
}
