//! Choices by name: the model, the loss, the kind of a column, the mode.

use base::DidYouMean;
use program::distributed::Mode;

use crate::error::{Error, Result};

/// A model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Architecture {
    /// Logistic regression: a weight for each category and number.
    Lr,
    /// A factorization machine: logistic regression and products of pairs.
    Fm,
    /// A factorization machine and a deep network on the same table.
    #[default]
    DeepFm,
    /// Logistic regression and a deep network.
    WideDeep,
    /// A deep and cross network.
    Dcn,
}

impl Architecture {
    const NAMES: [(&'static str, Self); 5] = [
        ("lr", Self::Lr),
        ("fm", Self::Fm),
        ("deepfm", Self::DeepFm),
        ("widedeep", Self::WideDeep),
        ("dcn", Self::Dcn),
    ];

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().map(|(name, _)| name)
    }

    /// The model of a name: `lr`, `fm`, `deepfm`, `widedeep` or `dcn`.
    pub fn from_name(name: &str) -> Result<Self> {
        named("model", name, &Self::NAMES)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        name_of(self, &Self::NAMES)
    }

    pub(crate) fn is_wide(self) -> bool {
        self != Self::Dcn
    }

    pub(crate) fn has_pairs(self) -> bool {
        matches!(self, Self::Fm | Self::DeepFm)
    }

    pub(crate) fn is_deep(self) -> bool {
        matches!(self, Self::DeepFm | Self::WideDeep | Self::Dcn)
    }
}

/// The loss that training minimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// The cross entropy of clicks: the model predicts how likely one is.
    #[default]
    Log,
    /// The squared error: the model predicts a number.
    Squared,
}

impl Loss {
    const NAMES: [(&'static str, Self); 2] = [("log", Self::Log), ("squared", Self::Squared)];

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().map(|(name, _)| name)
    }

    /// The loss of a name.
    pub fn from_name(name: &str) -> Result<Self> {
        named("loss", name, &Self::NAMES)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        name_of(self, &Self::NAMES)
    }
}

/// The kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureKind {
    /// A number, brought to mean 0 and deviation 1.
    Number,
    /// A number with a few large values: its logarithm is used.
    Count,
    /// One of many values, each with numbers of its own.
    Category,
}

impl FeatureKind {
    const NAMES: [(&'static str, Self); 3] =
        [("number", Self::Number), ("count", Self::Count), ("category", Self::Category)];

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().map(|(name, _)| name)
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Result<Self> {
        named("kind of column", name, &Self::NAMES)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        name_of(self, &Self::NAMES)
    }
}

/// How workers keep step, by name.
pub fn mode_from_name(name: &str) -> Result<Mode> {
    let names = || Mode::NAMES.iter().copied();
    Mode::from_name(name).ok_or_else(|| Error::UnknownWord {
        what: "mode",
        name: name.to_string(),
        known: names().collect::<Vec<_>>().join(", "),
        near: DidYouMean::among(name, names()),
    })
}

/// The value of a name in a list of both.
pub(crate) fn named<T: Copy>(
    what: &'static str,
    name: &str,
    all: &[(&'static str, T)],
) -> Result<T> {
    let known = || all.iter().map(|&(known, _)| known);
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|&(_, value)| value).ok_or_else(|| Error::UnknownWord {
        what,
        name: name.to_string(),
        known: known().collect::<Vec<_>>().join(", "),
        near: DidYouMean::among(name, known()),
    })
}

/// The name of a value in a list of both.
pub(crate) fn name_of<T: Copy + PartialEq>(value: T, all: &[(&'static str, T)]) -> &'static str {
    let found = all.iter().find(|(_, known)| *known == value);
    found.expect("every value has a name").0
}
