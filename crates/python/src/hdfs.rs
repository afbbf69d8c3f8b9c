//! A client of Hadoop file systems as Python sees it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use data::{CopyOptions, HdfsClient, HdfsEntry};
use fleet::{env, stores};
use pyo3::prelude::*;

use crate::convert::Whole;
use crate::error::from_data;

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyHdfsClient>()
}

/// A client of one file system: with `hadoop_home/bin/hadoop` if that is there, with WebHDFS otherwise.
#[pyclass(name = "HdfsClient", module = "paddlewheel._core", frozen, subclass)]
pub(crate) struct PyHdfsClient(HdfsClient);

impl PyHdfsClient {
    /// Asks with the interpreter free.
    fn ask<R: Send>(
        &self,
        py: Python<'_>,
        request: impl FnOnce(&HdfsClient) -> data::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| request(&self.0)).map_err(from_data)
    }
}

fn paths(entries: Vec<HdfsEntry>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.path).collect()
}

#[pymethods]
impl PyHdfsClient {
    #[new]
    #[pyo3(signature = (hadoop_home, configs))]
    fn new(
        py: Python<'_>,
        hadoop_home: Option<PathBuf>,
        configs: Option<BTreeMap<String, String>>,
    ) -> PyResult<Self> {
        let (home, configs) = (hadoop_home.unwrap_or_default(), configs.unwrap_or_default());
        let stores = stores::stores(&env::process);
        py.detach(|| HdfsClient::new(&home, &configs, &stores)).map(Self).map_err(from_data)
    }

    /// Whether a `hadoop` command is used. Not in Fluid.
    #[getter]
    fn uses_command(&self) -> bool {
        self.0.uses_command()
    }

    /// Whether something is there.
    fn is_exist(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<bool> {
        self.ask(py, |client| client.exists(hdfs_path))
    }

    /// Whether a folder is there.
    fn is_dir(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<bool> {
        self.ask(py, |client| client.is_dir(hdfs_path))
    }

    /// Whether a file is there.
    fn is_file(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<bool> {
        self.ask(py, |client| client.is_file(hdfs_path))
    }

    /// The text of a file without space around it; empty if there is no file.
    fn cat(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<String> {
        let bytes = self.ask(py, |client| {
            if client.is_file(hdfs_path)? { client.read(hdfs_path) } else { Ok(Vec::new()) }
        })?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_string())
    }

    /// Removes a file, or a folder with all that is in it. Nothing to remove is fine.
    fn delete(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<bool> {
        self.ask(py, |client| client.delete(hdfs_path))
    }

    /// Renames; false if there is nothing to rename, or something that may not be overwritten.
    #[pyo3(signature = (hdfs_src_path, hdfs_dst_path, overwrite = false))]
    fn rename(
        &self,
        py: Python<'_>,
        hdfs_src_path: &str,
        hdfs_dst_path: &str,
        overwrite: bool,
    ) -> PyResult<bool> {
        self.ask(py, |client| client.rename(hdfs_src_path, hdfs_dst_path, overwrite))
    }

    /// Makes a folder and those it is in; `None` if something is there already.
    fn makedirs(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<Option<bool>> {
        self.ask(py, |client| {
            if client.exists(hdfs_path)? { Ok(None) } else { client.make_dirs(hdfs_path).map(Some) }
        })
    }

    /// The paths in a folder, sorted.
    fn ls(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<Vec<String>> {
        self.ask(py, |client| client.list(hdfs_path)).map(paths)
    }

    /// The paths of all files below a folder, sorted.
    fn files_below(&self, py: Python<'_>, hdfs_path: &str) -> PyResult<Vec<String>> {
        self.ask(py, |client| client.files_below(hdfs_path)).map(paths)
    }

    /// Copies a file or what is in a folder to there.
    fn put(
        &self,
        py: Python<'_>,
        local_path: PathBuf,
        hdfs_path: &str,
        overwrite: bool,
        threads: Whole,
    ) -> PyResult<()> {
        let n = threads.positive("multi_processes")?;
        self.ask(py, |client| client.upload(&local_path, hdfs_path, overwrite, n))
    }

    /// Copies files below a folder from there, under the same names; where they are then.
    #[pyo3(signature = (files, hdfs_path, local_path, overwrite, threads))]
    fn get(
        &self,
        py: Python<'_>,
        files: Vec<String>,
        hdfs_path: &str,
        local_path: PathBuf,
        overwrite: bool,
        threads: Whole,
    ) -> PyResult<Vec<PathBuf>> {
        let options = CopyOptions { n_threads: threads.positive("multi_processes")?, overwrite };
        let local: &Path = &local_path;
        self.ask(py, |client| client.download(&files, hdfs_path, local, options))
    }
}
