//! `targets.json`: where processes answer `/metrics`, as Prometheus reads it from a file (`file_sd_configs`).

use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

/// A process that answers `/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrapeTarget {
    /// `host:port`.
    pub address: String,
    /// `server` or `trainer`.
    pub role: &'static str,
    /// Its number among those.
    pub id: usize,
}

/// A list of processes in a file. The drop empties it: then no process answers.
#[derive(Debug)]
pub struct TargetFile {
    path: PathBuf,
    /// The label `job` of all of them.
    job: String,
    /// The contents of the file.
    text: Option<String>,
}

impl TargetFile {
    /// A file that is not written yet.
    pub fn new(path: PathBuf, job: &str) -> Self {
        Self { path, job: job.to_string(), text: None }
    }

    /// Writes the list, if it is another one. Readers find the old one or the new one.
    pub fn set(&mut self, targets: &[ScrapeTarget]) -> io::Result<()> {
        let entry = |target: &ScrapeTarget| {
            let ScrapeTarget { address, role, id } = target;
            let process = format!("{role} {id}");
            json!({
                "targets": [address],
                "labels": { "job": self.job, "role": role, "id": id.to_string(), "process": process },
            })
        };
        let list: Vec<Value> = targets.iter().map(entry).collect();
        let text = format!("{:#}\n", Value::from(list));
        if self.text.as_ref() == Some(&text) {
            return Ok(());
        }
        durable::replace_with(&self.path, durable::Access::Umask, text.as_bytes())?;
        self.text = Some(text);
        Ok(())
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        if self.text.is_some() {
            let _ = self.set(&[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn prometheus_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("targets.json");
        let read =
            || -> Value { serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap() };
        let mut file = TargetFile::new(path.clone(), "train.py");
        let target = |id| ScrapeTarget { address: format!("127.0.0.1:{id}"), role: "server", id };
        file.set(&[target(0), target(1)]).unwrap();
        let labels =
            json!({ "job": "train.py", "role": "server", "id": "1", "process": "server 1" });
        assert_eq!(read()[1], json!({ "targets": ["127.0.0.1:1"], "labels": labels }));
        file.set(&[target(1)]).unwrap();
        assert_eq!(read().as_array().map(Vec::len), Some(1));
        drop(file);
        assert_eq!(read(), json!([]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
