//! Files packed with zstd: one frame behind the other, as `zstd`, `pzstd` and `cat` make them.

use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use base::EvenIfPoisoned;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes that lie unpacked at once, about.
const BLOCK_BYTES: usize = 256 << 10;

/// The text of all frames.
pub(crate) struct ZstdFrames<R> {
    source: Watched<R>,
    decoder: FrameDecoder,
    state: FrameState,
}

enum FrameState {
    Between,
    Inside,
    Ended,
}

impl<R: Read> ZstdFrames<R> {
    pub(crate) fn new(source: R) -> Self {
        let source = Watched { source, failed: Arc::default(), n_read: 0 };
        Self { source, decoder: FrameDecoder::new(), state: FrameState::Between }
    }

    /// Begins the next frame; whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        loop {
            self.source.n_read = 0;
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let notes = &mut (&mut self.source).take(length.into());
                    io::copy(notes, &mut io::sink())?;
                }
                // The file ends where a frame would begin.
                Err(_) if self.source.n_read == 0 && !self.source.has_failed() => return Ok(false),
                Err(error) => return Err(self.error(&error)),
            }
        }
    }

    /// Unpacks more of the frame.
    fn decode(&mut self) -> io::Result<()> {
        let some = BlockDecodingStrategy::UptoBytes(BLOCK_BYTES);
        if let Err(error) = self.decoder.decode_blocks(&mut self.source, some) {
            return Err(self.error(&error));
        }
        if self.decoder.is_finished() {
            self.state = FrameState::Between;
        }
        Ok(())
    }

    /// The error of reading the file takes precedence over the decoder's.
    fn error(&self, error: &FrameDecoderError) -> io::Error {
        let read = self.source.failed.lock().even_if_poisoned().take();
        read.unwrap_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("damaged zstd file: {error}"))
        })
    }

    fn check(&self) -> io::Result<()> {
        let sums = [self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()];
        match sums {
            [Some(said), Some(found)] if said != found => {
                let words = "damaged zstd file: its checksum differs";
                Err(io::Error::new(io::ErrorKind::InvalidData, words))
            }
            _ => Ok(()),
        }
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.decoder.read(out)?;
            if n > 0 || out.is_empty() {
                return Ok(n);
            }
            match self.state {
                FrameState::Ended => return Ok(0),
                FrameState::Inside => self.decode()?,
                FrameState::Between => {
                    self.check()?;
                    let more = self.begin()?;
                    self.state = if more { FrameState::Inside } else { FrameState::Ended };
                }
            }
        }
    }
}

/// Keeps the error of reading, which the decoder hides in one of its own.
struct Watched<R> {
    source: R,
    failed: Arc<Mutex<Option<io::Error>>>,
    n_read: u64,
}

impl<R> Watched<R> {
    fn has_failed(&self) -> bool {
        self.failed.lock().even_if_poisoned().is_some()
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.source.read(out) {
            Ok(n) => {
                self.n_read += n as u64;
                Ok(n)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failed.lock().even_if_poisoned().replace(error);
                Err(kind.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn pack(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn all(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        ZstdFrames::new(bytes).read_to_end(&mut text).map(|_| text)
    }

    fn text() -> Vec<u8> {
        (0..200_000).flat_map(|n| format!("1 {} 2 {}\n", n % 977, n).into_bytes()).collect()
    }

    #[test]
    fn frames_are_one_text() {
        let (long, short) = (text(), b"one\n".to_vec());
        let notes = [&[0x52, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let file = [notes.clone(), pack(&long), notes.clone(), pack(b""), pack(&short), notes];
        assert_eq!(all(&file.concat()).unwrap(), [long, short].concat());
        assert_eq!(all(b"").unwrap(), b"");
    }

    #[test]
    fn damaged_files_are_refused() {
        let mut file = pack(&text());
        for end in [3, 10, file.len() / 2, file.len() - 1] {
            assert!(all(&file[..end]).is_err(), "{end}");
        }
        assert!(all(&[&file[..], b"x"].concat()).is_err());
        let last = file.len() - 1;
        file[last] ^= 1;
        assert!(all(&file).is_err());
    }

    #[test]
    fn an_error_of_reading_is_itself() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the line is dead"))
            }
        }
        let file = pack(&text());
        let source = file[..100].chain(Broken);
        let error = ZstdFrames::new(source).read_to_end(&mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "the line is dead");
    }
}
