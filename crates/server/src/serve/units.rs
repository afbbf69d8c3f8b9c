//! Which tables of a round one thread has to change, and which may be changed at the same time.

use std::collections::BTreeMap;

use protocol::server::{TableGrads, Unit};
use wire::message::Grad;

use super::blocks::Update;
use super::values::n_bytes_of;

/// Gradients of fewer bytes are not worth a thread of their own.
const UNIT_BYTES_MIN: usize = 128 << 10;

/// Tables that depend on each other, because one writes a variable that another one uses; each group in
/// the order of the program.
#[derive(Debug)]
pub(super) struct Groups(Vec<Vec<usize>>);

/// A unit and the bytes of its gradients.
struct Weighed {
    unit: Unit,
    n_bytes: usize,
}

impl Groups {
    pub(super) fn new(updates: &[Update]) -> Self {
        let mut by_var: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, update) in updates.iter().enumerate() {
            update.names().for_each(|name| by_var.entry(name).or_default().push(at));
        }
        let is_written = |name: &str, at: usize| updates[at].writes.iter().any(|var| var == name);
        // The first table of the group that each is in.
        let mut first: Vec<usize> = (0..updates.len()).collect();
        for (name, users) in by_var {
            if users.len() > 1 && users.iter().any(|&at| is_written(name, at)) {
                let to = users.iter().map(|&at| first[at]).min().unwrap_or(0);
                let joined: Vec<usize> = users.iter().map(|&at| first[at]).collect();
                first.iter_mut().filter(|it| joined.contains(it)).for_each(|it| *it = to);
            }
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, first) in first.into_iter().enumerate() {
            groups.entry(first).or_default().push(at);
        }
        Self(groups.into_values().collect())
    }

    /// The units of a round, the longest first; `grads` are by table.
    pub(super) fn units(&self, mut grads: Vec<Vec<Grad>>) -> Vec<Unit> {
        let (mut long, mut short) = (Vec::new(), Weighed { unit: Unit::default(), n_bytes: 0 });
        for group in &self.0 {
            let take = |&table: &usize| {
                let grads = grads.get_mut(table).map(std::mem::take).unwrap_or_default();
                TableGrads { table, grads }
            };
            let tables: Vec<TableGrads> = group.iter().map(take).collect();
            let all = tables.iter().flat_map(|table| &table.grads);
            let n_bytes = all.map(|grad| n_bytes_of(&grad.value)).sum();
            if n_bytes >= UNIT_BYTES_MIN {
                long.push(Weighed { unit: Unit { tables }, n_bytes });
            } else {
                short.unit.tables.extend(tables);
                short.n_bytes += n_bytes;
            }
        }
        long.sort_by_key(|weighed| std::cmp::Reverse(weighed.n_bytes));
        match long.last_mut() {
            // Short ones go with a long one, and before it.
            Some(shortest) if short.n_bytes < UNIT_BYTES_MIN => {
                short.unit.tables.append(&mut shortest.unit.tables);
                shortest.unit = short.unit;
            }
            _ if short.unit.tables.is_empty() => {}
            _ => long.push(short),
        }
        long.into_iter().map(|weighed| weighed.unit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::{OpDesc, Program};
    use tensor::{Tensor, Value};

    /// A block that reads some variables and writes others.
    fn update(reads: &[&str], writes: &[&str]) -> Update {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut program = Program::default();
        program.block_mut(0).ops =
            vec![OpDesc::new("some").input("X", own(reads)).output("Out", own(writes))];
        Update { program, grads: Vec::new(), writes: own(writes), trainer_ids: Vec::new() }
    }

    #[test]
    fn tables_that_write_what_others_use_stay_together() {
        let updates = [
            update(&["rate", "a"], &["a"]),
            update(&["rate", "b", "norm"], &["b"]),
            update(&["rate", "c"], &["c", "power"]),
            update(&["d", "power"], &["d"]),
            update(&["e"], &["e", "norm"]),
            update(&["rate", "f", "power"], &["f"]),
            update(&["rate", "g"], &["g"]),
        ];
        let together = [vec![0], vec![1, 4], vec![2, 3, 5], vec![6]];
        assert_eq!(Groups::new(&updates).0, together);
    }

    fn grad(n_bytes: usize) -> Vec<Grad> {
        let value = Value::Tensor(Tensor::full([n_bytes / 4], 0f32));
        vec![Grad { var: wire::VarId(0), value }]
    }

    fn tables(units: &[Unit]) -> Vec<Vec<usize>> {
        let of_unit = |unit: &Unit| unit.tables.iter().map(|table| table.table).collect();
        units.iter().map(of_unit).collect()
    }

    #[test]
    fn long_tables_are_units_and_short_ones_go_before_the_shortest() {
        let groups = Groups(vec![vec![0], vec![1, 3], vec![2], vec![4]]);
        let (long, longer) = (UNIT_BYTES_MIN, 2 * UNIT_BYTES_MIN);
        let units = |sizes: [usize; 5]| tables(&groups.units(sizes.map(grad).into()));
        assert_eq!(units([long, 8, 8, 8, longer]), [vec![4], vec![1, 3, 2, 0]]);
        assert_eq!(units([8; 5]), [vec![0, 1, 3, 2, 4]], "one thread is enough");
        assert_eq!(units([8, long, 8, long, 8]), [vec![0, 2, 4, 1, 3]]);
        let half = long / 2;
        assert_eq!(units([half, longer, half, 8, half]), [vec![1, 3], vec![0, 2, 4]]);
    }

    #[test]
    fn a_table_without_gradients_is_in_a_unit_too() {
        let groups = Groups(vec![vec![0], vec![1]]);
        assert_eq!(tables(&groups.units(vec![Vec::new(), Vec::new()])), [vec![0, 1]]);
        assert_eq!(Groups(Vec::new()).units(Vec::new()), []);
    }
}
