//! A file server over HTTP that can be told to fail.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A file of the server.
#[derive(Clone, Default)]
pub(crate) struct ServedFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) etag: String,
}

/// The faults of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It answers with this status.
    Status(u16),
    /// It closes the connection after so many bytes of a body.
    Cut(usize),
    /// It sends nothing at all.
    Silence,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) files: BTreeMap<String, ServedFile>,
    /// The faults of the next requests, one each.
    pub(crate) faults: Vec<Fault>,
    /// Whether it knows ranges.
    pub(crate) has_ranges: bool,
    /// The ranges that were asked for: `path` or `path from-`.
    pub(crate) requests: Vec<String>,
    /// The same requests as they came: the first line, the headers, the body.
    pub(crate) texts: Vec<String>,
}

pub(crate) struct FileServer {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Mutex<State>>,
}

impl FileServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { has_ranges: true, ..State::default() }));
        let shared = state.clone();
        // It ends with the test program.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || while serve(&stream, &shared).is_some() {});
            }
        });
        Self { address, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8], etag: &str) {
        let file = ServedFile { bytes: bytes.to_vec(), etag: etag.to_string() };
        self.state.lock().unwrap().files.insert(format!("/{path}"), file);
    }

    pub(crate) fn fail(&self, faults: &[Fault]) {
        self.state.lock().unwrap().faults = faults.to_vec();
    }

    /// Requests as they came since the last call.
    pub(crate) fn texts(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().texts)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

/// Answers one request; `None` ends the connection.
fn serve(mut stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&n| n > 0)?;
    let path = line.split(' ').nth(1)?.to_string();
    let (mut range, mut n_body) = (None, 0);
    let mut text = line;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|&n| n > 0)?;
        text += &header.to_lowercase();
        if header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':')?;
        if name.eq_ignore_ascii_case("range") {
            range = value.trim().strip_prefix("bytes=").map(str::to_string);
        }
        if name.eq_ignore_ascii_case("content-length") {
            n_body = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; n_body];
    reader.read_exact(&mut body).ok()?;
    text += &String::from_utf8_lossy(&body);
    let (file, fault, has_ranges) = {
        let mut state = state.lock().unwrap();
        let asked = range.as_deref().unwrap_or_default();
        state.texts.push(text);
        state.requests.push(format!("{path} {asked}").trim().to_string());
        let fault = (!state.faults.is_empty()).then(|| state.faults.remove(0));
        (state.files.get(&path).cloned(), fault, state.has_ranges)
    };
    if fault == Some(Fault::Silence) {
        return None;
    }
    let status = match (fault, &file) {
        (Some(Fault::Status(status)), _) => Some(status),
        (_, None) => Some(404),
        _ => None,
    };
    if let Some(status) = status {
        return write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 4\r\n\r\nno!\n").ok();
    }
    let ServedFile { bytes, etag } = file?;
    let (from, to) = match range.filter(|_| has_ranges) {
        Some(range) => {
            let (from, to) = range.split_once('-')?;
            let to = to.parse().map_or(bytes.len(), |to: usize| (to + 1).min(bytes.len()));
            (Some(from.parse::<usize>().ok()?), to)
        }
        None => (None, bytes.len()),
    };
    let len = bytes.len();
    if from.is_some_and(|from| from >= len) {
        let head = format!("HTTP/1.1 416 No\r\nContent-Range: bytes */{len}\r\nETag: {etag}\r\n");
        return write!(stream, "{head}Content-Length: 0\r\n\r\n").ok();
    }
    let status = match from {
        Some(from) => format!("206 Part\r\nContent-Range: bytes {from}-{}/{len}", to - 1),
        None => "200 OK".to_string(),
    };
    let body = &bytes[from.unwrap_or(0)..to];
    let head =
        format!("HTTP/1.1 {status}\r\nETag: {etag}\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).ok()?;
    match fault {
        Some(Fault::Cut(n)) => {
            stream.write_all(&body[..n.min(body.len())]).ok()?;
            None
        }
        _ => stream.write_all(body).ok(),
    }
}
