//! Rows that were read from a file, and their effect on a table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tensor::{Rows, Shape, Tensor};

use crate::error::{Error, Result};

/// Rows that were read from a file, each id once.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRows {
    /// The file.
    pub path: PathBuf,
    /// The ids, in the order of the file.
    pub ids: Vec<i64>,
    /// A row for each id.
    pub value: Tensor,
}

/// The outcome of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Rows that were there and have new numbers.
    pub replaced: usize,
    /// Rows that were not there.
    pub added: usize,
}

/// Where rows go to.
pub(crate) struct ImportTarget<'a> {
    pub(crate) table: &'a str,
    pub(crate) dims: Vec<i64>,
    pub(crate) dtype: tensor::DType,
}

impl NewRows {
    /// Checks that there is a row for each id, and that no id is there twice.
    pub(crate) fn new(path: &Path, ids: Vec<i64>, value: Tensor) -> Result<Self> {
        let path = path.to_path_buf();
        let n_rows = value.dims().first().copied().unwrap_or(0);
        if n_rows != ids.len() || value.dims().len() != 2 {
            let (n, dims) = (ids.len(), value.dims());
            let problem = format!("it has {n} ids, and rows of the shape {dims:?}");
            return Err(Error::BadFile { path, problem });
        }
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::IdTwice { path, id: pair[0] }),
            None => Ok(Self { path, ids, value }),
        }
    }

    pub(crate) fn fits(&self, target: &ImportTarget<'_>) -> Result<()> {
        let (path, table) = (self.path.clone(), target.table.to_string());
        let (height, width) = (target.dims[0], target.dims[1] as usize);
        let (found, dtype) = (self.value.dims()[1], self.value.dtype());
        if found != width {
            return Err(Error::RowWidth { path, table, expected: width, found });
        }
        if dtype != target.dtype {
            return Err(Error::RowType { path, table, expected: target.dtype, found: dtype });
        }
        match self.ids.iter().find(|&&id| !tensor::is_row(id, height)) {
            Some(&id) => Err(Error::IdRange { path, table, id, height }),
            None => Ok(()),
        }
    }

    /// Some of the rows.
    pub(crate) fn only(&self, places: &[usize]) -> Result<Self> {
        let bytes: Vec<u8> = places.iter().flat_map(|&at| self.row(at)).copied().collect();
        let shape = Shape::from([places.len(), self.value.dims()[1]]);
        let value = Tensor::from_bytes(self.value.dtype(), shape, &bytes)?;
        let ids = places.iter().map(|&at| self.ids[at]).collect();
        Ok(Self { path: self.path.clone(), ids, value })
    }

    fn row(&self, at: usize) -> &[u8] {
        let n_bytes = self.value.dims()[1] * self.value.dtype().size();
        &self.value.bytes()[at * n_bytes..(at + 1) * n_bytes]
    }

    /// Puts the rows into a whole table.
    pub(crate) fn put(&self, tensor: &mut Tensor) -> Imported {
        let n_bytes = self.value.dims()[1] * self.value.dtype().size();
        let bytes = tensor.bytes_mut();
        for (at, &id) in self.ids.iter().enumerate() {
            let first = id as usize * n_bytes;
            bytes[first..first + n_bytes].copy_from_slice(self.row(at));
        }
        Imported { replaced: self.ids.len(), added: 0 }
    }

    /// Puts the rows among others. The result is in order of the ids.
    pub(crate) fn merge(&self, old: &Rows) -> Result<(Rows, Imported)> {
        let n_bytes = self.value.dims()[1] * self.value.dtype().size();
        let old_row = |at: usize| &old.value.bytes()[at * n_bytes..(at + 1) * n_bytes];
        let mut rows: BTreeMap<i64, &[u8]> =
            old.ids.iter().enumerate().map(|(at, &id)| (id, old_row(at))).collect();
        let n_old = rows.len();
        rows.extend(self.ids.iter().enumerate().map(|(at, &id)| (id, self.row(at))));
        let added = rows.len() - n_old;
        let mut value = Tensor::default();
        let shape = Shape::from([rows.len(), self.value.dims()[1]]);
        value.try_resize_as(self.value.dtype(), shape)?;
        let places = value.bytes_mut().chunks_exact_mut(n_bytes.max(1));
        places.zip(rows.values()).for_each(|(to, from)| to.copy_from_slice(from));
        let ids = rows.into_keys().collect();
        let imported = Imported { replaced: self.ids.len() - added, added };
        Ok((Rows { ids, height: old.height, value }, imported))
    }
}
