//! Settings of a dataset, made before it reads.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::pipe::{Shell, quoted};
use crate::slot::{self, Slot};
use crate::source::Stores;

/// For how long a pipe command may print nothing.
const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Whether samples are streamed or held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetKind {
    /// Files are read while they are trained on, again in each pass, with little memory.
    Queue,
    /// Files are loaded once, can be shuffled, and are trained on as often as wanted.
    InMemory,
}

/// All settings of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The slots of a line, in order.
    pub slots: Vec<Slot>,
    /// The files: paths, or addresses of files elsewhere. Patterns are none
    /// ([`crate::Dataset::set_files`]).
    pub files: Vec<String>,
    /// Shell text that each file goes through; `cat` changes nothing.
    pub pipe_command: String,
    /// So many lines at the beginning of files are left out: other trainers have read them
    /// ([`crate::FileRead`]).
    pub left_out: BTreeMap<String, u64>,
    /// Samples of a batch.
    pub batch_size: usize,
    /// How many threads read and train.
    pub n_threads: usize,
    /// The environment of pipe commands.
    pub shell: Shell,
    /// How `hdfs:` and `afs:` files are reached with a command: `hadoop fs -D …`.
    pub hadoop: String,
    /// How files elsewhere are reached without one.
    pub stores: Stores,
    /// A command that prints the file named behind it, instead of opening it.
    pub download: String,
    /// Whether a line begins with the name of its sample.
    pub ins_id: bool,
    /// Whether its content follows.
    pub content: bool,
    /// How many bad lines and files are skipped; one more is an error.
    pub skips_max: u64,
    /// For how long a pipe command may print nothing.
    pub silence_max: Duration,
    /// Where the random orders of shuffles begin.
    pub seed: u64,
    /// Samples that trainers exchange at once.
    pub n_per_exchange: usize,
    /// A variable that Fluid's ranking models name; it is written down, nothing more.
    pub rank_offset: Option<String>,
    /// Page views of a batch of such models; it is written down, nothing more.
    pub pv_batch_size: Option<i64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            files: Vec::new(),
            pipe_command: "cat".to_string(),
            left_out: BTreeMap::new(),
            batch_size: 32,
            n_threads: 1,
            shell: Shell::default(),
            hadoop: "hadoop fs".to_string(),
            stores: Stores::default(),
            download: String::new(),
            ins_id: false,
            content: false,
            skips_max: 0,
            silence_max: SILENCE_MAX,
            seed: 0,
            n_per_exchange: 1024,
            rank_offset: None,
            pv_batch_size: None,
        }
    }
}

impl Settings {
    /// Checks that something can be read.
    pub(crate) fn check(&self) -> Result<()> {
        slot::check(&self.slots)?;
        if self.files.is_empty() {
            return Err(Error::NoFiles);
        }
        let positive = [("batch_size", self.batch_size), ("thread_num", self.n_threads)];
        for (setting, value) in positive {
            if value == 0 {
                let expected = "1 or more";
                return Err(Error::BadSetting { setting, expected, found: value.to_string() });
            }
        }
        Ok(())
    }

    /// The name node of `hdfs:` files (`hdfs://host:port`), and the user (`user,password`).
    pub fn set_hdfs(&mut self, name_node: &str, ugi: &str) {
        self.hadoop = format!("hadoop fs -D fs.default.name={name_node} -D hadoop.job.ugi={ugi}");
        let said = [("fs.default.name", name_node), ("hadoop.job.ugi", ugi)];
        let said = said.map(|(name, value)| (name.to_string(), value.to_string()));
        self.stores.hdfs = self.stores.hdfs.with(&BTreeMap::from(said));
    }

    /// The command that prints a file which is not opened here.
    pub(crate) fn fetch(&self, file: &str) -> Option<String> {
        if !self.download.is_empty() {
            return Some(format!("{} {}", self.download, quoted(file)));
        }
        let by_command = file.starts_with("hdfs:") && self.stores.hdfs.has_command;
        let elsewhere = by_command || file.starts_with("afs:");
        let verb = if file.ends_with(".gz") { "-text" } else { "-cat" };
        elsewhere.then(|| format!("{} {verb} {}", self.hadoop, quoted(file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_elsewhere_are_fetched() {
        let mut settings = Settings::default();
        assert_eq!(settings.fetch("part-0"), None);
        // Without a command there is WebHDFS.
        assert_eq!(settings.fetch("hdfs://x/a b"), None);
        settings.stores.hdfs.has_command = true;
        assert_eq!(settings.fetch("hdfs://x/a b").unwrap(), "hadoop fs -cat 'hdfs://x/a b'");
        settings.hadoop = "hadoop fs -D a=b".to_string();
        assert_eq!(settings.fetch("afs:/a.gz").unwrap(), "hadoop fs -D a=b -text 'afs:/a.gz'");
        settings.download = "fetch".to_string();
        assert_eq!(settings.fetch("part-0").unwrap(), "fetch 'part-0'");
    }

    #[test]
    fn refuses_what_reads_nothing() {
        let mut settings = Settings::default();
        assert!(matches!(settings.check(), Err(Error::NoSlots)));
        settings.slots = vec![Slot::ids("c")];
        assert!(matches!(settings.check(), Err(Error::NoFiles)));
        settings.files = vec!["a".to_string()];
        settings.check().unwrap();
        settings.batch_size = 0;
        assert!(matches!(settings.check(), Err(Error::BadSetting { setting: "batch_size", .. })));
    }
}
