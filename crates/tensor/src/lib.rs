//! Numbers only: tensors, ragged offsets, keyed rows, random streams, update rules.
//!
//! **Invariant:** no I/O, no threads, no clock, no environment. Everything here is a pure function
//! of its arguments, so that ops, tables and tests can share it.

mod buffer;
mod collective;
mod dtype;
mod error;
mod float;
pub mod gemm;
mod kernel;
mod keyed;
mod lod;
mod mix;
mod no_memory;
mod other_rows;
mod outside;
mod packed;
mod pool;
mod prefetch;
pub mod rng;
mod row_init;
pub mod rows;
mod shape;
mod tensor;
pub mod update;
mod value;
mod wide;

pub use buffer::{Buffer, LENT_BYTES_MIN, Memory, MemoryPlace};
pub use collective::{Collective, ReduceOp};
pub use dtype::{Bool, DType, Element};
pub use error::{Error, Result};
pub use float::{Float, Number};
#[doc(hidden)]
pub use kernel::{HasKernel, Kernel};
pub use keyed::{KeyedTable, ReadRows};
pub use lod::Lod;
pub use mix::{mix, unit};
pub use no_memory::{
    give_up, list_or_give_up, out_of_memory, resize_or_give_up, room_or_give_up, within_memory,
};
pub use other_rows::{Dealt, OtherRow, OtherRows, RowStart, TakenIn};
pub use packed::{Finish, PackedMatrix};
pub use pool::Pool;
pub use prefetch::{prefetch, prefetch_row};
pub use row_init::{Distribution, RowInit};
pub use rows::{MergeScratch, Rows, is_row};
pub use shape::{AxisSplit, RANK_MAX, Shape};
pub use tensor::Tensor;
pub use value::Value;
pub use wide::wide;
