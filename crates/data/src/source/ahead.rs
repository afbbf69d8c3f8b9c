//! A file elsewhere as a stream: a thread reads a bounded part of it ahead, and resumes where a
//! connection broke.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use super::tries::{StoreFailure, Tries};
use super::{Opening, RemoteFile, Version};
use crate::error::{Error, Result};

/// Bytes that are handed over at once, and how often that lies ready.
const PIECE_BYTES: usize = 1 << 20;
const N_AHEAD: usize = 8;
/// How often a wait looks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A stream of a file's bytes.
pub(crate) struct ReadAhead {
    pieces: Receiver<Result<Vec<u8>>>,
    piece: Vec<u8>,
    /// Bytes of the piece that were given out.
    at: usize,
    stop: Arc<AtomicBool>,
    /// The reader is gone.
    left: Arc<AtomicBool>,
    version: Version,
}

impl ReadAhead {
    /// Opens a file at a byte. `known` is the version that it must have ([`Version::digest`]), 0 for any.
    pub(crate) fn open(file: RemoteFile, from: u64, known: u64) -> Result<Self> {
        let (pass_stop, left) = (file.stop.clone(), Arc::new(AtomicBool::new(false)));
        let mut tries = file.tries();
        let opening = file.open(from, None, &mut tries)?;
        let version = opening.version.clone();
        version.check_digest(&file.name, known)?;
        if let Some(len) = version.len.filter(|&len| len < from) {
            let (was, is) = (format!("{from} bytes or more"), format!("{len} bytes"));
            return Err(Error::FileChanged { file: file.name, was, is });
        }
        let (pieces, taken) = mpsc::sync_channel(N_AHEAD);
        // Tries end with the reader, too.
        let file = RemoteFile { stop: left.clone(), ..file };
        let ahead = Ahead { tries: file.tries(), file, version: version.clone(), at: from, pieces };
        thread::spawn(move || ahead.run(opening));
        Ok(Self { pieces: taken, piece: Vec::new(), at: 0, stop: pass_stop, left, version })
    }

    /// The version that is read.
    pub(crate) fn version(&self) -> &Version {
        &self.version
    }

    /// Gets the next piece; whether there is one.
    fn next(&mut self) -> Result<bool> {
        loop {
            match self.pieces.recv_timeout(LOOK_EVERY) {
                Ok(piece) => {
                    (self.piece, self.at) = (piece?, 0);
                    return Ok(true);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) if self.stop.load(Ordering::Relaxed) => {
                    return Err(Error::Stopped);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Read for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() && !self.next().map_err(io::Error::other)? {
            return Ok(0);
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.left.store(true, Ordering::Relaxed);
    }
}

/// The thread that reads.
struct Ahead {
    file: RemoteFile,
    version: Version,
    /// The next byte.
    at: u64,
    pieces: SyncSender<Result<Vec<u8>>>,
    tries: Tries,
}

impl Ahead {
    fn run(mut self, first: Opening) {
        if let Err(error) = self.read_all(first) {
            let _ = self.pieces.send(Err(error));
        }
    }

    fn read_all(&mut self, first: Opening) -> Result<()> {
        let mut body = first.body;
        loop {
            let (piece, end) = read_piece(&mut *body);
            let n = piece.len() as u64;
            if n > 0 {
                self.at += n;
                self.tries.worked();
                if self.pieces.send(Ok(piece)).is_err() {
                    return Ok(());
                }
            }
            let failure = match end {
                PieceEnd::Full => continue,
                PieceEnd::OfFile if self.version.len.is_none_or(|len| self.at >= len) => {
                    return Ok(());
                }
                PieceEnd::OfFile => {
                    StoreFailure::passing(&"the connection ended before the file did")
                }
                PieceEnd::Broken(error) => StoreFailure::passing(&error),
            };
            self.tries.failed(self.at, failure)?;
            let opening = self.file.open(self.at, None, &mut self.tries)?;
            self.version.check(&self.file.name, &opening.version)?;
            body = opening.body;
        }
    }
}

/// Why a piece ends.
enum PieceEnd {
    Full,
    OfFile,
    Broken(io::Error),
}

fn read_piece(body: &mut dyn Read) -> (Vec<u8>, PieceEnd) {
    let mut piece = vec![0; PIECE_BYTES];
    let mut n = 0;
    let end = loop {
        if n == piece.len() {
            break PieceEnd::Full;
        }
        match body.read(&mut piece[n..]) {
            Ok(0) => break PieceEnd::OfFile,
            Ok(more) => n += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break PieceEnd::Broken(error),
        }
    };
    piece.truncate(n);
    (piece, end)
}
