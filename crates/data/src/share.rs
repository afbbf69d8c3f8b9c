//! The samples that a trainer holds after a global shuffle, kept in a file.
//!
//! Trainers get them from each other, through servers: a trainer that is started again could not get
//! them a second time. A file is written beside its place, made durable and put there by a rename.
//! [docs/reference/formats.md](../../../docs/reference/formats.md) describes the bytes.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use base::bytes::{ByteReader, ByteWriter};
use base::formats::SHARE;
use durable::Access;

use crate::checksum::crc32;
use crate::error::{Error, Result};
use crate::memory::SampleMemory;
use crate::position::Facts;
use crate::records::Records;
use crate::shuffle::PIECE_WORDS;
use crate::slot::Slot;

/// How a file begins; the last byte is the version.
const MAGIC: [u8; 8] = [b'p', b'w', b's', b'h', b'a', b'r', b'e', SHARE.byte()];
/// Larger files have no second copy.
const COPIED_BYTES_MAX: u64 = 1 << 30;
/// The second copy of a larger one is not looked at before it is needed.
const LEVEL_BYTES_MAX: u64 = 64 << 20;
/// Bytes after which a block ends.
const BLOCK_BYTES: usize = 1 << 20;
/// A longer block is none of ours: it ends with the sample that makes it longer than it should be.
const BLOCK_BYTES_MAX: u32 = 1 << 30;

/// The contents of a file beside the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Before the shuffle.
    pub(crate) facts: Facts,
    pub(crate) n_samples: u64,
    pub(crate) n_unmerged: u64,
}

impl Head {
    fn to_bytes(self) -> Vec<u8> {
        let mut to = ByteWriter(MAGIC.to_vec());
        to.raw(&self.facts.to_bytes()).u64(self.n_samples).u64(self.n_unmerged);
        let sum = crc32(0, &to.0);
        to.u32(sum);
        to.0
    }
}

/// Writes a file.
pub(crate) fn write(path: &Path, head: Head, memory: &SampleMemory) -> Result<()> {
    let failed = |source| Error::WriteFile { file: path.display().to_string(), source };
    let folder = path.parent().map_or(Ok(()), |path| durable::create_folder(path, Access::Owner));
    let written = folder
        .and_then(|()| durable::replace(path, Access::Owner, |file| write_to(file, head, memory)));
    written.and_then(|()| copy(path)).map_err(failed)
}

/// Makes a second copy, for a disk that damages the first.
fn copy(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.len() > COPIED_BYTES_MAX {
        return Ok(());
    }
    durable::copy(path, &again(path))
}

/// Where the second copy of a file is.
fn again(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".again");
    path.with_file_name(name)
}

/// Removes a file that a global shuffle has kept, and its second copy.
pub fn remove_share(path: &Path) {
    for path in [&again(path), path] {
        // One that stays takes room, nothing more.
        let _ = fs::remove_file(path);
    }
}

fn write_to(file: &mut File, head: Head, memory: &SampleMemory) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    file.write_all(&head.to_bytes())?;
    let (mut block, mut sum) = (Vec::new(), 0);
    for at in 0..memory.len() {
        memory.write_bytes(at, &mut block);
        if block.len() >= BLOCK_BYTES || at + 1 == memory.len() {
            // A checksum continues that of the block before, so a missing block is noticed.
            sum = crc32(sum, &block);
            file.write_all(&(block.len() as u32).to_le_bytes())?;
            file.write_all(&sum.to_le_bytes())?;
            file.write_all(&block)?;
            block.clear();
        }
    }
    file.flush()
}

/// Reads a file, or its second copy if it is damaged; `None` if there is none. One of other data or of another shuffle
/// is refused.
pub(crate) fn read(
    path: &Path,
    facts: &Facts,
    slots: &[Slot],
) -> Result<Option<(Head, SampleMemory)>> {
    match read_one(path, facts, slots) {
        Err(damaged @ Error::BadShare { .. }) => match read_one(&again(path), facts, slots) {
            Ok(Some(read)) => {
                // If it cannot be written now, the next process tries again.
                let _ = durable::copy(&again(path), path);
                Ok(Some(read))
            }
            _ => Err(damaged),
        },
        Ok(Some(read)) => {
            level(path);
            Ok(Some(read))
        }
        read => read,
    }
}

/// Makes the second copy of a file anew that is whole, if the copy is not.
fn level(path: &Path) {
    let is_small = fs::metadata(path).is_ok_and(|data| data.len() <= LEVEL_BYTES_MAX);
    let is_equal = || fs::read(path).ok() == fs::read(again(path)).ok();
    if is_small && !is_equal() {
        let _ = copy(path);
    }
}

fn read_one(path: &Path, facts: &Facts, slots: &[Slot]) -> Result<Option<(Head, SampleMemory)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::ReadFile { file: path.display().to_string(), source }),
    };
    let bad = |reason: &str| Error::BadShare {
        file: path.display().to_string(),
        reason: reason.to_string(),
    };
    let mut file = BufReader::new(file);
    let head = read_head(&mut file).ok_or_else(|| bad("its head is damaged"))?;
    facts.check(&head.facts)?;
    let pieces = read_blocks(&mut file, head.n_samples, slots);
    let memory =
        SampleMemory::new(pieces.ok_or_else(|| bad("its samples are damaged or cut off"))?);
    Ok(Some((head, memory)))
}

fn read_head(file: &mut impl Read) -> Option<Head> {
    let n_bytes = MAGIC.len() + Facts::N_BYTES + 16;
    let mut bytes = vec![0; n_bytes + 4];
    file.read_exact(&mut bytes).ok()?;
    let (head, sum) = bytes.split_at(n_bytes);
    if crc32(0, head).to_le_bytes() != sum {
        return None;
    }
    let rest = &mut ByteReader::new(head.strip_prefix(&MAGIC)?);
    let facts = Facts::read(rest)?;
    Some(Head { facts, n_samples: rest.u64().ok()?, n_unmerged: rest.u64().ok()? })
}

/// Reads blocks until all samples are there.
fn read_blocks(file: &mut impl Read, n_samples: u64, slots: &[Slot]) -> Option<Vec<Records>> {
    let mut pieces = Vec::new();
    let mut piece = Records::default();
    let mut block = Vec::new();
    let (mut n_read, mut sum) = (0, 0);
    while n_read < n_samples {
        let mut head = [[0; 4]; 2];
        file.read_exact(head.as_flattened_mut()).ok()?;
        let [n_bytes, expected] = head.map(u32::from_le_bytes);
        block.clear();
        if n_bytes > BLOCK_BYTES_MAX {
            return None;
        }
        // Memory grows with what is there, whatever the file says.
        file.by_ref().take(n_bytes.into()).read_to_end(&mut block).ok()?;
        sum = crc32(sum, &block);
        let before = piece.len();
        let is_whole = block.len() as u64 == u64::from(n_bytes) && sum == expected;
        piece.read_bytes(&block, slots).filter(|()| is_whole)?;
        n_read += (piece.len() - before) as u64;
        if piece.len() == before || n_read > n_samples {
            return None;
        }
        if piece.n_words() > PIECE_WORDS {
            piece.shrink();
            pieces.push(std::mem::take(&mut piece));
        }
    }
    piece.shrink();
    pieces.push(piece);
    let is_end = file.read(&mut [0]).ok()? == 0;
    is_end.then_some(pieces)
}
