//! Tables as text: a header with the names of the columns, then a sample a line.

use crate::checksum::crc32;
use crate::error::{Error, Refusal, Result, shown};
use crate::number::{Cursor, Id};
use crate::parse::Parse;
use crate::records::Records;
use crate::slot::Slot;

/// The separators of cells that have a name.
const SEPARATORS: [(&str, u8); 5] =
    [("comma", b','), ("tab", b'\t'), ("semicolon", b';'), ("space", b' '), ("pipe", b'|')];

/// The type of values that the cells of a slot become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// A number.
    Float,
    /// A whole number from 0 to 2⁶⁴ - 1.
    Id,
    /// A text whose checksum (of `"<slot>:<text>"`) is taken modulo this.
    Hash(u64),
}

/// A slot and the columns it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The slot.
    pub slot: String,
    /// The columns, by name.
    pub columns: Vec<String>,
    /// The type of values that their cells become.
    pub cell: CellType,
}

/// The number that an empty cell stands for, if any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Na {
    float: f32,
    id: i64,
}

impl Na {
    /// The number of this text, if it is one for all of these slots.
    fn parse(text: &str, slots: &[Column]) -> Option<Self> {
        let float = number(text.as_bytes())?;
        let id = ids(text.as_bytes(), None).ok();
        let has_ids = slots.iter().any(|slot| slot.cell == CellType::Id);
        (id.is_some() || !has_ids).then_some(Self { float, id: id.unwrap_or(0) })
    }
}

/// The settings of `csv-reader`: the slots, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Csv {
    slots: Vec<Column>,
    na: Option<Na>,
    separator: u8,
}

impl Csv {
    /// The settings that arguments give.
    pub fn from_arguments(arguments: &[&str]) -> Result<Self> {
        let (mut separator, mut rest) = (b',', Vec::new());
        for argument in arguments {
            let Some(text) = argument.strip_prefix("sep=") else {
                rest.push(*argument);
                continue;
            };
            separator = separator_of(text).ok_or_else(|| Error::Usage {
                command: "csv-reader",
                reason: format!("sep is one character, not `{text}`"),
            })?;
        }
        let (slots, na) = Column::from_arguments("csv-reader", &rest)?;
        Ok(Self { slots, na, separator })
    }

    /// The slots, each as long as it has columns.
    pub fn slots(&self) -> Vec<Slot> {
        self.slots.iter().map(Column::to_slot).collect()
    }

    pub(crate) fn parser(&self, slots: &[Slot]) -> CsvParser {
        CsvParser {
            sums: self.slots.iter().map(Column::sum).collect(),
            used: slots.iter().map(|slot| slot.used).collect(),
            slots: self.slots.clone(),
            na: self.na,
            separator: self.separator,
            places: Vec::new(),
            cells: Cells::default(),
        }
    }
}

/// The character of a name, or of itself; nothing that has a meaning of its own in a table.
fn separator_of(text: &str) -> Option<u8> {
    let named = SEPARATORS.iter().find(|(name, _)| *name == text).map(|&(_, byte)| byte);
    let itself = match text {
        r"\t" => Some(b'\t'),
        _ => Some(text.as_bytes()).filter(|bytes| bytes.len() == 1).map(|bytes| bytes[0]),
    };
    named.or(itself).filter(|byte| byte.is_ascii() && !b"\"\r\n".contains(byte))
}

/// The name of a separator in messages.
pub(crate) fn separator_name(separator: u8) -> String {
    let named = SEPARATORS.iter().find(|&&(_, byte)| byte == separator);
    named.map_or_else(|| format!("`{}`", char::from(separator)), |(name, _)| format!("{name}s"))
}

impl Column {
    /// The slots that a command is told to make.
    pub(crate) fn from_arguments(
        command: &'static str,
        arguments: &[&str],
    ) -> Result<(Vec<Self>, Option<Na>)> {
        let refuse = |reason: String| Error::Usage { command, reason };
        let (mut slots, mut na) = (Vec::new(), None);
        for argument in arguments {
            match argument.strip_prefix("na=") {
                Some(text) => na = Some(text),
                None => slots.push(
                    column(argument)
                        .ok_or_else(|| refuse(format!("`{argument}` is not understood")))?,
                ),
            }
        }
        if slots.is_empty() {
            return Err(refuse("there is no slot".to_string()));
        }
        let Some(text) = na else { return Ok((slots, None)) };
        let bad = || refuse(format!("na is a number that all slots can hold, not `{text}`"));
        let na = Na::parse(text, &slots).ok_or_else(bad)?;
        Ok((slots, Some(na)))
    }

    /// The slot, as long as it has columns.
    pub(crate) fn to_slot(&self) -> Slot {
        let shape = [-1, self.columns.len() as i64];
        match self.cell {
            CellType::Float => Slot::floats(&self.slot).dense(&shape),
            CellType::Id | CellType::Hash(_) => Slot::ids(&self.slot).dense(&shape),
        }
    }

    /// The checksum of `"<slot>:"`, which those of texts continue.
    pub(crate) fn sum(&self) -> u32 {
        crc32(0, format!("{}:", self.slot).as_bytes())
    }
}

/// `slot=a,b:hash/9`
fn column(text: &str) -> Option<Column> {
    let (slot, rest) = text.split_once('=')?;
    let (columns, kind) = rest.split_once(':').unwrap_or((rest, "float"));
    let cell = match kind {
        "float" => CellType::Float,
        "id" => CellType::Id,
        _ => {
            let n: u64 = kind.strip_prefix("hash/")?.parse().ok()?;
            CellType::Hash(Some(n).filter(|n| (1..1 << 63).contains(n))?)
        }
    };
    let columns: Vec<String> = columns.split(',').map(str::to_string).collect();
    let named = !slot.is_empty() && columns.iter().all(|name| !name.is_empty());
    named.then(|| Column { slot: slot.to_string(), columns, cell })
}

/// The cells of a line, without their quotation marks, one behind the other.
#[derive(Default)]
pub(crate) struct Cells {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Cells {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn get(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[from..self.ends[at]]
    }

    pub(crate) fn split(&mut self, line: &[u8], separator: u8) -> std::result::Result<(), Refusal> {
        self.text.clear();
        self.ends.clear();
        let mut bytes = line.strip_suffix(b"\r").unwrap_or(line).iter().peekable();
        let mut quoted = false;
        while let Some(&byte) = bytes.next() {
            match byte {
                // Two marks within a quotation are one mark of the text.
                b'"' if quoted && bytes.next_if_eq(&&b'"').is_some() => self.text.push(b'"'),
                b'"' => quoted = !quoted,
                byte if byte == separator && !quoted => self.ends.push(self.text.len()),
                byte => self.text.push(byte),
            }
        }
        self.ends.push(self.text.len());
        if quoted { Err(Refusal::OpenQuote) } else { Ok(()) }
    }
}

/// Reads the lines of a table.
pub(crate) struct CsvParser {
    slots: Vec<Column>,
    used: Vec<bool>,
    na: Option<Na>,
    separator: u8,
    /// The checksum of `"<slot>:"`, which those of texts continue.
    sums: Vec<u32>,
    /// For each slot the places of its columns; empty before the header.
    places: Vec<Vec<usize>>,
    cells: Cells,
}

impl CsvParser {
    fn read_header(&mut self) -> std::result::Result<(), Refusal> {
        let names: Vec<String> =
            (0..self.cells.ends.len()).map(|at| shown(self.cells.get(at).trim_ascii())).collect();
        let place = |column: &String| {
            names.iter().position(|name| name == column).ok_or_else(|| Refusal::NoColumn {
                column: column.clone(),
                columns: names.join(", "),
            })
        };
        let places = |slot: &Column| slot.columns.iter().map(place).collect();
        self.places = self.slots.iter().map(places).collect::<std::result::Result<_, _>>()?;
        Ok(())
    }
}

impl Parse for CsvParser {
    fn begin(&mut self) {
        self.places.clear();
    }

    fn needs_header(&self) -> bool {
        self.places.is_empty()
    }

    fn pass_over(&mut self, line: &[u8]) {
        if self.places.is_empty() {
            // A header that is none was counted when it was read.
            let _ = self.parse(line, &mut Records::default());
        }
    }

    fn parse(&mut self, line: &[u8], out: &mut Records) -> std::result::Result<bool, Refusal> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        self.cells.split(line, self.separator)?;
        if self.places.is_empty() {
            self.read_header()?;
            return Ok(false);
        }
        out.begin(0);
        for (at, slot) in self.slots.iter().enumerate() {
            if !self.used[at] {
                continue;
            }
            out.push(slot.columns.len() as u32);
            for (nth, &place) in self.places[at].iter().enumerate() {
                if place >= self.cells.ends.len() {
                    let (expected, found) = (place + 1, self.cells.ends.len());
                    let separator = separator_name(self.separator);
                    return Err(Refusal::Fields { expected, found, separator });
                }
                let text = self.cells.get(place);
                let read = match slot.cell {
                    CellType::Float => {
                        floats(text, self.na).map(|number| out.push(number.to_bits()))
                    }
                    CellType::Id => ids(text, self.na).map(|id| out.push_id(id)),
                    CellType::Hash(n) => {
                        out.push_id(checksum(self.sums[at], text, n));
                        Ok(())
                    }
                };
                read.map_err(|bad| bad.of(slot, nth, text))?;
            }
        }
        Ok(true)
    }
}

/// The reason why a cell cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadCell {
    /// It is empty, and the command does not give a value for empty cells.
    Empty,
    /// It is an id below 0.
    Negative,
    /// It is something else.
    Other,
}

impl BadCell {
    /// The refusal: the `nth` column of a slot holds `text`.
    pub(crate) fn of(self, slot: &Column, nth: usize, text: &[u8]) -> Refusal {
        let column = slot.columns.get(nth).or(slot.columns.last()).cloned().unwrap_or_default();
        match (self, slot.cell) {
            (BadCell::Empty, _) => Refusal::EmptyCell { column },
            (BadCell::Negative, _) => Refusal::NegativeId { column, found: shown(text) },
            (BadCell::Other, cell) => {
                let expected = if cell == CellType::Float { "a number" } else { "a whole number" };
                let slot = slot.slot.clone();
                Refusal::Cell { slot, column, expected, found: shown(text) }
            }
        }
    }
}

/// A cell as a number.
pub(crate) fn floats(text: &[u8], na: Option<Na>) -> std::result::Result<f32, BadCell> {
    match text.trim_ascii() {
        [] => na.map(|na| na.float).ok_or(BadCell::Empty),
        text => number(text).ok_or(BadCell::Other),
    }
}

/// A cell as an id.
pub(crate) fn ids(text: &[u8], na: Option<Na>) -> std::result::Result<i64, BadCell> {
    match text.trim_ascii() {
        [] => na.map(|na| na.id).ok_or(BadCell::Empty),
        text => match whole(text).ok_or(BadCell::Other)? {
            // From 2^63 on the bits are those of a negative number; the text has no sign.
            id if id != 0 && text.starts_with(b"-") => Err(BadCell::Negative),
            id => Ok(id),
        },
    }
}

impl Na {
    pub(crate) fn float(self) -> f32 {
        self.float
    }

    pub(crate) fn id(self) -> i64 {
        self.id
    }
}

fn number(text: &[u8]) -> Option<f32> {
    let mut cursor = Cursor::new(text);
    match cursor.word() {
        [] => None,
        _ => cursor.float().filter(|_| cursor.word().is_empty()),
    }
}

fn whole(text: &[u8]) -> Option<i64> {
    let mut cursor = Cursor::new(text);
    match (cursor.word(), cursor.id()) {
        (word, Id::Is(id)) if !word.is_empty() && cursor.word().is_empty() => Some(id),
        _ => None,
    }
}

pub(crate) fn checksum(start: u32, text: &[u8], n: u64) -> i64 {
    (u64::from(crc32(start, text)) % n) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;

    fn run(arguments: &[&str], text: &str) -> Result<String> {
        let mut out = Vec::new();
        Native::Csv(Csv::from_arguments(arguments)?).run(text.as_bytes(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn refused(arguments: &[&str], text: &str) -> Refusal {
        match run(arguments, text).unwrap_err() {
            Error::BadLine { refusal, .. } => refusal,
            error => panic!("{error}"),
        }
    }

    #[test]
    fn columns_become_slots_by_name() {
        let text = "label,a,city,b\r\n1,0.5,\"Paris, \"\"FR\"\"\",2\r\n0,0,Rome,3\r\n";
        let made = run(&["x=b,a", "c=city:hash/1000", "label=label:id"], text).unwrap();
        let id = |text: &str| crc32fast::hash(format!("c:{text}").as_bytes()) % 1000;
        let (paris, rome) = (id("Paris, \"FR\""), id("Rome"));
        assert_eq!(made, format!("2 2 0.5 1 {paris} 1 1\n2 3 0 1 {rome} 1 0\n"));
    }

    #[test]
    fn refuses_what_is_no_table() {
        let missing = refused(&["x=z"], "a,b\n1,2\n");
        assert!(matches!(missing, Refusal::NoColumn { column, .. } if column == "z"));
        assert_eq!(refused(&["x=a"], "a\n\"1\n"), Refusal::OpenQuote);
        let short = |separator: &str| Refusal::Fields {
            expected: 2,
            found: 1,
            separator: separator.into(),
        };
        assert_eq!(refused(&["x=b"], "a,b\n1\n"), short("commas"));
        assert_eq!(refused(&["sep=tab", "x=b"], "a\tb\n1\n"), short("tabs"));
        assert_eq!(refused(&["sep=#", "x=b"], "a#b\n1\n"), short("`#`"));
        let cell = refused(&["x=b,a"], "a,b\n1x,2\n");
        assert_eq!(cell.to_string(), "slot `x`, column `a`: expected a number, found `1x`");
        let cell = refused(&["x=a:id"], "a\n1.5\n");
        assert_eq!(cell.to_string(), "slot `x`, column `a`: expected a whole number, found `1.5`");
    }

    #[test]
    fn an_empty_cell_is_an_error_unless_somebody_says_what_it_stands_for() {
        let text = "a,b,c\n1,2,x\n ,,\n";
        for (argument, empty) in [("x=b,a", "b"), ("x=a", "a"), ("x=b:id", "b")] {
            assert_eq!(refused(&[argument], text), Refusal::EmptyCell { column: empty.into() });
        }
        assert_eq!(run(&["na=7", "x=b,a:id"], text).unwrap(), "2 2 1\n2 7 7\n");
        assert_eq!(run(&["x=b,a", "na=-0.5"], text).unwrap(), "2 2 1\n2 -0.5 -0.5\n");
        let id = crc32fast::hash(b"x:") % 100;
        let made = run(&["x=c:hash/100"], text).unwrap();
        assert!(made.ends_with(&format!("1 {id}\n")), "an empty text is a text");
    }

    #[test]
    fn an_id_below_0_is_refused() {
        let refusal = refused(&["x=a,b:id"], "a,b\n1,-2\n");
        assert_eq!(refusal, Refusal::NegativeId { column: "b".into(), found: "-2".into() });
        assert_eq!(run(&["x=a"], "a\n-2\n").unwrap(), "1 -2\n", "a number may be");
    }

    #[test]
    fn ids_have_64_bits() {
        let text = "a\n9223372036854775808\n18446744073709551615\n";
        let made = run(&["x=a:id"], text).unwrap();
        assert_eq!(made, "1 9223372036854775808\n1 18446744073709551615\n");
        let cell = refused(&["x=a:id"], "a\n18446744073709551616\n");
        assert!(matches!(cell, Refusal::Cell { .. }), "{cell}");
    }

    #[test]
    fn cells_may_be_separated_by_something_else() {
        for (sep, between) in
            [("tab", '\t'), (r"\t", '\t'), (";", ';'), ("pipe", '|'), ("semicolon", ';')]
        {
            let text = format!("a{between}b\n1,5{between}2\n").replace(',', ".");
            let made = run(&[&format!("sep={sep}"), "x=b,a"], &text).unwrap();
            assert_eq!(made, "2 2 1.5\n", "{sep}");
        }
    }

    #[test]
    fn refuses_arguments_it_does_not_know() {
        let bad = [
            &[][..],
            &["x"],
            &["x="],
            &["=a"],
            &["x=a:text"],
            &["x=a:hash/0"],
            &["sep=ab", "x=a"],
            &["sep=", "x=a"],
            &["sep=\"", "x=a"],
            &["na=", "x=a"],
            &["na=x", "x=a"],
            &["na=-1", "x=a:id"],
            &["na=0.5", "x=a:id"],
        ];
        for arguments in bad {
            let error = Csv::from_arguments(arguments).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{error}");
        }
    }
}
