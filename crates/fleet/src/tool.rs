//! Commands of others that answer a question: `sbatch`, `scontrol`, `kubectl`, `python3`, …

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// No question takes longer.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs a command to its end; returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    output_of(command, "")
}

/// The same, with this text as its input.
pub(crate) fn output_of(command: &mut Command, input: &str) -> Result<String> {
    let program = PathBuf::from(command.get_program());
    let failed = |said: String| Error::Tool { program: program.clone(), said };
    let missing = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => failed("it is not installed, or not in PATH".to_string()),
        _ => failed(source.to_string()),
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read it reports the reason itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = (thread::spawn(|| text(out)), thread::spawn(|| text(err)));
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("it did not answer within {} s", LIMIT.as_secs())));
            }
            Err(source) => return Err(failed(source.to_string())),
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if status.success() {
        Ok(out)
    } else {
        Err(failed(format!("{status}: {}", [out.trim(), err.trim()].join(" ").trim())))
    }
}

fn text(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        let _ = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
