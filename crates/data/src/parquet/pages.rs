//! Pages of a column whose counts were compared with their bytes, and pages packed with zstd.
//!
//! The library makes room for as many values as a dictionary's header names before it reads them. A
//! damaged header would end the process for lack of memory. Its own decoder of zstd is C; ours is that of text files. So
//! the library is told that such a column is not packed, and hands out pages as they lie in the file.

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length, RowGroupReader};
use parquet::file::serialized_reader::SerializedPageReader;

use super::bad_file;
use crate::error::Error;
use crate::zstd::ZstdFrames;

/// A file that several readers read.
pub(super) struct SharedSource<R>(Arc<R>);

impl<R> SharedSource<R> {
    pub(super) fn new(source: R) -> Self {
        Self(Arc::new(source))
    }
}

impl<R> Clone for SharedSource<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R: Length> Length for SharedSource<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for SharedSource<R> {
    type T = R::T;

    fn get_read(&self, start: u64) -> Result<R::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// The pages of a column of a row group, if we can unpack them.
pub(super) fn pages_of<R: ChunkReader + 'static>(
    file: &str,
    source: &SharedSource<R>,
    group: &dyn RowGroupReader,
    at: usize,
) -> crate::error::Result<CheckedPages> {
    let failed = |error: ParquetError| bad_file(file, &error);
    let chunk = group.metadata().column(at);
    match chunk.compression() {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::GZIP(_) => {
            let pages = group.get_column_page_reader(at).map_err(failed)?;
            Ok(CheckedPages { pages, zstd: None })
        }
        Compression::ZSTD(_) => {
            let room = usize::try_from(chunk.uncompressed_size()).unwrap_or(0);
            let plain = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED);
            let plain = plain.build().map_err(failed)?;
            let n_rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            let pages = SerializedPageReader::new(source.0.clone(), &plain, n_rows, None);
            let pages = Box::new(pages.map_err(failed)?);
            Ok(CheckedPages { pages, zstd: Some(PageBytes(room)) })
        }
        codec => {
            let (file, column) = (file.to_string(), chunk.column_path().string());
            let codec = codec.to_string();
            let codec = codec.split('(').next().unwrap_or_default();
            let reason =
                format!("it is packed with {codec}; write it with zstd, snappy, gzip or unpacked");
            Err(Error::BadColumn { file, column, reason })
        }
    }
}

/// Bytes that the pages of a column may still take when they are unpacked.
pub(super) struct PageBytes(usize);

impl PageBytes {
    /// A page as it was before it was packed.
    fn unpack(&mut self, page: Page) -> Result<Page> {
        Ok(match page {
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                statistics,
            } => {
                let buf = self.bytes(&buf, 0)?;
                Page::DataPage {
                    buf,
                    num_values,
                    encoding,
                    def_level_encoding,
                    rep_level_encoding,
                    statistics,
                }
            }
            Page::DictionaryPage { buf, num_values, encoding, is_sorted } => {
                let buf = self.bytes(&buf, 0)?;
                Page::DictionaryPage { buf, num_values, encoding, is_sorted }
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls,
                num_rows,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                statistics,
            } => {
                let n_levels = def_levels_byte_len as usize + rep_levels_byte_len as usize;
                let buf = if is_compressed { self.bytes(&buf, n_levels)? } else { buf };
                let is_compressed = false;
                Page::DataPageV2 {
                    buf,
                    num_values,
                    encoding,
                    num_nulls,
                    num_rows,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    is_compressed,
                    statistics,
                }
            }
        })
    }

    /// The bytes of a page; the first `n_plain` are not packed.
    fn bytes(&mut self, packed: &Bytes, n_plain: usize) -> Result<Bytes> {
        let bad = |what: &str| ParquetError::General(format!("a page packed with zstd {what}"));
        let (plain, packed) =
            packed.split_at_checked(n_plain).ok_or_else(|| bad("is too short"))?;
        let mut bytes = plain.to_vec();
        // A page without values has no frame.
        if !packed.is_empty() {
            // The file says how many bytes all pages have: a page that has more is damaged.
            let most = self.0 as u64 + 1;
            let mut frames = ZstdFrames::new(packed).take(most);
            frames.read_to_end(&mut bytes).map_err(|error| bad(&error.to_string()))?;
        }
        match self.0.checked_sub(bytes.len()) {
            Some(left) => self.0 = left,
            None => return Err(bad("has more bytes than its column")),
        }
        Ok(bytes.into())
    }
}

/// A reader of pages that refuses counts which cannot be true.
pub(super) struct CheckedPages {
    pages: Box<dyn PageReader>,
    zstd: Option<PageBytes>,
}

impl CheckedPages {
    fn checked(&mut self, page: Option<Page>) -> Result<Option<Page>> {
        let page = match (&mut self.zstd, page) {
            (Some(room), Some(page)) => Some(room.unpack(page)?),
            (_, page) => page,
        };
        check(page)
    }
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        self.checked(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        let page = self.pages.take_deferred_dictionary()?;
        self.checked(page)
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

/// Values of a dictionary lie there plainly, so each has a byte at least.
fn check(page: Option<Page>) -> Result<Option<Page>> {
    match &page {
        Some(Page::DictionaryPage { buf, num_values, .. }) if *num_values as usize > buf.len() => {
            let n_bytes = buf.len();
            Err(ParquetError::General(format!(
                "a dictionary of {num_values} values in {n_bytes} bytes"
            )))
        }
        _ => Ok(page),
    }
}

#[cfg(test)]
mod tests {
    use parquet::basic::Encoding;

    use super::*;

    fn dictionary(num_values: u32) -> Option<Page> {
        let buf = vec![0u8; 12].into();
        Some(Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false })
    }

    #[test]
    fn a_dictionary_of_more_values_than_bytes_is_refused() {
        assert!(check(dictionary(3)).is_ok());
        let error = check(dictionary(u32::MAX)).err().map(|error| error.to_string());
        let expected = "Parquet error: a dictionary of 4294967295 values in 12 bytes";
        assert_eq!(error.as_deref(), Some(expected));
    }
}
