//! From columns to numbers and ids: what a model learned about its columns, to be used again.

use data::{DataFrame, Series, Values, hash_id};
use tensor::DidYouMean;

use crate::cells::{is_all_missing, text_of};
use crate::error::{Error, Result};
use crate::feature::{Feature, Scaling};
use crate::guess;
use crate::settings::Ctr;
use crate::target::CtrTarget;

/// What is fed: a table, encoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Encoded {
    pub(crate) n_rows: usize,
    /// Rows of numbers, one behind the other.
    pub(crate) numbers: Vec<f32>,
    /// For each category column an id for each row.
    pub(crate) ids: Vec<Vec<i64>>,
}

/// What a model knows of its columns. It is saved with the model.
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
        let is_category = |series: &&Series| {
            features.iter().any(|one| one.name == series.name && one.scaling == Scaling::Category)
        };
        let different =
            || guess::n_different(frame.series().iter().filter(is_category).map(|one| &one.values));
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

    /// A table as the model reads it. The target may be there and is not read.
    pub(crate) fn apply(&self, frame: &DataFrame) -> Result<Encoded> {
        let names = || self.features.iter().map(|feature| feature.name.as_str());
        for series in frame.series() {
            if series.name != self.target.name && !names().any(|name| name == series.name) {
                let near = DidYouMean::among(&series.name, names());
                return Err(Error::ExtraColumn { column: series.name.clone(), near });
            }
        }
        let (n_rows, width) = (frame.n_rows(), self.n_numbers());
        let mut encoded = Encoded { n_rows, numbers: vec![0.0; n_rows * width], ids: Vec::new() };
        let mut place = 0;
        for feature in &self.features {
            let missing = || Error::MissingColumn { column: feature.name.clone() };
            let series = frame.get(&feature.name).ok_or_else(missing)?;
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
        let found = match values {
            Values::Text(_) => "texts",
            Values::Whole(_) | Values::Float(_) => "numbers",
            // Of a file without types both can be made.
            Values::Cells(_) if feature.holds_texts => "texts",
            Values::Cells(_) => "numbers",
        };
        let expected = if feature.holds_texts { "texts" } else { "numbers" };
        if found != expected && !is_all_missing(values) {
            return Err(Error::ColumnType { column: feature.name.clone(), expected, found });
        }
        let (slot, n) = (Some(feature.name.as_str()), self.n_ids);
        Ok(match values {
            Values::Text(texts) => texts.iter().map(|text| hash_id(text, slot, n)).collect(),
            Values::Cells(texts) if feature.holds_texts => {
                texts.iter().map(|text| hash_id(text, slot, n)).collect()
            }
            // Numbers have the same ids in all tables, however they are written.
            _ => (0..values.len()).map(|row| hash_id(&*text_of(values, row), slot, n)).collect(),
        })
    }
}
