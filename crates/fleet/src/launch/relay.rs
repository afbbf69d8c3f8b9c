//! Passes on the output of processes that share the output of their launcher, line by line.
//!
//! Python writes a line and its end one after the other, and longer lines in pieces. If several processes wrote to
//! one terminal or file themselves, pieces of their lines would mix. So each has pipes of its own, and a thread for
//! each pipe passes on whole lines.
//! **Invariant:** nothing is lost and nothing is kept for long: also the last words of a process that was killed,
//! a line without an end, and what a slow reader takes late.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How much is read at once. A line that is longer is passed on in parts.
const BLOCK_BYTES: usize = 64 << 10;
/// How long a pipe is waited for at once.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The longest wait for the end of a line: progress dots must become visible.
const LINE_END: Duration = Duration::from_secs(1);
/// How long a reader may take nothing at the end of a job.
const READER_MAX: Duration = Duration::from_secs(60);
/// The longest wait for the last output of a process before others continue.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// Where lines of several processes go.
struct Output {
    out: Box<dyn Write + Send>,
    /// Whose line has no end yet.
    open: Option<usize>,
    /// The reader has closed it.
    is_gone: bool,
}

impl Output {
    fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, open: None, is_gone: false }
    }

    /// Writes text of one pipe. A line of another that has no end gets one.
    fn pass(&mut self, who: usize, text: &[u8]) {
        if self.is_gone || text.is_empty() {
            return;
        }
        let is_foreign = self.open.is_some_and(|other| other != who);
        // A line that moves would be drawn over it.
        let has_end = text.ends_with(b"\n");
        let needs_end = !has_end && logging::is_drawing();
        let out = &mut self.out;
        let written = logging::apart(|| {
            if is_foreign {
                out.write_all(b"\n")?;
            }
            out.write_all(text)?;
            if needs_end {
                out.write_all(b"\n")?;
            }
            out.flush()
        });
        self.open = (!has_end && !needs_end).then_some(who);
        // A closed output does not end a job, and its processes do not wait for a reader that is gone.
        self.is_gone = written.is_err();
    }
}

/// A stream of this process, without a buffer of its own, also if others have made it one that does not wait.
struct PatientFile(File);

impl Write for PatientFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut place = [PollFd::new(&self.0, PollFlags::OUT)];
                    let _ = poll(&mut place, Some(&timespec(LOOK_EVERY)));
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error, which the launcher writes to as well: each text of theirs is whole.
struct Stderr(PatientFile);

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _launcher = io::stderr().lock();
        self.0.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// State that all threads share.
struct RelayState {
    stdout: Mutex<Output>,
    stderr: Mutex<Output>,
    /// No process is left: a pipe that is empty stays so.
    is_over: AtomicBool,
    n_pipes: AtomicUsize,
    /// Texts that were passed on.
    n_passed: AtomicU64,
}

/// A pipe whose lines are passed on.
struct Relay {
    thread: JoinHandle<()>,
    /// How often it was found empty.
    n_empty: Arc<AtomicUsize>,
}

/// All pipes of a job.
pub(super) struct Relays {
    shared: Arc<RelayState>,
    relays: Mutex<Vec<Relay>>,
}

impl Relays {
    /// Lines go to the output of this process.
    pub(super) fn new() -> io::Result<Self> {
        let own = |stream: &dyn AsFd| -> io::Result<PatientFile> {
            let copy: OwnedFd = stream.as_fd().try_clone_to_owned()?;
            Ok(PatientFile(File::from(copy)))
        };
        let (stdout, stderr) = (own(&io::stdout())?, own(&io::stderr())?);
        Ok(Self::to(Box::new(stdout), Box::new(Stderr(stderr))))
    }

    fn to(stdout: Box<dyn Write + Send>, stderr: Box<dyn Write + Send>) -> Self {
        let shared = RelayState {
            stdout: Mutex::new(Output::new(stdout)),
            stderr: Mutex::new(Output::new(stderr)),
            is_over: AtomicBool::new(false),
            n_pipes: AtomicUsize::new(0),
            n_passed: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared), relays: Mutex::default() }
    }

    /// Passes on the output of a process from now on.
    pub(super) fn follow(&self, child: &mut Child) -> io::Result<()> {
        if let Some(stdout) = child.stdout.take() {
            self.add(stdout, |shared| &shared.stdout)?;
        }
        match child.stderr.take() {
            Some(stderr) => self.add(stderr, |shared| &shared.stderr),
            None => Ok(()),
        }
    }

    fn add(
        &self,
        from: impl Read + AsFd + Send + 'static,
        output: fn(&RelayState) -> &Mutex<Output>,
    ) -> io::Result<()> {
        let (shared, n_empty) = (self.shared.clone(), Arc::new(AtomicUsize::new(0)));
        let seen = n_empty.clone();
        let who = shared.n_pipes.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name("relay".to_string());
        let thread = thread.spawn(move || {
            let pass = |text: &[u8]| {
                output(&shared).lock().even_if_poisoned().pass(who, text);
                shared.n_passed.fetch_add(1, Ordering::Relaxed);
            };
            pass_on(from, pass, || {
                seen.fetch_add(1, Ordering::Relaxed);
                shared.is_over.load(Ordering::Relaxed)
            });
        })?;
        self.relays.lock().even_if_poisoned().push(Relay { thread, n_empty });
        Ok(())
    }

    /// Waits a moment until the output so far is passed on.
    pub(super) fn settle(&self) {
        let relays = self.relays.lock().even_if_poisoned();
        let before: Vec<usize> = relays.iter().map(|r| r.n_empty.load(Ordering::Relaxed)).collect();
        let deadline = Instant::now() + SETTLE_MAX;
        let is_empty = |(relay, before): (&Relay, &usize)| {
            relay.thread.is_finished() || relay.n_empty.load(Ordering::Relaxed) != *before
        };
        while !relays.iter().zip(&before).all(is_empty) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// All processes have ended: passes on the rest. A reader that is slow is waited for, one that takes nothing
    /// is not.
    pub(super) fn finish(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let n_passed = || self.shared.n_passed.load(Ordering::Relaxed);
        let (mut last, mut deadline) = (n_passed(), Instant::now() + READER_MAX);
        let mut relays = self.relays.lock().even_if_poisoned();
        while relays.iter().any(|relay| !relay.thread.is_finished()) && Instant::now() < deadline {
            if last != n_passed() {
                (last, deadline) = (n_passed(), Instant::now() + READER_MAX);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        relays.clear();
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Passes on whole lines, until the pipe ends, or is empty and `is_over`, which is asked whenever it is.
fn pass_on(
    mut from: impl Read + AsFd,
    mut pass: impl FnMut(&[u8]),
    mut is_over: impl FnMut() -> bool,
) {
    let (mut held, mut block) = (Vec::new(), vec![0; BLOCK_BYTES]);
    let mut last_read = Instant::now();
    loop {
        let ready = poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&timespec(LOOK_EVERY)));
        if ready == Ok(0) {
            if !held.is_empty() && last_read.elapsed() >= LINE_END {
                pass(&std::mem::take(&mut held));
            }
            if is_over() { break } else { continue }
        }
        match from.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => break,
            Ok(n) => held.extend_from_slice(&block[..n]),
        }
        last_read = Instant::now();
        let whole = if held.len() >= BLOCK_BYTES { held.len() } else { whole(&held) };
        if whole > 0 {
            pass(&held[..whole]);
            held.drain(..whole);
        }
    }
    pass(&held);
}

/// The length of the whole lines of a text. Text that will be drawn over (`\r`) is a line as well.
fn whole(text: &[u8]) -> usize {
    let is_end = |at: usize| match text[at] {
        b'\n' => true,
        b'\r' => text.get(at + 1).is_some_and(|next| *next != b'\n'),
        _ => false,
    };
    (0..text.len()).rev().find(|&at| is_end(at)).map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Page {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        #[track_caller]
        fn wait_for(&self, text: &str) {
            let deadline = Instant::now() + Duration::from_secs(30);
            while self.text() != text {
                assert!(Instant::now() < deadline, "{:?} is not {text:?}", self.text());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn relays(page: &Page) -> Relays {
        Relays::to(Box::new(page.clone()), Box::new(io::sink()))
    }

    #[test]
    fn what_is_a_line() {
        assert_eq!(whole(b"one\ntw"), 4);
        assert_eq!(whole(b"two"), 0);
        assert_eq!(whole(b"\r 10 %\r 20 %"), 7);
        assert_eq!(whole(b"ends\r"), 0, "its other half may come");
        assert_eq!(whole(b"ends\r\n"), 6);
    }

    #[test]
    fn lines_of_two_processes_do_not_mix() {
        let page = Page::default();
        let relays = relays(&page);
        let writers: Vec<_> = ["one", "other"]
            .into_iter()
            .map(|name| {
                let (from, mut to) = pipe().unwrap();
                relays.add(from, |shared| &shared.stdout).unwrap();
                std::thread::spawn(move || {
                    for n in 0..500 {
                        for piece in [name, " says ", &n.to_string(), "\n"] {
                            to.write_all(piece.as_bytes()).unwrap();
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        relays.finish();
        let text = page.text();
        for name in ["one", "other"] {
            let expected: Vec<String> = (0..500).map(|n| format!("{name} says {n}")).collect();
            let prefix = format!("{name} ");
            let found: Vec<&str> = text.lines().filter(|line| line.starts_with(&prefix)).collect();
            assert_eq!(found, expected);
        }
        assert_eq!(text.lines().count(), 1000);
    }

    #[test]
    fn last_words_and_long_lines_are_passed_on() {
        let page = Page::default();
        let relays = relays(&page);
        let (from, mut to) = pipe().unwrap();
        relays.add(from, |shared| &shared.stdout).unwrap();
        let (other_from, mut other) = pipe().unwrap();
        relays.add(other_from, |shared| &shared.stdout).unwrap();
        let long = "x".repeat(BLOCK_BYTES * 3);
        to.write_all(long.as_bytes()).unwrap();
        to.write_all(b" end\nno end").unwrap();
        drop(to);
        page.wait_for(&format!("{long} end\nno end"));
        other.write_all(b"another\n").unwrap();
        page.wait_for(&format!("{long} end\nno end\nanother\n"));
        // This pipe stays open, as if a process had left the job with it.
        other.write_all(b"last").unwrap();
        relays.finish();
        assert!(page.text().ends_with("\nanother\nlast"));
    }

    #[test]
    fn a_line_is_not_waited_for_for_ever() {
        let page = Page::default();
        let relays = relays(&page);
        let (from, mut to) = pipe().unwrap();
        relays.add(from, |shared| &shared.stdout).unwrap();
        to.write_all(b"...").unwrap();
        page.wait_for("...");
        to.write_all(b" done\n").unwrap();
        page.wait_for("... done\n");
    }

    /// Takes nothing.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_gone_stops_nobody() {
        let relays = Relays::to(Box::new(Closed), Box::new(io::sink()));
        let (from, mut to) = pipe().unwrap();
        relays.add(from, |shared| &shared.stdout).unwrap();
        let much = "a line\n".repeat(100_000);
        to.write_all(much.as_bytes()).unwrap();
        drop(to);
        relays.finish();
    }
}
