//! All columns of a file, whatever they are called.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::{CellType, Datum, ROWS_AT_ONCE, SharedSource, Strip, bad_file, is_short_float, unfit};
use crate::error::{Error, Result};
use crate::numbers::{ColumnNumber, widen};
use crate::series::{Series, Texts, Values, room};
use crate::times::NO_TIME;

/// Reads the columns of a file. Those that hold lists or groups are refused.
pub(crate) fn read_columns(file: &str, source: impl ChunkReader + 'static) -> Result<Vec<Series>> {
    // The library checks what it reads, but it has been known to panic on a damaged file.
    let read = catch_unwind(AssertUnwindSafe(|| read_all(file, source)));
    let damaged = || Error::BadParquet { file: file.to_string(), reason: "damaged".into() };
    read.unwrap_or_else(|_| Err(damaged()))
}

fn read_all(file: &str, source: impl ChunkReader + 'static) -> Result<Vec<Series>> {
    let failed = |error: ParquetError| bad_file(file, &error);
    let source = SharedSource::new(source);
    let reader = SerializedFileReader::new(source.clone()).map_err(failed)?;
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
        columns.push(Gathered::new(column, &descr));
    }
    for at in 0..reader.num_row_groups() {
        let group = reader.get_row_group(at).map_err(failed)?;
        let n_rows = group.metadata().num_rows().max(0) as usize;
        for (place, column) in columns.iter_mut().enumerate() {
            let mut strip = Strip::open(file, &source, &*group, place)?;
            let mut done = 0;
            while done < n_rows {
                let n = ROWS_AT_ONCE.min(n_rows - done);
                strip.fill(n).map_err(failed)?;
                (0..n).flat_map(|row| strip.cells(row)).try_for_each(|cell| column.push(cell))?;
                done += n;
            }
        }
    }
    Ok(columns.into_iter().map(Gathered::series).collect())
}

/// A column as far as it was read.
struct Gathered {
    name: String,
    /// Its floats have 32 bits.
    is_short: bool,
    values: GatheredValues,
}

enum GatheredValues {
    Whole(Vec<i64>),
    Float(Vec<f64>),
    Mixed(Vec<ColumnNumber>),
    /// Nanoseconds in a unit of the file, and the times in microseconds.
    Time(i128, Vec<i64>),
    Text(Texts),
}

impl Gathered {
    fn new(name: String, descr: &ColumnDescriptor) -> Self {
        use GatheredValues as V;
        let values = match (descr.physical_type(), time_unit(descr)) {
            (_, Some(nanos)) => V::Time(nanos, Vec::new()),
            _ if super::decimal_scale(descr).is_some() => V::Mixed(Vec::new()),
            _ if is_short_float(descr) => V::Float(Vec::new()),
            (Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY, _) => V::Text(Texts::default()),
            (Physical::FLOAT | Physical::DOUBLE, _) => V::Float(Vec::new()),
            _ => V::Whole(Vec::new()),
        };
        Self { name, is_short: descr.physical_type() == Physical::FLOAT, values }
    }

    fn push(&mut self, cell: Datum<'_>) -> Result<()> {
        use GatheredValues as V;
        if let (V::Whole(whole), false) = (&self.values, matches!(cell, Datum::Whole(_))) {
            // A missing value among whole numbers, or one beyond 63 bits.
            self.values =
                V::Mixed(whole.iter().map(|&number| ColumnNumber::Whole(number)).collect());
        }
        match (&mut self.values, cell) {
            (V::Whole(all), Datum::Whole(number)) => put(all, number),
            (V::Float(all), Datum::Float(number)) if self.is_short => {
                put(all, widen(number as f32))
            }
            (V::Float(all), cell) => put(all, number_of(cell).to_f64()),
            (V::Time(nanos, all), Datum::Whole(number)) => {
                let micros = (i128::from(number) * *nanos).div_euclid(1000);
                // Beyond what 64 bits hold there is no time of this world.
                put(all, i64::try_from(micros).unwrap_or(NO_TIME))
            }
            (V::Time(_, all), _) => put(all, NO_TIME),
            (V::Text(texts), Datum::Text(text)) => texts.try_push(text),
            (V::Text(texts), _) => texts.try_push(b""),
            (V::Mixed(all), cell) => put(all, number_of(cell)),
            (V::Whole(_), _) => Ok(()),
        }
    }

    fn series(self) -> Series {
        let values = match self.values {
            GatheredValues::Whole(whole) => Values::Whole(whole),
            GatheredValues::Float(floats) => Values::Float(floats),
            GatheredValues::Mixed(numbers) => Values::of_numbers(numbers),
            GatheredValues::Time(_, micros) => Values::Time(micros),
            GatheredValues::Text(texts) => Values::Text(texts),
        };
        Series { name: self.name, values }
    }
}

fn put<T>(all: &mut Vec<T>, value: T) -> Result<()> {
    room(all, 1)?;
    all.push(value);
    Ok(())
}

fn number_of(cell: Datum<'_>) -> ColumnNumber {
    match cell {
        Datum::Nothing | Datum::Text(_) => ColumnNumber::Missing,
        Datum::Whole(number) => ColumnNumber::Whole(number),
        Datum::Large(number) => ColumnNumber::Large(number),
        Datum::Float(number) => ColumnNumber::of_float(number),
    }
}

/// Nanoseconds of the unit of a column of dates or timestamps.
fn time_unit(descr: &ColumnDescriptor) -> Option<i128> {
    const DAY: i128 = 86_400_000_000_000;
    if descr.physical_type() == Physical::INT96 {
        // They are made microseconds when they are decoded.
        return Some(1000);
    }
    match descr.logical_type_ref() {
        Some(LogicalType::Date) => return Some(DAY),
        Some(LogicalType::Timestamp(kind)) => {
            return Some(match kind.unit {
                TimeUnit::MILLIS => 1_000_000,
                TimeUnit::MICROS => 1000,
                TimeUnit::NANOS => 1,
            });
        }
        _ => {}
    }
    match descr.converted_type() {
        ConvertedType::DATE => Some(DAY),
        ConvertedType::TIMESTAMP_MILLIS => Some(1_000_000),
        ConvertedType::TIMESTAMP_MICROS => Some(1000),
        _ => None,
    }
}
