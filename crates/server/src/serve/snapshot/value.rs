//! Whole values of variables in a file.

use std::io;

use base::bytes::{ByteReader, ByteWriter, Malformed, Read, u64s};
use tensor::{DType, RANK_MAX, Rows, Shape, Tensor, Value};

use super::file::{FileReader, FileWriter, Kind};
use crate::bad_snapshot::BadSnapshot;

/// Longer heads are none.
const HEAD_BYTES_MAX: u32 = 1 << 20;

const TOO_LONG: Malformed = Malformed("a value is longer than its section");

/// Writes a variable; `table` says whose it is.
pub(in crate::serve) fn write_value(
    file: &mut FileWriter,
    table: usize,
    name: &str,
    value: &Value,
) -> io::Result<()> {
    let (mut head, mut ids) = (ByteWriter::default(), ByteWriter::default());
    head.text(name);
    let form = |head: &mut ByteWriter, tensor: &Tensor| {
        head.u8(tensor.dtype().code() as u8).dims(&tensor.shape().to_i64());
    };
    let tensors: Vec<&Tensor> = match value {
        // Servers never have a table that is only read, nor steps of a loop that a gradient waits for.
        Value::Empty | Value::Steps(_) | Value::Keyed(_) => {
            head.u8(0);
            Vec::new()
        }
        Value::Tensor(tensor) => {
            form(head.u8(1), tensor);
            vec![tensor]
        }
        Value::Shared(tensor) => {
            form(head.u8(1), tensor);
            vec![tensor]
        }
        Value::Rows(rows) => {
            form(head.u8(2).u64(rows.height as u64).count(rows.ids.len()), &rows.value);
            rows.ids.iter().fold(&mut ids, |ids, &id| ids.u64(id as u64));
            vec![&rows.value]
        }
        Value::Array(all) => {
            head.u8(3).list(all, form);
            all.iter().collect()
        }
    };
    let size = (head.0.len() as u32).to_le_bytes();
    let mut contents: Vec<&[u8]> = vec![&size, &head.0, &ids.0];
    contents.extend(tensors.iter().map(|tensor| tensor.bytes()));
    file.section(Kind::Value, table, &contents)
}

/// Reads a variable, of a section that was just begun.
pub(in crate::serve) fn read_value(file: &mut FileReader) -> Result<(String, Value), BadSnapshot> {
    let mut size = [0; 4];
    file.read(&mut size)?;
    let size = u32::from_le_bytes(size);
    if size > HEAD_BYTES_MAX {
        return Err(file.damaged("a variable has no name"));
    }
    let head = file.bytes(size as usize)?;
    let parsed = parse(&head, file.n_unread());
    let (name, mut shell) = parsed.map_err(|_| file.damaged("a variable cannot be read"))?;
    if let Value::Rows(rows) = &mut shell {
        let ids = file.bytes(rows.ids.len() * size_of::<i64>())?;
        rows.ids = u64s(&ids).map(|id| id as i64).collect();
    }
    match &mut shell {
        Value::Tensor(tensor) => file.read(tensor.bytes_mut())?,
        Value::Rows(rows) => file.read(rows.value.bytes_mut())?,
        Value::Array(all) => {
            all.iter_mut().try_for_each(|tensor| file.read(tensor.bytes_mut()))?;
        }
        Value::Empty | Value::Shared(_) | Value::Steps(_) | Value::Keyed(_) => {}
    }
    Ok((name, shell))
}

/// A variable with memory for its numbers, of which `n_left` bytes are there.
fn parse(head: &[u8], mut n_left: u64) -> Read<(String, Value)> {
    let parts = &mut ByteReader::new(head);
    let name = parts.text()?.to_string();
    let value = match parts.u8()? {
        0 => Value::Empty,
        1 => Value::Tensor(tensor(parts, &mut n_left)?),
        2 => {
            let (height, n) = (parts.u64()? as i64, parts.u64()?);
            let n_bytes = n.checked_mul(size_of::<i64>() as u64);
            n_left = n_bytes.and_then(|n_bytes| n_left.checked_sub(n_bytes)).ok_or(TOO_LONG)?;
            let value = tensor(parts, &mut n_left)?;
            let ids = vec![0; usize::try_from(n).map_err(|_| TOO_LONG)?];
            Value::Rows(Rows { ids, height, value })
        }
        3 => Value::Array(parts.list(|parts| tensor(parts, &mut n_left))?),
        _ => return Err(Malformed("a value of an unknown kind")),
    };
    parts.end()?;
    if n_left == 0 { Ok((name, value)) } else { Err(Malformed("numbers are left over")) }
}

fn tensor(parts: &mut ByteReader<'_>, n_left: &mut u64) -> Read<Tensor> {
    let dtype = DType::from_code(parts.u8()?.into());
    let dtype = dtype.map_err(|_| Malformed("a tensor of an unknown type"))?;
    let dims = parts.dims()?;
    if dims.len() > RANK_MAX {
        return Err(Malformed("a tensor with too many dimensions"));
    }
    let sizes = dims.iter().map(|&dim| usize::try_from(dim).map_err(|_| TOO_LONG));
    let sizes = sizes.collect::<Read<Vec<_>>>()?;
    let n = sizes.iter().try_fold(dtype.size(), |n, &size| n.checked_mul(size)).ok_or(TOO_LONG)?;
    // A tensor without dimensions was never written, and has no bytes.
    let n = if sizes.is_empty() { 0 } else { n };
    *n_left = n_left.checked_sub(n as u64).ok_or(TOO_LONG)?;
    let mut tensor = Tensor::default();
    tensor.resize_as(dtype, Shape::new(&sizes));
    Ok(tensor)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::serve::snapshot::header::{CutId, FileKind, Header, Owner};

    #[test]
    fn values_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let header = Header {
            kind: FileKind::Base,
            owner: Owner::default(),
            term: 1,
            at: CutId::default(),
            after: CutId::default(),
        };
        let tensor = |n: usize| Tensor::new([n, 2], &vec![0.5f32; 2 * n]).unwrap();
        let rows = Rows { ids: vec![7, -1, 3], height: 9, value: tensor(3) };
        let values = [
            Value::Empty,
            Value::Tensor(tensor(300)),
            Value::Tensor(Tensor::full([1], 7i64)),
            Value::Tensor(Tensor::default()),
            Value::Tensor(tensor(0)),
            Value::Rows(rows),
            Value::Array(vec![tensor(1), tensor(0), tensor(2)]),
        ];
        let mut file = FileWriter::new(folder.path(), "base.0", &header).unwrap();
        for (at, value) in values.iter().enumerate() {
            write_value(&mut file, at, &format!("v{at}"), value).unwrap();
        }
        write_value(&mut file, 9, "shared", &Value::Shared(Arc::new(tensor(4)))).unwrap();
        file.finish().unwrap();
        let (mut file, _) = FileReader::open(&folder.path().join("base.0")).unwrap();
        for (at, value) in values.into_iter().enumerate() {
            assert_eq!(file.next_section().unwrap().unwrap().table, at);
            assert_eq!(read_value(&mut file).unwrap(), (format!("v{at}"), value));
        }
        file.next_section().unwrap();
        assert_eq!(read_value(&mut file).unwrap().1, Value::Tensor(tensor(4)));
        assert_eq!(file.next_section().unwrap(), None);
    }

    #[test]
    fn no_memory_is_taken_for_what_is_not_there() {
        let float = DType::F32.code() as u8;
        for dims in [&[1 << 40, 1 << 40][..], &[1 << 30], &[-1], &[2; 12]] {
            let mut head = ByteWriter::default();
            head.text("w").u8(1).u8(float).dims(dims);
            assert!(parse(&head.0, 100).is_err(), "{dims:?}");
        }
        let mut rows = ByteWriter::default();
        rows.text("w").u8(2).u64(9).u64(1 << 60).u8(float).dims(&[0, 2]);
        assert!(parse(&rows.0, 100).is_err());
    }
}
