//! Tables of which servers keep touched rows, on disk: each server writes its rows, and any number of
//! servers reads them.
//!
//! Files are streams of keyed rows with the rows' numbers in the whole table, ascending, in the folder
//! `__lookup_table__`. `<variable>_parts` says how many there are and whether a hash dealt the rows out.
//! Neither writing nor reading holds a table twice.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use program::distributed::{Placement, Spread, server_of};
use program::stream;
use ps::message::Phase;
use tensor::{DType, Rows, Shape, Tensor};

use super::distributed::TABLES;
use super::file::{path_of, write_atomically_with};
use super::shards::{self, Note, beside};
use crate::error::{Error, Result};

/// Suffix of the variable with the rows that an entry rule has not taken in, and how often they were
/// named.
pub(crate) const WAITING: &str = "@WAITING";
/// Bytes read or written at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Which rows of a variable a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Rows that follow one another; the server counts them from 0.
    Range(Range<i64>),
    /// Those that a hash gives it, of a table of `height` rows; they keep their numbers.
    Hash { server: usize, n_servers: usize, height: i64 },
}

impl Share {
    /// What a server has of a variable; `server` is its number.
    pub(crate) fn of(placed: &Placement, server: usize, n_servers: usize) -> Self {
        let height = placed.dims().first().copied().unwrap_or(0);
        match placed.spread {
            Spread::Hash => Share::Hash { server, n_servers, height },
            Spread::Range => {
                let first = placed.piece.rows.start;
                Share::Range(first..first + height)
            }
        }
    }

    /// Whether a row of the whole is here.
    pub(crate) fn has(&self, row: i64) -> bool {
        match self {
            Share::Range(range) => range.contains(&row),
            Share::Hash { server, n_servers, height } => {
                (0..*height).contains(&row) && server_of(row, *n_servers) == *server
            }
        }
    }

    /// What the server's number 0 is in the whole.
    pub(crate) fn first(&self) -> i64 {
        match self {
            Share::Range(range) => range.start,
            Share::Hash { .. } => 0,
        }
    }

    /// One more than the largest number that the server may give a row.
    pub(crate) fn height(&self) -> i64 {
        match self {
            Share::Range(range) => range.end - range.start,
            Share::Hash { height, .. } => *height,
        }
    }

    /// Rows that the server would have if all existed, as near as need be.
    pub(crate) fn n_rows(&self) -> i64 {
        match self {
            Share::Range(range) => range.end - range.start,
            Share::Hash { n_servers, height, .. } => height / (*n_servers).max(1) as i64,
        }
    }

    pub(crate) fn spread(&self) -> Spread {
        match self {
            Share::Range(_) => Spread::Range,
            Share::Hash { .. } => Spread::Hash,
        }
    }
}

/// How files of pieces are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// `<variable>_<piece>of<pieces>`.
    Counted,
    /// `<variable>_<server>`: as Fluid calls those of the table made with `is_distributed`.
    Fluid,
}

/// Which piece of a variable a file holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceFile<'a> {
    pub(crate) var: &'a str,
    pub(crate) number: usize,
    pub(crate) n: usize,
    pub(crate) naming: Naming,
}

impl PieceFile<'_> {
    pub(super) fn path(&self, dir: &Path) -> Result<PathBuf> {
        let name = match self.naming {
            Naming::Counted => format!("{}_{}of{}", self.var, self.number, self.n),
            Naming::Fluid => format!("{}_{}", self.var, self.number),
        };
        path_of(&dir.join(TABLES), &name)
    }
}

/// What rows look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// Rows of the whole table.
    pub(crate) height: i64,
    pub(crate) width: usize,
    pub(crate) dtype: DType,
}

/// Writes a piece beside the place it will have: ids in ascending order, and the bytes of
/// their rows, as many at a time as may be.
pub(crate) fn write_piece(
    dir: &Path,
    piece: PieceFile<'_>,
    form: Form,
    ids: impl ExactSizeIterator<Item = i64>,
    rows: impl Iterator<Item = io::Result<Vec<u8>>>,
) -> Result<()> {
    let n = ids.len();
    write_atomically_with(&beside(&piece.path(dir)?), |file| {
        let mut out = BufWriter::with_capacity(BLOCK_BYTES, file);
        out.write_all(&stream::rows_head(n))?;
        for id in ids {
            out.write_all(&id.to_le_bytes())?;
        }
        out.write_all(&form.height.to_le_bytes())?;
        out.write_all(&stream::payload_head(form.dtype, &[n, form.width]))?;
        for row in rows {
            out.write_all(&row?)?;
        }
        out.flush()
    })
}

/// What comes after all pieces were written; see [`shards`].
pub(crate) fn settle_piece(
    dir: &Path,
    piece: PieceFile<'_>,
    spread: Spread,
    phase: Phase,
) -> Result<()> {
    let path = piece.path(dir)?;
    match phase {
        Phase::Write => Ok(()),
        Phase::Place => shards::place(&path),
        Phase::GiveUp => {
            shards::give_up(&path);
            Ok(())
        }
        Phase::Tidy => {
            shards::write_note(dir, piece.var, Note { n_parts: piece.n, spread })?;
            // Files of another number of pieces are older: nobody may load them any more.
            let is_older = |found: &Found| {
                let is_of_this = match found.n {
                    Some(n) => n == piece.n,
                    None => found.number < piece.n,
                };
                found.naming() != piece.naming || !is_of_this
            };
            let mut older = found_in(dir, piece.var)?.into_iter().filter(is_older);
            older.try_for_each(|found| shards::remove(&found.path))
        }
    }
}

/// A file of a variable.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    path: PathBuf,
    number: usize,
    /// How many pieces its name says there are.
    n: Option<usize>,
}

impl Found {
    fn naming(&self) -> Naming {
        if self.n.is_some() { Naming::Counted } else { Naming::Fluid }
    }
}

/// All files of a variable.
fn found_in(dir: &Path, var: &str) -> Result<Vec<Found>> {
    let whole = path_of(&dir.join(TABLES), var)?;
    let (Some(folder), Some(stem)) = (whole.parent(), whole.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}_", stem.to_string_lossy());
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let of_var = |path: PathBuf| {
        let numbers = path.file_name()?.to_str()?.strip_prefix(&prefix)?;
        let (number, n) = match numbers.split_once("of") {
            Some((number, n)) => (number.parse().ok()?, Some(n.parse().ok()?)),
            None => (numbers.parse().ok()?, None),
        };
        Some(Found { path, number, n })
    };
    let mut found: Vec<_> = entries.filter_map(|entry| of_var(entry.ok()?.path())).collect();
    found.sort();
    Ok(found)
}

/// How files of a variable were dealt rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dealt {
    Range,
    Hash,
    /// `id % n_servers`: as Fluid does it for the table made with `is_distributed`.
    Modulo,
}

/// A variable on disk.
struct Saved {
    naming: Naming,
    n: usize,
    dealt: Dealt,
}

impl Saved {
    /// Finds out how a variable was saved; `None` if there is no file of it at all.
    fn find(dir: &Path, own: PieceFile<'_>) -> Result<Option<Self>> {
        let (note, found) = (shards::read_note(dir, own.var)?, found_in(dir, own.var)?);
        let is_own = |found: &&Found| found.naming() == own.naming;
        let last = found.iter().rfind(is_own).or(found.last());
        let naming = match (last, note) {
            (None, None) => return Ok(None),
            (None, Some(_)) => own.naming,
            (Some(last), _) => last.naming(),
        };
        let numbers: Vec<usize> =
            found.iter().filter(|f| f.naming() == naming).map(|f| f.number).collect();
        let is_there = found.iter().any(|f| (f.number, f.n) == (own.number, Some(own.n)));
        let n = match (note, naming, last.and_then(|last| last.n)) {
            (Some(note), ..) => note.n_parts,
            (None, Naming::Counted, _) if is_there => own.n,
            (None, Naming::Counted, n) => n.unwrap_or(own.n),
            // Where servers have disks of their own, each finds its own file only.
            (None, Naming::Fluid, _) if numbers.contains(&0) => numbers.len(),
            (None, Naming::Fluid, _) => own.n,
        };
        let dealt = match (note.map(|note| note.spread), naming) {
            (Some(Spread::Hash), _) => Dealt::Hash,
            (_, Naming::Counted) => Dealt::Range,
            (_, Naming::Fluid) => Dealt::Modulo,
        };
        Ok(Some(Self { naming, n, dealt }))
    }

    /// Whether a server of this share finds all its rows in one file, that of its number.
    fn is_dealt_like(&self, share: &Share, n: usize) -> bool {
        let alike = match self.dealt {
            Dealt::Range => share.spread() == Spread::Range,
            Dealt::Hash => share.spread() == Spread::Hash,
            Dealt::Modulo => n == 1,
        };
        alike && self.n == n
    }

    /// Whether a row can be in a file.
    fn fits(&self, number: usize, row: i64) -> bool {
        match self.dealt {
            Dealt::Range => true,
            Dealt::Hash => server_of(row, self.n) == number,
            Dealt::Modulo => row.rem_euclid(self.n as i64) == number as i64,
        }
    }
}

/// A server's rows of a variable that was written in pieces, however many; ids are those that the
/// server gives them. `None` if there is no file of it at all.
pub(crate) fn read_pieces(
    dir: &Path,
    own: PieceFile<'_>,
    form: Form,
    share: &Share,
) -> Result<Option<Rows>> {
    let Some(saved) = Saved::find(dir, own)? else { return Ok(None) };
    let mut rows = Rows { height: share.height(), ..Rows::default() };
    rows.value.resize_as(form.dtype, Shape::from([0, form.width]));
    let files = match saved.is_dealt_like(share, own.n) {
        true => own.number..own.number + 1,
        false => 0..saved.n,
    };
    for number in files {
        let path = PieceFile { number, n: saved.n, naming: saved.naming, ..own }.path(dir)?;
        let wanted = Wanted { form, share, saved: &saved, number };
        read_piece(&path, &wanted, &mut rows)?;
    }
    Ok(Some(rows))
}

/// What is looked for in a file.
struct Wanted<'a> {
    form: Form,
    share: &'a Share,
    saved: &'a Saved,
    /// Which file it is.
    number: usize,
}

fn read_piece(path: &Path, wanted: &Wanted<'_>, rows: &mut Rows) -> Result<()> {
    let open = File::open(path).and_then(|file| {
        let n_bytes = file.metadata()?.len();
        Ok((BufReader::with_capacity(BLOCK_BYTES, file), n_bytes))
    });
    let path = || path.to_path_buf();
    let (mut input, n_bytes) = open.map_err(|source| Error::CannotLoad { path: path(), source })?;
    let read = read_into(&mut input, n_bytes, wanted, rows);
    match read.map_err(|source| Error::CannotLoad { path: path(), source })? {
        Ok(()) => Ok(()),
        Err(problem) => Err(Error::RowsFile { path: path(), problem }),
    }
}

/// Appends the rows of a stream; the inner error is what is wrong with it.
fn read_into(
    input: &mut impl Read,
    n_bytes: u64,
    wanted: &Wanted<'_>,
    rows: &mut Rows,
) -> io::Result<std::result::Result<(), &'static str>> {
    let Wanted { form, share, saved, number } = *wanted;
    let row_bytes = form.width * form.dtype.size();
    if u32_of(input)? != 0 {
        return Ok(Err("no stream of keyed rows"));
    }
    let n = u64_of(input)?;
    if n.saturating_mul(8 + row_bytes as u64) > n_bytes {
        return Ok(Err("the file is cut short"));
    }
    let ids = (0..n).map(|_| Ok(u64_of(input)? as i64)).collect::<io::Result<Vec<i64>>>()?;
    if ids.iter().any(|&id| !saved.fits(number, id)) {
        return Ok(Err("it was not saved together with the other files of this table"));
    }
    // Fluid's files say how many rows a server had room for.
    if u64_of(input)? as i64 != form.height && saved.naming == Naming::Counted {
        return Ok(Err("it holds rows of a table of another height"));
    }
    let (_, size) = (u32_of(input)?, u32_of(input)?);
    let mut desc = vec![0; size.min(1024) as usize];
    input.read_exact(&mut desc)?;
    let expected = (i64::from(form.dtype.code()), vec![n as i64, form.width as i64]);
    if stream::description(&desc) != Some(expected) {
        return Ok(Err("it holds rows of another width or type"));
    }
    let mut row = vec![0; row_bytes];
    let mut at = rows.ids.len();
    let n_here = ids.iter().filter(|id| share.has(**id)).count();
    rows.value.grow_rows(at + n_here);
    for id in ids {
        input.read_exact(&mut row)?;
        if share.has(id) {
            rows.value.bytes_mut()[at * row_bytes..][..row_bytes].copy_from_slice(&row);
            rows.ids.push(id - share.first());
            at += 1;
        }
    }
    Ok(Ok(()))
}

fn u32_of(input: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    input.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn u64_of(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Counts as rows of one number.
pub(crate) fn counts_to_bytes(counts: impl Iterator<Item = u32>) -> Vec<u8> {
    counts.flat_map(|count| i64::from(count).to_le_bytes()).collect()
}

/// The rows of a tensor in a given order.
pub(crate) fn rows_of<'a>(
    tensor: &'a Tensor,
    places: impl Iterator<Item = usize> + 'a,
) -> impl Iterator<Item = &'a [u8]> {
    let row_bytes = tensor.shape().flatten_2d(1).1 * tensor.dtype().size();
    places.map(move |at| &tensor.bytes()[at * row_bytes..][..row_bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { height: 1 << 40, width: 2, dtype: DType::F32 };

    const EMB: PieceFile<'_> = PieceFile { var: "emb", number: 0, n: 1, naming: Naming::Counted };

    fn write(dir: &Path, (number, n): (usize, usize), ids: &[i64]) {
        write_as(dir, PieceFile { number, n, ..EMB }, ids);
    }

    fn write_as(dir: &Path, piece: PieceFile<'_>, ids: &[i64]) {
        let values: Vec<f32> = ids.iter().flat_map(|&id| [id as f32, 0.5]).collect();
        let tensor = Tensor::new([ids.len(), 2], &values).unwrap();
        let rows = rows_of(&tensor, 0..ids.len()).map(|row| Ok(row.to_vec()));
        write_piece(dir, piece, FORM, ids.iter().copied(), rows).unwrap();
    }

    fn settle(dir: &Path, n: usize, phase: Phase) {
        for number in 0..n {
            settle_piece(dir, PieceFile { number, n, ..EMB }, Spread::Range, phase).unwrap();
        }
    }

    fn read(dir: &Path, (number, n): (usize, usize), range: Range<i64>) -> Result<Rows> {
        let share = Share::Range(range);
        read_pieces(dir, PieceFile { number, n, ..EMB }, FORM, &share)
            .map(|rows| rows.expect("files"))
    }

    const IDS: [i64; 9] = [0, 1, 2, 3, 70, 71, 900, 1 << 30, 1 << 39];

    fn dealt(number: usize, n: usize, by: impl Fn(i64, usize) -> usize) -> Vec<i64> {
        IDS.into_iter().filter(|&id| by(id, n) == number).collect()
    }

    fn modulo(id: i64, n: usize) -> usize {
        id as usize % n
    }

    /// Whatever number of servers saved a table in whatever layout, any number loads all of it.
    #[test]
    fn no_row_is_lost_between_layouts_and_numbers_of_servers() {
        for (n_before, n_after) in (1..=3).flat_map(|n| (1..=3).map(move |m| (n, m))) {
            let [hashed, fluids, ranges] = [0, 1, 2].map(|_| tempfile::tempdir().unwrap());
            let fluid = PieceFile { n: n_before, naming: Naming::Fluid, ..EMB };
            for number in 0..n_before {
                let counted = PieceFile { number, n: n_before, ..EMB };
                write_as(hashed.path(), counted, &dealt(number, n_before, server_of));
                let fluid = PieceFile { number, ..fluid };
                write_as(fluids.path(), fluid, &dealt(number, n_before, modulo));
                let of_range = |id: i64, n: usize| (id as usize * n) >> 40;
                write_as(ranges.path(), counted, &dealt(number, n_before, of_range));
                for phase in [Phase::Place, Phase::Tidy] {
                    settle_piece(hashed.path(), counted, Spread::Hash, phase).unwrap();
                    settle_piece(fluids.path(), fluid, Spread::Range, phase).unwrap();
                    settle_piece(ranges.path(), counted, Spread::Range, phase).unwrap();
                }
            }
            for (dir, naming) in [
                (&hashed, Naming::Counted),
                (&ranges, Naming::Counted),
                (&fluids, Naming::Fluid),
                (&fluids, Naming::Counted),
            ] {
                let mut all = Vec::new();
                for server in 0..n_after {
                    let own = PieceFile { number: server, n: n_after, naming, ..EMB };
                    let share = Share::Hash { server, n_servers: n_after, height: FORM.height };
                    let rows = read_pieces(dir.path(), own, FORM, &share).unwrap().unwrap();
                    assert!(rows.ids.iter().all(|&id| server_of(id, n_after) == server));
                    let values = rows.value.data::<f32>().unwrap();
                    assert!(
                        rows.ids.iter().zip(values.chunks(2)).all(|(&id, v)| v[0] == id as f32)
                    );
                    all.extend(rows.ids);
                }
                all.sort_unstable();
                assert_eq!(all, IDS, "{n_before} to {n_after} servers, {naming:?}");
            }
        }
    }

    #[test]
    fn files_of_different_saves_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..2 {
            let piece = PieceFile { number, n: 2, ..EMB };
            write_as(dir.path(), piece, &dealt(0, 2, server_of));
            settle_piece(dir.path(), piece, Spread::Hash, Phase::Place).unwrap();
            settle_piece(dir.path(), piece, Spread::Hash, Phase::Tidy).unwrap();
        }
        let share = |server| Share::Hash { server, n_servers: 2, height: FORM.height };
        let own = PieceFile { number: 1, n: 2, ..EMB };
        let error = read_pieces(dir.path(), own, FORM, &share(1)).unwrap_err();
        assert!(matches!(error, Error::RowsFile { .. }), "{error}");
        read_pieces(dir.path(), PieceFile { number: 0, ..own }, FORM, &share(0)).unwrap().unwrap();
    }

    #[test]
    fn two_servers_write_what_three_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        write(dir, (0, 2), &[3, 500]);
        write(dir, (1, 2), &[900, 901, 1 << 39]);
        settle(dir, 2, Phase::Place);
        let rows = read(dir, (1, 3), 400..901).unwrap();
        assert_eq!((rows.ids, rows.height), (vec![100, 500], 501));
        assert_eq!(rows.value, Tensor::new([2, 2], &[500.0f32, 0.5, 900.0, 0.5]).unwrap());
        assert_eq!(read(dir, (0, 2), 0..600).unwrap().ids, [3, 500]);
        // As whole files they are what everybody can read.
        let bytes = fs::read(dir.join("__lookup_table__/emb_0of2")).unwrap();
        assert_eq!(stream::rows_from_bytes(&bytes).unwrap().ids, [3, 500]);
        // Saved again by one server: until all is in its place the old save is what is loaded.
        settle(dir, 2, Phase::Tidy);
        write(dir, (0, 1), &[8]);
        assert_eq!(read(dir, (0, 1), 0..600).unwrap().ids, [3, 500]);
        settle(dir, 1, Phase::Place);
        assert_eq!(read(dir, (0, 1), 0..600).unwrap().ids, [3, 500]);
        settle(dir, 1, Phase::Tidy);
        assert!(!dir.join("__lookup_table__/emb_0of2").exists());
        assert_eq!(read(dir, (1, 2), 0..1000).unwrap().ids, [8]);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let nine = Share::Range(0..9);
        assert_eq!(read_pieces(dir, EMB, FORM, &nine).unwrap(), None);
        write(dir, (0, 1), &[3, 500]);
        settle(dir, 1, Phase::GiveUp);
        assert_eq!(read_pieces(dir, EMB, FORM, &nine).unwrap(), None);
        write(dir, (0, 1), &[3, 500]);
        settle(dir, 1, Phase::Place);
        for form in [Form { height: 9, ..FORM }, Form { width: 1, ..FORM }] {
            let error = read_pieces(dir, EMB, form, &nine).unwrap_err();
            assert!(matches!(error, Error::RowsFile { .. }), "{error}");
        }
        write(dir, (1, 3), &[3]);
        let piece = PieceFile { number: 1, n: 3, ..EMB };
        settle_piece(dir, piece, Spread::Range, Phase::Place).unwrap();
        let error = read(dir, (0, 2), 0..9).unwrap_err();
        assert!(
            matches!(error, Error::CannotLoad { ref path, .. } if path.ends_with(
            "__lookup_table__/emb_0of3")),
            "{error}"
        );
        let path = dir.join("__lookup_table__/emb_0of1");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        let error = read(dir, (0, 1), 0..9).unwrap_err();
        assert!(matches!(error, Error::CannotLoad { .. }), "{error}");
        fs::write(&path, [&bytes[..4], &[0xff; 8]].concat()).unwrap();
        let error = read(dir, (0, 1), 0..9).unwrap_err();
        assert!(matches!(error, Error::RowsFile { .. }), "{error}");
    }
}
