//! A dataset as Fluid writes it down: its `DataFeedDesc`, in protobuf's text form.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::prototext::{self, FieldValue, TextField, quote};
use crate::settings::Settings;
use crate::slot::{Slot, SlotKind};

/// The class of a description whose slots can be changed.
const MULTI_SLOT: &str = "MultiSlotDataFeed";
/// Messages as Fluid names them.
const FEED: &str = "paddle.framework.DataFeedDesc";
const SLOTS: &str = "paddle.framework.MultiSlotDesc";
const SLOT: &str = "paddle.framework.Slot";

/// A description: `fluid.DataFeedDesc`. `None`: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedDesc {
    /// Fluid's name of the reader.
    pub name: Option<String>,
    /// Samples of a batch.
    pub batch_size: Option<i32>,
    /// The slots of a line, in order.
    pub slots: Option<Vec<SlotDesc>>,
    /// Shell text that each file goes through.
    pub pipe_command: Option<String>,
    /// How many threads read.
    pub thread_num: Option<i32>,
    /// A variable of ranking models.
    pub rank_offset: Option<String>,
    /// Page views of a batch of such models.
    pub pv_batch_size: Option<i32>,
}

/// One slot of a description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotDesc {
    /// The variable it is fed to.
    pub name: Option<String>,
    /// `float` or `uint64`.
    pub kind: Option<String>,
    /// Whether it has a shape instead of sequences.
    pub is_dense: Option<bool>,
    /// Whether it goes into batches.
    pub is_used: Option<bool>,
    /// The shape of a dense slot.
    pub shape: Vec<i32>,
}

impl FeedDesc {
    /// A slot of this name, to be changed by `method`; only descriptions of counted slots have any.
    pub fn slot_mut(&mut self, name: &str, method: &'static str) -> Result<&mut SlotDesc> {
        if self.name.as_deref() != Some(MULTI_SLOT) {
            return Err(Error::NotMultiSlot { method });
        }
        let slots = self.slots.get_or_insert_default();
        let names: Vec<&str> = slots.iter().filter_map(|slot| slot.name.as_deref()).collect();
        match names.iter().rposition(|&found| found == name) {
            Some(at) => Ok(&mut slots[at]),
            None => Err(Error::NoSuchSlot { slot: name.to_string(), slots: names.join(", ") }),
        }
    }

    /// Applies the description to a dataset. Settings that it does not give stay as they are.
    pub fn apply(&self, settings: &mut Settings) -> Result<()> {
        let positive = |setting, value: i32| match usize::try_from(value) {
            Ok(value) if value > 0 => Ok(value),
            _ => {
                let (expected, found) = ("1 or more", value.to_string());
                Err(Error::BadSetting { setting, expected, found })
            }
        };
        if let Some(size) = self.batch_size {
            settings.batch_size = positive("batch_size", size)?;
        }
        if let Some(n) = self.thread_num {
            settings.n_threads = positive("thread_num", n)?;
        }
        if let Some(slots) = &self.slots {
            settings.slots = slots.iter().map(SlotDesc::to_slot).collect::<Result<_>>()?;
        }
        if let Some(command) = &self.pipe_command {
            settings.pipe_command = command.clone();
        }
        settings.rank_offset = self.rank_offset.clone().or(settings.rank_offset.take());
        settings.pv_batch_size = self.pv_batch_size.map(i64::from).or(settings.pv_batch_size);
        Ok(())
    }
}

impl SlotDesc {
    fn of(slot: &Slot) -> Self {
        let kind = match slot.kind {
            SlotKind::Float => "float",
            SlotKind::Id => "uint64",
        };
        Self {
            name: Some(slot.name.clone()),
            kind: Some(kind.to_string()),
            is_dense: slot.dense.is_some().then_some(true),
            is_used: slot.used.then_some(true),
            shape: slot.dense.iter().flatten().map(|&dim| dim as i32).collect(),
        }
    }

    fn to_slot(&self) -> Result<Slot> {
        let name = self.name.clone().unwrap_or_default();
        let kind = match self.kind.as_deref() {
            Some("float") => SlotKind::Float,
            Some("uint64") => SlotKind::Id,
            other => {
                let found = other.unwrap_or_default().to_string();
                return Err(Error::SlotType { slot: name, found });
            }
        };
        let shape = || self.shape.iter().map(|&dim| i64::from(dim)).collect();
        let dense = self.is_dense.unwrap_or(false).then(shape);
        Ok(Slot { name, kind, dense, used: self.is_used.unwrap_or(false) })
    }
}

impl Settings {
    /// The description; `class` is what Fluid calls the reader, e.g. `MultiSlotDataFeed`.
    pub fn desc(&self, class: &str) -> FeedDesc {
        let slots = self.slots.iter().map(SlotDesc::of).collect();
        let number = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
        FeedDesc {
            name: Some(class.to_string()),
            batch_size: Some(number(self.batch_size as i64)),
            slots: Some(slots).filter(|slots: &Vec<_>| !slots.is_empty()),
            pipe_command: Some(self.pipe_command.clone()),
            thread_num: None,
            rank_offset: self.rank_offset.clone(),
            pv_batch_size: self.pv_batch_size.map(number),
        }
    }
}

impl fmt::Display for FeedDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        line(f, "name", self.name.as_deref().map(quote))?;
        line(f, "batch_size", self.batch_size)?;
        if let Some(slots) = &self.slots {
            f.write_str("multi_slot_desc {\n")?;
            slots.iter().try_for_each(|slot| slot.fmt(f))?;
            f.write_str("}\n")?;
        }
        line(f, "pipe_command", self.pipe_command.as_deref().map(quote))?;
        line(f, "thread_num", self.thread_num)?;
        line(f, "rank_offset", self.rank_offset.as_deref().map(quote))?;
        line(f, "pv_batch_size", self.pv_batch_size)
    }
}

impl SlotDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("  slots {\n")?;
        line(f, "    name", self.name.as_deref().map(quote))?;
        line(f, "    type", self.kind.as_deref().map(quote))?;
        line(f, "    is_dense", self.is_dense)?;
        line(f, "    is_used", self.is_used)?;
        self.shape.iter().try_for_each(|dim| line(f, "    shape", Some(dim)))?;
        f.write_str("  }\n")
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| writeln!(f, "{name}: {value}"))
}

impl FromStr for FeedDesc {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut desc = Self::default();
        for field in prototext::parse(text)? {
            match field.name.as_str() {
                "name" => once(&mut desc.name, FEED, &field, text_of)?,
                "batch_size" => once(&mut desc.batch_size, FEED, &field, number_of)?,
                "multi_slot_desc" => once(&mut desc.slots, FEED, &field, slots_of)?,
                "pipe_command" => once(&mut desc.pipe_command, FEED, &field, text_of)?,
                "thread_num" => once(&mut desc.thread_num, FEED, &field, number_of)?,
                "rank_offset" => once(&mut desc.rank_offset, FEED, &field, text_of)?,
                "pv_batch_size" => once(&mut desc.pv_batch_size, FEED, &field, number_of)?,
                _ => return Err(unknown(FEED, &field)),
            }
        }
        Ok(desc)
    }
}

fn slots_of(field: &TextField) -> Result<Vec<SlotDesc>> {
    let slot = |field: &TextField| match field.name.as_str() {
        "slots" => slot_of(field),
        _ => Err(unknown(SLOTS, field)),
    };
    message_of(field)?.iter().map(slot).collect()
}

fn slot_of(field: &TextField) -> Result<SlotDesc> {
    let mut slot = SlotDesc::default();
    for field in message_of(field)? {
        match field.name.as_str() {
            "name" => once(&mut slot.name, SLOT, field, text_of)?,
            "type" => once(&mut slot.kind, SLOT, field, text_of)?,
            "is_dense" => once(&mut slot.is_dense, SLOT, field, bool_of)?,
            "is_used" => once(&mut slot.is_used, SLOT, field, bool_of)?,
            "shape" => slot.shape.push(number_of(field)?),
            _ => return Err(unknown(SLOT, field)),
        }
    }
    Ok(slot)
}

/// Takes a field that may be said once.
fn once<T>(
    target: &mut Option<T>,
    message: &str,
    field: &TextField,
    read: impl FnOnce(&TextField) -> Result<T>,
) -> Result<()> {
    if target.is_some() {
        let rule = "should not have multiple";
        let name = &field.name;
        let reason = format!("Message type \"{message}\" {rule} \"{name}\" fields.");
        return Err(field.place.error(reason));
    }
    *target = Some(read(field)?);
    Ok(())
}

fn unknown(message: &str, field: &TextField) -> Error {
    let name = &field.name;
    field.place.error(format!("Message type \"{message}\" has no field named \"{name}\"."))
}

fn wrong(field: &TextField, wanted: &str) -> Error {
    field.place.error(format!("\"{}\" must be {wanted}.", field.name))
}

fn message_of(field: &TextField) -> Result<&[TextField]> {
    match &field.value {
        FieldValue::Message(fields) => Ok(fields),
        _ => Err(wrong(field, "a message in braces")),
    }
}

fn text_of(field: &TextField) -> Result<String> {
    match &field.value {
        FieldValue::Text(text) => Ok(text.clone()),
        _ => Err(wrong(field, "a string in quotation marks")),
    }
}

fn number_of(field: &TextField) -> Result<i32> {
    let number = match &field.value {
        FieldValue::Word(word) => word.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong(field, "a number of 32 bits"))
}

fn bool_of(field: &TextField) -> Result<bool> {
    match &field.value {
        FieldValue::Word(word) if ["true", "t", "True", "1"].contains(&word.as_str()) => Ok(true),
        FieldValue::Word(word) if ["false", "f", "False", "0"].contains(&word.as_str()) => {
            Ok(false)
        }
        _ => Err(wrong(field, "true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"name: "MultiSlotDataFeed"
batch_size: 7
multi_slot_desc {
  slots {
    name: "d"
    type: "float"
    is_dense: true
    is_used: true
    shape: -1
    shape: 2
  }
  slots {
    name: "C1"
    type: "uint64"
    is_used: true
  }
}
pipe_command: "python \"x\" \303\251"
rank_offset: "ro"
pv_batch_size: 4
"#;

    fn settings() -> Settings {
        Settings {
            slots: vec![Slot::floats("d").dense(&[-1, 2]), Slot::ids("C1")],
            batch_size: 7,
            pipe_command: "python \"x\" \u{e9}".to_string(),
            rank_offset: Some("ro".to_string()),
            pv_batch_size: Some(4),
            ..Settings::default()
        }
    }

    #[test]
    fn is_what_fluid_prints() {
        assert_eq!(settings().desc("MultiSlotDataFeed").to_string(), TEXT);
    }

    #[test]
    fn is_read_back_and_tells_a_dataset() {
        let desc: FeedDesc = TEXT.parse().unwrap();
        assert_eq!(desc, settings().desc("MultiSlotDataFeed"));
        let mut told = Settings::default();
        desc.apply(&mut told).unwrap();
        assert_eq!(told, settings());
        let desc: FeedDesc = "multi_slot_desc { slots { name: 'a' type: 'x' } }".parse().unwrap();
        let error = desc.apply(&mut told).unwrap_err();
        assert!(matches!(&error, Error::SlotType { slot, found } if slot == "a" && found == "x"));
        let desc: FeedDesc = "batch_size: -4".parse().unwrap();
        let error = desc.apply(&mut told).unwrap_err();
        assert!(matches!(error, Error::BadSetting { setting: "batch_size", .. }), "{error}");
    }

    #[test]
    fn slots_are_changed_by_name() {
        let mut desc: FeedDesc = TEXT.parse().unwrap();
        desc.slot_mut("C1", "set_dense_slots").unwrap().is_dense = Some(true);
        assert_eq!(desc.slots.as_ref().unwrap()[1].is_dense, Some(true));
        let error = desc.slot_mut("x", "set_use_slots").unwrap_err();
        assert!(matches!(&error, Error::NoSuchSlot { slots, .. } if slots == "d, C1"), "{error}");
        desc.name = Some("Other".to_string());
        let error = desc.slot_mut("d", "set_use_slots").unwrap_err().to_string();
        let expected =
            "Only MultiSlotDataFeed needs set_use_slots, please check your datafeed.proto";
        assert_eq!(error, expected);
    }

    #[test]
    fn what_is_no_description_is_named() {
        let feed = "Message type \"paddle.framework.DataFeedDesc\"";
        let cases = [
            ("bla: 1", format!("1:1 : {feed} has no field named \"bla\".")),
            (
                "name: 'a'\nname: 'b'",
                format!("2:1 : {feed} should not have multiple \"name\" fields."),
            ),
            ("batch_size: x", "1:1 : \"batch_size\" must be a number of 32 bits.".to_string()),
            ("name: 3", "1:1 : \"name\" must be a string in quotation marks.".to_string()),
            (
                "multi_slot_desc { slots { is_used: yes } }",
                "1:27 : \"is_used\" must be true or false.".to_string(),
            ),
            ("multi_slot_desc: 3", "1:1 : \"multi_slot_desc\" must be a message in braces.".into()),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<FeedDesc>().unwrap_err().to_string(), expected);
        }
    }
}
