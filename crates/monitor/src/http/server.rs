//! A small server: one thread, a few connections, GET only.
//!
//! **Invariant:** memory has a limit whatever clients do, and no client makes another one wait.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::HttpAnswer;
use super::request::{HEAD_BYTES_MAX, HttpRequest, NoRequest, parse};

/// Makes the answer to a GET. It must not take long: all clients wait for it.
pub type Answering = Box<dyn FnMut(&HttpRequest) -> HttpAnswer + Send>;

/// Where a server listens.
pub type HttpAddress = SocketAddr;

/// Connections at once. One more takes the place of the one that has asked nothing for the longest time.
const CONNS_MAX: usize = 32;
/// New connections that are taken before those that are there are served again.
const ACCEPTS_MAX: usize = CONNS_MAX / 2;
/// How long a client may take to ask, or to read its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the time is looked at.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
/// Bytes read at once.
const READ_BYTES: usize = 4096;
/// Reads of unwanted bytes, before a connection is closed.
const DRAINS_MAX: usize = 64;

/// The reason why a server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The port is taken, say.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// Answers until it is dropped.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Begins to answer; port 0 for any that is free.
    pub fn start(address: &str, answer: Answering) -> Result<Self, HttpError> {
        let failed = |source| HttpError::Listen { address: address.to_string(), source };
        let all: Vec<_> = address.to_socket_addrs().map_err(failed)?.collect();
        let listener = TcpListener::bind(all.as_slice()).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        let stops = Arc::new(AtomicBool::new(false));
        let told = stops.clone();
        let thread = std::thread::Builder::new().name("http".to_string());
        let run = move || Loop { listener, answer, conns: Vec::new() }.run(&told);
        let thread = Some(thread.spawn(run).map_err(failed)?);
        Ok(Self { address: local, stops, thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        // Wakes the thread; without it, the thread would look at the time soon.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(100));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    listener: TcpListener,
    answer: Answering,
    conns: Vec<Conn>,
}

/// One client.
struct Conn {
    stream: TcpStream,
    /// Bytes of a request that is not complete yet.
    input: Vec<u8>,
    output: Vec<u8>,
    n_written: usize,
    closes: bool,
    deadline: Instant,
}

impl Loop {
    fn run(mut self, stops: &AtomicBool) {
        while !stops.load(Ordering::Relaxed) {
            let ready = self.wait();
            let has_new = ready.first() == Some(&true);
            let now = Instant::now();
            let mut ready = ready.into_iter().skip(1);
            let answer = &mut self.answer;
            self.conns.retain_mut(|conn| {
                let is_open = match ready.next() {
                    Some(true) => conn.go_on(answer).is_ok(),
                    _ => true,
                };
                is_open && now < conn.deadline
            });
            if has_new {
                self.accept();
            }
        }
    }

    /// Waits until something can be done; for the listener and each connection, whether it can.
    fn wait(&self) -> Vec<bool> {
        let of_conn = |conn: &Conn| if conn.is_written() { PollFlags::IN } else { PollFlags::OUT };
        let listener = PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN);
        let conns = self.conns.iter();
        let conns = conns.map(|conn| PollFd::from_borrowed_fd(conn.stream.as_fd(), of_conn(conn)));
        let mut all: Vec<PollFd<'_>> = std::iter::once(listener).chain(conns).collect();
        match poll(&mut all, Some(&TICK)) {
            Ok(_) => all.iter().map(|fd| !fd.revents().is_empty()).collect(),
            Err(_) => vec![false; all.len()],
        }
    }

    /// Takes new connections, a few at a time: those that are there are served in between. A request that has come with
    /// its connection is answered at once.
    fn accept(&mut self) {
        for _ in 0..ACCEPTS_MAX {
            let Ok((stream, _)) = self.listener.accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = stream.set_nodelay(true);
            let deadline = Instant::now() + PATIENCE;
            let (input, output) = (Vec::new(), Vec::new());
            let (n_written, closes) = (0, false);
            let mut conn = Conn { stream, input, output, n_written, closes, deadline };
            if conn.go_on(&mut self.answer).is_ok() {
                self.make_room();
                self.conns.push(conn);
            }
        }
    }

    /// Closes a connection if there is no place for another one: of those that are not read an answer, the one that has
    /// asked nothing for the longest time.
    fn make_room(&mut self) {
        if self.conns.len() < CONNS_MAX {
            return;
        }
        let by_use = |(_, conn): &(usize, &Conn)| (!conn.is_written(), conn.deadline);
        if let Some((at, _)) = self.conns.iter().enumerate().min_by_key(by_use) {
            self.conns.remove(at);
        }
    }
}

impl Conn {
    fn is_written(&self) -> bool {
        self.n_written == self.output.len()
    }

    /// Reads and writes as much as possible; an error ends the connection.
    fn go_on(&mut self, answer: &mut Answering) -> io::Result<()> {
        if self.is_written() {
            self.read()?;
        }
        while self.is_written() {
            let Some(next) = self.next(answer) else { return Ok(()) };
            self.closes = next.closes();
            (self.output, self.n_written) = (next.to_bytes(), 0);
            self.deadline = Instant::now() + PATIENCE;
            self.write()?;
        }
        self.write()
    }

    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; READ_BYTES];
        while self.input.len() <= HEAD_BYTES_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.input.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The answer to the next request, if it has come.
    fn next(&mut self, answer: &mut Answering) -> Option<HttpAnswer> {
        if self.input.is_empty() {
            return None;
        }
        let (head, n_head) = match parse(&self.input) {
            Ok(Some(found)) => found,
            Ok(None) if self.input.len() >= HEAD_BYTES_MAX => {
                let problem = "the head of the request is too long";
                return Some(HttpAnswer::error(431, problem).closing());
            }
            Ok(None) => return None,
            Err(NoRequest::Bad(answer)) => return Some(answer),
            Err(NoRequest::Gone) => return Some(HttpAnswer::error(400, "gone").closing()),
        };
        self.input.drain(..n_head);
        let request = head.request;
        if head.n_body > 0 {
            return Some(HttpAnswer::error(413, "a question has no body here").closing());
        }
        let answer = match request.method.as_str() {
            "GET" => answer(&request),
            "HEAD" => answer(&request).head_only(),
            _ => HttpAnswer::error(405, "only GET is answered here"),
        };
        Some(if request.closes { answer.closing() } else { answer })
    }

    fn write(&mut self) -> io::Result<()> {
        while self.n_written < self.output.len() {
            match self.stream.write(&self.output[self.n_written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.n_written += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A client that reads nothing does not hold the memory of an answer for ever.
        (self.output, self.n_written) = (Vec::new(), 0);
        if self.closes {
            self.drain();
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            Ok(())
        }
    }

    /// Reads and drops the bytes that have come: otherwise the system would discard the answer.
    fn drain(&mut self) {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..DRAINS_MAX {
            if !matches!(self.stream.read(&mut buffer), Ok(1..)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ask_all;

    /// More bytes than the buffers of a socket hold.
    const LARGE: usize = 8 << 20;

    fn server() -> HttpServer {
        let answer = |request: &HttpRequest| match request.path() {
            "/large" => HttpAnswer::new("text/plain", vec![b'x'; LARGE]),
            path => HttpAnswer::new("text/plain", path.as_bytes().to_vec()),
        };
        HttpServer::start("127.0.0.1:0", Box::new(answer)).unwrap()
    }

    fn connect(server: &HttpServer) -> TcpStream {
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes, and reads until the server closes.
    fn told(server: &HttpServer, bytes: &[u8]) -> String {
        let mut stream = connect(server);
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn is_well(server: &HttpServer) -> bool {
        let address = server.address().to_string();
        let asked = ask_all(&[address], "/well", Duration::from_secs(20));
        asked[0].as_ref().is_ok_and(|asked| asked.body == b"/well")
    }

    #[test]
    fn requests_in_a_row_and_in_pieces() {
        let server = server();
        let mut stream = connect(&server);
        stream.write_all(b"GET /a?b HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nConnection: cl").unwrap();
        stream.write_all(b"ose\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches("200 OK").count(), 2, "{text}");
        assert!(text.ends_with("/b") && text.contains("\r\n\r\n/a"), "{text}");
    }

    #[test]
    fn garbage_is_refused_and_others_are_served() {
        let server = server();
        assert!(told(&server, &[0xff; 300]).starts_with("HTTP/1.1 400"));
        assert!(
            told(&server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
                .starts_with("HTTP/1.1 400")
        );
        let long = [b"GET / HTTP/1.1\r\n".to_vec(), b"a: b\r\n".repeat(4000)].concat();
        let text = told(&server, &long);
        assert!(text.starts_with("HTTP/1.1 4"), "{text}");
        let post = told(&server, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789");
        assert!(post.starts_with("HTTP/1.1 413"), "{post}");
        let put = told(&server, b"PUT / HTTP/1.0\r\n\r\n");
        assert!(put.starts_with("HTTP/1.1 405"), "{put}");
        assert!(is_well(&server));
    }

    #[test]
    fn a_client_that_never_reads_harms_nobody() {
        let server = server();
        let deaf: Vec<TcpStream> = (0..CONNS_MAX - 1).map(|_| connect(&server)).collect();
        for mut stream in &deaf {
            stream.write_all(b"GET /large HTTP/1.1\r\n\r\n").unwrap();
        }
        assert!(is_well(&server));
        drop(deaf);
        assert!(is_well(&server));
    }

    /// Clients that send half of a request and nothing more do not keep others out.
    #[test]
    fn half_requests_harm_nobody() {
        let server = server();
        for n in [40, 400] {
            let half: Vec<TcpStream> = (0..n).map(|_| connect(&server)).collect();
            for mut stream in &half {
                // The server may have closed it already.
                let _ = stream.write_all(b"GET /well HTTP/1.1\r\nHos");
            }
            let address = [server.address().to_string()];
            for _ in 0..5 {
                let asked = ask_all(&address, "/well", PATIENCE / 2).remove(0);
                assert_eq!(asked.unwrap().body, b"/well", "with {n} half requests");
            }
        }
    }

    /// Nor do clients that never read, when there are more than places.
    #[test]
    fn many_clients_that_never_read_harm_nobody() {
        let server = server();
        let deaf: Vec<TcpStream> = (0..2 * CONNS_MAX).map(|_| connect(&server)).collect();
        for mut stream in &deaf {
            let _ = stream.write_all(b"GET /large HTTP/1.1\r\n\r\n");
        }
        let address = [server.address().to_string()];
        let asked = ask_all(&address, "/well", PATIENCE / 2).remove(0);
        assert_eq!(asked.unwrap().body, b"/well");
        drop(deaf);
    }

    #[test]
    fn a_taken_port_is_an_error() {
        let server = server();
        let answer = Box::new(|_: &HttpRequest| HttpAnswer::error(404, ""));
        let error = HttpServer::start(&server.address().to_string(), answer).unwrap_err();
        let text = format!("cannot listen on {}", server.address());
        assert!(error.to_string().starts_with(&text), "{error}");
    }
}
