//! Attributes of an op.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// One attribute, in Fluid's twelve types.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// A whole number.
    Int(i32),
    /// A number.
    Float(f32),
    /// Text.
    Str(String),
    /// Whole numbers.
    Ints(Vec<i32>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Texts.
    Strs(Vec<String>),
    /// A truth value.
    Bool(bool),
    /// Truth values.
    Bools(Vec<bool>),
    /// The number of a block of the program.
    Block(i32),
    /// A large whole number.
    Long(i64),
    /// Numbers of blocks.
    Blocks(Vec<i32>),
    /// Large whole numbers.
    Longs(Vec<i64>),
}

impl Attr {
    /// Its type's number in programs.
    pub fn code(&self) -> usize {
        match self {
            Attr::Int(_) => 0,
            Attr::Float(_) => 1,
            Attr::Str(_) => 2,
            Attr::Ints(_) => 3,
            Attr::Floats(_) => 4,
            Attr::Strs(_) => 5,
            Attr::Bool(_) => 6,
            Attr::Bools(_) => 7,
            Attr::Block(_) => 8,
            Attr::Long(_) => 9,
            Attr::Blocks(_) => 10,
            Attr::Longs(_) => 11,
        }
    }
}

macro_rules! from {
    ($($t:ty => $variant:ident),* $(,)?) => {$(
        impl From<$t> for Attr {
            fn from(value: $t) -> Self {
                Attr::$variant(value.into())
            }
        }
    )*};
}

from! {
    i32 => Int, f32 => Float, &str => Str, String => Str, bool => Bool, i64 => Long,
    Vec<i32> => Ints, Vec<f32> => Floats, Vec<String> => Strs, Vec<bool> => Bools, Vec<i64> => Longs,
}

/// The attributes of an op, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(BTreeMap<String, Attr>);

impl Attrs {
    /// Sets one.
    pub fn set(&mut self, name: &str, value: impl Into<Attr>) {
        self.0.insert(name.to_string(), value.into());
    }

    /// Takes one out.
    pub fn remove(&mut self, name: &str) -> Option<Attr> {
        self.0.remove(name)
    }

    /// One by name.
    pub fn get(&self, name: &str) -> Option<&Attr> {
        self.0.get(name)
    }

    /// All, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(name, attr)| (name.as_str(), attr))
    }

    /// An integer of either width; `default` if the attribute is absent.
    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        match self.get(name) {
            None => Ok(default),
            Some(Attr::Int(value)) => Ok(i64::from(*value)),
            Some(Attr::Long(value)) => Ok(*value),
            // Scripts give an array of one number; so it is a list.
            Some(Attr::Ints(values)) if values.len() == 1 => Ok(i64::from(values[0])),
            Some(Attr::Longs(values)) if values.len() == 1 => Ok(values[0]),
            Some(other) => Err(bad(name, "an integer", other)),
        }
    }

    /// The number of a block. Not that of an integer: the blocks that ops run are checked by the
    /// type of the attribute.
    pub fn block(&self, name: &str) -> Result<usize> {
        match self.get(name) {
            Some(Attr::Block(block)) if *block >= 0 => Ok(*block as usize),
            None => Err(Error::MissingAttr { attr: name.to_string() }),
            Some(other) => Err(bad(name, "a block", other)),
        }
    }

    /// A float; `default` if absent.
    pub fn float(&self, name: &str, default: f32) -> Result<f32> {
        match self.get(name) {
            None => Ok(default),
            Some(Attr::Float(value)) => Ok(*value),
            Some(Attr::Int(value)) => Ok(*value as f32),
            Some(Attr::Long(value)) => Ok(*value as f32),
            Some(Attr::Bool(value)) => Ok(f32::from(u8::from(*value))),
            Some(Attr::Floats(values)) if values.len() == 1 => Ok(values[0]),
            Some(Attr::Ints(values)) if values.len() == 1 => Ok(values[0] as f32),
            Some(other) => Err(bad(name, "a float", other)),
        }
    }

    /// A truth value; `default` if absent.
    pub fn bool(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Attr::Bool(value)) => Ok(*value),
            Some(Attr::Int(value)) => Ok(*value != 0),
            Some(Attr::Float(value)) => Ok(*value != 0.0),
            Some(Attr::Bools(values)) if values.len() == 1 => Ok(values[0]),
            Some(other) => Err(bad(name, "a boolean", other)),
        }
    }

    /// A string; `default` if absent.
    pub fn str<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str> {
        match self.get(name) {
            None => Ok(default),
            Some(Attr::Str(value)) => Ok(value),
            Some(other) => Err(bad(name, "a string", other)),
        }
    }

    /// Integers of either width; empty if absent.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(Attr::Ints(values) | Attr::Blocks(values)) => {
                Ok(values.iter().map(|&value| i64::from(value)).collect())
            }
            Some(Attr::Longs(values)) => Ok(values.clone()),
            Some(other) => Err(bad(name, "a list of integers", other)),
        }
    }

    /// 64-bit integers as they lie; empty if absent.
    pub fn longs(&self, name: &str) -> Result<&[i64]> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Attr::Longs(values)) => Ok(values),
            Some(other) => Err(bad(name, "a list of 64-bit integers", other)),
        }
    }

    /// Floats; empty if absent.
    pub fn floats(&self, name: &str) -> Result<&[f32]> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Attr::Floats(values)) => Ok(values),
            // An empty list reads back as the type its writer chose.
            Some(Attr::Ints(values)) if values.is_empty() => Ok(&[]),
            Some(other) => Err(bad(name, "a list of floats", other)),
        }
    }

    /// Strings; empty if absent.
    pub fn strs(&self, name: &str) -> Result<&[String]> {
        match self.get(name) {
            None => Ok(&[]),
            Some(Attr::Strs(values)) => Ok(values),
            Some(Attr::Ints(values)) if values.is_empty() => Ok(&[]),
            Some(other) => Err(bad(name, "a list of strings", other)),
        }
    }
}

fn bad(name: &str, expected: &str, actual: &Attr) -> Error {
    let (attr, expected) = (name.to_string(), expected.to_string());
    Error::BadAttr { attr, expected, actual: format!("{actual:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_defaults_and_either_integer_width() {
        let mut attrs = Attrs::default();
        attrs.set("axis", -1);
        attrs.set("padding_idx", -1i64);
        assert_eq!(attrs.int("axis", 0).unwrap(), -1);
        assert_eq!(attrs.int("padding_idx", 0).unwrap(), -1);
        assert_eq!(attrs.int("absent", 7).unwrap(), 7);
    }

    #[test]
    fn a_list_of_one_is_the_number_in_it() {
        let mut attrs = Attrs::default();
        attrs.set("axis", vec![2]);
        attrs.set("scale", vec![0.5f32]);
        attrs.set("flag", vec![true]);
        assert_eq!(attrs.int("axis", 0).unwrap(), 2);
        assert_eq!(attrs.float("axis", 0.0).unwrap(), 2.0);
        assert_eq!(attrs.float("scale", 0.0).unwrap(), 0.5);
        assert!(attrs.bool("flag", false).unwrap());
        attrs.set("axis", vec![2, 3]);
        assert!(attrs.int("axis", 0).is_err() && attrs.float("axis", 0.0).is_err());
    }

    #[test]
    fn names_the_attribute_of_the_wrong_type() {
        let mut attrs = Attrs::default();
        attrs.set("axis", "one");
        let error = attrs.int("axis", 0).unwrap_err();
        assert!(matches!(error, Error::BadAttr { ref attr, .. } if attr == "axis"), "{error}");
    }
}
