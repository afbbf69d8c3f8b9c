//! All columns of a file, whatever they are called.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};

use super::{CellType, Datum, ROWS_AT_ONCE, Strip, bad_file, unfit};
use crate::error::{Error, Result};
use crate::series::{Series, Texts, Values};

/// Reads the columns of a file. Those that hold lists or groups are refused.
pub(crate) fn read_columns(file: &str, source: impl ChunkReader + 'static) -> Result<Vec<Series>> {
    // The library checks what it reads, but it has been known to panic on a damaged file.
    let read = catch_unwind(AssertUnwindSafe(|| read_all(file, source)));
    let damaged = || Error::BadParquet { file: file.to_string(), reason: "damaged".into() };
    read.unwrap_or_else(|_| Err(damaged()))
}

fn read_all(file: &str, source: impl ChunkReader + 'static) -> Result<Vec<Series>> {
    let failed = |error: ParquetError| bad_file(file, &error);
    let reader = SerializedFileReader::new(source).map_err(failed)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut columns = Vec::new();
    for at in 0..schema.num_columns() {
        let descr = schema.column(at);
        let column = descr.path().parts().first().cloned().unwrap_or_default();
        let is_nested = descr.max_rep_level() > 0 || descr.path().parts().len() > 1;
        let nested = is_nested.then(|| "it holds lists or groups".to_string());
        if let Some(reason) = nested.or_else(|| unfit(&descr, CellType::Hash(1))) {
            return Err(Error::BadColumn { file: file.to_string(), column, reason });
        }
        columns.push(Gathered { name: column, values: None });
    }
    for at in 0..reader.num_row_groups() {
        let group = reader.get_row_group(at).map_err(failed)?;
        let n_rows = group.metadata().num_rows().max(0) as usize;
        for (place, column) in columns.iter_mut().enumerate() {
            let mut strip = Strip::open(file, &*group, place)?;
            let mut done = 0;
            while done < n_rows {
                let n = ROWS_AT_ONCE.min(n_rows - done);
                strip.fill(n).map_err(failed)?;
                (0..n).flat_map(|row| strip.cells(row)).for_each(|cell| column.push(cell));
                done += n;
            }
        }
    }
    Ok(columns.into_iter().map(Gathered::series).collect())
}

/// A column as far as it was read.
struct Gathered {
    name: String,
    /// `None` before the first value.
    values: Option<Values>,
}

impl Gathered {
    fn push(&mut self, cell: Datum<'_>) {
        let values = self.values.take();
        self.values = Some(match (values, cell) {
            (None, Datum::Text(text)) => {
                let mut texts = Texts::default();
                texts.push(text);
                Values::Text(texts)
            }
            (None, Datum::Whole(number)) => Values::Whole(vec![number]),
            (None, cell) => Values::Float(vec![number_of(cell)]),
            (Some(Values::Whole(mut numbers)), Datum::Whole(number)) => {
                numbers.push(number);
                Values::Whole(numbers)
            }
            // A missing value among whole numbers, or one beyond them: all become floats.
            (Some(Values::Whole(numbers)), cell) => {
                let mut floats: Vec<f64> =
                    numbers.into_iter().map(|number| number as f64).collect();
                floats.push(number_of(cell));
                Values::Float(floats)
            }
            // Missing values came first: they are numbers that are none, or empty texts.
            (Some(Values::Float(numbers)), Datum::Text(text)) => {
                let mut texts = Texts::default();
                numbers.iter().for_each(|_| texts.push(b""));
                texts.push(text);
                Values::Text(texts)
            }
            (Some(Values::Float(mut numbers)), cell) => {
                numbers.push(number_of(cell));
                Values::Float(numbers)
            }
            (Some(Values::Text(mut texts) | Values::Cells(mut texts)), cell) => {
                texts.push(if let Datum::Text(text) = cell { text } else { b"" });
                Values::Text(texts)
            }
        });
    }

    fn series(self) -> Series {
        Series { name: self.name, values: self.values.unwrap_or(Values::Float(Vec::new())) }
    }
}

fn number_of(cell: Datum<'_>) -> f64 {
    match cell {
        Datum::Nothing | Datum::Text(_) => f64::NAN,
        Datum::Whole(number) => number as f64,
        Datum::TooLarge(number) => number as f64,
        Datum::Float(number) => number,
    }
}
