//! The state at a cut that only a trainer has, as bytes that a server keeps for it.

use std::collections::BTreeMap;

use base::bytes::{ByteReader, ByteWriter};
use base::formats::TRAINER_STATE;
use tensor::{Rows, Tensor, Value};

use super::bytes::{ReadValues, WriteValues};
use super::passes::{Former, Passes};
use crate::error::{Error, Result};

/// The version before: without passes.
const WITHOUT_PASSES: u8 = 2;

/// Where a script stood at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptPosition {
    /// Events that were over.
    pub(crate) event: u64,
    /// The next event had begun: what the script changed between both is in the state.
    pub(crate) is_at_start: bool,
    /// The progress of the next event, a pass.
    pub(crate) inside: Option<Vec<u8>>,
}

/// How gradients were sent in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sender {
    /// It was never asked for.
    #[default]
    Never,
    Runs,
    Stopped,
}

impl Sender {
    const ALL: [Sender; 3] = [Sender::Never, Sender::Runs, Sender::Stopped];
}

/// Variables by name.
pub(crate) type NamedValues = BTreeMap<String, Value>;

/// Variables of which several devices have their own, by name.
pub(crate) type DeviceVars = BTreeMap<String, Vec<Value>>;

/// The state at a cut that only a trainer has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalState {
    pub(crate) position: ScriptPosition,
    /// This trainer has completed its job.
    pub(crate) is_over: bool,
    /// How many all-gathers and all-to-alls the trainer has made.
    pub(crate) n_all_gathers: u64,
    pub(crate) n_exchanges: u64,
    pub(crate) sender: Sender,
    /// Of each scope that the script still has, by the order of their first use: what servers do not
    /// have.
    pub(crate) scopes: BTreeMap<u64, NamedValues>,
    /// Of each set of devices, likewise.
    pub(crate) devices: BTreeMap<u64, DeviceVars>,
    pub(crate) geo: Option<GeoState>,
    /// The passes that it has made.
    pub(crate) passes: Passes,
    /// Those of former trainers, if the job continued with another number of them.
    pub(crate) former: Former,
}

/// Changes that GEO has learnt and servers do not know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GeoState {
    /// Steps since the last exchange.
    pub(crate) n_steps: u32,
    /// Dense parameters: x - old.
    pub(crate) dense: BTreeMap<String, Tensor>,
    /// Tables.
    pub(crate) tables: BTreeMap<String, GeoTable>,
}

/// A table of GEO.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GeoTable {
    /// Rows used since the last exchange.
    pub(crate) touched: Vec<i64>,
    /// x - old, where that is not zero.
    pub(crate) rows: Rows,
}

impl GeoTable {
    /// Its bytes, about.
    fn n_bytes(&self) -> usize {
        let n_ids = self.touched.len() + self.rows.ids.len();
        n_ids * size_of::<i64>() + self.rows.value.bytes().len() + 256
    }
}

impl LocalState {
    /// The first state of trainers that take the place of others, made of theirs.
    pub fn of_others(states: &[Vec<u8>]) -> Result<Self> {
        let (mut own, mut before) = (Vec::new(), Vec::new());
        for bytes in states {
            let state = Self::from_bytes(bytes)?;
            own.push(state.passes);
            // All of them have the same.
            before = state.former.0;
        }
        Ok(Self { former: Former::new(own, before), ..Self::default() })
    }

    /// The state as bytes, which servers keep.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = ByteWriter::default();
        to.u8(TRAINER_STATE.byte());
        to.u64(self.position.event);
        to.u8(u8::from(self.position.is_at_start));
        to.opt_bytes(self.position.inside.as_deref());
        to.u8(u8::from(self.is_over));
        to.u64(self.n_all_gathers);
        to.u64(self.n_exchanges);
        to.u8(self.sender as u8);
        to.count(self.scopes.len());
        for (number, vars) in &self.scopes {
            to.u64(*number);
            write_map(&mut to, vars, ByteWriter::value);
        }
        to.count(self.devices.len());
        for (number, vars) in &self.devices {
            to.u64(*number);
            write_map(&mut to, vars, |to, values| to.values(values.iter()));
        }
        to.u8(u8::from(self.geo.is_some()));
        if let Some(geo) = &self.geo {
            to.u32(geo.n_steps);
            write_map(&mut to, &geo.dense, ByteWriter::tensor);
            write_map(&mut to, &geo.tables, |to, table| {
                to.reserve(table.n_bytes());
                to.ids(&table.touched);
                to.rows(&table.rows);
            });
        }
        self.passes.write(&mut to);
        to.count(self.former.0.len());
        self.former.0.iter().for_each(|passes| passes.write(&mut to));
        to.0
    }

    /// Back from bytes; of no bytes: the state before the first event.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        let mut from = ByteReader::new(bytes);
        let version = from.u8()?;
        if !TRAINER_STATE.can_read(version) {
            return Err(Error::BadState("it was written by another release"));
        }
        let position = ScriptPosition {
            event: from.u64()?,
            is_at_start: from.u8()? != 0,
            inside: from.opt_bytes()?.map(<[u8]>::to_vec),
        };
        let is_over = from.u8()? != 0;
        let (n_all_gathers, n_exchanges) = (from.u64()?, from.u64()?);
        let sender = Sender::ALL.get(usize::from(from.u8()?)).copied();
        let sender = sender.ok_or(Error::BadState("a sender of unknown kind"))?;
        let scopes = read_numbered(&mut from, ByteReader::value)?;
        let devices = read_numbered(&mut from, ByteReader::values)?;
        let geo = match from.u8()? {
            0 => None,
            _ => Some(GeoState {
                n_steps: from.u32()?,
                dense: read_map(&mut from, ByteReader::tensor)?,
                tables: read_map(&mut from, read_table)?,
            }),
        };
        let (mut passes, mut former) = (Passes::default(), Former::default());
        if version > WITHOUT_PASSES {
            passes = Passes::read(&mut from)?;
            let n = from.count()?;
            former.0 = (0..n).map(|_| Passes::read(&mut from)).collect::<Result<_>>()?;
        }
        if !from.is_empty() {
            return Err(Error::BadState("something follows its end"));
        }
        let state =
            Self { position, is_over, n_all_gathers, n_exchanges, sender, ..Self::default() };
        Ok(Self { scopes, devices, geo, passes, former, ..state })
    }
}

fn write_map<T>(
    to: &mut ByteWriter,
    map: &BTreeMap<String, T>,
    mut write: impl FnMut(&mut ByteWriter, &T),
) {
    to.count(map.len());
    for (name, value) in map {
        to.str(name);
        write(to, value);
    }
}

fn read_map<'a, T>(
    from: &mut ByteReader<'a>,
    mut read: impl FnMut(&mut ByteReader<'a>) -> Result<T>,
) -> Result<BTreeMap<String, T>> {
    let mut map = BTreeMap::new();
    for _ in 0..from.count()? {
        let name = from.str()?.to_string();
        map.insert(name, read(from)?);
    }
    Ok(map)
}

fn read_numbered<'a, T>(
    from: &mut ByteReader<'a>,
    read: fn(&mut ByteReader<'a>) -> Result<T>,
) -> Result<BTreeMap<u64, BTreeMap<String, T>>> {
    let n = from.count()?;
    (0..n).map(|_| Ok((from.u64()?, read_map(from, read)?))).collect()
}

fn read_table(from: &mut ByteReader<'_>) -> Result<GeoTable> {
    Ok(GeoTable { touched: from.ids()?, rows: from.rows()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(number: u64) -> Passes {
        let files = vec![data::FileRead { file: "a".to_string(), n_lines: 9 }];
        let mut passes = Passes::default();
        passes.note(number, Some(files), false);
        passes
    }

    fn state() -> LocalState {
        let value = Tensor::new([2, 1], &[0.5f32, -1.5]).unwrap();
        let rows = Rows { ids: vec![3, 900], height: 1000, value: value.clone() };
        LocalState {
            position: ScriptPosition { event: 7, is_at_start: true, inside: Some(vec![1, 2, 3]) },
            is_over: true,
            n_all_gathers: 4,
            n_exchanges: 2,
            sender: Sender::Stopped,
            scopes: [
                (0, [("auc".to_string(), Value::from(Tensor::full([3000], 0i64)))].into()),
                (4, NamedValues::new()),
            ]
            .into(),
            devices: [(1, [("mean".to_string(), vec![value.clone().into(), Value::Empty])].into())]
                .into(),
            geo: Some(GeoState {
                n_steps: 3,
                dense: [("w".to_string(), value)].into(),
                tables: [("t".to_string(), GeoTable { touched: vec![3], rows })].into(),
            }),
            passes: passes(5),
            former: Former::new(vec![passes(0), passes(1)], vec![passes(2)]),
        }
    }

    #[test]
    fn a_state_survives_to_the_bit() {
        let bytes = state().to_bytes();
        assert_eq!(LocalState::from_bytes(&bytes).unwrap(), state());
        assert_eq!(LocalState::from_bytes(&[]).unwrap(), LocalState::default());
        let plain = LocalState::default().to_bytes();
        assert_eq!(LocalState::from_bytes(&plain).unwrap(), LocalState::default());
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = state().to_bytes();
        for end in 1..bytes.len() {
            assert!(LocalState::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0xff;
            // Not every change can be seen, but none does harm.
            let _ = LocalState::from_bytes(&other);
        }
        assert!(LocalState::from_bytes(&[bytes, vec![0]].concat()).is_err());
    }
}
