//! Output: a table of the columns, and lines about progress.

use crate::encode::Encoding;
use crate::feature::{Feature, Scaling};
use crate::words::Loss;

impl Encoding {
    /// A line for each column: its name, its kind, its encoding.
    pub fn table(&self) -> Vec<String> {
        let mut rows = vec![["column".to_string(), "kind".to_string(), "encoded as".to_string()]];
        for feature in &self.features {
            let kind = feature.kind().name().to_string();
            rows.push([feature.name.clone(), kind, self.how(feature)]);
        }
        let target = match self.target.loss {
            Loss::Log => {
                format!("1 is `{}`, 0 is `{}`", self.target.classes[1], self.target.classes[0])
            }
            Loss::Squared => "a number".to_string(),
        };
        rows.push([self.target.name.clone(), "target".to_string(), target]);
        let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let (first, second) = (width(0), width(1));
        let line = |row: &[String; 3]| format!("{:first$}  {:second$}  {}", row[0], row[1], row[2]);
        rows.iter().map(line).collect()
    }

    fn how(&self, feature: &Feature) -> String {
        match feature.scaling {
            Scaling::Standard { mean, scale } => {
                format!("(x - {mean:.4}) / {scale:.4}; missing: the mean")
            }
            Scaling::Log => "log(1 + |x|) with the sign of x; missing: 0".to_string(),
            Scaling::Category => {
                format!("hash_id(x, {}, slot=\"{}\"); missing: \"\"", self.n_ids, feature.name)
            }
        }
    }
}
