//! Streaming: a thread for each reader takes files, reads them and makes batches ahead of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::batch::Batcher;
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::pass::{Before, Pass, Seen, Sink};
use crate::position::Position;
use crate::reads::FileRead;
use crate::records::Records;

/// Batches that lie ready for a reader, at most.
const N_AHEAD: usize = 4;
/// The longest single wait.
const LOOK_MAX: Duration = Duration::from_secs(3600);

/// Batches of one thread.
pub(crate) struct Stream {
    batches: Receiver<Result<ReadBatch>>,
    /// Batches that were used, for their memory.
    used: SyncSender<Feed>,
    thread: Option<JoinHandle<()>>,
    pass: Arc<Pass>,
    waited: Duration,
    /// A batch that was taken from the queue to see whether there is one.
    found: Option<Result<ReadBatch>>,
    /// Behind the last batch that was given out; none if chance decides which files are read here.
    position: Option<Position>,
}

/// A batch, and the position behind it.
struct ReadBatch {
    batch: Feed,
    after: Position,
}

/// Which files a thread reads.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// A thread reads one file of its own, then any file that is not taken. Fast threads read more.
    Free,
    /// Its own and every `n`th behind it. So the position of a thread needs no list of files and
    /// tells the files that are left for the others, and the batches of a thread are the same in
    /// every run.
    Every(usize),
}

/// Starts `n_threads` threads, at most one per file.
pub(crate) fn start(pass: &Arc<Pass>, n_threads: usize) -> Vec<Stream> {
    let n = n_readers(pass, n_threads);
    // Each thread begins with a file of its own. So a thread that starts slowly has work too, and
    // with as many files as threads every run is the same.
    pass.files.set_aside(n);
    start_all(pass, Turn::Free, beginnings(n))
}

/// How many threads there are at most: one per file.
pub(crate) fn n_readers(pass: &Pass, n_threads: usize) -> usize {
    n_threads.min(pass.files.paths().len()).max(1)
}

/// The positions of `n` threads at the beginning.
pub(crate) fn beginnings(n: usize) -> Vec<Position> {
    (0..n as u64).map(|file| Position { file, ..Position::default() }).collect()
}

/// Starts a thread at each position.
pub(crate) fn start_at(pass: &Arc<Pass>, positions: Vec<Position>) -> Vec<Stream> {
    start_all(pass, Turn::Every(positions.len()), positions)
}

fn start_all(pass: &Arc<Pass>, turn: Turn, positions: Vec<Position>) -> Vec<Stream> {
    let n_running = Arc::new(AtomicUsize::new(positions.len()));
    let start = |from| Stream::start(pass.clone(), turn, from, n_running.clone());
    positions.into_iter().map(start).collect()
}

impl Stream {
    fn start(pass: Arc<Pass>, turn: Turn, from: Position, n_running: Arc<AtomicUsize>) -> Self {
        let (batches, taken) = mpsc::sync_channel(N_AHEAD);
        let (used, again) = mpsc::sync_channel(N_AHEAD + 1);
        let shared = pass.clone();
        let position = matches!(turn, Turn::Every(_)).then(|| from.clone());
        let thread = thread::spawn(move || {
            let read = Ahead::new(&shared, from, &batches, again).read_all(turn);
            let last = n_running.fetch_sub(1, Ordering::AcqRel) == 1;
            let empty = shared.n_rows.load(Ordering::Relaxed) == 0;
            match read {
                // The others need not read on: training ends with this error.
                Err(error) if !matches!(error, Error::Stopped) => {
                    shared.stop();
                    let _ = batches.send(Err(error));
                }
                // Others may have read all there was.
                Ok(()) if last && empty && shared.settings.left_out.is_empty() => {
                    let _ = batches.send(Err(shared.no_rows()));
                }
                _ => {}
            }
        });
        Self {
            batches: taken,
            used,
            thread: Some(thread),
            pass,
            waited: Duration::ZERO,
            found: None,
            position,
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Feed>> {
        while !self.ready(LOOK_MAX) {}
        let Some(found) = self.found.take() else { return self.ended().map(|()| None) };
        let ReadBatch { batch, after } = found?;
        if let Some(position) = &mut self.position {
            *position = after;
        }
        Ok(Some(batch))
    }

    pub(crate) fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// Waits for the next batch or the end, for so long; whether one of them is there.
    pub(crate) fn ready(&mut self, max: Duration) -> bool {
        if self.found.is_some() {
            return true;
        }
        let start = Instant::now();
        let (found, ready) = match self.batches.try_recv() {
            Ok(batch) => (Some(batch), true),
            Err(TryRecvError::Disconnected) => (None, true),
            Err(TryRecvError::Empty) => {
                let got = self.batches.recv_timeout(max);
                self.waited += start.elapsed();
                let late = matches!(got, Err(RecvTimeoutError::Timeout));
                (got.ok(), !late)
            }
        };
        self.found = found;
        ready
    }

    /// After the last batch: whether the thread ended well.
    fn ended(&mut self) -> Result<()> {
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        ended.map_err(|_| Error::ReaderLost)
    }

    pub(crate) fn recycle(&mut self, batch: Feed) {
        let _ = self.used.try_send(batch);
    }

    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    pub(crate) fn pass(&self) -> &Arc<Pass> {
        &self.pass
    }
}

/// The rest is not wanted: all threads of the pass end, and their commands with them.
impl Drop for Stream {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.pass.stop();
        // A thread that waits for room in the queue finds it closed.
        drop(std::mem::replace(&mut self.batches, mpsc::sync_channel(1).1));
        let _ = thread.join();
    }
}

/// The thread that reads ahead.
struct Ahead<'a> {
    pass: &'a Pass,
    batcher: Batcher,
    /// Behind the last batch that was made.
    position: Position,
    batches: &'a SyncSender<Result<ReadBatch>>,
    again: Receiver<Feed>,
}

impl<'a> Ahead<'a> {
    fn new(
        pass: &'a Pass,
        position: Position,
        batches: &'a SyncSender<Result<ReadBatch>>,
        again: Receiver<Feed>,
    ) -> Self {
        let batcher = Batcher::new(&pass.settings.slots);
        Self { pass, batcher, position, batches, again }
    }

    fn read_all(mut self, turn: Turn) -> Result<()> {
        let (pass, batch_size) = (self.pass, self.pass.settings.batch_size);
        let mut parser = pass.parser()?;
        let mut records = Records::default();
        let (mut before, mut skipped) = (self.position.before(), self.position.skipped.clone());
        let mut next = usize::try_from(self.position.file).ok();
        while let Some((at, file)) = next.and_then(|at| Some((at, pass.files.paths().get(at)?))) {
            let left_out = pass.settings.left_out.get(file.as_str()).copied().unwrap_or(0);
            if left_out > before.n_lines {
                before = Before { n_lines: left_out, ..Before::default() };
            }
            let mut taken = |records: &mut Records, seen: Seen<'_>| {
                if records.len() < batch_size {
                    return Ok(());
                }
                self.position.file = at as u64;
                self.send(records, seen)
            };
            let (parser, skipped) = (&mut parser, &mut skipped);
            let (records, taken) = (&mut records, &mut taken);
            if left_out != FileRead::ALL {
                pass.read(file, &mut Sink { parser, records, before, skipped, taken })?;
            }
            before = Before::default();
            next = match turn {
                Turn::Free => pass.files.take().map(|(at, _)| at),
                Turn::Every(n) => Some(at + n),
            };
        }
        if records.is_empty() {
            return Ok(());
        }
        self.position.file = pass.files.paths().len() as u64;
        self.send(&mut records, Seen { at: Before::default(), skipped: &skipped })
    }

    fn send(&mut self, records: &mut Records, seen: Seen<'_>) -> Result<()> {
        let mut batch = self.again.try_recv().unwrap_or_default();
        let all: Vec<&[u32]> = (0..records.len()).map(|at| records.get(at)).collect();
        self.batcher.fill(&all, &mut batch)?;
        let n_samples = records.len() as u64;
        self.pass.n_rows.fetch_add(n_samples, Ordering::Relaxed);
        records.clear();
        self.position.n_batches += 1;
        self.position.n_samples += n_samples;
        self.position.set_before(seen.at);
        self.position.skipped.clone_from(seen.skipped);
        let after = self.position.clone();
        self.batches.send(Ok(ReadBatch { batch, after })).map_err(|_| Error::Stopped)
    }
}
