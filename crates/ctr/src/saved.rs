//! A model for inference together with its facts about columns.

use std::path::Path;

use train::Scope;
use train::folder::Folder;
use train::io::{InferenceModel, load_inference_model};

use crate::encode::Encoding;
use crate::error::{Error, Result};
use crate::json;

/// How often a folder that is replaced while it is read is read again.
const ATTEMPTS: usize = 4;

/// A model as a folder has it: of [`crate::CtrModel::save`], or any other model for inference.
#[derive(Debug)]
pub struct EncodedModel {
    /// Its parameters.
    pub scope: Scope,
    /// Its program.
    pub model: InferenceModel,
    /// The encoding of the columns of a table, if the folder has one.
    pub encoding: Option<Encoding>,
}

impl EncodedModel {
    /// Loads a model. If it is replaced at the same time, program and encoding are of the same save.
    pub fn load(
        dir: &Path,
        model_filename: Option<&str>,
        params_filename: Option<&str>,
    ) -> Result<Self> {
        let mut before = read_encoding(dir)?;
        for _ in 0..ATTEMPTS {
            let scope = Scope::new();
            let model = load_inference_model(&scope, dir, model_filename, params_filename)?;
            let after = read_encoding(dir)?;
            if before == after {
                return Ok(Self { scope, model, encoding: after });
            }
            before = after;
        }
        let reason = "it is being replaced all the time".to_string();
        Err(Error::NotSaved { dir: dir.to_path_buf(), reason })
    }
}

/// The encoding of columns, if the folder has one.
pub(crate) fn read_encoding(dir: &Path) -> Result<Option<Encoding>> {
    if !dir.is_dir() {
        return Err(train::Error::NoDirectory { path: dir.to_path_buf() }.into());
    }
    let folder = Folder::open(dir)?;
    if !folder.has(json::FILE) {
        return Ok(None);
    }
    let refuse = |reason| Error::NotSaved { dir: dir.to_path_buf(), reason };
    json::from_bytes(&folder.read(json::FILE)?).map(Some).map_err(refuse)
}
