//! Tables that no memory holds, in a process without servers: a row exists once an update has changed it.
//!
//! The op that starts such a table makes one without rows. An update gets the rows that exist under the names of the
//! whole table, and the places of the gradient's rows instead of their numbers, as it does on servers.

use std::mem;
use std::sync::Arc;

use program::distributed::{TableTooLarge, WHOLE_BYTES_MAX, table_bytes};
use program::op::{Untouched, host_error, row_init};
use program::{OpDesc, Program};
use tensor::{
    DType, Dealt, KeyedTable, OtherRow, OtherRows, RowInit, RowStart, TakenIn, Value,
    list_or_give_up, within_memory,
};

use super::step::Step;

/// The part that an op may have in a table that no memory holds, as far as its program says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyedPart {
    /// It starts a variable that stays.
    Start,
    /// It updates a parameter.
    Update,
    /// Nothing.
    None,
}

impl KeyedPart {
    /// The part of this op of a block.
    pub(super) fn of(desc: &OpDesc, program: &Program, block: usize) -> Self {
        let stays =
            |name: &String| program.find_var(block, name).is_some_and(|var| var.persistable);
        if !desc.input_names("Param").is_empty() {
            Self::Update
        } else if desc.inputs.is_empty() && desc.output_names("Out").iter().any(stays) {
            Self::Start
        } else {
            Self::None
        }
    }
}

/// The table that an op starts and that is too large to hold whole, and its destination: a table without rows.
pub(super) fn started(step: &Step) -> program::Result<Option<(usize, Value)>> {
    let attrs = &step.desc.attrs;
    let (&[Some(slot)], true) = (step.wiring.output("Out"), step.desc.inputs.is_empty()) else {
        return Ok(None);
    };
    let &[height, width] = &attrs.ints("shape").unwrap_or_default()[..] else { return Ok(None) };
    let is_float =
        attrs.int("dtype", i64::from(DType::F32.code()))? == i64::from(DType::F32.code());
    if !is_float || height <= 0 || width <= 0 || table_bytes(&[height, width]) <= WHOLE_BYTES_MAX {
        return Ok(None);
    }
    let Some(init) = row_init(&step.desc.kind, attrs)? else { return Ok(None) };
    let init = match init {
        RowInit::Drawn { shape, seed: 0, offset } => {
            RowInit::Drawn { shape, seed: super::fresh_seed(), offset }
        }
        init => init,
    };
    let rule = OtherRow { start: RowStart::Init(init), first: 0, taken_in: TakenIn::All };
    let others = OtherRows { parts: vec![rule], dealt: Dealt::Hash };
    // This needs no memory, even for wide rows: memory is allocated when a row is made.
    let table = KeyedTable::empty(height, width as usize, others)?;
    Ok(Some((slot, Value::Keyed(Arc::new(table)))))
}

/// An update of such a table, while it runs.
pub(super) struct KeyedUpdate {
    /// The table and the states of its optimizer, with their places. Their rows are with the op.
    tables: Vec<(usize, Arc<KeyedTable>)>,
    grad: usize,
    /// The ids in the gradient.
    ids: Vec<i64>,
    height: i64,
}

impl KeyedUpdate {
    /// Gives an update rows and places; nothing if its parameter is whole.
    pub(super) fn begin(step: &Step, vars: &mut [Value]) -> program::Result<Option<Self>> {
        let &[Some(param)] = step.wiring.input("Param") else { return Ok(None) };
        let Value::Keyed(table) = &vars[param] else { return Ok(None) };
        let untouched = step.desc.traits().update;
        let walks = match untouched {
            Some(Untouched::Stay) => false,
            Some(Untouched::StayAtZero) => true,
            _ => {
                let kind = &step.desc.kind;
                let why = format!("`{kind}` changes rows that no gradient lists");
                return Err(too_large(step, table, why));
            }
        };
        let &[Some(grad)] = step.wiring.input("Grad") else { return Ok(None) };
        let Value::Rows(rows) = &vars[grad] else {
            return Err(too_large(step, table, "its gradient is dense".to_string()));
        };
        let ids = list_or_give_up(rows.ids.iter().copied());
        let mut slots: Vec<usize> = vec![param];
        for slot in step.wiring.read().filter(|&slot| matches!(vars[slot], Value::Keyed(_))) {
            if !slots.contains(&slot) {
                slots.push(slot);
            }
        }
        let mut tables = Vec::with_capacity(slots.len());
        for slot in slots {
            if let Value::Keyed(table) = mem::take(&mut vars[slot]) {
                tables.push((slot, table));
            }
        }
        let places = within_memory(|| make_rows(&mut tables, &ids, walks)).and_then(|made| made);
        let n_rows = tables.first().map_or(0, |(_, table)| table.ids().len() as i64);
        let mut update = Self { tables, grad, ids, height: 0 };
        for (slot, table) in &mut update.tables {
            vars[*slot] = Value::Tensor(mem::take(Arc::make_mut(table).value_mut()));
        }
        let (places, result) = match places {
            Ok(places) => (places, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        if let Value::Rows(rows) = &mut vars[grad] {
            update.height = mem::replace(&mut rows.height, n_rows);
            rows.ids = places;
        }
        match result {
            Ok(()) => Ok(Some(update)),
            Err(error) => {
                update.end(vars);
                Err(error.into())
            }
        }
    }

    /// Takes back what the update got.
    pub(super) fn end(self, vars: &mut [Value]) {
        for (slot, mut table) in self.tables {
            if let Value::Tensor(rows) = mem::take(&mut vars[slot]) {
                *Arc::make_mut(&mut table).value_mut() = rows;
            }
            vars[slot] = Value::Keyed(table);
        }
        if let Value::Rows(rows) = &mut vars[self.grad] {
            rows.ids = self.ids;
            rows.height = self.height;
        }
    }
}

/// Makes the rows of a gradient in a table and in the states of its optimizer, each at the same place in all of
/// them. `walks` says that an update looks at all rows that exist.
fn make_rows(
    tables: &mut [(usize, Arc<KeyedTable>)],
    ids: &[i64],
    walks: bool,
) -> tensor::Result<Vec<i64>> {
    let Some(((_, param), states)) = tables.split_first_mut() else { return Ok(Vec::new()) };
    let param = Arc::make_mut(param);
    let places = param.make(ids)?;
    let mut is_alike = true;
    for (_, state) in &mut *states {
        let state = Arc::make_mut(state);
        is_alike &= state.make(ids)? == places
            && state.ids().len() == param.ids().len()
            && (!walks || state.ids() == param.ids());
    }
    if is_alike {
        return Ok(places);
    }
    // They were loaded, or some of them.
    for (_, state) in &*states {
        param.make(state.ids())?;
    }
    for (_, state) in states {
        *state = Arc::new(state.in_order(param.ids())?);
    }
    Ok(places)
}

fn too_large(step: &Step, table: &KeyedTable, why: String) -> program::Error {
    let name = step.desc.input_names("Param").first().cloned().unwrap_or_default();
    let n_bytes = table_bytes(&[table.height(), table.width() as i64]);
    host_error(TableTooLarge { table: name, n_bytes, why })
}
