//! Descriptions of datasets as Python sees them.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use data::{Error, FeedDesc, SlotDesc};
use pyo3::exceptions::{PyKeyError, PyOSError};
use pyo3::prelude::*;

use crate::error::from_data;

/// The description of a dataset in a file of protobuf text: the class of its reader, batch size,
/// slots.
#[pyclass(name = "DataFeedDesc", module = "paddlewheel._core", frozen)]
pub(crate) struct PyFeedDesc(Mutex<FeedDesc>);

impl PyFeedDesc {
    fn lock(&self) -> MutexGuard<'_, FeedDesc> {
        self.0.lock().even_if_poisoned()
    }

    fn change(
        &self,
        names: &[String],
        method: &'static str,
        change: fn(&mut SlotDesc),
    ) -> PyResult<()> {
        let mut desc = self.lock();
        for name in names {
            change(desc.slot_mut(name, method).map_err(|error| match error {
                Error::NoSuchSlot { slot, .. } => PyKeyError::new_err(slot),
                error => from_data(error),
            })?);
        }
        Ok(())
    }
}

#[pymethods]
impl PyFeedDesc {
    #[new]
    fn new(proto_file: PathBuf) -> PyResult<Self> {
        let text = std::fs::read_to_string(&proto_file).map_err(|error| {
            let name = proto_file.display().to_string();
            PyOSError::new_err((error.raw_os_error(), error.to_string(), name))
        })?;
        let mut desc: FeedDesc = text.parse().map_err(from_data)?;
        desc.pipe_command.get_or_insert_with(|| "cat".to_string());
        Ok(Self(Mutex::new(desc)))
    }

    /// How many samples a batch has.
    fn set_batch_size(&self, batch_size: i32) {
        self.lock().batch_size = Some(batch_size);
    }

    /// Slots that have a shape instead of sequences.
    fn set_dense_slots(&self, dense_slots_name: Vec<String>) -> PyResult<()> {
        self.change(&dense_slots_name, "set_dense_slots", |slot| slot.is_dense = Some(true))
    }

    /// Slots that are fed to the program.
    fn set_use_slots(&self, use_slots_name: Vec<String>) -> PyResult<()> {
        self.change(&use_slots_name, "set_use_slots", |slot| slot.is_used = Some(true))
    }

    /// The description as protobuf text.
    fn desc(&self) -> String {
        self.lock().to_string()
    }
}
