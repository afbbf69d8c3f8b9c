//! Streaming: a thread for each reader takes files, reads them and makes batches ahead of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::batch::Batcher;
use crate::error::{Error, Result};
use crate::feed::Feed;
use crate::pass::{Pass, Sink};
use crate::records::Records;

/// Batches that lie ready for a reader, at most.
const N_AHEAD: usize = 4;
/// How long a wait that goes on anyway is.
const LOOK_MAX: Duration = Duration::from_secs(3600);

/// Batches of one thread.
pub(crate) struct Stream {
    batches: Receiver<Result<Feed>>,
    /// Batches that were used, for their memory.
    used: SyncSender<Feed>,
    thread: Option<JoinHandle<()>>,
    pass: Arc<Pass>,
    waited: Duration,
    /// What was found there when somebody only looked.
    found: Option<Result<Feed>>,
}

/// Starts `n_threads` threads, at most one per file.
pub(crate) fn start(pass: &Arc<Pass>, n_threads: usize) -> Vec<Stream> {
    let n = n_threads.min(pass.files.paths().len()).max(1);
    let n_running = Arc::new(AtomicUsize::new(n));
    // Each begins with a file of its own: who is slow to start has work too, and where files and
    // threads are equally many every run is the same.
    pass.files.set_aside(n);
    (0..n).map(|first| Stream::start(pass.clone(), first, n_running.clone())).collect()
}

impl Stream {
    fn start(pass: Arc<Pass>, first: usize, n_running: Arc<AtomicUsize>) -> Self {
        let (batches, taken) = mpsc::sync_channel(N_AHEAD);
        let (used, again) = mpsc::sync_channel(N_AHEAD + 1);
        let shared = pass.clone();
        let thread = thread::spawn(move || {
            let read = Ahead { pass: &shared, first, batches: &batches, again }.read_all();
            let last = n_running.fetch_sub(1, Ordering::AcqRel) == 1;
            let empty = shared.n_rows.load(Ordering::Relaxed) == 0;
            match read {
                // The others need not read on: training ends with this error.
                Err(error) if !matches!(error, Error::Stopped) => {
                    shared.stop();
                    let _ = batches.send(Err(error));
                }
                Ok(()) if last && empty => {
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
        }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Feed>> {
        while !self.ready(LOOK_MAX) {}
        match self.found.take() {
            Some(batch) => batch.map(Some),
            None => self.ended().map(|()| None),
        }
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

/// Nobody wants the rest: all threads of the pass end, and their commands with them.
impl Drop for Stream {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.pass.stop();
        // A thread that waits for room in the queue finds that nobody takes from it.
        drop(std::mem::replace(&mut self.batches, mpsc::sync_channel(1).1));
        let _ = thread.join();
    }
}

/// The thread that reads ahead.
struct Ahead<'a> {
    pass: &'a Pass,
    /// Its own file in the list.
    first: usize,
    batches: &'a SyncSender<Result<Feed>>,
    again: Receiver<Feed>,
}

impl Ahead<'_> {
    fn read_all(&self) -> Result<()> {
        let settings = &self.pass.settings;
        let mut parser = self.pass.parser()?;
        let mut batcher = Batcher::new(&settings.slots);
        let mut records = Records::default();
        let mut taken = |records: &mut Records| {
            if records.len() < settings.batch_size {
                return Ok(());
            }
            self.send(&mut batcher, records)
        };
        let mut next = self.pass.files.paths().get(self.first).map(String::as_str);
        while let Some(file) = next {
            let parser = &mut parser;
            self.pass.read(file, &mut Sink { parser, records: &mut records, taken: &mut taken })?;
            next = self.pass.files.take().map(|(_, file)| file);
        }
        if records.is_empty() { Ok(()) } else { self.send(&mut batcher, &mut records) }
    }

    fn send(&self, batcher: &mut Batcher, records: &mut Records) -> Result<()> {
        let mut batch = self.again.try_recv().unwrap_or_default();
        let all: Vec<&[u32]> = (0..records.len()).map(|at| records.get(at)).collect();
        batcher.fill(&all, &mut batch)?;
        self.pass.n_rows.fetch_add(records.len() as u64, Ordering::Relaxed);
        records.clear();
        self.batches.send(Ok(batch)).map_err(|_| Error::Stopped)
    }
}
