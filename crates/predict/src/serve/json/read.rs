//! Reads the two forms of a body, value by value.

use std::fmt;

use serde_core::Deserializer;
use serde_core::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::body::BadBody;

/// A value that is not a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Truth(bool),
    Integer(i64),
    /// An integer of 2^63 or more.
    Large(u64),
    Number(f64),
    Text(&'a str),
    Object,
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Null => f.write_str("null"),
            Scalar::Truth(truth) => write!(f, "{truth}"),
            Scalar::Integer(number) => write!(f, "{number}"),
            Scalar::Large(number) => write!(f, "{number}"),
            Scalar::Number(number) => write!(f, "{number:?}"),
            Scalar::Text(text) => write!(f, "{:?}", &text[..text.floor_char_boundary(40)]),
            Scalar::Object => f.write_str("an object"),
        }
    }
}

/// A receiver of the values. A column is known by its number.
pub(super) trait ColumnSink {
    /// The number of a column; `None` if it is not read.
    fn find(&self, name: &str) -> Result<Option<usize>, BadBody>;
    /// A column of its own begins.
    fn begin_column(&mut self, at: usize) -> Result<(), BadBody>;
    /// Rows begin: they have all columns.
    fn begin_rows(&mut self);
    /// A list begins, in a sample.
    fn list(&mut self, at: usize) -> Result<(), BadBody>;
    /// A value of a sample.
    fn value(&mut self, at: usize, value: Scalar<'_>) -> Result<(), BadBody>;
    /// The sample has no more values.
    fn end_sample(&mut self, at: usize) -> Result<(), BadBody>;
    /// The row has no more samples.
    fn end_row(&mut self) -> Result<(), BadBody>;
}

/// Reads a body.
pub(super) fn read(body: &[u8], sink: &mut dyn ColumnSink) -> Result<(), BadBody> {
    let mut reading = Reading { sink, failed: None };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = BodyPart::Body.of(&mut reading).deserialize(&mut json).and_then(|_| json.end());
    match (reading.failed, read) {
        (Some(problem), _) => Err(problem),
        (None, Ok(())) => Ok(()),
        (None, Err(error)) if error.is_data() => Err(BadBody::Form(error.to_string())),
        (None, Err(error)) => Err(BadBody::Json(error)),
    }
}

struct Reading<'a> {
    sink: &'a mut dyn ColumnSink,
    /// The reason of a failure, in our words.
    failed: Option<BadBody>,
}

impl Reading<'_> {
    fn check<T, E: de::Error>(&mut self, outcome: Result<T, BadBody>) -> Result<T, E> {
        outcome.map_err(|problem| {
            self.failed = Some(problem);
            E::custom("")
        })
    }
}

/// A place in a body.
#[derive(Clone, Copy)]
enum BodyPart {
    Body,
    Columns,
    Column(usize),
    Rows,
    Row,
    Sample(usize),
    /// The values in a list of a sample.
    Inner(usize),
}

impl BodyPart {
    fn of<'r, 'a>(self, reading: &'r mut Reading<'a>) -> PartReader<'r, 'a> {
        PartReader { part: self, reading }
    }
}

struct PartReader<'r, 'a> {
    part: BodyPart,
    reading: &'r mut Reading<'a>,
}

impl<'de> DeserializeSeed<'de> for PartReader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        match self.part {
            BodyPart::Body | BodyPart::Columns | BodyPart::Row => json.deserialize_map(self),
            BodyPart::Column(_) | BodyPart::Rows => json.deserialize_seq(self),
            BodyPart::Sample(at) => {
                let reading = &mut *self.reading;
                BodyPart::Inner(at).of(reading).deserialize(json)?;
                let ended = reading.sink.end_sample(at);
                reading.check(ended)
            }
            BodyPart::Inner(_) => json.deserialize_any(self),
        }
    }
}

impl PartReader<'_, '_> {
    fn scalar<E: de::Error>(self, value: Scalar<'_>) -> Result<(), E> {
        match self.part {
            BodyPart::Inner(at) => {
                let taken = self.reading.sink.value(at, value);
                self.reading.check(taken)
            }
            _ => Err(E::custom("a value where none is expected")),
        }
    }
}

impl<'de> Visitor<'de> for PartReader<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.part {
            BodyPart::Body => "an object with \"columns\" or \"rows\"",
            BodyPart::Columns => "an object with a list of samples for each slot",
            BodyPart::Column(_) => "a column, which is a list of samples",
            BodyPart::Rows => "a list of rows",
            BodyPart::Row => "a row, which is an object with a value for each slot",
            BodyPart::Sample(_) | BodyPart::Inner(_) => "a value, or a list of values",
        })
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.scalar(Scalar::Null)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<(), E> {
        self.scalar(Scalar::Truth(truth))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.scalar(Scalar::Integer(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.scalar(i64::try_from(number).map_or(Scalar::Large(number), Scalar::Integer))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        self.scalar(Scalar::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.scalar(Scalar::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let reading = self.reading;
        let inner = match self.part {
            BodyPart::Column(at) => BodyPart::Sample(at),
            BodyPart::Rows => BodyPart::Row,
            BodyPart::Inner(at) => {
                let begun = reading.sink.list(at);
                reading.check(begun)?;
                BodyPart::Inner(at)
            }
            _ => return Err(de::Error::custom("a list where none is expected")),
        };
        while list.next_element_seed(inner.of(reading))?.is_some() {
            if let BodyPart::Row = inner {
                let ended = reading.sink.end_row();
                reading.check(ended)?;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reading = self.reading;
        match self.part {
            BodyPart::Body => {
                let form = BodyKey::Form.of(reading);
                let part = map.next_key_seed(form)?.ok_or_else(|| de::Error::custom(FORM))?;
                map.next_value_seed(part.of(reading))?;
                match map.next_key_seed(BodyKey::Form.of(reading))? {
                    Some(_) => Err(de::Error::custom(FORM)),
                    None => Ok(()),
                }
            }
            BodyPart::Columns => {
                while let Some(part) = map.next_key_seed(BodyKey::Column.of(reading))? {
                    match part {
                        BodyPart::Column(_) => map.next_value_seed(part.of(reading))?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(())
            }
            BodyPart::Row => {
                while let Some(part) = map.next_key_seed(BodyKey::Slot.of(reading))? {
                    match part {
                        BodyPart::Sample(_) => map.next_value_seed(part.of(reading))?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(())
            }
            _ => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                PartReader { part: self.part, reading }.scalar(Scalar::Object)
            }
        }
    }
}

const FORM: &str = "the body is not an object with one of \"columns\" and \"rows\"";

/// The meaning of a name in an object.
#[derive(Clone, Copy)]
enum BodyKey {
    /// One of the two forms.
    Form,
    /// A column of its own.
    Column,
    /// A value of a row.
    Slot,
}

impl BodyKey {
    fn of<'r, 'a>(self, reading: &'r mut Reading<'a>) -> KeyReader<'r, 'a> {
        KeyReader { key: self, reading }
    }
}

struct KeyReader<'r, 'a> {
    key: BodyKey,
    reading: &'r mut Reading<'a>,
}

impl<'de> DeserializeSeed<'de> for KeyReader<'_, '_> {
    type Value = BodyPart;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<BodyPart, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeyReader<'_, '_> {
    type Value = BodyPart;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    /// The part that follows the name; [`BodyPart::Body`] if it is not read.
    fn visit_str<E: de::Error>(self, name: &str) -> Result<BodyPart, E> {
        let reading = self.reading;
        match (self.key, name) {
            (BodyKey::Form, "columns") => return Ok(BodyPart::Columns),
            (BodyKey::Form, "rows") => {
                reading.sink.begin_rows();
                return Ok(BodyPart::Rows);
            }
            (BodyKey::Form, _) => return Err(E::custom(FORM)),
            (BodyKey::Column | BodyKey::Slot, _) => {}
        }
        let found = reading.sink.find(name);
        let Some(at) = reading.check(found)? else { return Ok(BodyPart::Body) };
        match self.key {
            BodyKey::Slot => Ok(BodyPart::Sample(at)),
            BodyKey::Form | BodyKey::Column => {
                let begun = reading.sink.begin_column(at);
                reading.check(begun).map(|()| BodyPart::Column(at))
            }
        }
    }
}
