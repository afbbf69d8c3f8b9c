//! The `hadoop` command.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::HdfsEntry;
use crate::error::{Error, Result};

/// How long a command may take: files are copied with it.
const TIME_MAX: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Hadoop's message about a path that does not exist.
const MISSING: &str = "No such file or directory";
/// Columns of a list: rights, copies, owner, group, bytes, day, time, path.
const N_COLUMNS: usize = 8;

/// A `hadoop fs` command with its settings.
#[derive(Debug)]
pub(super) struct HadoopCommand {
    program: PathBuf,
    options: Vec<String>,
}

/// How a command ended.
struct CommandEnd {
    success: bool,
    output: Vec<u8>,
    errors: String,
}

impl HadoopCommand {
    pub(super) fn new(program: PathBuf, configs: &BTreeMap<String, String>) -> Self {
        let options = configs.iter().map(|(name, value)| format!("-D{name}={value}"));
        Self { program, options: options.collect() }
    }

    /// The one on the search path, for the file system of a host.
    pub(super) fn on_path(host: &str) -> Self {
        let system = (!host.is_empty()).then(|| format!("-Dfs.default.name=hdfs://{host}"));
        Self { program: PathBuf::from("hadoop"), options: system.into_iter().collect() }
    }

    fn run(&self, arguments: &[&str]) -> Result<CommandEnd> {
        let name = || format!("{} fs {}", self.program.display(), arguments.join(" "));
        let failed = |source| Error::StartPipe { command: name(), source };
        let mut command = Command::new(&self.program);
        command.arg("fs").args(&self.options).args(arguments).stdin(Stdio::null());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
        let output = child.stdout.take().map(collect);
        let errors = child.stderr.take().map(collect);
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                break status;
            }
            if start.elapsed() > TIME_MAX {
                let _ = child.kill();
                let _ = child.wait();
                let file = arguments.last().copied().unwrap_or_default().to_string();
                return Err(Error::PipeStalled { command: name(), file, waited: TIME_MAX });
            }
            thread::sleep(LOOK_EVERY);
        };
        let text = |thread: Option<JoinHandle<Vec<u8>>>| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
        };
        let (output, errors) = (text(output), text(errors));
        let errors = String::from_utf8_lossy(&errors).into_owned();
        Ok(CommandEnd { success: status.success(), output, errors })
    }

    /// Whether it succeeded. It says itself why not, and so do we.
    pub(super) fn succeeds(&self, arguments: &[&str]) -> Result<bool> {
        self.output(arguments).map(|_| true)
    }

    /// Its output.
    pub(super) fn output(&self, arguments: &[&str]) -> Result<Vec<u8>> {
        let end = self.run(arguments)?;
        if end.success {
            return Ok(end.output);
        }
        let file = arguments.last().copied().unwrap_or_default().to_string();
        let what = end.errors.lines().rev().find(|line| !line.trim().is_empty());
        let what = what.unwrap_or("the hadoop command failed and says nothing").to_string();
        if end.errors.contains(MISSING) {
            Err(Error::NotInStore { file, what })
        } else {
            Err(Error::StoreRefused { file, what })
        }
    }

    /// The entries that `-ls` lists, by path; empty if the path does not exist.
    pub(super) fn list(&self, arguments: &[&str]) -> Result<Vec<HdfsEntry>> {
        let all = [&["-ls"], arguments].concat();
        let output = match self.output(&all) {
            Err(Error::NotInStore { .. }) => return Ok(Vec::new()),
            output => output?,
        };
        let text = String::from_utf8_lossy(&output);
        let mut list: Vec<HdfsEntry> = text.lines().filter_map(read).collect();
        list.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(list)
    }
}

fn collect(mut stream: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

/// A line of a list.
fn read(line: &str) -> Option<HdfsEntry> {
    let mut rest = line.trim_start();
    let mut columns = Vec::new();
    for _ in 1..N_COLUMNS {
        let end = rest.find(char::is_whitespace)?;
        columns.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    let is_dir = columns[0].starts_with('d');
    let n_bytes = columns[4].parse().ok()?;
    Some(HdfsEntry { path: rest.to_string(), is_dir, n_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let file = "-rw-r--r--   1 root supergroup         12 2026-11-17 15:30 /d/x y.txt";
        let entry = read(file).unwrap();
        assert_eq!((entry.path.as_str(), entry.is_dir, entry.n_bytes), ("/d/x y.txt", false, 12));
        assert!(
            read("drwxr-xr-x   - root supergroup          0 2026-11-17 15:30 /d").unwrap().is_dir
        );
        assert_eq!(read("Found 2 items"), None);
        assert_eq!(read(""), None);
    }
}
