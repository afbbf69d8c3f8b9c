//! Memory that is not there, in the middle of work that counts on it.
//!
//! Kernels ask for the memory of their outputs in many places and continue at once. Where there is none, the
//! work unwinds to [`within_memory`], which makes an error of it; the process continues.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::error::{Error, Result};

/// The payload of such an unwinding.
struct NoMemory {
    n_bytes: usize,
}

/// Ends the work of the nearest [`within_memory`]: there is no memory for so many bytes.
pub fn give_up(n_bytes: usize) -> ! {
    // Without the hook of panics: this is not a bug, and to print needs memory.
    resume_unwind(Box::new(NoMemory { n_bytes }))
}

/// Does work. Memory that is not there is [`Error::NoMemory`]; a panic stays one.
pub fn within_memory<T>(work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| match out_of_memory(&*panic) {
        Some(error) => error,
        None => resume_unwind(panic),
    })
}

/// The error of work that unwound, if it was for want of memory.
pub fn out_of_memory(panic: &(dyn Any + Send)) -> Option<Error> {
    let NoMemory { n_bytes } = *panic.downcast_ref()?;
    Some(Error::NoMemory { n_bytes })
}

/// Makes room for `n` more elements of a list that grows with its input, or gives up.
pub fn room_or_give_up<T>(list: &mut Vec<T>, n: usize) {
    // Twice as much is a wish, enough is a need.
    if list.try_reserve(n).is_err() && list.try_reserve_exact(n).is_err() {
        give_up(list.len().saturating_add(n).saturating_mul(size_of::<T>()));
    }
}

/// Collects a list that is as long as its input, or gives up.
pub fn list_or_give_up<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let (mut items, mut list) = (items.into_iter(), Vec::new());
    while let Some(item) = items.next() {
        if list.len() == list.capacity() {
            room_or_give_up(&mut list, items.size_hint().0.saturating_add(1));
        }
        list.push(item);
    }
    list
}

/// Makes a list `n` elements long, as [`Vec::resize`] does, or gives up.
pub fn resize_or_give_up<T: Clone>(list: &mut Vec<T>, n: usize, value: T) {
    room_or_give_up(list, n.saturating_sub(list.len()));
    list.resize(n, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Shape, Tensor};

    #[test]
    fn memory_that_is_not_there_is_an_error_and_a_panic_stays_one() {
        let shape = Shape::new(&[1 << 25, 1 << 25]);
        let made = within_memory(|| Tensor::default().resize::<f64>(shape).len());
        assert!(matches!(made, Err(Error::NoMemory { n_bytes }) if n_bytes >= 1 << 53), "{made:?}");
        let grown = within_memory(|| Tensor::full([1, 1 << 25], 0.0f32).grow_rows(1 << 25));
        assert!(matches!(grown, Err(Error::NoMemory { .. })), "{grown:?}");
        let listed = within_memory(|| list_or_give_up(0u64..1 << 60).len());
        assert!(matches!(listed, Err(Error::NoMemory { .. })), "{listed:?}");
        let resized = within_memory(|| resize_or_give_up(&mut vec![1u64], 1 << 60, 0));
        assert!(matches!(resized, Err(Error::NoMemory { .. })), "{resized:?}");
        assert_eq!(list_or_give_up((0..9).filter(|k| k % 2 == 0)), [0, 2, 4, 6, 8]);
        assert_eq!(within_memory(|| 3), Ok(3));
        let panicked = catch_unwind(|| within_memory(|| resume_unwind(Box::new("a bug"))).is_ok());
        assert!(panicked.is_err_and(|panic| out_of_memory(&*panic).is_none()));
    }
}
