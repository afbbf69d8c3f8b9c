//! Datasets as Python sees them.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use base::EvenIfPoisoned;
use data::{Dataset, DatasetKind, Exchange, Reader, Settings, Slot};
use fleet::{env, pipes, stores};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;
use tensor::DType;
use train::from_dataset::global_shuffle;
use train::remote::Peers;

use crate::convert::Whole;
use crate::error::{detached_as, from_data, from_train};
use crate::fleet::PyFleet;
use crate::framework::variable::PyVariable;
use crate::signals::SIGNALS_EVERY;
use crate::tensor::PyTensor;
use crate::trainer_job::raised_in_wait;

pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyDataset>()?;
    m.add_class::<PyBatches>()?;
    m.add_function(wrap_pyfunction!(check_slot_names, m)?)
}

fn positive_seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    let max = Duration::try_from_secs_f64(seconds).ok().filter(|max| !max.is_zero());
    max.ok_or_else(|| {
        let text = format!("{name} must be more than 0 seconds, but received {seconds}");
        PyValueError::new_err(text)
    })
}

/// Files and slots: text in, batches out.
#[pyclass(name = "Dataset", module = "paddlewheel._core", frozen, subclass)]
pub(crate) struct PyDataset {
    dataset: Mutex<Dataset>,
    /// Fluid's name of the reader.
    class: &'static str,
}

impl PyDataset {
    /// The dataset; the interpreter is free while another thread has it.
    pub(crate) fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Dataset> {
        self.dataset.lock_py_attached(py).even_if_poisoned()
    }

    fn set(&self, py: Python<'_>, change: impl FnOnce(&mut Settings)) {
        change(self.lock(py).settings_mut());
    }

    /// Calls what takes long, with the interpreter free.
    fn long<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Dataset) -> data::Result<R> + Send,
    ) -> PyResult<R> {
        let mut dataset = self.lock(py);
        let dataset = &mut *dataset;
        detached_as(py, from_data, || call(dataset))
    }

    /// Calls an operation with the other trainers; an exception of a signal handler takes
    /// precedence.
    fn together<R: Send>(
        &self,
        py: Python<'_>,
        fleet: Option<&PyFleet>,
        call: impl FnOnce(&mut Dataset, Option<&Peers>) -> train::Result<R> + Send,
    ) -> PyResult<R> {
        let peers = fleet.map_or(Ok(None), |fleet| fleet.peers(py))?;
        let mut dataset = self.lock(py);
        let dataset = &mut *dataset;
        let done = py.detach(|| call(dataset, peers.as_ref()));
        let raised = raised_in_wait().filter(|_| done.is_err());
        let raise = |error| match error {
            train::Error::Data(error) if !is_end(&error) => from_data(error),
            train::Error::Data(_) => from_train(train::Error::Ended),
            other => from_train(other),
        };
        done.map_err(|error| raised.unwrap_or_else(|| raise(error)))
    }

    /// Waits for a load; Ctrl-C ends it.
    fn wait(&self, py: Python<'_>) -> PyResult<()> {
        while !self.long(py, |dataset| dataset.loaded_within(SIGNALS_EVERY))? {
            if let Err(raised) = py.check_signals() {
                self.long(py, |dataset| {
                    dataset.stopper().stop();
                    // It ends as stopped, which is what was wanted.
                    let _ = dataset.wait_loaded();
                    Ok(())
                })?;
                return Err(raised);
            }
        }
        Ok(())
    }
}

#[pymethods]
impl PyDataset {
    #[new]
    fn new(kind: &str, python: Option<PathBuf>) -> PyResult<Self> {
        let (kind, class) = match kind {
            "QueueDataset" => (DatasetKind::Queue, "MultiSlotDataFeed"),
            "FileInstantDataset" => (DatasetKind::Queue, "MultiSlotFileInstantDataFeed"),
            "InMemoryDataset" => (DatasetKind::InMemory, "MultiSlotInMemoryDataFeed"),
            other => {
                let text = format!("datafeed class {other} does not exist");
                return Err(PyValueError::new_err(text));
            }
        };
        let mut dataset = Dataset::new(kind);
        dataset.settings_mut().shell = pipes::shell(&env::process, python.as_deref());
        dataset.settings_mut().stores = stores::stores(&env::process);
        Ok(Self { dataset: Mutex::new(dataset), class })
    }

    /// The shell text that each file goes through; `cat` changes nothing.
    fn set_pipe_command(&self, py: Python<'_>, pipe_command: String) {
        self.set(py, |settings| settings.pipe_command = pipe_command);
    }

    /// How many samples a batch has.
    fn set_batch_size(&self, py: Python<'_>, batch_size: Whole) -> PyResult<()> {
        let batch_size = batch_size.positive("batch_size")?;
        self.set(py, |settings| settings.batch_size = batch_size);
        Ok(())
    }

    /// How many threads read and train.
    fn set_thread(&self, py: Python<'_>, thread_num: Whole) -> PyResult<()> {
        let thread_num = thread_num.positive("thread_num")?;
        self.set(py, |settings| settings.n_threads = thread_num);
        Ok(())
    }

    /// The files that are read: paths, `s3://`, `hdfs://`, `webhdfs://` and `http(s)://` addresses, and
    /// patterns, which stand for the files that they match now, sorted.
    fn set_filelist(&self, py: Python<'_>, filelist: Vec<String>) -> PyResult<()> {
        self.long(py, |dataset| dataset.set_files(&filelist))
    }

    /// The variables that are fed, in the order of the slots in a line.
    fn set_use_var(&self, py: Python<'_>, var_list: &Bound<'_, PyAny>) -> PyResult<()> {
        let slots: Vec<Slot> =
            var_list.try_iter()?.map(|var| slot(&var?)).collect::<PyResult<_>>()?;
        self.set(py, |settings| settings.slots.extend(slots));
        Ok(())
    }

    /// The name node of `hdfs:` and `afs:` files, and the user. Patterns of such files need it before
    /// `set_filelist`.
    fn set_hdfs_config(&self, py: Python<'_>, fs_name: &str, fs_ugi: &str) {
        self.set(py, |settings| settings.set_hdfs(fs_name, fs_ugi));
    }

    /// For how many seconds a store that cannot be reached is tried again, 60 unless said otherwise. Not
    /// in Fluid.
    fn set_remote_timeout(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let patience = positive_seconds("remote_timeout", seconds)?;
        self.set(py, |settings| settings.stores.patience = patience);
        Ok(())
    }

    /// A command that prints the file named behind it; files are not opened then.
    fn set_download_cmd(&self, py: Python<'_>, download_cmd: String) {
        self.set(py, |settings| settings.download = download_cmd);
    }

    /// A variable that ranking models name; it is written into the description.
    fn set_rank_offset(&self, py: Python<'_>, rank_offset: String) {
        self.set(py, |settings| settings.rank_offset = Some(rank_offset));
    }

    /// The page views of a batch; it is written into the description.
    fn set_pv_batch_size(&self, py: Python<'_>, pv_batch_size: i64) {
        self.set(py, |settings| settings.pv_batch_size = Some(pv_batch_size));
    }

    /// How many bad lines and files may be skipped; they are counted in `skipped`. 0, the default,
    /// makes the first an error. Not in Fluid.
    fn set_skip_max(&self, py: Python<'_>, skip_max: Whole) -> PyResult<()> {
        let skip_max = skip_max.fit("skip_max")?;
        self.set(py, |settings| settings.skips_max = skip_max);
        Ok(())
    }

    /// For how many seconds a pipe command may print nothing before it is given up, 600 unless said
    /// otherwise. Not in Fluid.
    fn set_pipe_timeout(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let max = positive_seconds("pipe_timeout", seconds)?;
        self.set(py, |settings| settings.silence_max = max);
        Ok(())
    }

    /// Where the random orders of shuffles begin. Not in Fluid.
    fn set_shuffle_seed(&self, py: Python<'_>, seed: Whole) -> PyResult<()> {
        let seed = seed.fit("seed")?;
        self.set(py, |settings| settings.seed = seed);
        Ok(())
    }

    /// Allows `slots_shuffle`, with values drawn from that many samples.
    #[pyo3(signature = (record_candidate_size, fea_eval = true))]
    fn set_fea_eval(
        &self,
        py: Python<'_>,
        record_candidate_size: Whole,
        fea_eval: bool,
    ) -> PyResult<()> {
        let size = record_candidate_size.positive("record_candidate_size")?;
        self.lock(py).set_mix_candidates(fea_eval.then_some(size));
        Ok(())
    }

    /// Gives slots the values of other samples: the loss of quality shows their worth.
    fn slots_shuffle(&self, py: Python<'_>, slots: Vec<String>) -> PyResult<()> {
        self.long(py, |dataset| dataset.mix_slots(&slots))
    }

    /// The description in the words of Fluid's files.
    fn desc(&self, py: Python<'_>) -> String {
        self.lock(py).settings().desc(self.class).to_string()
    }

    /// How many threads read and train.
    #[getter]
    fn thread_num(&self, py: Python<'_>) -> usize {
        self.lock(py).settings().n_threads
    }

    /// The files that are read.
    #[getter]
    fn filelist(&self, py: Python<'_>) -> Vec<String> {
        self.lock(py).settings().files.clone()
    }

    /// Bad lines and files that the last load or pass left out, and what was wrong with the first.
    /// Not in Fluid.
    #[getter]
    fn skipped(&self, py: Python<'_>) -> (u64, u64, String) {
        let skipped = self.lock(py).skipped();
        (skipped.n_lines, skipped.n_files, skipped.first)
    }

    /// The batches of one pass as feeds, to look at. Not in Fluid.
    fn batches(&self, py: Python<'_>) -> PyResult<PyBatches> {
        let readers = self.long(py, |dataset| dataset.start(0))?;
        Ok(PyBatches(Mutex::new((readers, 0))))
    }

    /// Reads all files into memory.
    fn load_into_memory(&self, py: Python<'_>) -> PyResult<()> {
        self.preload_into_memory(py, None)?;
        self.wait(py)
    }

    /// Begins to read all files into memory.
    #[pyo3(signature = (thread_num = None))]
    fn preload_into_memory(&self, py: Python<'_>, thread_num: Option<Whole>) -> PyResult<()> {
        let n = thread_num.map_or(Ok(0), |thread_num| thread_num.positive("thread_num"))?;
        self.wait(py)?;
        self.long(py, |dataset| dataset.preload(n))
    }

    /// Waits until all files are in memory.
    fn wait_preload_done(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py)
    }

    /// Puts the samples of this trainer in random order.
    fn local_shuffle(&self, py: Python<'_>) -> PyResult<()> {
        self.long(py, Dataset::local_shuffle)
    }

    /// Puts the samples of all trainers in random order; without a fleet, of this one.
    #[pyo3(signature = (fleet = None))]
    fn shuffle_among(&self, py: Python<'_>, fleet: Option<&PyFleet>) -> PyResult<()> {
        self.wait(py)?;
        self.together(py, fleet, |dataset, peers| match peers {
            Some(peers) => global_shuffle(dataset, peers),
            None => Ok(dataset.global_shuffle(None)?),
        })
    }

    /// Forgets the samples.
    fn release_memory(&self, py: Python<'_>) {
        let mut dataset = self.lock(py);
        let dataset = &mut *dataset;
        py.detach(|| dataset.release());
    }

    /// Samples in memory: of this trainer, or with a fleet of all.
    #[pyo3(signature = (fleet = None))]
    fn n_rows(&self, py: Python<'_>, fleet: Option<&PyFleet>) -> PyResult<u64> {
        self.together(py, fleet, |dataset, peers| Ok(dataset.n_rows(exchange(peers))?))
    }

    /// Samples in memory after the last shuffle: of this trainer, or with a fleet of all.
    #[pyo3(signature = (fleet = None))]
    fn n_shuffled(&self, py: Python<'_>, fleet: Option<&PyFleet>) -> PyResult<u64> {
        self.together(py, fleet, |dataset, peers| Ok(dataset.n_shuffled(exchange(peers))?))
    }

    /// Samples that the last global shuffle left out: `set_merge_by_lineid` wants another number of
    /// their name. Not in Fluid.
    #[getter]
    fn unmerged(&self, py: Python<'_>) -> u64 {
        self.lock(py).n_unmerged()
    }

    /// How many samples trainers exchange at once.
    fn set_n_per_exchange(&self, py: Python<'_>, n_per_exchange: Whole) -> PyResult<()> {
        let n_per_exchange = n_per_exchange.positive("fleet_send_batch_size")?;
        self.set(py, |settings| settings.n_per_exchange = n_per_exchange);
        Ok(())
    }

    /// Samples of one name become one if there are so many of them (0: any number).
    fn set_merge(&self, py: Python<'_>, merge_size: Whole) -> PyResult<()> {
        let merge_size = merge_size.fit("merge_size")?;
        self.lock(py).set_merge_by_name(Some(merge_size));
        Ok(())
    }

    /// Whether lines begin with the names of their samples.
    fn set_parse_ins_id(&self, py: Python<'_>, parse_ins_id: bool) {
        self.set(py, |settings| settings.ins_id = parse_ins_id);
    }

    /// Whether the contents of samples follow.
    fn set_parse_content(&self, py: Python<'_>, parse_content: bool) {
        self.set(py, |settings| settings.content = parse_content);
    }
}

/// Whether an exchange failed because this process was asked to end.
fn is_end(error: &data::Error) -> bool {
    let data::Error::Exchange { source } = error else { return false };
    matches!(source.downcast_ref(), Some(train::Error::Ended))
}

fn exchange(peers: Option<&Peers>) -> Option<&dyn Exchange> {
    peers.map(|peers| peers as &dyn Exchange)
}

/// The slot that feeds a variable.
fn slot(var: &Bound<'_, PyAny>) -> PyResult<Slot> {
    let Ok(var) = var.cast::<PyVariable>() else {
        let text = format!("set_use_var takes a list of variables, not {}", var.get_type());
        return Err(PyTypeError::new_err(text));
    };
    let made = var.get().read(|var| {
        let slot = match var.meta.dtype {
            DType::F32 => Slot::floats(&var.name),
            DType::I64 => Slot::ids(&var.name),
            _ => return None,
        };
        Some(if var.meta.lod_level == 0 { slot.dense(&var.meta.dims) } else { slot })
    })?;
    let text = "Currently, fluid.dataset only supports dtype=float32 and dtype=int64";
    made.ok_or_else(|| PyValueError::new_err(text))
}

/// The batches of a pass, reader by reader in turns.
#[pyclass(name = "Batches", module = "paddlewheel._core", frozen)]
pub(crate) struct PyBatches(Mutex<(Vec<Reader>, usize)>);

#[pymethods]
impl PyBatches {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let mut held = self.0.lock_py_attached(py).even_if_poisoned();
        let (readers, turn) = &mut *held;
        while !readers.is_empty() {
            let at = *turn % readers.len();
            let reader = &mut readers[at];
            while !py.detach(|| reader.ready(SIGNALS_EVERY)) {
                py.check_signals()?;
            }
            let Some(batch) = detached_as(py, from_data, || reader.next())? else {
                readers.remove(at);
                continue;
            };
            *turn = at + 1;
            let feed = PyDict::new(py);
            for (name, tensor) in batch {
                feed.set_item(name, Py::new(py, PyTensor::own(tensor))?)?;
            }
            return Ok(Some(feed));
        }
        Ok(None)
    }
}

/// ValueError if a generator makes slots of these names in another order than the dataset has them for
/// which this process works.
#[pyfunction]
fn check_slot_names(names: Vec<String>) -> PyResult<()> {
    pipes::check_names(&env::process, &names).map_err(from_data)
}
