//! Other programs measured in the same rounds, where they are installed.
//!
//! `FLUID_PYTHON` names a Python with the real Fluid 1.8.5; `STEP` the probe `step` of the shared
//! bench with `STEP_DATA`, its input file.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The real Fluid, running the same model in a process of its own, round by round.
pub(crate) struct Fluid {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Fluid {
    pub(crate) fn start(batch: usize) -> Option<Self> {
        let python = std::env::var("FLUID_PYTHON").ok()?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/training/fluid_step.py");
        let mut child = Command::new(python)
            .args([script, &batch.to_string()])
            // One thread, and the fast path of its matrix library on any processor.
            .envs([("OMP_NUM_THREADS", "1"), ("MKL_NUM_THREADS", "1"), ("CPU_NUM", "1")])
            .env("MKL_DEBUG_CPU_TYPE", "5")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let (input, output) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
        let mut fluid = Self { child, input, output };
        fluid.line()?; // "ready"
        Some(fluid)
    }

    /// Samples per second over this many samples.
    pub(crate) fn round(&mut self, n_samples: usize) -> Option<f64> {
        writeln!(self.input, "{n_samples}").ok()?;
        self.line()?.trim().parse().ok()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.output.read_line(&mut line).ok()? > 0).then_some(line)
    }
}

impl Drop for Fluid {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The best epoch of the shared probe `step`, in samples per second.
pub(crate) fn probe(batch: usize) -> Option<f64> {
    let (step, data) = (std::env::var("STEP").ok()?, std::env::var("STEP_DATA").ok()?);
    let output = Command::new(step).args([&data, &batch.to_string(), "1"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let rate = |line: &str| line.split_whitespace().nth(2)?.parse::<f64>().ok();
    text.lines().filter_map(rate).reduce(f64::max)
}
