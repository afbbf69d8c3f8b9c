//! Arrays into a pickle that Python 2 and 3 read (the latter with `encoding='latin1'`).

use std::collections::BTreeMap;

use tensor::{Tensor, room_or_give_up};

use super::{DTYPE, ENCODE, LETTERS, NDARRAY, RECONSTRUCT};
use crate::error::{Error, Result};

/// More than all that is written between two texts.
const WORDS_BYTES: usize = 1 << 12;

/// The pickle of a dictionary.
pub(crate) fn write(arrays: &BTreeMap<String, Tensor>) -> Result<Vec<u8>> {
    let mut out = b"\x80\x02}(".to_vec();
    for (name, tensor) in arrays {
        text(&mut out, name, name)?;
        array(&mut out, name, tensor)?;
    }
    out.extend_from_slice(b"u.");
    Ok(out)
}

/// An array is made empty and then told its state: (1, shape, type, column-major?, bytes).
fn array(out: &mut Vec<u8>, name: &str, tensor: &Tensor) -> Result<()> {
    global(out, RECONSTRUCT);
    global(out, NDARRAY);
    out.extend_from_slice(b"K\x00\x85");
    latin1(out, name, b"b")?;
    out.extend_from_slice(b"\x87R(K\x01(");
    for &dim in tensor.dims() {
        int(out, dim);
    }
    out.push(b't');
    dtype(out, name, tensor)?;
    out.push(0x89);
    latin1(out, name, tensor.bytes())?;
    out.extend_from_slice(b"tb");
    Ok(())
}

fn dtype(out: &mut Vec<u8>, name: &str, tensor: &Tensor) -> Result<()> {
    let letters = LETTERS.iter().find(|(_, dtype)| *dtype == tensor.dtype());
    let (letters, _) = letters.expect("every type has its letters");
    let order = if tensor.dtype().size() == 1 { "|" } else { "<" };
    global(out, DTYPE);
    text(out, name, letters)?;
    out.extend_from_slice(b"\x89\x88\x87R(K\x03");
    text(out, name, order)?;
    out.extend_from_slice(b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb");
    Ok(())
}

fn global(out: &mut Vec<u8>, name: &str) {
    out.push(b'c');
    out.extend_from_slice(name.replace(' ', "\n").as_bytes());
    out.push(b'\n');
}

/// Protocol 2 has no bytes: they are text, which is encoded again when the pickle is read.
fn latin1(out: &mut Vec<u8>, name: &str, bytes: &[u8]) -> Result<()> {
    global(out, ENCODE);
    let n_bytes = bytes.len() + bytes.iter().filter(|byte| !byte.is_ascii()).count();
    length(out, name, n_bytes)?;
    for &byte in bytes {
        out.extend_from_slice(char::from(byte).encode_utf8(&mut [0; 2]).as_bytes());
    }
    text(out, name, "latin1")?;
    out.extend_from_slice(b"\x86R");
    Ok(())
}

fn text(out: &mut Vec<u8>, name: &str, value: &str) -> Result<()> {
    length(out, name, value.len())?;
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

/// Begins a text of so many bytes.
fn length(out: &mut Vec<u8>, name: &str, n_bytes: usize) -> Result<()> {
    let n_bytes = u32::try_from(n_bytes);
    let n_bytes = n_bytes.map_err(|_| Error::TooLargeToPickle { var: name.to_string() })?;
    // With the few words that follow.
    room_or_give_up(out, n_bytes as usize + WORDS_BYTES);
    out.push(b'X');
    out.extend_from_slice(&n_bytes.to_le_bytes());
    Ok(())
}

/// A size, as a number of up to eight bytes.
fn int(out: &mut Vec<u8>, value: usize) {
    match (u8::try_from(value), i32::try_from(value)) {
        (Ok(small), _) => out.extend_from_slice(&[b'K', small]),
        (_, Ok(middle)) => {
            out.push(b'J');
            out.extend_from_slice(&middle.to_le_bytes());
        }
        _ => {
            out.extend_from_slice(&[0x8a, 8]);
            out.extend_from_slice(&(value as i64).to_le_bytes());
        }
    }
}
