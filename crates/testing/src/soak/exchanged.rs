//! Input from others: rows of tables in files, and requests for predictions.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use paddlewheel::export::{ExportFormat, ExportOptions, export, parquet_rows, safetensors_rows};
use predict::{Predictor, read_request};
use program::Net;
use program::layers::{self, Data, Embedding, Fc, SequencePool};
use tempfile::TempDir;
use tensor::DType;
use train::io::{self, SaveInference};

use super::Target;
use crate::session::Session;

/// A folder in memory, if there is one.
fn folder() -> TempDir {
    let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
    memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in).expect("a folder")
}

/// A model of sequences of ids and of two numbers, in a folder.
fn model() -> TempDir {
    let mut net = Net::with_seed(7);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let build = |b: &mut program::Builder<'_>| {
        let ids = layers::data(b, "ids", &[1], ids)?;
        let x = layers::data(b, "x", &[2], Data::default())?;
        let rows = layers::embedding(b, &ids, [100, 2], Embedding::default())?;
        let sum = layers::sequence_pool(b, &rows, "sum", SequencePool::default())?;
        let both = layers::concat(b, &[sum, x], 1, None)?;
        layers::fc(b, &[both], 1, Fc::default())
    };
    let out = build(b).expect("a net");
    let session = Session::start(net);
    let (feeds, targets) = (["ids", "x"], [out.name()]);
    let options = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
    let dir = folder();
    let (scope, main) = (&session.scope, &session.net.main);
    io::save_inference_model(scope, dir.path(), main, &options).expect("a saved model");
    dir
}

/// A file that an export wrote.
fn exported(format: ExportFormat, table: Option<&str>) -> Vec<u8> {
    let (model, out) = (model(), folder());
    let path = out.path().join("exported");
    let table = table.map(str::to_string);
    let options = ExportOptions { out: Some(path.clone()), table, ..ExportOptions::new(format) };
    export(model.path(), &options).expect("an export");
    fs::read(path).expect("an exported file")
}

/// Rows of a table as safetensors.
pub(super) fn safetensors() -> Target {
    let whole = exported(ExportFormat::Safetensors, None);
    let text = br#"{"t.ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},"t.rows":{"dtype":"F32","shape":[2,1],"data_offsets":[16,24]}}"#;
    let rows = [&(text.len() as u64).to_le_bytes()[..], &text[..], &[1; 24]].concat();
    let dir = folder();
    Target {
        name: "safetensors",
        inputs: vec![whole, rows],
        words: &[
            b"\"dtype\"",
            b"\"F32\"",
            b"\"shape\"",
            b"data_offsets",
            b"[",
            b"}",
            b"-1",
            b"1e99",
        ],
        read: Box::new(move |bytes: &[u8]| {
            let path = dir.path().join("rows.safetensors");
            fs::write(&path, bytes).expect("a file");
            for table in ["t", "embedding_0.w_0"] {
                black_box(safetensors_rows(&path, table).is_ok());
            }
        }),
        share: 20,
    }
}

/// Rows of a table as Parquet.
pub(super) fn table_rows() -> Target {
    let whole = exported(ExportFormat::Parquet, Some("embedding_0.w_0"));
    let dir = folder();
    Target {
        name: "table_rows",
        inputs: vec![whole],
        words: &[b"PAR1", b"id", b"v0", b"v1", b"\x15\x00", b"\x19\x1c"],
        read: Box::new(move |bytes: &[u8]| {
            let path = dir.path().join("rows.parquet");
            fs::write(&path, bytes).expect("a file");
            black_box(parquet_rows(&path).is_ok());
        }),
        share: 20,
    }
}

/// A request whose body comes in chunks.
fn chunked(body: &[u8]) -> Vec<u8> {
    let mut bytes = b"POST /predict HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(20) {
        bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        bytes.extend_from_slice(&[chunk, b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"0\r\nA: b\r\n\r\n");
    bytes
}

/// Requests of `paddlewheel serve`, as JSON and as raw columns.
pub(super) fn predictions() -> Target {
    let predictor = Predictor::load(model().path()).expect("a model");
    let request = |kind: &str, body: &[u8]| {
        let head = format!(
            "POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), body].concat()
    };
    let columns = br#"{"columns": {"ids": [[3, 4], [5]], "x": [[0.5, 1e3], [-1, 2]]}}"#;
    let rows = br#"{"rows": [{"ids": 3, "x": [0.5, 1]}, {"ids": [], "x": [0, 0]}]}"#;
    let mut raw =
        b"PWC1\x02\0\0\0\x02\0\0\0\x03\0ids\x03\x01\x01\0\0\0\x02\0\0\0\x01\0\0\0".to_vec();
    [3i64, 4, 5].iter().for_each(|id| raw.extend_from_slice(&id.to_le_bytes()));
    raw.extend_from_slice(b"\x01\0x\x05\0\x02\0\0\0");
    [0.5f32, 1.0, -1.0, 2.0].iter().for_each(|x| raw.extend_from_slice(&x.to_le_bytes()));
    let json = "application/json";
    let inputs = vec![
        request(json, columns),
        request(json, rows),
        request("application/x-paddlewheel-columns", &raw),
        chunked(rows),
    ];
    for input in &inputs {
        assert!(read_request(input, &mut predictor.batch()), "a good request");
    }
    Target {
        name: "predictions",
        inputs,
        words: &[
            b"\r\n",
            b"Content-Length: ",
            b"Transfer-Encoding: chunked\r\n",
            b"Expect: 100-continue\r\n",
            b"columns",
            b"\"rows\"",
            b"[[[[",
            b"null",
            b"1e400",
            b"PWC1",
        ],
        read: Box::new(move |bytes: &[u8]| {
            let mut batch = predictor.batch();
            if read_request(bytes, &mut batch) {
                black_box(predictor.predict(&mut batch).is_ok());
            }
        }),
        share: 40,
    }
}
