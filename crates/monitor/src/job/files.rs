//! The numbers of a job in files: `metrics.jsonl`, and event files for TensorBoard. The longer a job
//! runs, the less often a line is written, so that files stay small.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::clock::wall;
use super::events::{EventFile, Scalar};
use super::shares::ProcessShares;

/// The values of one moment.
pub(super) struct Moment<'a> {
    /// Seconds since the beginning.
    pub(super) seconds: f64,
    /// Batches of all trainers.
    pub(super) step: u64,
    pub(super) values: &'a BTreeMap<String, f64>,
    pub(super) processes: &'a [ProcessShares],
}

/// The files of a job.
#[derive(Debug, Default)]
pub(super) struct NumberFiles {
    lines: Option<(PathBuf, File)>,
    events: Option<(PathBuf, EventFile)>,
    written: Option<f64>,
    /// The sum of each value since then, and of how many.
    sums: BTreeMap<String, (f64, u32)>,
}

impl NumberFiles {
    /// Opens the files that are wanted. Returns the problems of those that cannot be opened, and
    /// leaves them out.
    pub(super) fn open(lines: Option<&Path>, events: Option<&Path>) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut note = |path: &Path, error: io::Error| {
            problems.push(format!("numbers do not go to {}: {error}", path.display()));
        };
        let lines = lines.and_then(|path| {
            let opened = open(path).map_err(|error| note(path, error)).ok()?;
            Some((path.to_path_buf(), opened))
        });
        let events = events.and_then(|path| {
            let opened = EventFile::create(path).map_err(|error| note(path, error)).ok()?;
            Some((path.to_path_buf(), opened))
        });
        (Self { lines, events, ..Self::default() }, problems)
    }

    /// Adds what is known now; writes the mean of what was added if it is time. Returns what went wrong: a
    /// file that cannot be written is given up.
    pub(super) fn add(&mut self, moment: &Moment<'_>, every: f64) -> Vec<String> {
        for (name, value) in moment.values.iter().filter(|(_, value)| value.is_finite()) {
            let sum = self.sums.entry(name.clone()).or_default();
            *sum = (sum.0 + value, sum.1 + 1);
        }
        // Polls come about once a second, not exactly.
        let is_early = |written: f64| moment.seconds - written < every - 0.5;
        if self.written.is_some_and(is_early) {
            return Vec::new();
        }
        self.write(moment)
    }

    /// Writes the values that were added since the last time.
    pub(super) fn write(&mut self, moment: &Moment<'_>) -> Vec<String> {
        if self.sums.is_empty() {
            return Vec::new();
        }
        self.written = Some(moment.seconds);
        let sums = std::mem::take(&mut self.sums);
        let means: BTreeMap<String, f64> =
            sums.into_iter().map(|(name, (sum, n))| (name, sum / f64::from(n))).collect();
        let mut problems = Vec::new();
        if let Some((path, file)) = &mut self.lines
            && let Err(error) = file.write_all(line(moment, &means).as_bytes())
        {
            problems.push(format!("no more numbers go to {}: {error}", path.display()));
            self.lines = None;
        }
        let scalars = means.iter().map(|(tag, value)| Scalar { tag, value: *value });
        let scalars: Vec<Scalar<'_>> = scalars.collect();
        if let Some((path, file)) = &mut self.events
            && let Err(error) = file.add(moment.step, &scalars)
        {
            problems.push(format!("no more numbers go to {}: {error}", path.display()));
            self.events = None;
        }
        problems
    }
}

fn open(path: &Path) -> io::Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    File::options().create(true).append(true).open(path)
}

fn line(moment: &Moment<'_>, means: &BTreeMap<String, f64>) -> String {
    let mut processes = Map::new();
    for process in moment.processes {
        let parts = process.parts.iter().filter(|part| part.share > 0.0005);
        let parts: Map<String, Value> = parts
            .map(|part| (part.name.clone(), json!((part.share * 1e3).round() / 1e3)))
            .collect();
        processes.insert(process.name.clone(), parts.into());
    }
    let value = json!({
        "time": wall(),
        "seconds": moment.seconds,
        "step": moment.step,
        "values": means,
        "processes": processes,
    });
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_hold_means_and_come_less_often() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/metrics.jsonl");
        let (mut files, problems) =
            NumberFiles::open(Some(&path), Some(&folder.path().join("board")));
        assert_eq!(problems, Vec::<String>::new());
        for second in 0..9u32 {
            let values = BTreeMap::from([("loss".to_string(), f64::from(second))]);
            let seconds = f64::from(second);
            let moment = Moment { seconds, step: 7, values: &values, processes: &[] };
            assert_eq!(files.add(&moment, 4.0), Vec::<String>::new());
        }
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let losses: Vec<f64> =
            lines.iter().map(|line| line["values"]["loss"].as_f64().unwrap()).collect();
        assert_eq!(losses, [0.0, 2.5, 6.5]);
        assert_eq!(fs::read_dir(folder.path().join("board")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (_, problems) =
            NumberFiles::open(Some(&file.path().join("a/b")), Some(&file.path().join("c")));
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("numbers do not go to /"), "{problems:?}");
    }
}
