//! Tables as text: a header with the names of the columns, then a sample a line.

use crate::checksum::crc32;
use crate::error::{Error, Refusal, Result, shown};
use crate::native::Parse;
use crate::number::{Cursor, Id};
use crate::records::Records;
use crate::slot::Slot;

const USAGE: &str = "usage: paddlewheel csv-reader SLOT=COLUMN[,COLUMN…][:float|:id|:hash/N] …
lines of values separated by commas, the first with the names of the columns, become slots;
a slot is numbers (float, unless said otherwise), whole numbers (id), or texts made ids below N";

/// What becomes of the cells of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A number; nothing is 0.
    Float,
    /// A whole number; nothing is 0.
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
    /// What becomes of their cells.
    pub cell: Cell,
}

/// What `csv-reader` is told: the slots, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    slots: Vec<Column>,
}

impl Csv {
    /// The settings that arguments give.
    pub fn from_arguments(arguments: &[&str]) -> Result<Self> {
        Ok(Self { slots: Column::from_arguments("csv-reader", USAGE, arguments)? })
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
            places: Vec::new(),
            cells: Cells::default(),
        }
    }
}

impl Column {
    /// The slots that a command is told to make.
    pub(crate) fn from_arguments(
        command: &str,
        usage: &'static str,
        arguments: &[&str],
    ) -> Result<Vec<Self>> {
        let refuse = |reason: String| Error::Usage { command: command.to_string(), reason, usage };
        let slots: Option<Vec<Column>> = arguments.iter().map(|text| column(text)).collect();
        match slots {
            Some(slots) if !slots.is_empty() => Ok(slots),
            Some(_) => Err(refuse("there is no slot".to_string())),
            None => Err(refuse(format!("`{}` is not understood", arguments.join(" ")))),
        }
    }

    /// The slot, as long as it has columns.
    pub(crate) fn to_slot(&self) -> Slot {
        let shape = [-1, self.columns.len() as i64];
        match self.cell {
            Cell::Float => Slot::floats(&self.slot).dense(&shape),
            Cell::Id | Cell::Hash(_) => Slot::ids(&self.slot).dense(&shape),
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
        "float" => Cell::Float,
        "id" => Cell::Id,
        _ => {
            let n: u64 = kind.strip_prefix("hash/")?.parse().ok()?;
            Cell::Hash(Some(n).filter(|n| (1..1 << 63).contains(n))?)
        }
    };
    let columns: Vec<String> = columns.split(',').map(str::to_string).collect();
    let named = !slot.is_empty() && columns.iter().all(|name| !name.is_empty());
    named.then(|| Column { slot: slot.to_string(), columns, cell })
}

/// The cells of a line, without their quotation marks, one behind the other.
#[derive(Default)]
struct Cells {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Cells {
    fn get(&self, at: usize) -> &[u8] {
        let from = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.text[from..self.ends[at]]
    }

    fn split(&mut self, line: &[u8]) -> std::result::Result<(), Refusal> {
        self.text.clear();
        self.ends.clear();
        let mut bytes = line.strip_suffix(b"\r").unwrap_or(line).iter().peekable();
        let mut quoted = false;
        while let Some(&byte) = bytes.next() {
            match byte {
                // Two marks within a quotation are one mark of the text.
                b'"' if quoted && bytes.next_if_eq(&&b'"').is_some() => self.text.push(b'"'),
                b'"' => quoted = !quoted,
                b',' if !quoted => self.ends.push(self.text.len()),
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

    fn parse(&mut self, line: &[u8], out: &mut Records) -> std::result::Result<bool, Refusal> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        self.cells.split(line)?;
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
                    let found = self.cells.ends.len();
                    return Err(Refusal::Fields {
                        expected: place + 1,
                        found,
                        separator: "commas",
                    });
                }
                let text = self.cells.get(place);
                let read = match slot.cell {
                    Cell::Float => number(text).map(|number| out.push(number.to_bits())),
                    Cell::Id => whole(text).map(|id| out.push_id(id)),
                    Cell::Hash(n) => {
                        out.push_id(checksum(self.sums[at], text, n));
                        Some(())
                    }
                };
                read.ok_or_else(|| refuse(slot, nth, text))?;
            }
        }
        Ok(true)
    }
}

pub(crate) fn number(text: &[u8]) -> Option<f32> {
    let mut cursor = Cursor::new(text);
    match cursor.word() {
        [] => Some(0.0),
        _ => cursor.float().filter(|_| cursor.word().is_empty()),
    }
}

pub(crate) fn whole(text: &[u8]) -> Option<i64> {
    let mut cursor = Cursor::new(text);
    match (cursor.word(), cursor.id()) {
        ([], _) => Some(0),
        (_, Id::Is(id)) if cursor.word().is_empty() => Some(id),
        _ => None,
    }
}

pub(crate) fn checksum(start: u32, text: &[u8], n: u64) -> i64 {
    (u64::from(crc32(start, text)) % n) as i64
}

pub(crate) fn refuse(slot: &Column, nth: usize, text: &[u8]) -> Refusal {
    let expected = match slot.cell {
        Cell::Float => "a number or nothing",
        Cell::Id | Cell::Hash(_) => "a whole number or nothing",
    };
    Refusal::Value { slot: slot.slot.clone(), position: nth + 1, expected, found: shown(text) }
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
        let text = "label,a,city,b\r\n1,0.5,\"Paris, \"\"FR\"\"\",2\r\n0,,Rome,3\r\n";
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
        let short = Refusal::Fields { expected: 2, found: 1, separator: "commas" };
        assert_eq!(refused(&["x=b"], "a,b\n1\n"), short);
        assert!(matches!(refused(&["x=a"], "a\n1x\n"), Refusal::Value { position: 1, .. }));
        assert!(matches!(refused(&["x=a:id"], "a\n1.5\n"), Refusal::Value { .. }));
    }

    #[test]
    fn refuses_arguments_it_does_not_know() {
        for arguments in [&[][..], &["x"], &["x="], &["=a"], &["x=a:text"], &["x=a:hash/0"]] {
            let error = Csv::from_arguments(arguments).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{error}");
        }
    }
}
