//! Files: variables one by one or combined, models for inference, Python's pickled state.
//!
//! Every file is written whole or not at all ([`write_atomically`]), and a load reads and checks
//! everything before it changes the first variable.

mod checkpoint;
mod distributed;
mod file;
mod fit;
mod inference;
mod kept;
mod other_model;
mod pickle;
mod progress;
pub mod rows;
mod shards;
mod share;
mod state;
mod tensors;
mod vars;

pub use checkpoint::{Checkpoint, Checkpoints, NewestCheckpoint, is_checkpoint_var};
pub use distributed::{JobScope, load_slices};
pub use distributed::{naming, write_whole};
pub(crate) use file::read_vars;
pub use file::{read, write_atomically};
pub use fit::overlay;
pub use fit::{Fitted, fit_slices, fit_state, fit_vars};
pub use inference::{
    ExtraFile, InferenceModel, SaveInference, load_inference_model, save_inference_model,
};
pub use kept::write_rule;
pub use progress::{Resumed, StepsDone};
pub use state::{load, load_state, save, set_state};
pub use vars::{
    is_persistable, load_params, load_persistables, load_vars, load_vars_from_bytes, save_params,
    save_persistables, save_vars, vars_to_bytes,
};
