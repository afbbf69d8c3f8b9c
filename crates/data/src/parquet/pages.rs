//! Pages of a column whose counts were compared with their bytes.
//!
//! The library makes room for as many values as a dictionary's header names before it reads them. A
//! damaged header would end the process for lack of memory.

use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

/// A reader of pages that refuses counts which cannot be true.
pub(super) struct CheckedPages(pub(super) Box<dyn PageReader>);

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.0.get_next_page().and_then(check)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.0.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        self.0.take_deferred_dictionary().and_then(check)
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.0.at_record_boundary()
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
