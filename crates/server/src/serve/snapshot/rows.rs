//! Rows of a table in a file: where they are in the table, and the bytes of each of its variables.

use std::io;
use std::ops::Range;

use base::bytes::{ByteReader, ByteWriter, Read, u32s};

use super::file::{FileReader, FileWriter, Kind};
use crate::bad_snapshot::BadSnapshot;

/// Bytes of a section before places or values.
const HEAD_BYTES: usize = 17;
/// Rows are read in blocks of so many bytes where they cannot be read to their places.
const BLOCK_BYTES: usize = 1 << 20;

/// Where rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Places {
    /// One behind the other.
    Run(Range<usize>),
    List(Vec<u32>),
}

impl Places {
    /// How many.
    pub(in crate::serve) fn len(&self) -> usize {
        match self {
            Places::Run(run) => run.len(),
            Places::List(list) => list.len(),
        }
    }

    /// One of them.
    pub(super) fn at(&self, at: usize) -> usize {
        match self {
            Places::Run(run) => run.start + at,
            Places::List(list) => list[at] as usize,
        }
    }

    /// One more than the last.
    fn end(&self) -> usize {
        match self {
            Places::Run(run) => run.end,
            Places::List(list) => list.iter().max().map_or(0, |&last| last as usize + 1),
        }
    }
}

/// Some rows of a table.
#[derive(Debug)]
pub(in crate::serve) struct RowsChunk {
    pub(in crate::serve) places: Places,
    /// The bytes of these rows, by variable.
    pub(in crate::serve) values: Vec<Vec<u8>>,
}

impl RowsChunk {
    /// Writes them.
    pub(in crate::serve) fn write(&self, file: &mut FileWriter, table: usize) -> io::Result<()> {
        let n = self.places.len() as u64;
        let mut head = ByteWriter::default();
        match &self.places {
            Places::Run(run) => head.u8(0).u64(run.start as u64).u64(n),
            Places::List(list) => {
                list.iter().fold(head.u8(1).u64(0).u64(n), |head, &place| head.u32(place))
            }
        };
        let mut contents: Vec<&[u8]> = vec![&head.0];
        contents.extend(self.values.iter().map(Vec::as_slice));
        file.section(Kind::Rows, table, &contents)
    }
}

/// The description of a table of rows, without the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct RowsHead {
    /// What follows is all of it, not only what changed.
    pub(in crate::serve) is_whole: bool,
    /// Rows that have a number.
    pub(in crate::serve) n_rows: u64,
    /// Where the row is that stands for those that do not exist, if there is one.
    pub(in crate::serve) absent: Option<u64>,
    /// An update was run.
    pub(in crate::serve) has_stepped: bool,
    /// Rows of gradients that an entry rule has dropped.
    pub(in crate::serve) n_dropped: u64,
    /// Variables with rows, and the bytes of a row of each.
    pub(in crate::serve) vars: Vec<(String, u32)>,
    /// How new rows start, by variable; none where all rows exist.
    pub(in crate::serve) inits: Vec<String>,
}

impl RowsHead {
    pub(in crate::serve) fn to_bytes(&self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        to.u8(self.is_whole.into()).u64(self.n_rows);
        to.u64(self.absent.unwrap_or(u64::MAX)).u8(self.has_stepped.into());
        to.u64(self.n_dropped);
        to.list(&self.vars, |to, (name, row_bytes)| {
            to.text(name).u32(*row_bytes);
        });
        to.list(&self.inits, |to, text| {
            to.text(text);
        });
        to.0
    }

    pub(in crate::serve) fn read(file: &mut FileReader) -> Result<Self, BadSnapshot> {
        let bytes = file.contents()?;
        let parse = |parts: &mut ByteReader<'_>| -> Read<Self> {
            let var = |parts: &mut ByteReader<'_>| -> Read<(String, u32)> {
                Ok((parts.text()?.to_string(), parts.u32()?))
            };
            let head = Self {
                is_whole: parts.u8()? == 1,
                n_rows: parts.u64()?,
                absent: parts.u64().map(|place| (place != u64::MAX).then_some(place))?,
                has_stepped: parts.u8()? == 1,
                n_dropped: parts.u64()?,
                vars: parts.list(var)?,
                inits: parts.list(|parts| parts.text().map(str::to_string))?,
            };
            parts.end().map(|()| head)
        };
        parse(&mut ByteReader::new(&bytes)).map_err(|_| file.damaged("a table cannot be read"))
    }
}

/// Reads where rows are, of a section that was just begun. They take `row_bytes` each, all variables
/// together, and are before `n_places`: both are looked at.
pub(in crate::serve) fn read_places(
    file: &mut FileReader,
    row_bytes: usize,
    n_places: usize,
) -> Result<Places, BadSnapshot> {
    let head = file.bytes(HEAD_BYTES)?;
    let parts = &mut ByteReader::new(&head);
    let fields = (parts.u8(), parts.u64(), parts.u64());
    let bad = |file: &FileReader| file.damaged("rows have no places");
    let (Ok(kind), Ok(first), Ok(n)) = fields else { return Err(bad(file)) };
    let each = row_bytes as u64 + if kind == 0 { 0 } else { size_of::<u32>() as u64 };
    if n.checked_mul(each) != Some(file.n_unread()) {
        return Err(file.damaged("rows of another width"));
    }
    let places = match kind {
        0 => first.checked_add(n).map(|end| Places::Run(first as usize..end as usize)),
        1 => Some(Places::List(u32s(&file.bytes(n as usize * size_of::<u32>())?).collect())),
        _ => None,
    };
    let places = places.filter(|places| places.end() <= n_places);
    places.ok_or_else(|| bad(file))
}

/// Reads the rows of one variable to their places in `table`.
pub(in crate::serve) fn read_rows(
    file: &mut FileReader,
    places: &Places,
    table: &mut [u8],
    row_bytes: usize,
) -> Result<(), BadSnapshot> {
    let list = match places {
        Places::Run(run) => {
            let run = run.start * row_bytes..run.end * row_bytes;
            return match table.get_mut(run) {
                Some(rows) => file.read(rows),
                None => Err(file.damaged("rows beyond the end of a table")),
            };
        }
        Places::List(list) => list,
    };
    let n_rows = (BLOCK_BYTES / row_bytes.max(1)).max(1);
    let mut block = vec![0; n_rows.min(list.len()) * row_bytes];
    for places in list.chunks(n_rows) {
        let block = &mut block[..places.len() * row_bytes];
        file.read(block)?;
        for (&place, row) in places.iter().zip(block.chunks_exact(row_bytes.max(1))) {
            match table.get_mut(place as usize * row_bytes..(place as usize + 1) * row_bytes) {
                Some(to) => to.copy_from_slice(row),
                None => return Err(file.damaged("rows beyond the end of a table")),
            }
        }
    }
    Ok(())
}

/// Reads the rows of one variable, and puts those that have a slot there. The others are read past: their checksum
/// is that of the section.
pub(in crate::serve) fn read_picked(
    file: &mut FileReader,
    places: &Places,
    picked: &mut [u8],
    row_bytes: usize,
    slot: &dyn Fn(usize) -> Option<usize>,
) -> Result<(), BadSnapshot> {
    let n_rows = (BLOCK_BYTES / row_bytes.max(1)).max(1);
    let mut block = vec![0; n_rows.min(places.len()) * row_bytes];
    for first in (0..places.len()).step_by(n_rows) {
        let n = n_rows.min(places.len() - first);
        let block = &mut block[..n * row_bytes];
        file.read(block)?;
        for (at, row) in (first..first + n).zip(block.chunks_exact(row_bytes.max(1))) {
            let Some(slot) = slot(places.at(at)) else { continue };
            match picked.get_mut(slot * row_bytes..(slot + 1) * row_bytes) {
                Some(to) => to.copy_from_slice(row),
                None => return Err(file.damaged("rows beyond the end of a table")),
            }
        }
    }
    Ok(())
}
