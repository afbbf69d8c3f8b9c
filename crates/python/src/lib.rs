//! The Python face of the core: newtypes that convert, call and map errors.
//!
//! **Invariant:** no behaviour. Whatever is worth testing from Rust lives in the crates above.
#![allow(clippy::too_many_arguments)] // The keyword lists are Fluid's.

mod array;
mod backward;
mod callables;
mod checkpoint;
mod clip;
mod command;
mod convert;
mod ctr;
mod dataset;
mod error;
mod executor;
mod export;
mod feed;
mod feed_desc;
mod feeder;
mod fit;
mod fleet;
mod framework;
mod from_dataset;
mod hdfs;
mod inference;
mod io;
mod keyed;
mod layers;
mod locked;
mod lod;
mod metrics;
mod nets;
mod op;
mod optimizer;
mod parallel;
mod predictor;
mod profiler;
mod pruning;
mod quality;
mod signals;
mod site;
mod tensor;
mod trainer_job;
mod transpile;
mod words;

use framework::{context, desc, op_desc, operator, param, program, variable};
use pyo3::prelude::*;

/// Everything Python can reach. Layers and optimizers are in modules of their own inside.
#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    // Executors and launchers report invalid settings when they start, with a name for them.
    let _ = ::fleet::logging::begin();
    m.add("EnforceNotMet", py.get_type::<error::EnforceNotMet>())?;
    m.add("EOFException", py.get_type::<error::EOFException>())?;
    m.add_class::<program::PyProgram>()?;
    m.add_function(wrap_pyfunction!(program::memory_usage, m)?)?;
    m.add_class::<program::PyBlock>()?;
    m.add_class::<operator::PyOperator>()?;
    m.add_class::<desc::PyProgramDesc>()?;
    m.add_class::<desc::PyBlockDesc>()?;
    m.add_class::<desc::PyVarDesc>()?;
    m.add_class::<op_desc::PyOpDesc>()?;
    m.add_class::<op_desc::AttrType>()?;
    op_desc::AttrType::add_names(py)?;
    callables::add(m)?;
    op::add(m)?;
    m.add_class::<variable::PyVariable>()?;
    m.add_class::<convert::VarType>()?;
    convert::VarType::add_names(py)?;
    py.get_type::<desc::PyVarDesc>().setattr("VarType", py.get_type::<convert::VarType>())?;
    m.add_class::<tensor::PyTensor>()?;
    m.add_class::<tensor::PyTensorArray>()?;
    m.add_class::<tensor::PyRows>()?;
    m.add_class::<keyed::PyKeyedTable>()?;
    predictor::add(m)?;
    profiler::add(m)?;
    inference::add(m)?;
    m.add_class::<tensor::PyScope>()?;
    m.add_class::<tensor::PyScopeVariable>()?;
    m.add_class::<tensor::CpuPlace>()?;
    m.add_class::<tensor::CudaPlace>()?;
    m.add_class::<tensor::CudaPinnedPlace>()?;
    m.add_class::<executor::PyExecutor>()?;
    m.add_class::<parallel::PyParallel>()?;
    m.add_class::<context::PyNames>()?;
    m.add_class::<feeder::PyFeeder>()?;
    m.add_function(wrap_pyfunction!(lod::create_lod_tensor, m)?)?;
    m.add_function(wrap_pyfunction!(lod::as_lodtensor, m)?)?;
    m.add_function(wrap_pyfunction!(lod::create_random_int_lodtensor, m)?)?;
    m.add_function(wrap_pyfunction!(context::default_main_program, m)?)?;
    m.add_function(wrap_pyfunction!(context::default_startup_program, m)?)?;
    m.add_function(wrap_pyfunction!(context::switch_main_program, m)?)?;
    m.add_function(wrap_pyfunction!(context::switch_startup_program, m)?)?;
    m.add_function(wrap_pyfunction!(context::global_scope, m)?)?;
    m.add_function(wrap_pyfunction!(context::switch_scope, m)?)?;
    m.add_function(wrap_pyfunction!(context::unique_name_generate, m)?)?;
    m.add_function(wrap_pyfunction!(context::unique_name_switch, m)?)?;
    m.add_class::<param::PyInitializer>()?;
    m.add_class::<param::PyRegularizer>()?;
    m.add_class::<param::PyGradClip>()?;
    nets::add(m)?;
    m.add_class::<param::PyErrorClip>()?;
    m.add_function(wrap_pyfunction!(param::check_param_attr, m)?)?;
    backward::add(m)?;
    clip::add(m)?;
    fleet::add(m)?;
    m.add_function(wrap_pyfunction!(trainer_job::leave_cluster, m)?)?;
    m.add_function(wrap_pyfunction!(trainer_job::once_in_job, m)?)?;
    command::add(m)?;
    dataset::add(m)?;
    hdfs::add(m)?;
    m.add_class::<feed_desc::PyFeedDesc>()?;
    io::add(m)?;
    checkpoint::add(m)?;
    ctr::add(m)?;
    export::add(m)?;
    metrics::add(m)?;
    optimizer::add(m)?;
    transpile::add(m)?;
    words::add(m)?;
    layers::add(m)
}
