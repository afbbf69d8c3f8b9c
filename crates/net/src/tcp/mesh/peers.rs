//! The two threads of a connection.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;
use protocol::collective::{Exchanges, PeerMessage};
use wire::codec::{Blobs, Destination};
use wire::frame::{self, FRAME_BYTES_MAX, Frame, HEAD_BYTES, Head, Message};
use wire::message::Lend;
use wire::shm::{Sharing, Window};
use wire::{Error, Result, SharedMemory};

use super::{MeshSettings, MeshState, ToWrite};
use crate::tcp::{Patient, Stream, WholeFrame, is_timeout};

/// Messages that are written at once.
const AT_ONCE: usize = 64;
/// A sign of life comes so often within the time that is allowed without one.
const PINGS_PER_LEASE: u32 = 5;
/// Short messages are read together.
const READ_BYTES: usize = 16 << 10;

/// Starts the threads of all connections.
pub(super) fn start(
    exchanges: Exchanges,
    streams: Vec<Option<Stream>>,
    settings: &MeshSettings,
    memory: &SharedMemory,
) -> Result<(Arc<MeshState>, Vec<JoinHandle<()>>)> {
    let lease = Duration::from_millis(settings.patience.lease_ms.max(1000));
    let (mut writers, mut ends) = (Vec::new(), Vec::new());
    for stream in &streams {
        let (writer, end) = channel();
        writers.push(stream.as_ref().map(|_| writer));
        ends.push(end);
    }
    let exchanges = Mutex::new(exchanges);
    let streams: Vec<_> = streams.into_iter().map(|stream| stream.map(Arc::new)).collect();
    let changed = Condvar::new();
    let shared = Arc::new(MeshState { exchanges, changed, writers, streams: streams.clone() });
    let mut threads = Vec::new();
    for ((rank, stream), end) in streams.into_iter().enumerate().zip(ends) {
        let Some(stream) = stream else { continue };
        let mut sharing = Sharing::new(memory.clone());
        sharing.connected(stream.is_local());
        let (rank, sharing) = (rank as u32, Arc::new(Mutex::new(sharing)));
        let reading = Peer { rank, stream, shared: shared.clone(), lease, sharing };
        let writing = reading.clone();
        let named = |what: &str| thread::Builder::new().name(format!("{what} trainer {rank}"));
        // The reader ends with its connection; nothing waits for it.
        named("from").spawn(move || reading.read()).map_err(Error::Socket)?;
        threads.push(named("to").spawn(move || writing.write(&end)).map_err(Error::Socket)?);
    }
    Ok((shared, threads))
}

/// One end of a connection.
#[derive(Clone)]
struct Peer {
    rank: u32,
    stream: Arc<Stream>,
    shared: Arc<MeshState>,
    lease: Duration,
    /// Memory that both ends lend each other.
    sharing: Arc<Mutex<Sharing>>,
}

/// The input of a reading thread.
struct Input<'a> {
    bytes: BufReader<&'a Stream>,
    /// Memory of the other trainer.
    window: Option<Arc<Window>>,
}

impl Peer {
    /// Writes what is to be said until nothing more is, and a sign of life now and then.
    fn write(self, said: &Receiver<ToWrite>) {
        let every = self.lease / PINGS_PER_LEASE;
        let offer = self.sharing().offer();
        let mut messages: Vec<PeerMessage> =
            offer.map(|offer| PeerMessage::Lend(Lend { offer, opened: 0 })).into_iter().collect();
        loop {
            let mut ends = false;
            match said.recv_timeout(every) {
                Ok(ToWrite::Message(message)) => messages.push(message),
                Ok(ToWrite::End) | Err(RecvTimeoutError::Disconnected) => ends = true,
                Err(RecvTimeoutError::Timeout) => messages.push(PeerMessage::Ping),
            }
            while messages.len() < AT_ONCE && !ends {
                match said.try_recv() {
                    Ok(ToWrite::Message(message)) => messages.push(message),
                    Ok(ToWrite::End) => ends = true,
                    Err(_) => break,
                }
            }
            let frames: Vec<_> = messages.iter().map(|body| Frame { id: 0, body }).collect();
            let lender = self.sharing().lender().cloned();
            let wrote = frame::write_all(&mut Patient(&self.stream), &frames, lender.as_ref());
            // Why nothing can be sent, the reader finds out: the other side may have said it.
            if ends || wrote.is_err() {
                return;
            }
            messages.clear();
        }
    }

    fn sharing(&self) -> MutexGuard<'_, Sharing> {
        self.sharing.lock().even_if_poisoned()
    }

    /// The other end lends memory, or has opened ours.
    fn lend(&self, lend: &Lend, window: &mut Option<Arc<Window>>) {
        let mut sharing = self.sharing();
        sharing.opened(lend.opened);
        if let Some(opened) = sharing.open(&lend.offer) {
            *window = Some(opened);
            let answer = Lend { opened: lend.offer.id, ..Lend::default() };
            self.shared.tell(self.rank, PeerMessage::Lend(answer));
        }
    }

    /// Reads what comes until the connection ends.
    fn read(self) {
        let mut last = Instant::now();
        let bytes = BufReader::with_capacity(READ_BYTES, &*self.stream);
        let mut input = Input { bytes, window: None };
        loop {
            match self.next(&mut input) {
                Ok(Some(PeerMessage::Lend(lend))) => self.lend(&lend, &mut input.window),
                Ok(Some(message)) => {
                    last = Instant::now();
                    if !self.take(message) {
                        return;
                    }
                }
                Ok(None) if last.elapsed() > self.lease => {
                    let n = last.elapsed().as_secs();
                    return self.lose(&format!("it has given no sign of life for {n} s"));
                }
                Ok(None) => {}
                Err(Error::Socket(error)) => {
                    return self
                        .lose(&format!("its connection ended ({error}); has its process died?"));
                }
                Err(error) => return self.lose(&error.to_string()),
            }
        }
    }

    /// The next message; none if nothing came for a while.
    fn next(&self, from: &mut Input<'_>) -> Result<Option<PeerMessage>> {
        match from.bytes.fill_buf() {
            Ok([]) => return Err(Error::Socket(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => {}
            Err(error) if is_timeout(&error) => return Ok(None),
            Err(error) => return Err(Error::Socket(error)),
        }
        let mut head = [0; HEAD_BYTES];
        let mut input = WholeFrame::new(&mut from.bytes);
        input.read_exact(&mut head).map_err(Error::Socket)?;
        let head = Head::decode(&head, FRAME_BYTES_MAX)?;
        let mut meta = vec![0; head.n_meta];
        input.read_exact(&mut meta).map_err(Error::Socket)?;
        let mut message: PeerMessage = {
            let mut exchanges = self.shared.exchanges();
            let (pool, window) = (exchanges.pool_mut(), from.window.as_ref());
            head.message(&meta, Destination { pool, window })?
        };
        let mut blobs = Blobs::new();
        message.blobs(&mut blobs);
        for blob in blobs {
            input.read_exact(blob).map_err(Error::Socket)?;
        }
        Ok(Some(message))
    }

    /// Takes a message; whether more may come.
    fn take(&self, message: PeerMessage) -> bool {
        let mut exchanges = self.shared.exchanges();
        let was_well = exchanges.failure().is_none();
        let (mut outgoing, mut goes_on) = (Vec::new(), true);
        match message {
            PeerMessage::Part(part) => outgoing = exchanges.receive(self.rank, part),
            PeerMessage::Ping => return true,
            PeerMessage::Failed(failure) => exchanges.fail(failure),
            PeerMessage::Bye => {
                exchanges.leave(self.rank);
                goes_on = false;
            }
            PeerMessage::Hello(_) | PeerMessage::Ready | PeerMessage::Lend(_) => {
                exchanges.lose(self.rank, "it greets in the middle of its work".to_string());
                goes_on = false;
            }
        }
        self.shared.after_change(exchanges, was_well);
        self.shared.send(outgoing);
        goes_on
    }

    fn lose(&self, why: &str) {
        let mut exchanges = self.shared.exchanges();
        if exchanges.has_left(self.rank) {
            return;
        }
        let was_well = exchanges.failure().is_none();
        exchanges.lose(self.rank, why.to_string());
        self.shared.after_change(exchanges, was_well);
    }
}
