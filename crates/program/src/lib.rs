//! The computation: programs as data, operators, layers, gradients.
//!
//! **Invariant:** pure. A program can be built, differentiated, printed and pruned with no socket,
//! file, thread or clock in reach; an op reaches the world through [`op::Host`].

pub mod attr;
pub mod backward;
pub mod block;
mod builder;
pub mod distributed;
mod dtypes;
mod error;
pub mod init;
pub mod layers;
mod local;
pub mod memory;
pub mod names;
mod nesting;
pub mod op;
pub mod optimizer;
mod param;
mod print;
mod program;
mod prune;
pub mod remote;
pub mod role;
mod serial;
mod site;
pub mod stream;
pub mod trainers;
pub mod var;
mod weight_norm;

pub use attr::{Attr, Attrs};
pub use block::{Block, OpDesc};
pub use builder::{Builder, Net, NewParam, Var};
pub use distributed::Distributed;
pub use error::{Error, Result, id_text};
pub use names::UniqueNames;
pub use optimizer::Optimizer;
pub use param::{GradClip, Initializer, ParamAttr, ParamInfo, Regularizer, WeightNorm};
pub use program::{BlockId, Program};
pub use serial::wire::WireWriter;
pub use site::{Frame, Site, Trace};
pub use var::{Meta, VarDesc, VarKind};
