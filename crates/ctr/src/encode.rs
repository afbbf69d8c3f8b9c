//! From columns to numbers and ids: facts that a model learned about its columns, to be used again.

use base::DidYouMean;
use data::{DataFrame, Values, hash_id, room};

use crate::cells::{BadValue, Holds, text_in};
use crate::error::{Error, Result};
use crate::feature::{Feature, Scaling};
use crate::guess;
use crate::settings::Ctr;
use crate::target::CtrTarget;

/// The input of a model: a table, encoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Encoded {
    pub(crate) n_rows: usize,
    /// Rows of numbers, one behind the other.
    pub(crate) numbers: Vec<f32>,
    /// For each category column an id for each row.
    pub(crate) ids: Vec<Vec<i64>>,
}

/// Facts of a model about its columns. They are saved with the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoding {
    /// The columns it reads, in the order of the table it was made from.
    pub features: Vec<Feature>,
    /// The column it predicts.
    pub target: CtrTarget,
    /// Ids are below this.
    pub n_ids: u64,
}

impl Encoding {
    /// Looks at a table.
    pub(crate) fn fit(settings: &Ctr, frame: &DataFrame) -> Result<Self> {
        let names = || frame.series().iter().map(|series| series.name.as_str());
        let target = frame.get(&settings.target).ok_or_else(|| Error::NoTarget {
            target: settings.target.clone(),
            columns: names().collect::<Vec<_>>().join(", "),
            near: DidYouMean::among(&settings.target, names()),
        })?;
        if frame.n_rows() == 0 {
            return Err(Error::NoRows);
        }
        if let Some(column) = settings.kinds.keys().find(|name| frame.get(name).is_none()) {
            let near = DidYouMean::among(column, names());
            return Err(Error::UnknownColumn { column: column.clone(), near });
        }
        let target = CtrTarget::fit(settings, target)?;
        let mut features = Vec::new();
        for series in frame.series().iter().filter(|series| series.name != target.name) {
            features.push(guess::feature(series, settings.kinds.get(&series.name).copied())?);
        }
        if features.is_empty() {
            return Err(Error::NoFeatures { target: target.name });
        }
        let categories = features.iter().filter(|feature| feature.scaling == Scaling::Category);
        let columns = categories.filter_map(|one| Some((&frame.get(&one.name)?.values, one.holds)));
        let different = || guess::n_different(columns);
        let n_ids = settings.n_ids.unwrap_or_else(|| guess::n_ids(different()));
        Ok(Self { features, target, n_ids })
    }

    /// The names of the columns that are numbers.
    pub(crate) fn n_numbers(&self) -> usize {
        self.features.iter().filter(|feature| feature.scaling != Scaling::Category).count()
    }

    /// The category columns.
    pub(crate) fn categories(&self) -> impl Iterator<Item = &Feature> {
        self.features.iter().filter(|feature| feature.scaling == Scaling::Category)
    }

    /// The name of the input of all numbers: `numbers`, unless a column has that name.
    pub(crate) fn numbers_name(&self) -> String {
        let is_taken = |name: &String| {
            *name == self.target.name || self.features.iter().any(|feature| feature.name == *name)
        };
        let mut names =
            ["numbers".to_string()].into_iter().chain((1..).map(|k| format!("numbers_{k}")));
        names.find(|name| !is_taken(name)).expect("there are more names than columns")
    }

    /// The columns of a table that the model does not read.
    pub fn extra_columns(&self, frame: &DataFrame) -> Vec<String> {
        let names = frame.series().iter().map(|series| &series.name);
        let is_extra = |name: &&String| {
            **name != self.target.name && self.features.iter().all(|feature| feature.name != **name)
        };
        names.filter(is_extra).cloned().collect()
    }

    /// The columns that the model reads and a table does not have.
    fn missing(&self, frame: &DataFrame) -> Error {
        let names = self.features.iter().map(|feature| &feature.name);
        let missing = names.filter(|name| frame.get(name).is_none()).cloned().collect();
        Error::missing(missing, &self.extra_columns(frame))
    }

    /// A sentence about the columns of a table that the model does not read, if there are some.
    pub fn warning(&self, frame: &DataFrame) -> Option<String> {
        Self::warning_of(&self.extra_columns(frame))
    }

    /// A sentence about columns that the model does not read, if there are some.
    pub fn warning_of(extra: &[String]) -> Option<String> {
        let names: Vec<String> = extra.iter().map(|name| format!("`{name}`")).collect();
        let what = if names.len() == 1 { "a column" } else { "columns" };
        (!names.is_empty()).then(|| {
            format!("the table has {what} that the model does not read: {}", names.join(", "))
        })
    }

    /// A table as the model reads it. Other columns may be there and are not read.
    pub(crate) fn apply(&self, frame: &DataFrame) -> Result<Encoded> {
        let (n_rows, width) = (frame.n_rows(), self.n_numbers());
        let mut encoded = Encoded { n_rows, numbers: Vec::new(), ids: Vec::new() };
        room(&mut encoded.numbers, n_rows * width)?;
        encoded.numbers.resize(n_rows * width, 0.0);
        let mut place = 0;
        for feature in &self.features {
            let series = frame.get(&feature.name).ok_or_else(|| self.missing(frame))?;
            if feature.scaling == Scaling::Category {
                encoded.ids.push(self.ids(feature, &series.values)?);
                continue;
            }
            for (row, number) in feature.numbers(&series.values)?.into_iter().enumerate() {
                encoded.numbers[row * width + place] = number;
            }
            place += 1;
        }
        Ok(encoded)
    }

    /// The inputs of the program.
    pub(crate) fn feeds(&self) -> Vec<String> {
        let numbers = (self.n_numbers() > 0).then(|| self.numbers_name());
        self.categories().map(|feature| feature.name.clone()).chain(numbers).collect()
    }

    /// Whether a program with these inputs is the one that it is of.
    pub fn fits(&self, feeds: &[String]) -> bool {
        let (mut expected, mut found) = (self.feeds(), feeds.to_vec());
        expected.sort();
        found.sort();
        expected == found
    }

    /// The target of a table, a number for each row.
    pub(crate) fn labels(&self, frame: &DataFrame) -> Result<Vec<f32>> {
        let names = || frame.series().iter().map(|series| series.name.as_str());
        let series = frame.get(&self.target.name).ok_or_else(|| Error::NoTarget {
            target: self.target.name.clone(),
            columns: names().collect::<Vec<_>>().join(", "),
            near: DidYouMean::among(&self.target.name, names()),
        })?;
        self.target.labels(&series.values)
    }

    fn ids(&self, feature: &Feature, values: &Values) -> Result<Vec<i64>> {
        let (slot, mut ids) = (Some(feature.name.as_str()), Vec::new());
        room(&mut ids, values.len())?;
        for row in 0..values.len() {
            let id = match (values, feature.holds) {
                // Texts are what they are, byte by byte.
                (Values::Text(texts) | Values::Cells(texts), Holds::Texts) => {
                    hash_id(texts.get(row), slot, self.n_ids)
                }
                (values, holds) => match text_in(values, row, holds) {
                    Some(text) => hash_id(&*text, slot, self.n_ids),
                    None => return Err(feature.refuse(values, &BadValue(row))),
                },
            };
            ids.push(id);
        }
        Ok(ids)
    }
}
