//! Tables of which servers keep touched rows, on disk: each server writes the rows of its part, and
//! any number of servers reads them.
//!
//! Files are streams of keyed rows (as the table spread by id has them) with the rows' numbers in
//! the whole table, ascending: `__lookup_table__/<variable>_<part>of<parts>`. Neither writing nor
//! reading holds a table twice.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use program::stream;
use ps::message::Phase;
use tensor::{DType, Rows, Shape, Tensor};

use super::distributed::TABLES;
use super::file::{path_of, write_atomically_with};
use super::shards::{self, beside};
use crate::error::{Error, Result};

/// Suffix of the variable with the rows that an entry rule has not taken in, and how often they were
/// named.
pub(crate) const WAITING: &str = "@WAITING";
/// Bytes read or written at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Which part of a variable a file holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) var: &'a str,
    pub(crate) block: usize,
    pub(crate) n_blocks: usize,
}

impl Part<'_> {
    fn path(&self, dir: &Path) -> Result<PathBuf> {
        let name = format!("{}_{}of{}", self.var, self.block, self.n_blocks);
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

/// Writes a part beside the place it will have: ids in ascending order, and the bytes of each row.
pub(crate) fn write_part<'a>(
    dir: &Path,
    part: Part<'_>,
    form: Form,
    ids: impl ExactSizeIterator<Item = i64>,
    rows: impl Iterator<Item = &'a [u8]>,
) -> Result<()> {
    let n = ids.len();
    write_atomically_with(&beside(&part.path(dir)?), |file| {
        let mut out = BufWriter::with_capacity(BLOCK_BYTES, file);
        out.write_all(&stream::rows_head(n))?;
        for id in ids {
            out.write_all(&id.to_le_bytes())?;
        }
        out.write_all(&form.height.to_le_bytes())?;
        out.write_all(&stream::payload_head(form.dtype, &[n, form.width]))?;
        for row in rows {
            out.write_all(row)?;
        }
        out.flush()
    })
}

/// What comes after all parts were written; see [`shards`].
pub(crate) fn settle_part(dir: &Path, part: Part<'_>, phase: Phase) -> Result<()> {
    let path = part.path(dir)?;
    match phase {
        Phase::Write => Ok(()),
        Phase::Place => shards::place(&path),
        Phase::GiveUp => {
            shards::give_up(&path);
            Ok(())
        }
        Phase::Tidy => {
            shards::note_parts(dir, part.var, part.n_blocks)?;
            // Files of another number of parts are older: nobody may load them any more.
            let others = parts_in(dir, part.var)?.into_iter();
            let mut others = others.filter(|(_, _, n_blocks)| *n_blocks != part.n_blocks);
            others.try_for_each(|(path, ..)| shards::remove(&path))
        }
    }
}

/// All files of a variable: path, part and number of parts.
fn parts_in(dir: &Path, var: &str) -> Result<Vec<(PathBuf, usize, usize)>> {
    let whole = path_of(&dir.join(TABLES), var)?;
    let (Some(folder), Some(stem)) = (whole.parent(), whole.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}_", stem.to_string_lossy());
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let of_var = |path: PathBuf| {
        let name = path.file_name()?.to_str()?;
        let (block, n_blocks) = name.strip_prefix(&prefix)?.split_once("of")?;
        Some((block.parse().ok()?, n_blocks.parse().ok()?)).map(|(k, n)| (path.clone(), k, n))
    };
    let mut parts: Vec<_> = entries.filter_map(|entry| of_var(entry.ok()?.path())).collect();
    parts.sort();
    Ok(parts)
}

/// The rows in `range` of a variable that was written in parts, however many; ids count from the
/// range's first row. `None` if there is no file of it at all.
pub(crate) fn read_parts(
    dir: &Path,
    own: Part<'_>,
    form: Form,
    range: Range<i64>,
) -> Result<Option<Rows>> {
    let path = own.path(dir)?;
    let mut rows = Rows { height: range.end - range.start, ..Rows::default() };
    rows.value.resize_as(form.dtype, Shape::from([0, form.width]));
    let noted = shards::noted_parts(dir, own.var)?;
    if path.is_file() && noted.is_none_or(|n_blocks| n_blocks == own.n_blocks) {
        read_part(&path, form, &range, &mut rows)?;
        return Ok(Some(rows));
    }
    let found = parts_in(dir, own.var)?.pop().map(|(_, _, n_blocks)| n_blocks);
    let Some(n_blocks) = noted.or(found) else { return Ok(None) };
    for block in 0..n_blocks {
        let path = Part { block, n_blocks, ..own }.path(dir)?;
        read_part(&path, form, &range, &mut rows)?;
    }
    Ok(Some(rows))
}

fn read_part(path: &Path, form: Form, range: &Range<i64>, rows: &mut Rows) -> Result<()> {
    let open = File::open(path).and_then(|file| {
        let n_bytes = file.metadata()?.len();
        Ok((BufReader::with_capacity(BLOCK_BYTES, file), n_bytes))
    });
    let path = || path.to_path_buf();
    let (mut input, n_bytes) = open.map_err(|source| Error::CannotLoad { path: path(), source })?;
    let read = read_into(&mut input, n_bytes, (form, range), rows);
    match read.map_err(|source| Error::CannotLoad { path: path(), source })? {
        Ok(()) => Ok(()),
        Err(problem) => Err(Error::RowsFile { path: path(), problem }),
    }
}

/// Appends the rows of a stream; the inner error is what is wrong with it.
fn read_into(
    input: &mut impl Read,
    n_bytes: u64,
    (form, range): (Form, &Range<i64>),
    rows: &mut Rows,
) -> io::Result<std::result::Result<(), &'static str>> {
    let row_bytes = form.width * form.dtype.size();
    if u32_of(input)? != 0 {
        return Ok(Err("no stream of keyed rows"));
    }
    let n = u64_of(input)?;
    if n.saturating_mul(8 + row_bytes as u64) > n_bytes {
        return Ok(Err("the file is cut short"));
    }
    let ids = (0..n).map(|_| Ok(u64_of(input)? as i64)).collect::<io::Result<Vec<i64>>>()?;
    if u64_of(input)? as i64 != form.height {
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
    let n_here = ids.iter().filter(|id| range.contains(id)).count();
    rows.value.grow_rows(at + n_here);
    for id in ids {
        input.read_exact(&mut row)?;
        if range.contains(&id) {
            rows.value.bytes_mut()[at * row_bytes..][..row_bytes].copy_from_slice(&row);
            rows.ids.push(id - range.start);
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

    fn write(dir: &Path, (block, n_blocks): (usize, usize), ids: &[i64]) {
        let values: Vec<f32> = ids.iter().flat_map(|&id| [id as f32, 0.5]).collect();
        let tensor = Tensor::new([ids.len(), 2], &values).unwrap();
        let part = Part { var: "emb", block, n_blocks };
        let rows = rows_of(&tensor, 0..ids.len());
        write_part(dir, part, FORM, ids.iter().copied(), rows).unwrap();
    }

    fn settle(dir: &Path, n_blocks: usize, phase: Phase) {
        for block in 0..n_blocks {
            settle_part(dir, Part { var: "emb", block, n_blocks }, phase).unwrap();
        }
    }

    fn read(dir: &Path, (block, n_blocks): (usize, usize), range: Range<i64>) -> Result<Rows> {
        let part = Part { var: "emb", block, n_blocks };
        read_parts(dir, part, FORM, range).map(|rows| rows.expect("files"))
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
        let part = Part { var: "emb", block: 0, n_blocks: 1 };
        assert_eq!(read_parts(dir, part, FORM, 0..9).unwrap(), None);
        write(dir, (0, 1), &[3, 500]);
        settle(dir, 1, Phase::GiveUp);
        assert_eq!(read_parts(dir, part, FORM, 0..9).unwrap(), None);
        write(dir, (0, 1), &[3, 500]);
        settle(dir, 1, Phase::Place);
        for form in [Form { height: 9, ..FORM }, Form { width: 1, ..FORM }] {
            let error = read_parts(dir, part, form, 0..9).unwrap_err();
            assert!(matches!(error, Error::RowsFile { .. }), "{error}");
        }
        write(dir, (1, 3), &[3]);
        settle_part(dir, Part { var: "emb", block: 1, n_blocks: 3 }, Phase::Place).unwrap();
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
