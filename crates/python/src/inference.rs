//! Fluid's inference API: `AnalysisConfig`, `create_paddle_predictor` and what goes with them.

mod tensor;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use ::tensor::{DType, Shape, Tensor};
use base::EvenIfPoisoned;
use predict::{ModelFiles, Predictor};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use train::Feed;

use self::tensor::{PaddleDType, PyPaddleBuf, PyPaddleTensor, checked_lod, taken};
use crate::array::to_numpy;
use crate::error::{detached_as, from_tensor};
use crate::predictor::from_predict;

/// Where a model is. Switches for devices and passes that do not exist here are taken and change nothing.
#[pyclass(name = "AnalysisConfig", module = "paddlewheel._core", frozen, subclass)]
#[derive(Default)]
pub(crate) struct PyAnalysisConfig(Mutex<Config>);

#[derive(Clone, Default)]
struct Config {
    dir: String,
    program: String,
    params: String,
    has_feed_fetch: bool,
    names_inputs: bool,
    optimizes: bool,
    n_threads: usize,
}

impl PyAnalysisConfig {
    fn lock(&self) -> MutexGuard<'_, Config> {
        self.0.lock().even_if_poisoned()
    }
}

#[pymethods]
impl PyAnalysisConfig {
    #[new]
    #[pyo3(signature = (model=None, params=None))]
    fn new(model: Option<&Bound<'_, PyAny>>, params: Option<String>) -> PyResult<Self> {
        let usual =
            Config { has_feed_fetch: true, optimizes: true, n_threads: 1, ..Config::default() };
        let Some(model) = model else { return Ok(Self(Mutex::new(usual))) };
        if let Ok(other) = model.cast::<PyAnalysisConfig>() {
            return Ok(Self(Mutex::new(other.get().lock().clone())));
        }
        let config = Self(Mutex::new(usual));
        config.set_model(model.extract()?, params);
        Ok(config)
    }

    /// A folder, or a file of a program and a file of parameters.
    #[pyo3(signature = (model, params=None))]
    fn set_model(&self, model: String, params: Option<String>) {
        let mut config = self.lock();
        match params {
            None => {
                (config.dir, config.program, config.params) = (model, String::new(), String::new())
            }
            Some(params) => {
                (config.dir, config.program, config.params) = (String::new(), model, params);
            }
        }
    }

    /// Names the file of the program.
    fn set_prog_file(&self, path: String) {
        self.lock().program = path;
    }

    /// Names the file of all parameters.
    fn set_params_file(&self, path: String) {
        self.lock().params = path;
    }

    /// The folder.
    fn model_dir(&self) -> String {
        self.lock().dir.clone()
    }

    /// The file of the program.
    fn prog_file(&self) -> String {
        self.lock().program.clone()
    }

    /// The file of all parameters.
    fn params_file(&self) -> String {
        self.lock().params.clone()
    }

    /// Nothing to do: there is no GPU here.
    fn disable_gpu(&self) {}

    /// Nothing to do: models run on the processor.
    #[pyo3(signature = (memory_pool_init_size_mb=100, device_id=0))]
    fn enable_use_gpu(&self, memory_pool_init_size_mb: u64, device_id: i32) {
        let _ = (memory_pool_init_size_mb, device_id);
    }

    /// Always False.
    fn use_gpu(&self) -> bool {
        false
    }

    /// The number that Fluid has for no GPU.
    fn gpu_device_id(&self) -> i32 {
        0
    }

    /// Whether `run` is used, and not `zero_copy_run`. Here both can be used.
    #[pyo3(signature = (x=1))]
    fn switch_use_feed_fetch_ops(&self, x: i32) {
        self.lock().has_feed_fetch = x != 0;
    }

    /// The setting of `switch_use_feed_fetch_ops`.
    fn use_feed_fetch_ops_enabled(&self) -> bool {
        self.lock().has_feed_fetch
    }

    /// Whether inputs are found by their names. Without, they are in the order of the model.
    #[pyo3(signature = (x=true))]
    fn switch_specify_input_names(&self, x: bool) {
        self.lock().names_inputs = x;
    }

    /// The setting of `switch_specify_input_names`.
    fn specify_input_name(&self) -> bool {
        self.lock().names_inputs
    }

    /// Programs are always optimized.
    #[pyo3(signature = (x=1))]
    fn switch_ir_optim(&self, x: i32) {
        self.lock().optimizes = x != 0;
    }

    /// The setting of `switch_ir_optim`.
    fn ir_optim(&self) -> bool {
        self.lock().optimizes
    }

    /// Nothing to do: passes are not dumped.
    #[pyo3(signature = (x=1))]
    fn switch_ir_debug(&self, x: i32) {
        let _ = x;
    }

    /// Nothing to do: memory is always used again.
    #[pyo3(signature = (x=true))]
    fn enable_memory_optim(&self, x: bool) {
        let _ = x;
    }

    /// Nothing to do: products are always vectorized.
    fn enable_mkldnn(&self) {}

    /// Always False.
    fn mkldnn_enabled(&self) -> bool {
        false
    }

    /// Nothing to do.
    #[pyo3(signature = (*_given))]
    fn set_mkldnn_cache_capacity(&self, _given: &Bound<'_, PyTuple>) {}

    /// Nothing to do.
    fn set_mkldnn_op(&self, ops: Vec<String>) {
        let _ = ops;
    }

    /// Nothing to do: models run on the processor.
    #[pyo3(signature = (*_given, **_named))]
    fn enable_tensorrt_engine(
        &self,
        _given: &Bound<'_, PyTuple>,
        _named: Option<&Bound<'_, PyDict>>,
    ) {
    }

    /// Always False.
    fn tensorrt_engine_enabled(&self) -> bool {
        false
    }

    /// Nothing to do: nothing is kept between processes.
    fn set_optim_cache_dir(&self, folder: String) {
        let _ = folder;
    }

    /// The passes, to be changed by name. There are none here, so nothing comes of it.
    fn pass_builder(&self) -> PyPassBuilder {
        PyPassBuilder
    }

    /// Nothing to do: little is logged.
    fn disable_glog_info(&self) {}

    /// Always True.
    fn glog_info_disabled(&self) -> bool {
        true
    }

    /// Nothing to do.
    fn enable_profile(&self) {}

    /// Taken and told; a prediction runs on the thread that asks for it.
    fn set_cpu_math_library_num_threads(&self, threads: usize) {
        self.lock().n_threads = threads;
    }

    /// The setting of `set_cpu_math_library_num_threads`.
    fn cpu_math_library_num_threads(&self) -> usize {
        self.lock().n_threads
    }
}

/// Fluid's list of passes over a program, which is empty here.
#[pyclass(name = "PaddlePassBuilder", module = "paddlewheel._core", frozen)]
pub(crate) struct PyPassBuilder;

#[pymethods]
impl PyPassBuilder {
    /// Nothing to do.
    fn delete_pass(&self, name: &Bound<'_, PyAny>) {
        let _ = name;
    }

    /// Nothing to do.
    fn append_pass(&self, name: &str) {
        let _ = name;
    }

    /// Nothing to do.
    fn insert_pass(&self, at: usize, name: &str) {
        let _ = (at, name);
    }

    /// Nothing to do.
    fn turn_on_debug(&self) {}

    /// An empty list.
    fn all_passes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An input or output of a predictor, filled and read in place.
#[pyclass(name = "ZeroCopyTensor", module = "paddlewheel._core", frozen)]
pub(crate) struct PyZeroCopyTensor {
    predictor: Py<PyPaddlePredictor>,
    name: String,
}

impl PyZeroCopyTensor {
    fn with<R>(&self, look: impl FnOnce(&mut Tensor) -> R) -> R {
        let mut state = self.predictor.get().lock();
        if state.outputs.get(&self.name).is_some() {
            let missing = Tensor::default();
            return look(state.outputs.get_mut(&self.name).unwrap_or(&mut { missing }));
        }
        if state.inputs.get(&self.name).is_none() {
            state.inputs.set(&self.name, Tensor::default());
        }
        let missing = Tensor::default();
        look(state.inputs.get_mut(&self.name).unwrap_or(&mut { missing }))
    }
}

#[pymethods]
impl PyZeroCopyTensor {
    /// Takes the numbers of an array.
    fn copy_from_cpu(&self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        self.with(|tensor| taken(data, tensor))
    }

    /// The numbers as an array.
    fn copy_to_cpu(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let tensor = self.with(|tensor| tensor.clone());
        to_numpy(py, &tensor)
    }

    /// Sets the sizes of the dimensions; numbers are given afterwards.
    fn reshape(&self, shape: Vec<i64>) -> PyResult<()> {
        let shape = Shape::from_dims(&shape).map_err(from_tensor)?;
        self.with(|tensor| {
            let dtype = if tensor.is_initialized() { tensor.dtype() } else { DType::F32 };
            tensor.try_resize_as(dtype, shape).map_err(from_tensor)
        })
    }

    /// The sizes of the dimensions.
    fn shape(&self) -> Vec<usize> {
        self.with(|tensor| tensor.dims().to_vec())
    }

    /// Sets sequence offsets.
    fn set_lod(&self, lod: Vec<Vec<usize>>) -> PyResult<()> {
        self.with(|tensor| checked_lod(tensor, lod))
    }

    /// Sequence offsets.
    fn lod(&self) -> Vec<Vec<usize>> {
        self.with(|tensor| tensor.lod().levels().to_vec())
    }

    /// The type of the elements.
    fn r#type(&self) -> PaddleDType {
        self.with(|tensor| PaddleDType::of(tensor.dtype()))
    }
}

/// Predicts as Fluid's inference API does.
#[pyclass(name = "PaddlePredictor", module = "paddlewheel._core", frozen)]
pub(crate) struct PyPaddlePredictor {
    predictor: Predictor,
    names_inputs: bool,
    state: Mutex<ZeroCopy>,
}

/// The inputs and outputs of `zero_copy_run`.
#[derive(Default)]
struct ZeroCopy {
    inputs: Feed,
    outputs: Feed,
}

impl PyPaddlePredictor {
    fn lock(&self) -> MutexGuard<'_, ZeroCopy> {
        self.state.lock().even_if_poisoned()
    }

    fn input_names(&self) -> Vec<String> {
        self.predictor.slots().iter().map(|slot| slot.name.clone()).collect()
    }
}

#[pymethods]
impl PyPaddlePredictor {
    /// Runs on a list of tensors; returns a list of tensors.
    fn run(
        &self,
        py: Python<'_>,
        inputs: Vec<Py<PyPaddleTensor>>,
    ) -> PyResult<Vec<PyPaddleTensor>> {
        let (mut feed, names) = (Feed::new(), self.input_names());
        if inputs.len() != names.len() {
            let text =
                format!("wrong feed input size, need {} but get {}.", names.len(), inputs.len());
            return Err(PyValueError::new_err(text));
        }
        for (input, own) in inputs.iter().zip(&names) {
            let name = input.get().name();
            let is_named = self.names_inputs || names.contains(&name);
            feed.set(if is_named { &name } else { own }, input.get().tensor()?);
        }
        let outputs = detached_as(py, from_predict, || self.predictor.run(&mut feed))?;
        let named = self.predictor.fetches().into_iter().zip(outputs);
        Ok(named.map(|(name, tensor)| PyPaddleTensor::of(&name, &tensor)).collect())
    }

    /// The names of the inputs.
    fn get_input_names(&self) -> Vec<String> {
        self.input_names()
    }

    /// The names of the outputs.
    fn get_output_names(&self) -> Vec<String> {
        self.predictor.fetches()
    }

    /// The shapes of the inputs, by name.
    fn get_input_tensor_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shapes = PyDict::new(py);
        for slot in self.predictor.slots().iter() {
            let dims: Vec<i64> = std::iter::once(-1).chain(slot.dims.iter().copied()).collect();
            shapes.set_item(&slot.name, dims)?;
        }
        Ok(shapes)
    }

    /// An input, to be filled.
    fn get_input_tensor(slf: Py<Self>, name: String) -> PyResult<PyZeroCopyTensor> {
        let known = slf.get().input_names();
        if !known.contains(&name) {
            let text = format!("the model has no input `{name}`; it has {}", known.join(", "));
            return Err(PyKeyError::new_err(text));
        }
        Ok(PyZeroCopyTensor { predictor: slf, name })
    }

    /// An output, to be read.
    fn get_output_tensor(slf: Py<Self>, name: String) -> PyResult<PyZeroCopyTensor> {
        let known = slf.get().predictor.fetches();
        if !known.contains(&name) {
            let text = format!("the model has no output `{name}`; it has {}", known.join(", "));
            return Err(PyKeyError::new_err(text));
        }
        Ok(PyZeroCopyTensor { predictor: slf, name })
    }

    /// Runs on what was filled in; results are read from the output tensors.
    fn zero_copy_run(&self, py: Python<'_>) -> PyResult<bool> {
        let mut inputs = std::mem::take(&mut self.lock().inputs);
        let ran = detached_as(py, from_predict, || self.predictor.run(&mut inputs));
        let mut state = self.lock();
        state.inputs = inputs;
        for (name, tensor) in self.predictor.fetches().iter().zip(ran?) {
            state.outputs.set(name, tensor);
        }
        Ok(true)
    }

    /// Another predictor with the same model, for another thread.
    fn clone(&self) -> Self {
        let predictor = self.predictor.clone();
        Self { predictor, names_inputs: self.names_inputs, state: Mutex::default() }
    }
}

/// A predictor for the model that a configuration names.
#[pyfunction]
fn create_paddle_predictor(
    py: Python<'_>,
    config: &PyAnalysisConfig,
) -> PyResult<PyPaddlePredictor> {
    let config = config.lock().clone();
    let name_of =
        |path: &str| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    let (dir, files) = if config.program.is_empty() {
        (PathBuf::from(&config.dir), ModelFiles::default())
    } else {
        let parent = Path::new(&config.program).parent().unwrap_or(Path::new("."));
        let dir = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let params = name_of(&config.params);
        (dir.to_path_buf(), ModelFiles { model: name_of(&config.program), params })
    };
    let predictor = detached_as(py, from_predict, || Predictor::load_files(&dir, files))?;
    Ok(PyPaddlePredictor { predictor, names_inputs: config.names_inputs, state: Mutex::default() })
}

/// Adds the classes to `_core`.
pub(crate) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyAnalysisConfig>()?;
    m.add_class::<PaddleDType>()?;
    m.add_class::<PyPaddleTensor>()?;
    m.add_class::<PyPaddleBuf>()?;
    m.add_class::<PyPassBuilder>()?;
    m.add_class::<PyZeroCopyTensor>()?;
    m.add_class::<PyPaddlePredictor>()?;
    m.add_function(wrap_pyfunction!(create_paddle_predictor, m)?)
}
