//! The golden files under `golden/`: numbers that the real Fluid 1.8.5 computed.
//!
//! `.npz` is a zip of `.npy` arrays; `.npy` is a short text header (element type, order, shape)
//! and the bytes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use tensor::{DType, Shape, Tensor};

use crate::{close, npz};

/// The arrays of one `.npz` file by name.
#[derive(Debug)]
pub struct Golden {
    file: String,
    arrays: BTreeMap<String, Tensor>,
    words: BTreeMap<String, Vec<String>>,
}

/// Where a golden file lies.
pub fn path(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(file)
}

/// A golden `.json` file.
pub fn json(file: &str) -> serde_json::Value {
    let file = File::open(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_reader(std::io::BufReader::new(file)).expect("golden json parses")
}

impl Golden {
    /// Reads a whole `.npz` file.
    pub fn load(file: &str) -> Self {
        let archive = fs::read(path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let mut arrays = BTreeMap::new();
        let mut words = BTreeMap::new();
        for (name, bytes) in npz::entries(&archive) {
            let name = name.trim_end_matches(".npy").to_string();
            match npy(&bytes) {
                Array::Numbers(tensor) => arrays.insert(name, tensor).map_or((), drop),
                Array::Words(list) => words.insert(name, list).map_or((), drop),
            }
        }
        Self { file: file.to_string(), arrays, words }
    }

    /// A list of words.
    #[track_caller]
    pub fn words(&self, key: &str) -> &[String] {
        self.words.get(key).unwrap_or_else(|| panic!("{} has no `{key}`", self.file))
    }

    /// The names, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.arrays.keys().map(String::as_str)
    }

    /// The names that begin with `prefix`, without it, with their arrays.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Tensor)> {
        let entries = self.arrays.iter();
        entries.filter_map(move |(key, array)| Some((key.strip_prefix(prefix)?, array)))
    }

    /// One array; asking for one that is not there fails the test.
    #[track_caller]
    pub fn tensor(&self, key: &str) -> &Tensor {
        self.arrays.get(key).unwrap_or_else(|| panic!("{} has no `{key}`", self.file))
    }

    /// One array as doubles.
    #[track_caller]
    pub fn numbers(&self, key: &str) -> Vec<f64> {
        close::numbers(self.tensor(key))
    }

    /// Part `index` of an array along its first dimension, which is dropped.
    #[track_caller]
    pub fn part(&self, key: &str, index: usize) -> Tensor {
        let whole = self.tensor(key);
        let dims = &whole.dims()[1..];
        let shape = Shape::new(dims);
        let n_bytes = shape.n_elements() * whole.dtype().size();
        let bytes = &whole.bytes()[index * n_bytes..][..n_bytes];
        Tensor::from_bytes(whole.dtype(), shape, bytes).expect("the part has its size")
    }
}

enum Array {
    Numbers(Tensor),
    Words(Vec<String>),
}

/// Words of `width` characters of four bytes each, filled up with zeros.
fn words(data: &[u8], width: usize) -> Vec<String> {
    let letter = |c: &[u8]| char::from_u32(u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    let word =
        |word: &[u8]| word.chunks_exact(4).filter_map(letter).filter(|&c| c != '\0').collect();
    data.chunks_exact(width * 4).map(word).collect()
}

/// One `.npy` array: magic, version, header length, header, bytes.
fn npy(bytes: &[u8]) -> Array {
    assert_eq!(&bytes[..7], b"\x93NUMPY\x01", "npy version 1");
    let header_len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (header, data) = bytes[10..].split_at(header_len);
    let header = std::str::from_utf8(header).expect("the header is text");
    assert!(header.contains("'fortran_order': False"), "row-major arrays only: {header}");
    let descr = between(header, "'descr': '", "'");
    if let Some(width) = descr.strip_prefix("<U") {
        return Array::Words(words(data, width.parse().expect("a width")));
    }
    let dtype = match descr {
        "<f4" => DType::F32,
        "<f8" => DType::F64,
        "<i4" => DType::I32,
        "<i8" => DType::I64,
        other => panic!("element type {other} is not used by the golden files"),
    };
    let dims = between(header, "'shape': (", ")").split(',').map(str::trim);
    let dims = dims.filter(|dim| !dim.is_empty()).map(|dim| dim.parse().expect("a size"));
    let shape = Shape::new(&dims.collect::<Vec<usize>>());
    Array::Numbers(Tensor::from_bytes(dtype, shape, data).expect("the bytes fill the shape"))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let start = text.find(before).expect("the header names it") + before.len();
    let rest = &text[start..];
    &rest[..rest.find(after).expect("the header closes it")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_arrays_of_every_type_used() {
        let fit = Golden::load("fit_a_line.npz");
        assert_eq!(fit.tensor("train").shape(), Shape::from([404, 14]));
        assert_eq!(fit.tensor("rows").dtype(), DType::I32);
        assert_eq!(fit.tensor("norm_mean").dtype(), DType::F64);
        assert_eq!(fit.part("rows", 3).dims(), [20]);
        assert_eq!(fit.under("init/").count(), fit.under("final/").count());
    }

    #[test]
    fn an_npy_of_two_rows() {
        let header = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2, 1), }\n";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header);
        bytes.extend([7, 0, 0, 0, 255, 255, 255, 255]);
        let Array::Numbers(two) = npy(&bytes) else { panic!("numbers") };
        assert_eq!(two, Tensor::new([2, 1], &[7i32, -1]).unwrap());
    }

    #[test]
    fn json_is_read() {
        assert_eq!(json("config.json")["fit_a_line"]["steps"], 200);
    }
}
