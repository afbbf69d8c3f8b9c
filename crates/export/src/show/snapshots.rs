//! The folder of a job's snapshots: the facts that are known without reading them.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::table::{ColumnSide, TextTable};
use super::{counted, grouped};
use crate::error::{Error, Result};

/// The first words of the file `job` of such a folder.
const HEAD: &str = "paddlewheel job ";

/// The contents of the folder; `None` if it is not a folder of snapshots.
pub(super) fn text(path: &Path) -> Result<Option<String>> {
    let Ok(job) = fs::read_to_string(path.join("job")) else { return Ok(None) };
    if !job.starts_with(HEAD) {
        return Ok(None);
    }
    let mut text = format!("{}: snapshots of a job", path.display());
    let is_finished = path.join("finished").exists();
    text.push_str(if is_finished { ", which has finished\n" } else { "\n" });
    for line in job.lines().skip(1).filter(|&line| line != "end") {
        writeln!(text, "  {line}").expect("text grows");
    }
    let (left, right) = (ColumnSide::Left, ColumnSide::Right);
    let mut table = TextTable::new(&[("process", left), ("file", left), ("bytes", right)]);
    let mut n_files = 0;
    for process in entries(path)? {
        let folder = path.join(&process);
        let is_process = process.starts_with("server.") || process.starts_with("trainer.");
        if !is_process || !folder.is_dir() {
            continue;
        }
        for file in entries(&folder)? {
            let n_bytes = fs::metadata(folder.join(&file)).map_or(0, |file| file.len());
            table.row(vec![process.clone(), file, grouped(n_bytes)]);
            n_files += 1;
        }
    }
    write!(text, "\n{table}{}\n", counted(n_files, "file")).expect("text grows");
    Ok(Some(text))
}

/// The names in a folder, numbers in their order.
fn entries(path: &Path) -> Result<Vec<String>> {
    let failed = |source| Error::Read { path: path.to_path_buf(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_by_key(|name| {
        let (stem, number) = name.split_once('.').unwrap_or((name, ""));
        (stem.to_string(), number.parse::<u64>().unwrap_or(0), name.clone())
    });
    Ok(names)
}
