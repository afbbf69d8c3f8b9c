//! A variable that several threads train at the same time.
//!
//! Readers share its tensor. A writer takes it away: earlier readers keep the old numbers, and the
//! writer continues with a copy, unless there is no reader. A table is too large to copy, so its
//! writer waits until the readers are done. No change is ever lost.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use base::EvenIfPoisoned;
use tensor::{Tensor, Value};

#[derive(Debug)]
pub(crate) struct Cell {
    /// Never copied.
    is_table: bool,
    state: Mutex<CellState>,
    free: Condvar,
}

#[derive(Debug, Default)]
struct CellState {
    value: Value,
    n_readers: usize,
    n_waiting: usize,
    /// A writer has the value.
    is_out: bool,
    /// Old numbers whose last reader is done: memory for the next copy.
    spare: Option<Tensor>,
}

impl Cell {
    pub(crate) fn new(value: Value, is_table: bool) -> Self {
        let state = Mutex::new(CellState { value, ..CellState::default() });
        Self { is_table, state, free: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, CellState> {
        self.state.lock().even_if_poisoned()
    }

    fn wait_until(&self, is_free: impl Fn(&CellState) -> bool) -> MutexGuard<'_, CellState> {
        let mut state = self.lock();
        while !is_free(&state) {
            state.n_waiting += 1;
            state = self.free.wait(state).even_if_poisoned();
            state.n_waiting -= 1;
        }
        state
    }

    fn wake(&self, state: MutexGuard<'_, CellState>) {
        let is_awaited = state.n_waiting > 0;
        drop(state);
        if is_awaited {
            self.free.notify_all();
        }
    }

    /// The value, to read until [`Cell::hand_back`].
    pub(crate) fn borrow(&self) -> Value {
        let mut state = self.wait_until(|state| !state.is_out);
        state.n_readers += 1;
        match state.value.share() {
            Some(shared) => Value::Shared(shared),
            None => state.value.clone(),
        }
    }

    /// Ends a [`Cell::borrow`].
    pub(crate) fn hand_back(&self, borrowed: Value) {
        let mut state = self.lock();
        state.n_readers -= 1;
        if let Value::Shared(tensor) = borrowed {
            // Gone from the variable, and this was its last reader.
            state.spare = Arc::into_inner(tensor).or(state.spare.take());
        }
        self.wake(state);
    }

    /// The value, to change until [`Cell::put`].
    pub(crate) fn take(&self) -> Value {
        let is_free = |state: &CellState| !(state.is_out || self.is_table && state.n_readers > 0);
        let mut state = self.wait_until(is_free);
        state.is_out = true;
        let (value, spare) = (std::mem::take(&mut state.value), state.spare.take());
        drop(state);
        let Value::Shared(tensor) = value else { return value };
        Value::Tensor(Arc::try_unwrap(tensor).unwrap_or_else(|read| {
            let mut copy = spare.unwrap_or_default();
            copy.copy_from(&read);
            copy
        }))
    }

    /// Ends a [`Cell::take`].
    pub(crate) fn put(&self, value: Value) {
        let mut state = self.lock();
        state.value = value;
        state.is_out = false;
        self.wake(state);
    }

    /// Looks at the value.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&Value) -> R) -> R {
        let value = self.borrow();
        let seen = look(&value);
        self.hand_back(value);
        seen
    }

    /// Changes the value.
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut Value) -> R) -> R {
        let mut value = self.take();
        let changed = change(&mut value);
        self.put(value);
        changed
    }

    /// The value, when nobody trains any more.
    pub(crate) fn end(&self) -> Value {
        let mut value = self.take();
        let rest = std::mem::take(&mut value);
        self.put(Value::Empty);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: &Value) -> f64 {
        value.tensor().map_or(f64::NAN, |tensor| tensor.get_f64(0))
    }

    #[test]
    fn readers_keep_what_they_read_and_writers_go_on() {
        let cell = Cell::new(Tensor::full([1], 1.0f32).into(), false);
        let old = cell.borrow();
        cell.write(|value| *value = Tensor::full([1], 2.0f32).into());
        assert_eq!(number(&old), 1.0);
        cell.hand_back(old);
        assert_eq!(cell.read(number), 2.0);
        assert_eq!(number(&cell.end()), 2.0);
    }

    #[test]
    fn no_change_is_lost() {
        for is_table in [false, true] {
            let cell = Cell::new(Tensor::full([1], 0.0f32).into(), is_table);
            std::thread::scope(|threads| {
                for _ in 0..4 {
                    threads.spawn(|| {
                        for _ in 0..500 {
                            let seen = cell.read(number);
                            cell.write(|value| {
                                let Value::Tensor(tensor) = value else { panic!("{value:?}") };
                                assert!(tensor.get_f64(0) >= seen);
                                tensor.data_mut::<f32>().unwrap()[0] += 1.0;
                            });
                        }
                    });
                }
            });
            assert_eq!(cell.read(number), 2000.0);
        }
    }

    #[test]
    fn the_writer_of_a_table_waits_for_its_readers() {
        let cell = Cell::new(Tensor::full([1], 1.0f32).into(), true);
        let read = cell.borrow();
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| cell.write(|value| number(value)));
            while cell.lock().n_waiting == 0 {
                std::thread::yield_now();
            }
            assert!(!writer.is_finished());
            cell.hand_back(read);
            assert_eq!(writer.join().unwrap(), 1.0);
        });
    }
}
