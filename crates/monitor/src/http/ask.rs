//! Asks many servers at once, each with the same question and all within one deadline.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Where an answer is looked for that takes long to connect to.
const CONNECT_MAX: Duration = Duration::from_millis(300);

/// How long an answer that has come may take to be read when the time is up.
const GRACE: Duration = Duration::from_millis(40);

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    /// 200 if all is well.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Asks all of these addresses (`host:port`) for a path. One that does not answer in time is an error of
/// its own; the others are not held up by more than the deadline.
pub fn ask_all(addresses: &[String], path: &str, patience: Duration) -> Vec<io::Result<HttpReply>> {
    let deadline = Instant::now() + patience;
    let ask = |address: &String| -> io::Result<TcpStream> {
        let mut stream = connect(address, deadline)?;
        let question =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(question.as_bytes())?;
        Ok(stream)
    };
    let streams: Vec<_> = addresses.iter().map(ask).collect();
    streams.into_iter().map(|stream| read(stream?, deadline)).collect()
}

fn connect(address: &str, deadline: Instant) -> io::Result<TcpStream> {
    let all: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in all {
        match TcpStream::connect_timeout(&address, left(deadline)?.min(CONNECT_MAX)) {
            Ok(stream) => {
                stream.set_write_timeout(Some(left(deadline)?))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The time that is left; an error if there is none.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late()) } else { Ok(left) }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time")
}

/// Reads until the server closes, or until the answer is as long as its head says.
fn read(mut stream: TcpStream, deadline: Instant) -> io::Result<HttpReply> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        if let Some(asked) = parse(&bytes)? {
            return Ok(asked);
        }
        // Bytes that arrived during the wait for others are read even if the time is up.
        let now = Instant::now();
        if now > deadline + GRACE {
            return Err(late());
        }
        stream.set_read_timeout(Some(deadline.saturating_duration_since(now).max(GRACE / 20)))?;
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => drop(left(deadline)?),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(late()),
            Err(error) => return Err(error),
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::other("the answer is too long"));
        }
    }
}

/// The whole answer, if it has come.
fn parse(bytes: &[u8]) -> io::Result<Option<HttpReply>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let n_head = match head.parse(bytes) {
        Ok(httparse::Status::Complete(n)) => n,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(io::Error::other("the answer is not HTTP")),
    };
    let length =
        head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length =
        length.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok());
    let length: usize = length.ok_or_else(|| io::Error::other("the answer says no length"))?;
    let body = &bytes[n_head..];
    let status = head.code.unwrap_or(0);
    Ok(body.get(..length).map(|body| HttpReply { status, body: body.to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn one_that_never_answers_holds_up_nobody() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let garbage = TcpListener::bind("127.0.0.1:0").unwrap();
        let garbage_address = garbage.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = garbage.accept().unwrap();
            stream.write_all(b"SSH-2.0-x\r\n").unwrap();
            stream
        });
        let addresses =
            [silent.local_addr().unwrap().to_string(), garbage_address, "127.0.0.1:1".to_string()];
        let asked = ask_all(&addresses, "/state", Duration::from_millis(500));
        let errors: Vec<String> =
            asked.into_iter().map(|asked| asked.unwrap_err().to_string()).collect();
        assert_eq!(errors[0], "it did not answer in time");
        assert_eq!(errors[1], "the answer is not HTTP");
        drop(thread.join());
    }
}
