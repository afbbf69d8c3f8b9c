//! A file elsewhere as blocks that are read where they are needed, for formats whose parts lie apart.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use super::{RemoteFile, Version};
use crate::error::{Error, Result};

/// Bytes of a block, and how many blocks are kept: columns of a row group are read in turns.
const BLOCK_BYTES: u64 = 1 << 20;
const N_BLOCKS: usize = 64;

/// The blocks of a file.
#[derive(Clone)]
pub(crate) struct RemoteBlocks(Arc<Inner>);

struct Inner {
    file: RemoteFile,
    version: Version,
    len: u64,
    /// The latest used last.
    kept: Mutex<Vec<Block>>,
    /// The first error, which has more to say than the reader of the format can pass on.
    failed: Mutex<Option<Error>>,
}

#[derive(Clone)]
struct Block {
    number: u64,
    bytes: Bytes,
}

impl RemoteBlocks {
    /// Opens a file. `known` is the version that it must have ([`Version::digest`]), 0 for any.
    pub(crate) fn open(file: RemoteFile, known: u64) -> Result<Self> {
        let version = file.open(0, Some(1), &mut file.tries())?.version;
        version.check_digest(&file.name, known)?;
        let Some(len) = version.len else {
            let what =
                "the server does not say how long it is, which this format needs".to_string();
            return Err(Error::StoreRefused { file: file.name, what });
        };
        let (kept, failed) = Default::default();
        Ok(Self(Arc::new(Inner { file, version, len, kept, failed })))
    }

    /// The version that is read ([`Version::digest`]).
    pub(crate) fn version(&self) -> u64 {
        self.0.version.digest()
    }

    /// The error of the store, if there was one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.0.failed.lock().even_if_poisoned().take()
    }

    fn block(&self, number: u64) -> io::Result<Bytes> {
        let mut kept = self.0.kept.lock().even_if_poisoned();
        let block = match kept.iter().position(|block| block.number == number) {
            Some(at) => kept.remove(at),
            None => {
                let fetched = self.0.fetch(number);
                let bytes = fetched.map_err(|error| {
                    let words = error.to_string();
                    self.0.failed.lock().even_if_poisoned().get_or_insert(error);
                    io::Error::other(words)
                })?;
                if kept.len() == N_BLOCKS {
                    kept.remove(0);
                }
                Block { number, bytes }
            }
        };
        kept.push(block.clone());
        Ok(block.bytes)
    }
}

impl Inner {
    fn fetch(&self, number: u64) -> Result<Bytes> {
        let from = number * BLOCK_BYTES;
        let to = (from + BLOCK_BYTES).min(self.len);
        let mut tries = self.file.tries();
        loop {
            let opening = self.file.open(from, Some(to), &mut tries)?;
            self.version.check(&self.file.name, &opening.version)?;
            let mut bytes = Vec::new();
            let read = opening.body.take(to - from).read_to_end(&mut bytes);
            let what = match read {
                Ok(_) if bytes.len() as u64 == to - from => return Ok(bytes.into()),
                Ok(_) => "the connection ended early".to_string(),
                Err(error) => error.to_string(),
            };
            tries.failed(from, super::tries::StoreFailure::Passing(what))?;
        }
    }
}

impl Length for RemoteBlocks {
    fn len(&self) -> u64 {
        self.0.len
    }
}

impl ChunkReader for RemoteBlocks {
    type T = BlockReader;

    fn get_read(&self, start: u64) -> ParquetResult<BlockReader> {
        Ok(BlockReader { blocks: self.clone(), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // A length from a damaged file is checked before memory is taken.
        if start.checked_add(length as u64).is_none_or(|end| end > self.0.len) {
            return Err(ParquetError::EOF(format!("{length} bytes from byte {start} on")));
        }
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// Reads on from a byte.
pub(crate) struct BlockReader {
    blocks: RemoteBlocks,
    at: u64,
}

impl Read for BlockReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.blocks.0.len {
            return Ok(0);
        }
        let block = self.blocks.block(self.at / BLOCK_BYTES)?;
        let rest = &block[(self.at % BLOCK_BYTES) as usize..];
        let n = out.len().min(rest.len());
        out[..n].copy_from_slice(&rest[..n]);
        self.at += n as u64;
        Ok(n)
    }
}
