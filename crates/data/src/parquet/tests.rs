use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, GzipLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, FloatType,
    Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::native::Native;

/// Written by pyarrow: five rows in groups of two, snappy.
const CLICKS: &[u8] = include_bytes!("../../../../python/tests/fixtures/clicks.parquet");
const ZSTD: &[u8] = include_bytes!("../../../../python/tests/fixtures/clicks-zstd.parquet");

fn run(arguments: &[&str], bytes: &[u8]) -> Result<String> {
    let mut out = Vec::new();
    Native::Parquet(Parquet::from_arguments(arguments)?).run(bytes, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn id(slot: &str, text: &str) -> u32 {
    crc32fast::hash(format!("{slot}:{text}").as_bytes()) % 100
}

#[test]
fn a_file_of_another_writer_is_read_by_columns() {
    let arguments = ["na=0", "label=label:id", "x=price,small", "c=city:hash/100"];
    let made = run(&arguments, CLICKS).unwrap();
    let lines = [("1", "0.5 0.25", "Rome"), ("0", "1.25 0.5", "Oslo"), ("1", "0 0.75", "Rome")];
    let more = [("0", "-2 1", ""), ("0", "3 2", "Bern")];
    let line =
        |(label, x, city): &(&str, &str, &str)| format!("1 {label} 2 {x} 1 {}\n", id("c", city));
    assert_eq!(made, lines.iter().chain(&more).map(line).collect::<String>());
    let made = run(&["f=flag:id", "t=when:hash/100"], CLICKS).unwrap();
    assert!(
        made.starts_with(&format!("1 1 1 {}\n1 0 1 {}\n", id("t", "1"), id("t", "2"))),
        "{made}"
    );
}

#[test]
fn a_column_of_lists_makes_slots_of_any_length() {
    let made = run(&["ids=ids:id", "na=5"], CLICKS).unwrap();
    assert_eq!(
        made, "2 7 8\n1 5\n1 9\n1 5\n3 10 5 11\n",
        "nothing is what na says, also where a list is empty"
    );
}

#[test]
fn a_missing_value_is_an_error_unless_somebody_says_what_it_stands_for() {
    let refused = |argument: &str| match run(&[argument], CLICKS).unwrap_err() {
        Error::BadRow { row, column, refusal, .. } => (row, column, refusal),
        error => panic!("{error}"),
    };
    for (argument, row, column) in [("x=small,price", 3, "price"), ("s=ids:id", 2, "ids")] {
        let empty = Refusal::EmptyCell { column: column.to_string() };
        assert_eq!(refused(argument), (row, column.to_string(), empty));
    }
}

#[test]
fn a_cell_that_does_not_fit_is_named_by_row_and_column() {
    let refused = |argument: &str| match run(&["na=0", argument], CLICKS).unwrap_err() {
        Error::BadRow { row, column, refusal, .. } => (row, column, refusal.to_string()),
        error => panic!("{error}"),
    };
    let said = |column: &str, found: &str| {
        format!("slot `s`, column `{column}`: expected a whole number, found `{found}`")
    };
    assert_eq!(refused("s=text:id"), (3, "text".to_string(), said("text", "x")));
    assert_eq!(refused("s=price:id"), (1, "price".to_string(), said("price", "0.5")));
    let made = run(&["na=0", "s=huge:id"], CLICKS).unwrap();
    assert!(made.ends_with("1 9223372036854775809\n"), "{made}");
}

#[test]
fn a_column_that_cannot_be_read_is_named() {
    let refused = |arguments: &[&str], bytes: &[u8]| match run(arguments, bytes).unwrap_err() {
        Error::BadColumn { column, reason, .. } => format!("{column}: {reason}"),
        error => panic!("{error}"),
    };
    let found = refused(&["s=nowhere"], CLICKS);
    assert!(found.starts_with("nowhere: there is none; there are: label, price, small"), "{found}");
    assert!(refused(&["s=pair"], CLICKS).starts_with("pair: it is a group"));
    assert!(refused(&["s=ids,label"], CLICKS).starts_with("ids: it holds lists"));
    assert_eq!(run(&["s=pair.b:id"], CLICKS).unwrap(), "1 2\n".repeat(5), "by its whole name");
}

#[test]
fn a_file_packed_with_zstd_is_read() {
    let arguments = ["na=0", "label=label:id"];
    assert_eq!(run(&arguments, ZSTD).unwrap(), run(&arguments, CLICKS).unwrap());
}

/// Rows of `a INT64`, `b` optional FLOAT and `t` BYTE_ARRAY, `n_group` to a group.
fn written(n_rows: usize, n_group: usize, compression: Compression) -> Vec<u8> {
    let schema = "message m { required int64 a; optional float b; required binary t (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    for from in (0..n_rows).step_by(n_group) {
        let rows = from..n_rows.min(from + n_group);
        let mut group = writer.next_row_group().unwrap();
        let a: Vec<i64> = rows.clone().map(|row| row as i64).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(&a, None, None).unwrap();
        column.close().unwrap();
        let def: Vec<i16> = rows.clone().map(|row| (row % 3 > 0) as i16).collect();
        let b = rows.clone().filter(|row| row % 3 > 0).map(|row| row as f32 / 2.0);
        let mut column = group.next_column().unwrap().unwrap();
        let b: Vec<f32> = b.collect();
        column.typed::<FloatType>().write_batch(&b, Some(&def), None).unwrap();
        column.close().unwrap();
        let t: Vec<ByteArray> = rows.map(|row| ByteArray::from(&*format!("t{row}"))).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&t, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    bytes
}

#[test]
fn all_rows_of_all_groups_come_in_order() {
    let packed =
        [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::GZIP(GzipLevel::default())];
    for compression in packed {
        // Groups end within and at the end of what is decoded at once.
        let bytes = written(5_000, 2_048, compression);
        let made = run(&["na=0", "a=a:id", "b=b", "t=t:hash/100"], &bytes).unwrap();
        let line = |row: usize| {
            let b = if row.is_multiple_of(3) { 0.0 } else { row as f32 / 2.0 };
            format!("1 {row} 1 {b} 1 {}\n", id("t", &format!("t{row}")))
        };
        assert_eq!(made, (0..5_000).map(line).collect::<String>());
    }
    assert_eq!(run(&["a=a:id"], &written(0, 1, Compression::SNAPPY)).unwrap(), "");
}

/// Rows that are counted.
#[derive(Default)]
struct Counted(usize);

impl RowReader for Counted {
    fn taken(&mut self, records: &mut Records, _: u64) -> Result<()> {
        self.0 += records.len();
        records.clear();
        Ok(())
    }

    fn bad(&mut self, bad: BadRow) -> Result<()> {
        Err(bad.error("x", ""))
    }
}

/// Whatever bytes are damaged: rows, or a typed error that names the file.
#[test]
fn damaged_files_are_typed_errors() {
    let parquet = Parquet::from_arguments(&["na=0", "a=a:id", "b=b", "t=t:hash/100"]).unwrap();
    let table = parquet.table(&parquet.slots());
    let whole = written(300, 100, Compression::SNAPPY);
    let mut random = crate::random::Random::new(1);
    let (mut n_read, mut n_refused) = (0, 0);
    for _ in 0..2_000 {
        let mut bytes = whole.clone();
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes.truncate(at),
            _ => bytes[at] ^= 1 << random.below(8),
        }
        let mut counted = Counted::default();
        let read = table.read("f", Bytes::from(bytes), &mut Records::default(), &mut counted);
        match read {
            Ok(()) => n_read += 1,
            Err(Error::BadParquet { file, .. } | Error::BadColumn { file, .. }) => {
                assert_eq!(file, "f");
                n_refused += 1;
            }
            Err(Error::BadRow { .. }) => n_refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(n_read > 100 && n_refused > 100, "{n_read} read, {n_refused} refused");
}

#[test]
fn a_file_becomes_a_frame() {
    use crate::frame::DataFrame;
    use crate::series::Values;

    let bytes = written(3_000, 1_100, Compression::SNAPPY);
    let frame = DataFrame::new(read_columns("f", Bytes::from(bytes)).unwrap()).unwrap();
    assert_eq!(frame.n_rows(), 3_000);
    let Values::Whole(a) = &frame.get("a").unwrap().values else { panic!("a is whole") };
    assert!(a.iter().enumerate().all(|(row, &number)| number == row as i64));
    let Values::Float(b) = &frame.get("b").unwrap().values else { panic!("b is float") };
    assert!(b[0].is_nan() && b[3].is_nan());
    assert_eq!((b[1], b[2_999]), (0.5, 1_499.5));
    let Values::Text(t) = &frame.get("t").unwrap().values else { panic!("t is text") };
    assert_eq!((t.get(0), t.get(2_999)), (&b"t0"[..], &b"t2999"[..]));
    let error = read_columns("f", Bytes::from_static(CLICKS)).unwrap_err();
    assert!(matches!(&error, Error::BadColumn { column, .. } if column == "ids"), "{error}");
}

/// A column of each type that other programs write.
fn of_all_types(compression: Compression) -> Vec<u8> {
    let schema = "message m {
        optional int64 big (UINT_64);
        required int32 day (DATE);
        optional int64 at (TIMESTAMP(NANOS,true));
        optional int32 price (DECIMAL(9,2));
        required fixed_len_byte_array(9) amount (DECIMAL(20,0));
        required float x;
        required boolean flag;
    }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    macro_rules! column {
        ($type:ty, $values:expr, $def:expr) => {{
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<$type>().write_batch($values, $def, None).unwrap();
            column.close().unwrap();
        }};
    }
    let some = Some(&[1i16, 0, 1][..]);
    column!(Int64Type, &[i64::MIN, -1], some);
    column!(Int32Type, &[0, 19_753, 20_000], None);
    column!(Int64Type, &[1_706_695_200_000_000_000, 1_706_695_200_250_000_000], some);
    column!(Int32Type, &[1230, -700], some);
    let amount = |digits: i128| FixedLenByteArray::from(digits.to_be_bytes()[7..].to_vec());
    column!(FixedLenByteArrayType, &[amount(u64::MAX.into()), amount(-5), amount(7)], None);
    column!(FloatType, &[0.1, 2.0, 0.3], None);
    column!(BoolType, &[true, false, true], None);
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn every_type_is_what_its_text_is() {
    use crate::numbers::ColumnNumber;
    use crate::series::Values;
    use crate::times::time_text;

    let series = read_columns("f", Bytes::from(of_all_types(Compression::SNAPPY))).unwrap();
    let texts = |name: &str| -> Vec<String> {
        let one = series.iter().find(|series| series.name == name).unwrap();
        (0..3)
            .map(|row| match &one.values {
                Values::Time(micros) => time_text(micros[row]),
                values => values.number(row).map(ColumnNumber::text).unwrap().into_owned(),
            })
            .collect()
    };
    assert_eq!(texts("big"), ["9223372036854775808", "", "18446744073709551615"]);
    assert_eq!(texts("day"), ["1970-01-01", "2024-01-31", "2024-10-04"]);
    assert_eq!(texts("at"), ["2024-01-31T10:00:00", "", "2024-01-31T10:00:00.25"]);
    assert_eq!(texts("price"), ["12.3", "", "-7"]);
    assert_eq!(texts("amount"), ["18446744073709551615", "-5", "7"]);
    assert_eq!(texts("x"), ["0.1", "2", "0.3"]);
    assert_eq!(texts("flag"), ["1", "0", "1"]);
    let bytes = of_all_types(Compression::UNCOMPRESSED);
    let made = run(&["na=0", "b=big:id", "p=price"], &bytes).unwrap();
    assert_eq!(made, "1 9223372036854775808 1 12.3\n1 0 1 0\n1 18446744073709551615 1 -7\n");
}
