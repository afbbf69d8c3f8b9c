//! The Python that runs scripts: the one that called us, or one that is looked for.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::env::{self, EnvVars};
use crate::error::{Error, Result};
use crate::pipes;
use crate::tool;

/// Asks a Python where our package is, and where it looks for modules.
const QUESTION: &str = "\
import importlib.util, os, sys
found = importlib.util.find_spec('paddlewheel')
print(os.path.dirname(found.origin) if found and found.origin else '')
print(*sys.path, sep='\\n')";

/// The folder of our package in which `paddle` is ours.
const ALIAS: &str = "_alias";
/// The text by which the file of a package is recognized as our alias.
const MARK: &str = "paddlewheel._paddle";

/// A Python with our package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The program.
    pub python: PathBuf,
    /// The folder in which `paddle` is ours.
    pub alias: PathBuf,
    /// Where it looks for modules.
    pub search: Vec<PathBuf>,
}

impl Interpreter {
    /// The Python that `PADDLEWHEEL_PYTHON` names, or the `python3` of `PATH`.
    pub fn find() -> Result<Self> {
        let named = EnvVars(&env::process).first(env::PYTHON).map(|found| found.value);
        let python = PathBuf::from(named.unwrap_or("python3".to_string()));
        let answer = tool::output(Command::new(&python).args(["-c", QUESTION]));
        let answer = answer.map_err(|error| match error {
            Error::Tool { program, said } => Error::NoPython { python: program, said },
            other => other,
        })?;
        let mut lines = answer.lines();
        let package = lines.next().filter(|folder| !folder.is_empty());
        let package = package.ok_or_else(|| Error::NoPackage(python.clone()))?;
        let (alias, search) = (Path::new(package).join(ALIAS), lines.map(PathBuf::from).collect());
        Ok(Self { python, alias, search })
    }

    /// The path of another `paddle` package, for a warning to the user.
    pub fn other_paddle(&self) -> Option<PathBuf> {
        let found = self.search.iter().find_map(|folder| {
            let file = folder.join("paddle").join("__init__.py");
            let text = fs::read(&file).ok()?;
            Some((folder, String::from_utf8_lossy(&text).contains(MARK)))
        });
        found.filter(|(_, is_ours)| !is_ours).map(|(folder, _)| folder.join("paddle"))
    }

    /// Becomes the interpreter, with the alias before all installed packages. Returns only if that fails.
    pub fn exec(&self, words: &[OsString]) -> Error {
        let mut command = Command::new(&self.python);
        command.args(words).env("PYTHONPATH", python_path(&self.alias));
        // Readers make ids with `hash`, which must be the same in every process and every run.
        command.envs(pipes::hash_seed(&env::process));
        let source = command.exec();
        Error::Start { name: "the script".to_string(), program: self.python.clone(), source }
    }
}

/// A `PYTHONPATH` with the alias before its present folders.
pub(crate) fn python_path(alias: &Path) -> OsString {
    let mut path = alias.as_os_str().to_os_string();
    if let Some(inherited) = std::env::var_os("PYTHONPATH").filter(|path| !path.is_empty()) {
        path.push(":");
        path.push(inherited);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_paddle_counts() {
        let home = tempfile::tempdir().unwrap();
        let add = |folder: &str, text: &str| {
            let folder = home.path().join(folder);
            fs::create_dir_all(folder.join("paddle")).unwrap();
            fs::write(folder.join("paddle").join("__init__.py"), text).unwrap();
            folder
        };
        let ours = add("ours", "from paddlewheel._paddle import install\n");
        let other = add("other", "version = '2.6'\n");
        let empty = home.path().to_path_buf();
        let found = |search: &[&PathBuf]| {
            let search = search.iter().map(|folder| folder.to_path_buf()).collect();
            let python = Interpreter { python: "python3".into(), alias: "a".into(), search };
            python.other_paddle()
        };
        assert_eq!(found(&[&empty, &other, &ours]), Some(other.join("paddle")));
        assert_eq!(found(&[&ours, &other]), None);
        assert_eq!(found(&[&empty]), None);
    }
}
