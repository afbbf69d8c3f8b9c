//! Tables as Parquet files: columns by name, read a few rows at a time.
//!
//! The columns of a slot are described as for tables of text ([`crate::csv`]). A column of lists
//! makes a slot whose length differs from row to row.

mod cells;
mod columns;
mod pages;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{AsBytes, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::csv::{BadCell, CellType, Column, Na, checksum};
use crate::error::{Error, Refusal, Result};
use crate::numbers::ColumnNumber;
use crate::records::Records;
use crate::slot::Slot;
use cells::{Datum, big_endian, micros_of, short_float};
pub(crate) use columns::read_columns;
use pages::{SharedSource, pages_of};

/// Rows of all columns that lie decoded at once; pages of the file come on top.
const ROWS_AT_ONCE: usize = 1024;

/// The settings of `parquet-reader`: the slots, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Parquet {
    slots: Vec<Column>,
    na: Option<Na>,
}

impl Parquet {
    /// The settings that arguments give.
    pub fn from_arguments(arguments: &[&str]) -> Result<Self> {
        let (slots, na) = Column::from_arguments("parquet-reader", arguments)?;
        Ok(Self { slots, na })
    }

    /// The slots, each as long as it has columns; one column may hold lists.
    pub fn slots(&self) -> Vec<Slot> {
        let slot = |column: &Column| {
            let slot = column.to_slot();
            Slot { dense: slot.dense.filter(|_| column.columns.len() > 1), ..slot }
        };
        self.slots.iter().map(slot).collect()
    }

    pub(crate) fn table(&self, slots: &[Slot]) -> ParquetReader {
        let wanted = self.slots.iter().zip(slots).filter(|(_, slot)| slot.used);
        let wanted = wanted.map(|(column, slot)| WantedSlot {
            sum: column.sum(),
            column: column.clone(),
            n_dense: slot.n_dense(),
            na: self.na,
        });
        ParquetReader { slots: wanted.collect() }
    }
}

/// A slot that is made.
struct WantedSlot {
    column: Column,
    /// The checksum of `"<slot>:"`, which those of texts continue.
    sum: u32,
    /// Values that it must have, if the dataset says so.
    n_dense: Option<usize>,
    /// The value that stands for a missing one.
    na: Option<Na>,
}

/// Why a row cannot be a sample.
pub(crate) struct BadRow {
    /// The row, from 1.
    pub(crate) row: u64,
    pub(crate) column: String,
    pub(crate) refusal: Refusal,
}

impl BadRow {
    /// The error, with the file and the command.
    pub(crate) fn error(self, file: &str, command: &str) -> Error {
        let (file, command) = (file.to_string(), command.to_string());
        Error::BadRow { file, row: self.row, column: self.column, command, refusal: self.refusal }
    }
}

/// Gets the rows of a file.
pub(crate) trait RowReader {
    /// Rows at the beginning that are passed over.
    fn n_before(&self) -> u64 {
        0
    }

    /// A row was added to the records, the `n_rows`th of the file; an error ends reading.
    fn taken(&mut self, records: &mut Records, n_rows: u64) -> Result<()>;

    /// A row could not be; an error ends reading.
    fn bad(&mut self, bad: BadRow) -> Result<()>;

    /// The file has so many rows.
    fn ended(&mut self, n_rows: u64) -> Result<()> {
        let _ = n_rows;
        Ok(())
    }
}

/// Reads files.
pub(crate) struct ParquetReader {
    slots: Vec<WantedSlot>,
}

impl ParquetReader {
    /// Reads all rows of a file.
    pub(crate) fn read(
        &self,
        file: &str,
        source: impl ChunkReader + 'static,
        records: &mut Records,
        rows: &mut dyn RowReader,
    ) -> Result<()> {
        // The library checks what it reads, but it has been known to panic on a damaged file.
        let read = catch_unwind(AssertUnwindSafe(|| self.read_groups(file, source, records, rows)));
        let damaged = || Error::BadParquet { file: file.to_string(), reason: "damaged".into() };
        read.unwrap_or_else(|_| Err(damaged()))
    }

    fn read_groups(
        &self,
        file: &str,
        source: impl ChunkReader + 'static,
        records: &mut Records,
        rows: &mut dyn RowReader,
    ) -> Result<()> {
        let failed = |error: ParquetError| bad_file(file, &error);
        let source = SharedSource::new(source);
        let reader = SerializedFileReader::new(source.clone()).map_err(failed)?;
        let places = self.places(file, &reader)?;
        let mut n_rows = 0;
        for at in 0..reader.num_row_groups() {
            let group = reader.get_row_group(at).map_err(failed)?;
            let end = n_rows + group.metadata().num_rows().max(0) as u64;
            if end <= rows.n_before() {
                n_rows = end;
                continue;
            }
            let mut columns = places
                .iter()
                .map(|slot| {
                    slot.iter().map(|&place| Strip::open(file, &source, &*group, place)).collect()
                })
                .collect::<Result<Vec<Vec<Strip>>>>()?;
            while n_rows < end {
                let n = ROWS_AT_ONCE.min((end - n_rows) as usize);
                for strip in columns.iter_mut().flatten() {
                    strip.fill(n).map_err(failed)?;
                }
                let next = n_rows + n as u64;
                self.add(&columns, n_rows..next, records, rows)?;
                n_rows = next;
            }
        }
        rows.ended(n_rows)
    }

    /// Where the columns of each slot are.
    fn places<R: ChunkReader + 'static>(
        &self,
        file: &str,
        reader: &SerializedFileReader<R>,
    ) -> Result<Vec<Vec<usize>>> {
        let schema = reader.metadata().file_metadata().schema_descr();
        let place = |slot: &WantedSlot, column: &String| {
            let bad = |reason: String| {
                Err(Error::BadColumn { file: file.to_string(), column: column.clone(), reason })
            };
            let is_it = |descr: &ColumnDescriptor| {
                descr.path().string() == *column || descr.path().parts().first() == Some(column)
            };
            let mut found = (0..schema.num_columns()).filter(|&at| is_it(&schema.column(at)));
            let Some(at) = found.next() else {
                let name = |field: &parquet::schema::types::TypePtr| field.name().to_string();
                let names: Vec<String> =
                    schema.root_schema().get_fields().iter().map(name).collect();
                return bad(format!("there is none; there are: {}", names.join(", ")));
            };
            let descr = schema.column(at);
            if found.next().is_some() || descr.max_rep_level() > 1 {
                return bad("it is a group of columns or a list of lists".to_string());
            }
            if descr.max_rep_level() == 1 && slot.column.columns.len() > 1 {
                return bad("it holds lists, so it must be the only column of its slot".to_string());
            }
            match unfit(&descr, slot.column.cell) {
                Some(reason) => bad(reason),
                None => Ok(at),
            }
        };
        let places = |slot: &WantedSlot| {
            slot.column.columns.iter().map(|column| place(slot, column)).collect()
        };
        self.slots.iter().map(places).collect()
    }

    /// Makes samples of the rows that are decoded; `which` rows of the file they are.
    fn add(
        &self,
        columns: &[Vec<Strip>],
        which: Range<u64>,
        records: &mut Records,
        rows: &mut dyn RowReader,
    ) -> Result<()> {
        let n_before = rows.n_before();
        for (at, row) in which.enumerate().filter(|&(_, row)| row >= n_before) {
            let number = row + 1;
            records.begin(0);
            match self.add_row(columns, at, records) {
                Ok(()) => {
                    records.commit();
                    rows.taken(records, number)?;
                }
                Err((column, refusal)) => rows.bad(BadRow { row: number, column, refusal })?,
            }
        }
        Ok(())
    }

    fn add_row(
        &self,
        columns: &[Vec<Strip>],
        row: usize,
        records: &mut Records,
    ) -> std::result::Result<(), (String, Refusal)> {
        for (slot, strips) in self.slots.iter().zip(columns) {
            let n: usize = strips.iter().map(|strip| strip.n_cells(row)).sum();
            if let Some(expected) = slot.n_dense.filter(|&expected| expected != n) {
                let name = slot.column.slot.clone();
                let refusal = Refusal::DenseCount { slot: name, expected, found: n };
                return Err((slot.column.columns[0].clone(), refusal));
            }
            records.push(n as u32);
            for (nth, (strip, name)) in strips.iter().zip(&slot.column.columns).enumerate() {
                for cell in strip.cells(row) {
                    push(slot, cell, records).map_err(|bad| {
                        (name.clone(), bad.of(&slot.column, nth, cell.shown().as_bytes()))
                    })?;
                }
            }
        }
        Ok(())
    }
}

fn bad_file(file: &str, error: &ParquetError) -> Error {
    Error::BadParquet { file: file.to_string(), reason: error.to_string() }
}

/// Digits that 128 bits hold.
const PRECISION_MAX: i32 = 38;

/// Digits behind the point, if a column holds decimal numbers.
fn decimal_scale(descr: &ColumnDescriptor) -> Option<u32> {
    let is_decimal = descr.converted_type() == ConvertedType::DECIMAL
        || matches!(descr.logical_type_ref(), Some(LogicalType::Decimal(_)));
    is_decimal.then(|| u32::try_from(descr.type_scale()).unwrap_or(0))
}

/// Whether a column holds numbers of 16 bits.
fn is_short_float(descr: &ColumnDescriptor) -> bool {
    matches!(descr.logical_type_ref(), Some(LogicalType::Float16)) && descr.type_length() == 2
}

fn is_time_of_day(descr: &ColumnDescriptor) -> bool {
    let old = [ConvertedType::TIME_MILLIS, ConvertedType::TIME_MICROS];
    matches!(descr.logical_type_ref(), Some(LogicalType::Time(_)))
        || old.contains(&descr.converted_type())
}

/// Why the cells of a column cannot become those of a slot, if so.
fn unfit(descr: &ColumnDescriptor, cell: CellType) -> Option<String> {
    match descr.physical_type() {
        _ if is_time_of_day(descr) => {
            Some("times of day are not read; write it as a text or a whole number".to_string())
        }
        _ if decimal_scale(descr).is_some() && descr.type_precision() > PRECISION_MAX => {
            Some(format!(
                "decimal numbers of more than {PRECISION_MAX} digits are not read; write it as double"
            ))
        }
        _ if decimal_scale(descr).is_some() || is_short_float(descr) => None,
        Physical::FIXED_LEN_BYTE_ARRAY if !matches!(cell, CellType::Hash(_)) => {
            Some("bytes of fixed length can only be hashed (:hash/N)".to_string())
        }
        _ => None,
    }
}

/// Adds a cell to a sample, if it is what the slot holds.
fn push(
    slot: &WantedSlot,
    cell: Datum<'_>,
    records: &mut Records,
) -> std::result::Result<(), BadCell> {
    match slot.column.cell {
        CellType::Float => records.push(cell.number(slot.na)?.to_bits()),
        CellType::Id => records.push_id(cell.whole(slot.na)?),
        CellType::Hash(n) => {
            let id = match cell {
                Datum::Text(text) => checksum(slot.sum, text, n),
                other => checksum(slot.sum, other.shown().as_bytes(), n),
            };
            records.push_id(id);
        }
    }
    Ok(())
}

/// Decoded values of a column, those that are something.
enum ColumnValues {
    Whole(Vec<i64>),
    /// Whole numbers without a sign.
    Unsigned(Vec<u64>),
    Float(Vec<f64>),
    /// Decimal numbers.
    Numbers(Vec<ColumnNumber>),
    /// One behind the other, and where they end.
    Text(Vec<u8>, Vec<usize>),
}

impl ColumnValues {
    /// Decimal numbers: the digits lie there as whole numbers or as bytes.
    fn decimals(self, scale: u32) -> std::result::Result<Vec<ColumnNumber>, ParquetError> {
        let number = |digits: i128| ColumnNumber::of_decimal(digits, scale);
        Ok(match self {
            ColumnValues::Whole(values) => {
                values.iter().map(|&digits| number(digits.into())).collect()
            }
            ColumnValues::Text(bytes, ends) => {
                let mut from = 0;
                let digits = ends.iter().map(|&end| {
                    let digits = big_endian(&bytes[from..end]).map(number);
                    from = end;
                    digits.ok_or_else(|| {
                        ParquetError::General("a decimal number of more than 128 bits".into())
                    })
                });
                digits.collect::<std::result::Result<_, _>>()?
            }
            _ => return Err(ParquetError::General("a decimal number of another type".to_string())),
        })
    }
}

/// A column of a row group, a few rows of it decoded.
struct Strip {
    reader: ColumnReader,
    max_def: i16,
    /// A list may hold nothings.
    nullable: bool,
    is_list: bool,
    is_unsigned: bool,
    is_short_float: bool,
    /// Digits behind the point of decimal numbers.
    scale: Option<u32>,
    values: ColumnValues,
    /// For each cell its place among the values; `None`: nothing.
    places: Vec<Option<usize>>,
    /// For each row where its cells end.
    ends: Vec<usize>,
}

impl Strip {
    fn open<R: ChunkReader + 'static>(
        file: &str,
        source: &SharedSource<R>,
        group: &dyn RowGroupReader,
        at: usize,
    ) -> Result<Self> {
        let chunk = group.metadata().column(at);
        let descr = chunk.column_descr();
        let pages = Box::new(pages_of(file, source, group, at)?);
        let reader = get_column_reader(chunk.column_descr_ptr(), pages);
        let unsigned = matches!(
            descr.converted_type(),
            ConvertedType::UINT_8
                | ConvertedType::UINT_16
                | ConvertedType::UINT_32
                | ConvertedType::UINT_64
        ) || matches!(descr.logical_type_ref(), Some(LogicalType::Integer(kind)) if !kind.is_signed);
        Ok(Self {
            reader,
            max_def: descr.max_def_level(),
            nullable: descr.self_type().is_optional(),
            is_list: descr.max_rep_level() > 0,
            is_unsigned: unsigned,
            is_short_float: is_short_float(descr),
            scale: decimal_scale(descr),
            values: ColumnValues::Whole(Vec::new()),
            places: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Decodes the next `n` rows.
    fn fill(&mut self, n: usize) -> std::result::Result<(), ParquetError> {
        use ColumnReader as C;
        let unsigned = self.is_unsigned;
        let (values, levels) = match &mut self.reader {
            C::BoolColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                (ColumnValues::Whole(values.into_iter().map(i64::from).collect()), levels)
            }
            C::Int32ColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                let whole = |x: i32| if unsigned { i64::from(x as u32) } else { i64::from(x) };
                (ColumnValues::Whole(values.into_iter().map(whole).collect()), levels)
            }
            C::Int64ColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                let values = if unsigned {
                    ColumnValues::Unsigned(values.into_iter().map(i64::cast_unsigned).collect())
                } else {
                    ColumnValues::Whole(values)
                };
                (values, levels)
            }
            C::FloatColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                (ColumnValues::Float(values.into_iter().map(f64::from).collect()), levels)
            }
            C::DoubleColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                (ColumnValues::Float(values), levels)
            }
            C::ByteArrayColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                (texts(&values), levels)
            }
            C::FixedLenByteArrayColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                let values = if self.is_short_float {
                    ColumnValues::Float(
                        values.iter().map(|value| short_float(value.as_bytes())).collect(),
                    )
                } else {
                    texts(&values)
                };
                (values, levels)
            }
            C::Int96ColumnReader(reader) => {
                let (values, levels) = decode(reader, n)?;
                (
                    ColumnValues::Whole(values.iter().map(|time| micros_of(time.data())).collect()),
                    levels,
                )
            }
        };
        self.values = match self.scale {
            Some(scale) => ColumnValues::Numbers(values.decimals(scale)?),
            None => values,
        };
        self.place(n, &levels);
        if self.ends.len() == n {
            Ok(())
        } else {
            Err(ParquetError::EOF(format!("{} rows instead of {n}", self.ends.len())))
        }
    }

    /// Finds out which cells are something, and of which rows.
    fn place(&mut self, n: usize, levels: &Levels) {
        self.places.clear();
        self.ends.clear();
        let mut n_values = 0;
        let mut take = || {
            n_values += 1;
            Some(n_values - 1)
        };
        if !self.is_list {
            match self.max_def {
                0 => self.places.extend((0..n).map(|_| take())),
                max => {
                    let place = |&level: &i16| if level == max { take() } else { None };
                    self.places.extend(levels.def.iter().map(place));
                }
            }
            self.ends.extend(1..=self.places.len());
            return;
        }
        for (at, &level) in levels.def.iter().enumerate() {
            if levels.rep.get(at) == Some(&0) && at > 0 {
                self.end_list();
            }
            if level == self.max_def {
                self.places.push(take());
            } else if self.nullable && level == self.max_def - 1 {
                self.places.push(None);
            }
        }
        if !levels.def.is_empty() {
            self.end_list();
        }
    }

    /// An empty list is one nothing: a slot has at least one value.
    fn end_list(&mut self) {
        if self.places.len() == self.ends.last().copied().unwrap_or(0) {
            self.places.push(None);
        }
        self.ends.push(self.places.len());
    }

    fn range(&self, row: usize) -> std::ops::Range<usize> {
        let from = if row == 0 { 0 } else { self.ends[row - 1] };
        from..self.ends[row]
    }

    fn n_cells(&self, row: usize) -> usize {
        self.range(row).len()
    }

    fn cells(&self, row: usize) -> impl Iterator<Item = Datum<'_>> {
        self.places[self.range(row)]
            .iter()
            .map(|place| place.map_or(Datum::Nothing, |at| self.at(at)))
    }

    fn at(&self, at: usize) -> Datum<'_> {
        match &self.values {
            ColumnValues::Whole(values) => Datum::Whole(values[at]),
            ColumnValues::Unsigned(values) => {
                i64::try_from(values[at]).map_or(Datum::Large(values[at]), Datum::Whole)
            }
            ColumnValues::Float(values) => Datum::Float(values[at]),
            ColumnValues::Numbers(values) => values[at].into(),
            ColumnValues::Text(bytes, ends) => {
                let from = if at == 0 { 0 } else { ends[at - 1] };
                Datum::Text(&bytes[from..ends[at]])
            }
        }
    }
}

#[derive(Default)]
struct Levels {
    def: Vec<i16>,
    rep: Vec<i16>,
}

/// Up to `n` rows of a column.
fn decode<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    n: usize,
) -> std::result::Result<(Vec<T::T>, Levels), ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Levels::default());
    reader.read_records(n, Some(&mut levels.def), Some(&mut levels.rep), &mut values)?;
    Ok((values, levels))
}

fn texts(values: &[impl AsBytes]) -> ColumnValues {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for value in values {
        bytes.extend_from_slice(value.as_bytes());
        ends.push(bytes.len());
    }
    ColumnValues::Text(bytes, ends)
}

#[cfg(test)]
mod tests;
