//! Tables of which servers keep touched rows, on disk: each server writes its rows, and any number of
//! servers reads them.
//!
//! Files are streams of keyed rows with the rows' numbers in the whole table, ascending, in the folder
//! `__lookup_table__`. `<variable>_parts` says how many there are and whether a hash dealt the rows out.
//! Neither writing nor reading holds a table twice.

use program::distributed::{Spread, server_of};
use program::stream;
use tensor::{DType, Rows, Shape, Tensor};

use std::borrow::Cow;
use std::io::{self, BufReader, Read, Write};

use super::distributed::TABLES;
use super::file::{cannot_load, file_of};
use super::shards::{self, Note};
pub use super::share::Share;
use crate::error::{Error, Result};
use crate::folder::{FileWriter, Folder, PartFile, SavedPart, SavedVar, Stage, part_files};

/// Suffix of the variable with the rows that an entry rule has not taken in, and how often they were
/// named.
pub const WAITING: &str = "@WAITING";
/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// How files of pieces are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `<variable>_<piece>of<pieces>`.
    Counted,
    /// `<variable>_<server>`: as Fluid calls those of the table made with `is_distributed`.
    Fluid,
}

/// Which piece of a variable a file holds.
#[derive(Clone, Copy, Debug)]
pub struct PieceFile<'a> {
    /// The variable.
    pub var: &'a str,
    /// Number of the piece.
    pub number: usize,
    /// How many pieces there are.
    pub n: usize,
    /// How its file is called.
    pub naming: Naming,
}

impl PieceFile<'_> {
    /// The name of the file below the folder of a save.
    pub(super) fn name(&self) -> Result<String> {
        file_of(self.var)?;
        Ok(match self.naming {
            Naming::Counted => format!("{TABLES}/{}_{}of{}", self.var, self.number, self.n),
            Naming::Fluid => format!("{TABLES}/{}_{}", self.var, self.number),
        })
    }

    /// Begins the file in a save, and notes how the variable is saved.
    pub fn create<'s>(&self, stage: &'s Stage, spread: Spread) -> Result<FileWriter<'s>> {
        shards::write_note(stage, self.var, Note { n_parts: self.n, spread })?;
        let mut file = stage.create(&self.name()?)?;
        file.is_part(SavedPart { var: self.var.to_string(), number: self.number, n: self.n });
        Ok(file)
    }
}

/// The form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Rows of the whole table.
    pub height: i64,
    /// Numbers of a row.
    pub width: usize,
    /// Their type.
    pub dtype: DType,
}

/// Writes the piece of a variable to its file: ids in ascending order, then the bytes of their rows, any
/// number of rows at a time.
pub fn write_piece(
    mut file: FileWriter<'_>,
    var: &str,
    form: Form,
    ids: impl ExactSizeIterator<Item = i64>,
    rows: impl Iterator<Item = io::Result<Vec<u8>>>,
) -> Result<()> {
    let n = ids.len();
    file.holds(SavedVar {
        name: var.to_string(),
        dtype: form.dtype,
        dims: vec![form.height, form.width as i64],
    });
    let write = || {
        file.write_all(&stream::rows_head(n))?;
        for id in ids {
            file.write_all(&id.to_le_bytes())?;
        }
        file.write_all(&form.height.to_le_bytes())?;
        file.write_all(&stream::payload_head(form.dtype, &[n, form.width]))?;
        for row in rows {
            file.write_all(&row?)?;
        }
        Ok(())
    };
    write().map_err(|source| file.failed(source))?;
    file.finish()
}

/// How files of a variable were dealt rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FilePartition {
    Range,
    Hash,
    /// `id % n_servers`: as Fluid does it for the table made with `is_distributed`.
    Modulo,
}

fn partition_of(spread: Option<Spread>, naming: Naming) -> FilePartition {
    match (spread, naming) {
        (Some(Spread::Hash), _) => FilePartition::Hash,
        (_, Naming::Counted) => FilePartition::Range,
        (_, Naming::Fluid) => FilePartition::Modulo,
    }
}

fn naming_of(file: &PartFile) -> Naming {
    if file.n.is_some() { Naming::Counted } else { Naming::Fluid }
}

/// How the list of a folder says that a variable was saved, if it does; `found` are the files that look
/// like parts of it.
fn listed(folder: &Folder, var: &str, found: &[PartFile]) -> Result<Option<(Naming, usize)>> {
    let parts = folder.manifest().map(|list| list.parts(var)).unwrap_or_default();
    let Some((first, file)) = parts.first() else { return Ok(None) };
    let is_listed = |file: &PartFile| parts.iter().any(|(_, listed)| listed.name == file.name);
    // Each machine lists its own parts: those of others are there after a merge of their folders.
    let is_merged = |file: &PartFile| file.number < first.n && file.n.is_none_or(|n| n == first.n);
    if let Some(surplus) = found.iter().find(|file| !is_listed(file) && !is_merged(file)) {
        let (path, var) = (folder.dir().join(&surplus.name), var.to_string());
        return Err(Error::SurplusPart { path, var, n: first.n });
    }
    let is_counted = file.name.ends_with(&format!("_{}of{}", first.number, first.n));
    let naming = if is_counted { Naming::Counted } else { Naming::Fluid };
    Ok(Some((naming, first.n)))
}

/// A variable on disk.
struct VarOnDisk {
    naming: Naming,
    n: usize,
    partition: FilePartition,
}

impl VarOnDisk {
    /// Finds out how a variable was saved; `None` if it has no file at all.
    fn find(folder: &Folder, own: PieceFile<'_>) -> Result<Option<Self>> {
        let note = shards::read_note(folder, own.var)?;
        let files = part_files(folder.dir(), &format!("{TABLES}/{}", file_of(own.var)?));
        let found: Vec<PartFile> =
            files.into_iter().filter(|file| !folder.is_removed(&file.name)).collect();
        if let Some((naming, n)) = listed(folder, own.var, &found)? {
            let spread = note.map(|note| note.spread);
            return Ok(Some(Self { naming, n, partition: partition_of(spread, naming) }));
        }
        let is_own = |found: &&PartFile| naming_of(found) == own.naming;
        let last = found.iter().rfind(is_own).or(found.last());
        let naming = match (last, note) {
            (None, None) => return Ok(None),
            (None, Some(_)) => own.naming,
            (Some(last), _) => naming_of(last),
        };
        let numbers: Vec<usize> =
            found.iter().filter(|f| naming_of(f) == naming).map(|f| f.number).collect();
        let is_there = found.iter().any(|f| (f.number, f.n) == (own.number, Some(own.n)));
        let n = match (note, naming, last.and_then(|last| last.n)) {
            (Some(note), ..) => note.n_parts,
            (None, Naming::Counted, _) if is_there => own.n,
            (None, Naming::Counted, n) => n.unwrap_or(own.n),
            // Where servers have disks of their own, each finds its own file only.
            (None, Naming::Fluid, _) if numbers.contains(&0) => numbers.len(),
            (None, Naming::Fluid, _) => own.n,
        };
        Ok(Some(Self { naming, n, partition: partition_of(note.map(|note| note.spread), naming) }))
    }

    /// Whether a server of this share finds all its rows in one file, that of its number.
    fn is_partitioned_like(&self, share: &Share, n: usize) -> bool {
        let alike = match self.partition {
            FilePartition::Range => share.spread() == Spread::Range,
            FilePartition::Hash => share.spread() == Spread::Hash,
            FilePartition::Modulo => n == 1,
        };
        alike && self.n == n
    }

    /// Whether a row can be in a file.
    fn fits(&self, number: usize, row: i64) -> bool {
        match self.partition {
            FilePartition::Range => true,
            FilePartition::Hash => server_of(row, self.n) == number,
            FilePartition::Modulo => row.rem_euclid(self.n as i64) == number as i64,
        }
    }
}

/// The parts that a variable was saved in.
pub(super) struct Parts<'a> {
    pub(super) pieces: Vec<PieceFile<'a>>,
    /// How rows were dealt out, if it is a way of ours.
    pub(super) spread: Option<Spread>,
}

/// Finds the parts that a variable was saved in, if it was.
pub(super) fn parts<'a>(folder: &Folder, own: PieceFile<'a>) -> Result<Option<Parts<'a>>> {
    let Some(saved) = VarOnDisk::find(folder, own)? else { return Ok(None) };
    let piece = |number| PieceFile { number, n: saved.n, naming: saved.naming, ..own };
    let spread = match saved.partition {
        FilePartition::Range => Some(Spread::Range),
        FilePartition::Hash => Some(Spread::Hash),
        FilePartition::Modulo => None,
    };
    Ok(Some(Parts { pieces: (0..saved.n).map(piece).collect(), spread }))
}

/// Whether there is a file of a variable.
pub(super) fn is_there(folder: &Folder, own: PieceFile<'_>) -> Result<bool> {
    VarOnDisk::find(folder, own).map(|saved| saved.is_some())
}

/// A server's rows of a variable that was written in any number of pieces, with the ids that the
/// server uses. `None` if the variable has no file.
pub fn read_pieces(
    folder: &Folder,
    own: PieceFile<'_>,
    form: Form,
    share: &Share,
) -> Result<Option<Rows>> {
    read(folder, own, form, share, true)
}

/// Like [`read_pieces`], with rows of any width, from a table of any height. Rows that this table
/// does not have are left out.
pub(super) fn read_what_fits(
    folder: &Folder,
    own: PieceFile<'_>,
    form: Form,
    share: &Share,
) -> Result<Option<Rows>> {
    read(folder, own, form, share, false)
}

fn read(
    folder: &Folder,
    own: PieceFile<'_>,
    form: Form,
    share: &Share,
    is_exact: bool,
) -> Result<Option<Rows>> {
    let Some(saved) = VarOnDisk::find(folder, own)? else { return Ok(None) };
    let mut rows = Rows { height: share.height(), ..Rows::default() };
    rows.value.resize_as(form.dtype, Shape::from([0, form.width]));
    let files = if saved.is_partitioned_like(share, own.n) {
        own.number..own.number + 1
    } else {
        0..saved.n
    };
    for number in files {
        let name = PieceFile { number, n: saved.n, naming: saved.naming, ..own }.name()?;
        let wanted = RowFilter { form, is_exact, share, saved: &saved, number };
        read_piece(folder, &name, &wanted, &mut rows)?;
    }
    Ok(Some(rows))
}

/// The rows to find in a file.
struct RowFilter<'a> {
    form: Form,
    /// Whether the rows must be of this form.
    is_exact: bool,
    share: &'a Share,
    saved: &'a VarOnDisk,
    /// Which file it is.
    number: usize,
}

fn read_piece(folder: &Folder, name: &str, wanted: &RowFilter<'_>, rows: &mut Rows) -> Result<()> {
    let file = folder.reader(name).map_err(|error| match error {
        Error::ReadFile { path, source } if source.kind() == io::ErrorKind::NotFound => {
            Error::MissingPart { path, n: wanted.saved.n, source }
        }
        error => cannot_load(error, false),
    })?;
    let path = || file.path().to_path_buf();
    let (n_bytes, path) = (file.n_bytes(), path());
    let mut input = BufReader::with_capacity(BLOCK_BYTES, file);
    let read = read_into(&mut input, n_bytes, wanted, rows);
    // A file that is damaged says what is wrong with it only by chance.
    input.into_inner().finish()?;
    match read.map_err(|source| Error::CannotLoad { path: path.clone(), source })? {
        Ok(()) => Ok(()),
        Err(problem) => Err(Error::RowsFile { path, problem }),
    }
}

/// Appends the rows of a stream; the inner error is what is wrong with it.
fn read_into(
    input: &mut impl Read,
    n_bytes: u64,
    wanted: &RowFilter<'_>,
    rows: &mut Rows,
) -> io::Result<std::result::Result<(), Cow<'static, str>>> {
    let RowFilter { form, is_exact, share, saved, number } = *wanted;
    if u32_of(input)? != 0 {
        return Ok(Err("no stream of keyed rows".into()));
    }
    let n = u64_of(input)?;
    if n.saturating_mul(8) > n_bytes {
        return Ok(Err("the file is cut short".into()));
    }
    let ids = (0..n).map(|_| Ok(u64_of(input)? as i64)).collect::<io::Result<Vec<i64>>>()?;
    if ids.iter().any(|&id| !saved.fits(number, id)) {
        return Ok(Err("it was not saved together with the other files of this table".into()));
    }
    // Fluid's files say how many rows a server had room for.
    let height = u64_of(input)? as i64;
    if height != form.height && saved.naming == Naming::Counted && is_exact {
        return Ok(Err(other_table("rows", height, form.height)));
    }
    let (_, size) = (u32_of(input)?, u32_of(input)?);
    let mut desc = vec![0; size.min(1024) as usize];
    input.read_exact(&mut desc)?;
    let width = match stream::description(&desc) {
        Some((code, dims)) if code == i64::from(form.dtype.code()) => match dims[..] {
            [rows, width] if rows == n as i64 && width > 0 => width as usize,
            _ => 0,
        },
        _ => 0,
    };
    // All files of a table hold rows of one width.
    let is_known = match (is_exact, rows.ids.is_empty()) {
        (true, _) => width == form.width,
        (false, true) => width > 0,
        (false, false) => width == rows.value.shape().flatten_2d(1).1,
    };
    if !is_known {
        let expected = if is_exact { form.width } else { rows.value.shape().flatten_2d(1).1 };
        return Ok(Err(match width {
            0 => "it holds no rows of numbers of the table's type".into(),
            _ => other_table("numbers in a row", width as i64, expected as i64),
        }));
    }
    let row_bytes = width.saturating_mul(form.dtype.size());
    if n.saturating_mul(8 + row_bytes as u64) > n_bytes {
        return Ok(Err("the file is cut short".into()));
    }
    if rows.ids.is_empty() {
        rows.value.resize_as(form.dtype, Shape::from([0, width]));
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

/// That a file is of a table of another size.
fn other_table(what: &str, saved: i64, expected: i64) -> Cow<'static, str> {
    format!("it is of a table with {saved} {what}, but the table has {expected}").into()
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
pub fn counts_to_bytes(counts: impl Iterator<Item = u32>) -> Vec<u8> {
    counts.flat_map(|count| i64::from(count).to_le_bytes()).collect()
}

/// The rows of a tensor in a given order.
pub fn rows_of<'a, I: Iterator<Item = usize>>(
    tensor: &'a Tensor,
    places: I,
) -> impl Iterator<Item = &'a [u8]> + use<'a, I> {
    let row_bytes = tensor.shape().flatten_2d(1).1 * tensor.dtype().size();
    places.map(move |at| &tensor.bytes()[at * row_bytes..][..row_bytes])
}

/// The same, one behind the other.
pub fn bytes_of_rows(tensor: &Tensor, places: impl Iterator<Item = usize>) -> Vec<u8> {
    let row_bytes = tensor.shape().flatten_2d(1).1 * tensor.dtype().size();
    // Byte by byte, an iterator takes longer than the disk.
    let mut bytes = Vec::with_capacity(places.size_hint().0 * row_bytes);
    rows_of(tensor, places).for_each(|row| bytes.extend_from_slice(row));
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::Range;
    use std::path::Path;

    use super::*;
    use crate::folder::{About, Transaction};

    const FORM: Form = Form { height: 1 << 40, width: 2, dtype: DType::F32 };

    const EMB: PieceFile<'_> = PieceFile { var: "emb", number: 0, n: 1, naming: Naming::Counted };

    fn write(transaction: &Transaction, piece: PieceFile<'_>, spread: Spread, ids: &[i64]) {
        let values: Vec<f32> = ids.iter().flat_map(|&id| [id as f32, 0.5]).collect();
        let tensor = Tensor::new([ids.len(), 2], &values).unwrap();
        let rows = rows_of(&tensor, 0..ids.len()).map(|row| Ok(row.to_vec()));
        let ids = ids.iter().copied();
        let file = piece.create(transaction.stage(), spread).unwrap();
        write_piece(file, piece.var, FORM, ids, rows).unwrap();
    }

    /// Saves all pieces: their ids, by number.
    fn save(dir: &Path, naming: Naming, spread: Spread, ids: &[Vec<i64>]) {
        let transaction = Transaction::begin(dir).unwrap();
        for (number, part) in ids.iter().enumerate() {
            write(&transaction, PieceFile { number, n: ids.len(), naming, ..EMB }, spread, part);
        }
        transaction.commit(About::new("tables")).unwrap();
    }

    fn save_ranges(dir: &Path, ids: &[Vec<i64>]) {
        save(dir, Naming::Counted, Spread::Range, ids);
    }

    /// As a version left it that knew no list.
    fn forget_list(dir: &Path) {
        fs::remove_file(dir.join(".paddlewheel")).unwrap();
    }

    fn pieces(dir: &Path, own: PieceFile<'_>, form: Form, share: &Share) -> Result<Option<Rows>> {
        Folder::consistently(dir, |folder| read_pieces(folder, own, form, share))
    }

    fn read(dir: &Path, number: usize, n: usize, range: Range<i64>) -> Result<Rows> {
        let own = PieceFile { number, n, ..EMB };
        pieces(dir, own, FORM, &Share::Range(range)).map(|rows| rows.expect("files"))
    }

    const IDS: [i64; 9] = [0, 1, 2, 3, 70, 71, 900, 1 << 30, 1 << 39];

    fn ids_of(number: usize, n: usize, by: impl Fn(i64, usize) -> usize) -> Vec<i64> {
        IDS.into_iter().filter(|&id| by(id, n) == number).collect()
    }

    fn modulo(id: i64, n: usize) -> usize {
        id as usize % n
    }

    /// A table that any number of servers saved in any layout is loaded completely by any number.
    #[test]
    fn no_row_is_lost_between_layouts_and_numbers_of_servers() {
        for (n_before, n_after) in (1..=3).flat_map(|n| (1..=3).map(move |m| (n, m))) {
            let [hashed, fluids, ranges] = [0, 1, 2].map(|_| tempfile::tempdir().unwrap());
            let of_range = |id: i64, n: usize| (id as usize * n) >> 40;
            let ids = |by: fn(i64, usize) -> usize| {
                (0..n_before).map(|number| ids_of(number, n_before, by)).collect::<Vec<_>>()
            };
            save(hashed.path(), Naming::Counted, Spread::Hash, &ids(server_of));
            save(fluids.path(), Naming::Fluid, Spread::Range, &ids(modulo));
            save_ranges(ranges.path(), &ids(of_range));
            let dirs = [
                (&hashed, Naming::Counted),
                (&ranges, Naming::Counted),
                (&fluids, Naming::Fluid),
                (&fluids, Naming::Counted),
            ];
            for (at, (dir, naming)) in dirs.into_iter().cycle().take(8).enumerate() {
                if at == 4 {
                    [&hashed, &fluids, &ranges].into_iter().for_each(|dir| forget_list(dir.path()));
                }
                let mut all = Vec::new();
                for server in 0..n_after {
                    let own = PieceFile { number: server, n: n_after, naming, ..EMB };
                    let share = Share::Hash { server, n_servers: n_after, height: FORM.height };
                    let rows = pieces(dir.path(), own, FORM, &share).unwrap().unwrap();
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
        let part = ids_of(0, 2, server_of);
        save(dir.path(), Naming::Counted, Spread::Hash, &[part.clone(), part]);
        forget_list(dir.path());
        let share = |server| Share::Hash { server, n_servers: 2, height: FORM.height };
        let own = PieceFile { number: 1, n: 2, ..EMB };
        let error = pieces(dir.path(), own, FORM, &share(1)).unwrap_err();
        assert!(matches!(error, Error::RowsFile { .. }), "{error}");
        pieces(dir.path(), PieceFile { number: 0, ..own }, FORM, &share(0)).unwrap().unwrap();
    }

    #[test]
    fn two_servers_write_what_three_read() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        save_ranges(dir, &[vec![3, 500], vec![900, 901, 1 << 39]]);
        let rows = read(dir, 1, 3, 400..901).unwrap();
        assert_eq!((rows.ids, rows.height), (vec![100, 500], 501));
        assert_eq!(rows.value, Tensor::new([2, 2], &[500.0f32, 0.5, 900.0, 0.5]).unwrap());
        assert_eq!(read(dir, 0, 2, 0..600).unwrap().ids, [3, 500]);
        // As whole files they are what everybody can read.
        let bytes = fs::read(dir.join("__lookup_table__/emb_0of2")).unwrap();
        assert_eq!(stream::rows_from_bytes(&bytes).unwrap().ids, [3, 500]);
        // Saved again by one server: until the commit the old save is what is loaded.
        let transaction = Transaction::begin(dir).unwrap();
        write(&transaction, EMB, Spread::Range, &[8]);
        assert_eq!(read(dir, 0, 1, 0..600).unwrap().ids, [3, 500]);
        transaction.commit(About::new("tables")).unwrap();
        assert!(!dir.join("__lookup_table__/emb_0of2").exists());
        assert_eq!(read(dir, 1, 2, 0..1000).unwrap().ids, [8]);
    }

    #[test]
    fn missing_and_surplus_parts_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        save_ranges(dir, &[vec![3, 500], vec![900], vec![901]]);
        let part = |name: &str| dir.join("__lookup_table__").join(name);
        fs::copy(part("emb_0of3"), part("emb_3of4")).unwrap();
        let error = read(dir, 0, 2, 0..9).unwrap_err();
        let surplus = part("emb_3of4");
        assert!(
            matches!(error, Error::SurplusPart { ref path, n: 3, .. } if *path == surplus),
            "{error}"
        );
        fs::remove_file(surplus).unwrap();
        fs::remove_file(part("emb_1of3")).unwrap();
        let error = read(dir, 0, 2, 0..9).unwrap_err();
        assert!(
            matches!(error, Error::FileLost { ref path, .. } if *path == part("emb_1of3")),
            "{error}"
        );
        forget_list(dir);
        let error = read(dir, 0, 2, 0..9).unwrap_err();
        assert!(
            matches!(error, Error::MissingPart { ref path, n: 3, .. } if *path == part("emb_1of3")),
            "{error}"
        );
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let nine = Share::Range(0..9);
        assert_eq!(pieces(dir, EMB, FORM, &nine).unwrap(), None);
        save_ranges(dir, &[vec![3, 500]]);
        for form in [Form { height: 9, ..FORM }, Form { width: 1, ..FORM }] {
            let error = pieces(dir, EMB, form, &nine).unwrap_err();
            assert!(matches!(error, Error::RowsFile { .. }), "{error}");
            let (height, width) = (FORM.height.to_string(), FORM.width.to_string());
            let sides = if form.height == 9 { [&height, "9"] } else { [&width, "1"] };
            assert!(sides.iter().all(|side| error.to_string().contains(*side)), "{error}");
        }
        let path = dir.join("__lookup_table__/emb_0of1");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        let error = read(dir, 0, 1, 0..9).unwrap_err();
        assert!(matches!(error, Error::FileDiffers { .. }), "{error}");
        forget_list(dir);
        let error = read(dir, 0, 1, 0..9).unwrap_err();
        assert!(matches!(error, Error::CannotLoad { .. }), "{error}");
        fs::write(&path, [&bytes[..4], &[0xff; 8]].concat()).unwrap();
        let error = read(dir, 0, 1, 0..9).unwrap_err();
        assert!(matches!(error, Error::RowsFile { .. }), "{error}");
    }
}
