//! For tests with damaged input: whether anything can be made of bytes.

use tensor::{Rows, Tensor, Value};

use super::journal::{Answers, Journal};
use super::print::{EventKind, EventPrint};
use super::runs::Outcome;
use super::state::{GeoState, GeoTable, LocalState};
use crate::error::Result;

/// So many events are read of a journal, which may say that one was done without end.
const EVENTS_MAX: usize = 10_000;

/// A state and a journal of two events, as servers keep them.
pub fn examples() -> Vec<Vec<u8>> {
    let value = Tensor::full([2, 1], 0.5f32);
    let rows = Rows { ids: vec![3, 900], height: 1000, value: value.clone() };
    let table = GeoTable { touched: vec![3], rows };
    let dense = [("w".to_string(), value.clone())].into();
    let state = LocalState {
        scopes: [(0, [("auc".to_string(), Value::from(Tensor::full([3000], 0i64)))].into())].into(),
        devices: [(2, [("mean".to_string(), vec![value.into(), Value::Empty])].into())].into(),
        geo: Some(GeoState { n_steps: 3, dense, tables: [("t".to_string(), table)].into() }),
        ..LocalState::default()
    };
    let mut journal = Journal::default();
    let print = EventPrint { kind: EventKind::Run, names: 1, values: 2 };
    journal.push(print, &|| "fed x".to_string(), Outcome::Answer(vec![1, 2, 3]));
    journal.push(print, &|| "fed x".to_string(), Outcome::Error("no".to_string()));
    vec![state.to_bytes(), journal.part(0..2)]
}

/// Reads bytes as a state, and as a journal with all its answers.
pub fn read(bytes: &[u8]) -> Result<()> {
    let journal = Answers::read(bytes, 0)
        .map(|mut answers| (0..EVENTS_MAX).take_while(|_| answers.next().is_ok()).for_each(drop));
    LocalState::from_bytes(bytes).map(drop).or(journal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_can_be_read() {
        examples().iter().for_each(|bytes| read(bytes).unwrap());
        assert!(read(&[7]).is_err());
    }
}
