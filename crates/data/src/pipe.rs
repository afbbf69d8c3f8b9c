//! The user's command between a file and its lines.
//!
//! Commands of one pass are one [`ProcessGroup`], so that they end with the readers and with this process.

use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base::{EvenIfPoisoned, ProcessGroup};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::{Error, Result, of_read};
use crate::files::{Opened, SharedFile, note_read};
use crate::names;
use crate::slot::Slot;

/// Fluid's commands are for bash; without it they are for the shell that is there.
const SHELL: &str = r#"if command -v bash >/dev/null 2>&1; then exec bash -c "$0"; fi; eval "$0""#;
/// How often a wait looks whether it should end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long threads at the other ends of a command that ended may take.
const SETTLE_MAX: Duration = Duration::from_secs(1);
/// Bytes and lines of stderr that an error tells.
const TAIL_BYTES: usize = 4096;
const TAIL_LINES: usize = 5;
/// The exit code of a shell that does not find a command.
const NOT_FOUND: i32 = 127;

/// The environment of every command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shell {
    /// Variables to set in addition to those of this process.
    pub variables: Vec<(String, String)>,
    /// Shell text before each command.
    pub prelude: String,
    /// The program that `python` means in a command, if that is known.
    pub python: Option<PathBuf>,
}

impl Shell {
    /// The program that `python` means in this command, if it names it.
    fn python_of(&self, command: &str) -> Option<PathBuf> {
        self.python.clone().filter(|_| command.contains("python"))
    }
}

/// The input of a command.
pub(crate) enum CommandInput {
    /// A file of this machine.
    Opened(Opened),
    /// The output of another command, e.g. `hadoop fs -cat path`.
    Fetched(String),
}

/// How a command is run.
pub(crate) struct Order<'a> {
    pub(crate) command: &'a str,
    pub(crate) file: &'a str,
    pub(crate) shell: &'a Shell,
    /// The slots it should print, for those that know the names of theirs.
    pub(crate) slots: &'a [Slot],
    /// For how long it may print nothing.
    pub(crate) silence_max: Duration,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Why reading ended early.
enum EndedEarly {
    Stopped,
    Stalled,
}

/// A command that runs; reading this is reading its output.
pub(crate) struct Pipe {
    child: Child,
    output: ChildStdout,
    tail: Arc<Mutex<Vec<u8>>>,
    tee: Option<JoinHandle<()>>,
    feeder: Option<JoinHandle<io::Result<()>>>,
    /// Its input, if that is a file of this machine.
    shared: Option<SharedFile>,
    pub(crate) n_bytes: u64,
    command: String,
    file: String,
    python: Option<PathBuf>,
    silence_max: Duration,
    stop: Arc<AtomicBool>,
    broke: Option<EndedEarly>,
    /// Set when reading stopped early: errors of the command after that are not its fault.
    hushed: Arc<AtomicBool>,
}

impl Pipe {
    pub(crate) fn start(
        group: &ProcessGroup,
        order: Order<'_>,
        input: CommandInput,
    ) -> Result<Self> {
        let failed = |source| Error::StartPipe { command: order.command.to_string(), source };
        let mut text = order.shell.prelude.clone();
        let mut shared = None;
        let (stdin, stream) = match input {
            CommandInput::Opened(Opened::Plain(file)) => {
                shared = SharedFile::new(&file);
                (Stdio::from(file), None)
            }
            CommandInput::Opened(Opened::Stream(stream)) => (Stdio::piped(), Some(stream)),
            CommandInput::Fetched(fetch) => {
                text += "if [ -n \"$BASH_VERSION\" ]; then set -o pipefail; fi\n";
                text += &format!("{fetch} | ");
                (Stdio::null(), None)
            }
        };
        text += &format!("(\n{}\n)", order.command);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SHELL, &text]).envs(order.shell.variables.iter().cloned());
        command.env(names::VARIABLE, names::joined(order.slots));
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = group.spawn(&mut command).map_err(failed)?;
        let output = child.stdout.take().expect("stdout is a pipe");
        let tail = Arc::new(Mutex::new(Vec::new()));
        let (errors, kept) = (child.stderr.take().expect("stderr is a pipe"), tail.clone());
        let hushed = Arc::new(AtomicBool::new(false));
        let hush = hushed.clone();
        let tee = Some(thread::spawn(move || tee(errors, &kept, &hush)));
        let feeder =
            child.stdin.take().zip(stream).map(|(mut stdin, mut stream)| {
                thread::spawn(move || feed(&mut *stream, &mut stdin))
            });
        let (command, file) = (order.command.to_string(), order.file.to_string());
        let python = order.shell.python_of(order.command);
        let (silence_max, stop) = (order.silence_max, order.stop);
        let (n_bytes, broke) = (0, None);
        let pipe = Self {
            child,
            output,
            tail,
            tee,
            feeder,
            shared,
            n_bytes,
            command,
            file,
            python,
            silence_max,
            stop,
            broke,
            hushed,
        };
        Ok(pipe)
    }

    /// Its file was read to the end.
    pub(crate) fn note_end(&mut self) {
        match &mut self.shared {
            Some(shared) => shared.count_all(),
            None => note_read(&self.file),
        }
    }

    /// Waits for something to read; whether there is.
    fn wait_readable(&mut self) -> io::Result<()> {
        let start = Instant::now();
        let pause = Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.subsec_nanos().into() };
        loop {
            let mut ready = [PollFd::new(&self.output, PollFlags::IN)];
            match poll(&mut ready, Some(&pause)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.look(start)?;
        }
    }

    /// Fails if a wait since `start` must end.
    fn look(&mut self, start: Instant) -> io::Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            self.broke = Some(EndedEarly::Stopped);
            return Err(io::Error::other("stopped"));
        }
        if start.elapsed() > self.silence_max {
            self.broke = Some(EndedEarly::Stalled);
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// The error of the command behind an error of reading.
    pub(crate) fn error(self, source: io::Error) -> Error {
        let (command, file) = (self.command.clone(), self.file.clone());
        match self.broke {
            Some(EndedEarly::Stopped) => Error::Stopped,
            Some(EndedEarly::Stalled) => {
                Error::PipeStalled { command, file, waited: self.silence_max }
            }
            None => of_read(&file, source),
        }
    }

    /// After the last line: waits for the end of the command and says whether it was a good one.
    pub(crate) fn finish(mut self) -> Result<()> {
        let status = match self.wait_end() {
            Ok(status) => status,
            Err(source) => return Err(self.error(source)),
        };
        let (command, file) = (self.command.clone(), self.file.clone());
        if let Some(Err(source)) = self.feeder.take().and_then(settle) {
            return Err(of_read(&file, source));
        }
        if status.success() {
            return Ok(());
        }
        self.tee.take().and_then(settle);
        let stderr = last_lines(&self.tail.lock().even_if_poisoned());
        let python = self.python.take();
        if status.code() == Some(NOT_FOUND) {
            return Err(Error::PipeMissing { command, file, stderr });
        }
        Err(Error::PipeFailed { command, file, status: words(status), python, stderr })
    }

    fn wait_end(&mut self) -> io::Result<ExitStatus> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            self.look(start)?;
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK_EVERY);
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.wait_readable()?;
        let n = self.output.read(out)?;
        self.n_bytes += n as u64;
        if let Some(shared) = &mut self.shared {
            shared.count();
        }
        Ok(n)
    }
}

/// Reading ends: the command ends too, with all processes of its group.
impl Drop for Pipe {
    fn drop(&mut self) {
        self.hushed.store(true, Ordering::Relaxed);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives a command its input; a command that does not want all of it is not an error.
fn feed(stream: &mut dyn Read, stdin: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        if n == 0 || stdin.write_all(&buffer[..n]).is_err() {
            return Ok(());
        }
    }
}

/// Passes on the stderr of a command and keeps the end of it.
fn tee(mut errors: ChildStderr, tail: &Mutex<Vec<u8>>, hushed: &AtomicBool) {
    let mut buffer = [0; 1024];
    loop {
        let n = match errors.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        if hushed.load(Ordering::Relaxed) {
            continue;
        }
        let _ = io::stderr().write_all(&buffer[..n]);
        let mut tail = tail.lock().even_if_poisoned();
        tail.extend(&buffer[..n]);
        let extra = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..extra);
    }
}

/// The result of a thread, if it ends soon: something that a command started may still hold its
/// pipe.
fn settle<T>(thread: JoinHandle<T>) -> Option<T> {
    let start = Instant::now();
    while !thread.is_finished() {
        if start.elapsed() > SETTLE_MAX {
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    thread.join().ok()
}

fn last_lines(tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        [] => "it wrote nothing to stderr".to_string(),
        last => last.join("\n"),
    }
}

fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// A word that a shell takes as it is.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, text: &[u8]) -> Result<String> {
        run_with(command, text, Duration::from_secs(20), Arc::default())
    }

    fn run_with(
        command: &str,
        text: &[u8],
        silence_max: Duration,
        stop: Arc<AtomicBool>,
    ) -> Result<String> {
        let group = ProcessGroup::new().unwrap();
        let variables = vec![("PYTHONHASHSEED".to_string(), "0".to_string())];
        let shell =
            Shell { variables, prelude: "greet() { echo hello; }\n".to_string(), python: None };
        let order = Order { command, file: "part-0", shell: &shell, slots: &[], silence_max, stop };
        let input = CommandInput::Opened(Opened::Stream(Box::new(io::Cursor::new(text.to_vec()))));
        let mut pipe = Pipe::start(&group, order, input)?;
        let mut out = String::new();
        if let Err(source) = pipe.read_to_string(&mut out) {
            return Err(pipe.error(source));
        }
        pipe.finish()?;
        Ok(out)
    }

    #[test]
    fn a_pipeline_reads_the_file() {
        assert_eq!(run("sort | head -1", b"b\na\n").unwrap(), "a\n");
        assert_eq!(run("greet; echo $PYTHONHASHSEED", b"").unwrap(), "hello\n0\n");
        // A command that does not want all of its input.
        assert_eq!(run("head -1", &b"x\n".repeat(1 << 20)).unwrap(), "x\n");
    }

    #[test]
    fn a_failure_has_its_code_and_its_last_words() {
        let error = run("echo one; echo first >&2; echo last >&2; exit 3", b"").unwrap_err();
        let Error::PipeFailed { file, status, stderr, .. } = &error else { panic!("{error}") };
        assert_eq!((file.as_str(), status.as_str()), ("part-0", "exit code 3"));
        assert_eq!(stderr, "first\nlast");
        let error = run("kill -9 $BASHPID", b"").unwrap_err();
        assert!(matches!(&error, Error::PipeFailed { .. }), "{error}");
        let error = run("no-such-command-here --x", b"").unwrap_err();
        let Error::PipeMissing { stderr, .. } = &error else { panic!("{error}") };
        assert!(stderr.contains("no-such-command-here"), "{stderr}");
    }

    #[test]
    fn a_command_that_never_prints_is_given_up() {
        let brief = Duration::from_millis(100);
        let error = run_with("sleep 600", b"", brief, Arc::default()).unwrap_err();
        assert!(matches!(error, Error::PipeStalled { .. }), "{error}");
        let error = run_with("exec 1>&-; sleep 600", b"", brief, Arc::default()).unwrap_err();
        assert!(matches!(error, Error::PipeStalled { .. }), "{error}");
    }

    #[test]
    fn a_wait_can_be_stopped() {
        let stop = Arc::new(AtomicBool::new(true));
        let error = run_with("sleep 600", b"", Duration::from_secs(60), stop).unwrap_err();
        assert!(matches!(error, Error::Stopped), "{error}");
    }

    #[test]
    fn names_of_files_are_quoted() {
        let odd = "it's $HOME `x` \"y\"";
        assert_eq!(run(&format!("printf %s {}", quoted(odd)), b"").unwrap(), odd);
    }

    #[test]
    fn nothing_outlives_the_group() {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("pid");
        let group = ProcessGroup::new().unwrap();
        let shell = Shell::default();
        let command = format!("sleep 600 & echo $! > {}; sleep 600", mark.display());
        let order = Order {
            command: &command,
            file: "f",
            shell: &shell,
            slots: &[],
            silence_max: Duration::from_secs(9),
            stop: Arc::default(),
        };
        let input = CommandInput::Opened(Opened::Stream(Box::new(io::empty())));
        let pipe = Pipe::start(&group, order, input).unwrap();
        let pid = wait_for(|| std::fs::read_to_string(&mark).ok()?.trim().parse::<u32>().ok());
        let alive = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // A zombie is dead, even if no parent has waited for it.
            !stat.is_empty() && !stat.contains(") Z ")
        };
        assert!(alive());
        drop(pipe);
        drop(group);
        wait_for(|| (!alive()).then_some(()));
    }

    fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = what() {
                return found;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "waited too long");
            thread::yield_now();
        }
    }
}
