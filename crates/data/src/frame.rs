//! Whole tables in memory, column by column: input that is read before the meaning of its columns
//! is known.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Cursor, Read};
use std::sync::Arc;

use metrics::Phase;

use crate::csv::{Cells, separator_name};
use crate::error::{Error, Refusal, Result, of_read, shown};
use crate::files::{LINE_BYTES_MAX, Lines, ReadLine, open, read_bytes, unpack};
use crate::series::{Series, Texts, Values};
use crate::source::{Place, ReadAhead, RemoteBlocks, RemoteFile, Remotes, Stores, expand};

/// How Parquet files begin.
const PARQUET: &[u8; 4] = b"PAR1";
/// Separators between cells of a text file, the usual one first.
const SEPARATORS: [u8; 4] = *b",\t;|";
/// Columns of a click log: the label, 13 numbers, 26 texts.
const N_CLICK_LOG: usize = 40;
const N_NUMBERS: usize = 13;

/// A table in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataFrame {
    series: Vec<Series>,
    n_rows: usize,
}

impl DataFrame {
    /// Of these columns, which have different names and one length.
    pub fn new(series: Vec<Series>) -> Result<Self> {
        let n_rows = series.first().map_or(0, |first| first.values.len());
        let mut names = BTreeSet::new();
        for one in &series {
            let reason = if !names.insert(one.name.as_str()) {
                "it is there twice".to_string()
            } else if one.values.len() != n_rows {
                format!("it has {} rows, the first column has {n_rows}", one.values.len())
            } else {
                continue;
            };
            let (file, column) = ("the table".to_string(), one.name.clone());
            return Err(Error::BadColumn { file, column, reason });
        }
        Ok(Self { series, n_rows })
    }

    /// Reads a file: Parquet, a click log as Criteo published it (columns `label`, `I1` …, `C1` …), or
    /// lines of cells with the names of the columns first. Text may be packed with gzip.
    ///
    /// ```
    /// use data::{DataFrame, Values};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("clicks.csv");
    /// std::fs::write(&path, "city,clicked\nRome,1\nOslo,0\n")?;
    /// let frame = DataFrame::read(&path.to_string_lossy())?;
    /// assert_eq!(frame.n_rows(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(path: &str) -> Result<Self> {
        let failed = |source| Error::ReadFile { file: path.to_string(), source };
        let mut head = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(PARQUET.len() as u64).read_to_end(&mut head).map_err(failed)?;
        if head == PARQUET {
            let file = File::open(path).map_err(failed)?;
            return Self::new(crate::parquet::read_columns(path, file)?);
        }
        let opened = open(path).map_err(failed)?.opened;
        read_text(path, opened.reader())
    }

    /// Reads files, one behind the other: names and patterns of this machine and of stores, as in the list of a
    /// dataset. All have the same columns.
    pub fn read_list(names: &[String], stores: &Stores) -> Result<Self> {
        let remotes = Remotes::new(stores, Arc::default());
        let mut whole: Option<Self> = None;
        for file in expand(names, stores)? {
            let frame = match remotes.file(&file)? {
                Place::Local(path) => Self::read(&path)?,
                Place::Remote(remote) => read_remote(&file, remote)?,
            };
            match &mut whole {
                None => whole = Some(frame),
                Some(whole) => whole.append(&file, &frame)?,
            }
        }
        Ok(whole.unwrap_or_default())
    }

    /// Adds the rows of a file with the same columns.
    fn append(&mut self, file: &str, more: &DataFrame) -> Result<()> {
        let bad = |column: &str, reason: &str| Error::BadColumn {
            file: file.to_string(),
            column: column.to_string(),
            reason: reason.to_string(),
        };
        if let Some(extra) = more.series.iter().find(|one| self.get(&one.name).is_none()) {
            return Err(bad(&extra.name, "the files before do not have it"));
        }
        for one in &mut self.series {
            let Some(other) = more.get(&one.name) else {
                return Err(bad(&one.name, "it is missing, and the files before have it"));
            };
            if !one.values.append(&other.values) {
                return Err(bad(
                    &one.name,
                    "its values are of another type than in the files before",
                ));
            }
        }
        self.n_rows += more.n_rows;
        Ok(())
    }

    /// The columns.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The column of a name.
    pub fn get(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// How many rows there are.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }
}

/// Reads a file of a store: a Parquet file in blocks, a text from its beginning to its end.
fn read_remote(file: &str, remote: RemoteFile) -> Result<DataFrame> {
    let mut ahead = ReadAhead::open(remote.clone(), 0, 0)?;
    let mut head = Vec::new();
    let read = ahead.by_ref().take(PARQUET.len() as u64).read_to_end(&mut head);
    read.map_err(|source| of_read(file, source))?;
    if head != PARQUET {
        let opened = unpack(Cursor::new(head).chain(ahead));
        return read_text(file, opened.map_err(|source| of_read(file, source))?.opened.reader());
    }
    drop(ahead);
    let blocks = RemoteBlocks::open(remote, 0)?;
    match (crate::parquet::read_columns(file, blocks.clone()), blocks.failure()) {
        // The reader of the format has other words for it.
        (Err(Error::BadParquet { .. }), Some(failure)) => Err(failure),
        (columns, _) => DataFrame::new(columns?),
    }
}

/// Rows between two reports of progress.
const TOLD_EVERY: u64 = 1 << 10;

fn read_text(file: &str, source: impl Read) -> Result<DataFrame> {
    let failed = |source| of_read(file, source);
    let mut lines = Lines::new(source);
    let mut cells = Cells::default();
    let mut layout = None;
    let mut columns = Vec::new();
    let phase = Phase::begin("reading a table", "rows");
    let (n_bytes, read_before) =
        (std::fs::metadata(file).map_or(0, |about| about.len()), read_bytes());
    loop {
        let at = lines.n_lines + 1;
        if at.is_multiple_of(TOLD_EVERY) {
            phase.set(at);
            // A file elsewhere has no size here.
            if n_bytes > 0 {
                let n_read = read_bytes().saturating_sub(read_before);
                phase.set_share(n_read as f64 / n_bytes as f64);
            }
        }
        let bad = |text: &[u8], refusal| {
            let (file, command) = (file.to_string(), String::new());
            Error::BadLine { file, line: at, command, refusal, text: shown(text) }
        };
        let line = match lines.next().map_err(failed)? {
            ReadLine::End => break,
            ReadLine::TooLong => return Err(bad(b"", Refusal::TooLong { max: LINE_BYTES_MAX })),
            ReadLine::Text(line) => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
        };
        let refuse = |refusal| bad(line, refusal);
        let Some(TextLayout { separator, names, .. }) = &layout else {
            let found = TextLayout::of(line, &mut cells).map_err(refuse)?;
            columns.resize_with(found.names.len(), Texts::default);
            if !found.has_names {
                add(&cells, &mut columns)?;
            }
            layout = Some(found);
            continue;
        };
        if line.trim_ascii().is_empty() && names.len() > 1 {
            continue;
        }
        cells.split(line, *separator).map_err(refuse)?;
        if cells.len() != names.len() {
            let (expected, found) = (names.len(), cells.len());
            let separator = separator_name(*separator);
            return Err(refuse(Refusal::Fields { expected, found, separator }));
        }
        add(&cells, &mut columns)?;
    }
    let names = layout.map(|layout| layout.names).unwrap_or_default();
    let series = names.into_iter().zip(columns);
    DataFrame::new(
        series.map(|(name, texts)| Series { name, values: Values::Cells(texts) }).collect(),
    )
}

fn add(cells: &Cells, columns: &mut [Texts]) -> Result<()> {
    columns.iter_mut().enumerate().try_for_each(|(at, column)| column.try_push(cells.get(at)))
}

/// The layout of a text file, from its first line.
struct TextLayout {
    separator: u8,
    names: Vec<String>,
    /// It is not a row: it names the columns.
    has_names: bool,
}

impl TextLayout {
    /// The cells of the line are left in `cells`.
    fn of(line: &[u8], cells: &mut Cells) -> std::result::Result<Self, Refusal> {
        let count = |separator: &u8| line.iter().filter(|byte| *byte == separator).count();
        // Of equally many the first.
        let best = SEPARATORS.iter().rev().max_by_key(|separator| count(separator));
        let separator = *best.expect("there are some");
        cells.split(line, separator)?;
        let is_label = |text: &[u8]| text == b"0" || text == b"1";
        let has_names = separator != b'\t' || cells.len() != N_CLICK_LOG || !is_label(cells.get(0));
        let names = if has_names {
            (0..cells.len()).map(|at| shown(cells.get(at).trim_ascii())).collect()
        } else {
            click_log_names()
        };
        Ok(Self { separator, names, has_names })
    }
}

/// `label`, `I1` … `I13`, `C1` … `C26`.
fn click_log_names() -> Vec<String> {
    let numbers = (1..=N_NUMBERS).map(|at| format!("I{at}"));
    let texts = (1..N_CLICK_LOG - N_NUMBERS).map(|at| format!("C{at}"));
    ["label".to_string()].into_iter().chain(numbers).chain(texts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Values {
        let mut texts = Texts::default();
        words.iter().for_each(|word| texts.push(word.as_bytes()));
        Values::Cells(texts)
    }

    #[test]
    fn lines_become_columns() {
        let text = "\u{feff}a;city\r\n1;\"x;y\"\n\n2;\n";
        let frame = read_text("f", text.as_bytes()).unwrap();
        assert_eq!(frame.n_rows(), 2);
        assert_eq!(frame.get("a").unwrap().values, texts(&["1", "2"]));
        assert_eq!(frame.get("city").unwrap().values, texts(&["x;y", ""]));
    }

    #[test]
    fn a_click_log_needs_no_names() {
        let line = |label: &str| format!("{label}\t{}\n", ["7"; 39].join("\t"));
        let frame = read_text("f", (line("1") + &line("0")).as_bytes()).unwrap();
        assert_eq!((frame.n_rows(), frame.series().len()), (2, 40));
        assert_eq!(frame.get("label").unwrap().values, texts(&["1", "0"]));
        assert!(frame.get("I13").is_some() && frame.get("C26").is_some());
    }

    #[test]
    fn a_click_log_may_have_names() {
        for separator in [",", "\t"] {
            let names = click_log_names().join(separator);
            let row = ["1"; N_CLICK_LOG].join(separator);
            let frame = read_text("f", format!("{names}\n{row}\n").as_bytes()).unwrap();
            assert_eq!(frame.get("label").unwrap().values, texts(&["1"]), "the names are no row");
        }
    }

    #[test]
    fn refuses_what_is_no_table() {
        let error = read_text("f", "a,b\n1\n".as_bytes()).unwrap_err();
        assert!(matches!(error, Error::BadLine { line: 2, .. }), "{error}");
        let error = read_text("f", "a,a\n1,2\n".as_bytes()).unwrap_err();
        assert!(matches!(&error, Error::BadColumn { column, .. } if column == "a"), "{error}");
        let uneven = vec![
            Series { name: "a".into(), values: Values::Whole(vec![1]) },
            Series { name: "b".into(), values: Values::Float(vec![]) },
        ];
        assert!(matches!(DataFrame::new(uneven), Err(Error::BadColumn { .. })));
        assert_eq!(read_text("f", "".as_bytes()).unwrap().n_rows(), 0);
    }
}
