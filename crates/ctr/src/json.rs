//! The encoding as the file `ctr.json` of a saved model.
//!
//! Numbers are written as texts: every reader gets the same bits back.

use base::formats::CTR;
use serde_json::{Value, json};

use crate::cells::Holds;
use crate::encode::Encoding;
use crate::feature::{Feature, Scaling};
use crate::target::CtrTarget;
use crate::words::Loss;

/// The name of the file.
pub(crate) const FILE: &str = "ctr.json";

/// The bytes of the file.
pub(crate) fn to_bytes(encoding: &Encoding) -> Vec<u8> {
    let feature = |feature: &Feature| {
        let mut written = json!({
            "name": feature.name,
            "kind": feature.kind().name(),
            "texts": feature.holds == Holds::Texts,
        });
        if feature.holds == Holds::Times {
            written["times"] = json!(true);
        }
        if let Scaling::Standard { mean, scale } = feature.scaling {
            written["mean"] = json!(mean.to_string());
            written["scale"] = json!(scale.to_string());
        }
        written
    };
    let target = &encoding.target;
    let written = json!({
        "version": CTR.version,
        "target": {
            "name": target.name,
            "loss": target.loss.name(),
            "classes": target.classes,
        },
        "ids": encoding.n_ids,
        "columns": encoding.features.iter().map(feature).collect::<Vec<_>>(),
    });
    let mut bytes = serde_json::to_vec_pretty(&written).expect("texts and numbers can be written");
    bytes.push(b'\n');
    bytes
}

/// The encoding of a file, or the error in it.
pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Encoding, String> {
    let read: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let version = read["version"].as_u64().and_then(|version| u32::try_from(version).ok());
    if !version.is_some_and(|version| CTR.can_read(version)) {
        return Err(format!("version {} of {FILE} is not known", read["version"]));
    }
    let need = || format!("{FILE} lacks something");
    let target = &read["target"];
    let loss =
        text(target, "loss").and_then(|name| Loss::from_name(&name).ok()).ok_or_else(need)?;
    let classes = target["classes"].as_array().ok_or_else(need)?;
    let classes: Option<Vec<String>> =
        classes.iter().map(|class| class.as_str().map(str::to_string)).collect();
    let classes = classes.filter(|classes| classes.len() == if loss == Loss::Log { 2 } else { 0 });
    let target = CtrTarget {
        name: text(target, "name").ok_or_else(need)?,
        loss,
        classes: classes.ok_or_else(need)?,
    };
    let columns = read["columns"].as_array().ok_or_else(need)?;
    let features: Option<Vec<Feature>> = columns.iter().map(feature).collect();
    let n_ids = read["ids"].as_u64().filter(|&n| n > 0).ok_or_else(need)?;
    Ok(Encoding { features: features.ok_or_else(need)?, target, n_ids })
}

fn text(of: &Value, key: &str) -> Option<String> {
    of[key].as_str().map(str::to_string)
}

fn feature(read: &Value) -> Option<Feature> {
    let number = |key| text(read, key)?.parse::<f64>().ok().filter(|number| number.is_finite());
    let scaling = match read["kind"].as_str()? {
        "number" => Scaling::Standard {
            mean: number("mean")?,
            scale: number("scale").filter(|&scale| scale > 0.0)?,
        },
        "count" => Scaling::Log,
        "category" => Scaling::Category,
        _ => return None,
    };
    let holds = match (read["texts"].as_bool()?, read["times"].as_bool()) {
        (true, _) => Holds::Texts,
        (false, Some(true)) => Holds::Times,
        (false, _) => Holds::Numbers,
    };
    Some(Feature { name: text(read, "name")?, scaling, holds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_survives() {
        let scaling = Scaling::Standard { mean: 0.1 + 0.2, scale: 1e-300 };
        let feature = |name: &str, scaling, holds| Feature { name: name.into(), scaling, holds };
        let features = vec![
            feature("a\t\"b", scaling, Holds::Numbers),
            feature("c", Scaling::Log, Holds::Times),
            feature("d", Scaling::Category, Holds::Texts),
        ];
        let classes = vec!["no".to_string(), "yes".to_string()];
        let target = CtrTarget { name: "y".into(), loss: Loss::Log, classes };
        let encoding = Encoding { features, target, n_ids: 1 << 20 };
        assert_eq!(from_bytes(&to_bytes(&encoding)).unwrap(), encoding);
    }

    #[test]
    fn damaged_files_are_refused() {
        for text in
            ["", "{}", "{\"version\":2}", "{\"version\":1}", "[1]", "{\"version\":1,\"ids\":0}"]
        {
            assert!(from_bytes(text.as_bytes()).is_err(), "{text}");
        }
    }
}
