//! The environment of a dataset's pipe commands: Fluid's scripts expect things of Python that are
//! not always so.

use std::path::Path;

use data::Shell;

/// Salts Python's `hash` of texts, in each process another way unless it is set.
const HASH_SEED: &str = "PYTHONHASHSEED";
/// Where commands are looked for.
const PATH: &str = "PATH";

/// The setting of pipe commands, given this process's variables and its Python, if it is one.
/// Readers make ids with `hash`, so all processes must agree on it; and they are started as
/// `python`, which means this Python: another one, found because this one's environment is not
/// activated, does not have the packages that this one has.
pub fn shell(var: &dyn Fn(&str) -> Option<String>, python: Option<&Path>) -> Shell {
    let mut shell = Shell::default();
    if let Some((name, value)) = hash_seed(var) {
        shell.variables.push((name.to_string(), value.to_string()));
    }
    let Some(python) = python.filter(|python| python.is_absolute()) else { return shell };
    let folder = python.parent().unwrap_or(Path::new("/"));
    let path = var(PATH).unwrap_or_default();
    let named = folder.join("python");
    let mut found = path.split(':').map(|folder| Path::new(folder).join("python"));
    if found.find(|python| python.is_file()).as_ref() != Some(&named) {
        let path = format!("{}:{path}", folder.display());
        shell.variables.push((PATH.to_string(), path.trim_end_matches(':').to_string()));
    }
    if !named.is_file() {
        let python = python.display().to_string().replace('\'', r"'\''");
        shell.prelude = format!(
            "python() {{ '{python}' \"$@\"; }}\nif [ -n \"$BASH_VERSION\" ]; then export -f python; fi\n"
        );
    }
    shell.python = Some(python.to_path_buf());
    shell
}

/// Checks that a generator prints its slots in the order of the dataset for which this process works.
pub fn check_names(var: &dyn Fn(&str) -> Option<String>, made: &[String]) -> data::Result<()> {
    data::names::check(&var(data::names::VARIABLE).unwrap_or_default(), made)
}

/// The variable that makes `hash` the same in all processes, unless the user has set it.
pub fn hash_seed(var: &dyn Fn(&str) -> Option<String>) -> Option<(&'static str, &'static str)> {
    var(HASH_SEED).is_none_or(|seed| seed.is_empty()).then_some((HASH_SEED, "0"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn hashes_are_the_same_in_all_processes_unless_the_user_says_otherwise() {
        let shell_of = |seed: Option<&str>| {
            let seed = seed.map(str::to_string);
            shell(&|name| if name == HASH_SEED { seed.clone() } else { None }, None)
        };
        let zero = vec![(HASH_SEED.to_string(), "0".to_string())];
        assert_eq!(shell_of(None).variables, zero);
        assert_eq!(shell_of(Some("")).variables, zero);
        assert!(shell_of(Some("random")).variables.is_empty());
    }

    /// The answer of a script named `python` in this folder to commands, given another on the path.
    fn answers(name: &str) {
        let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (python, another) = (ours.path().join(name), other.path().join("python"));
        for (path, text) in [(&python, "ours"), (&another, "another")] {
            std::fs::write(path, format!("#!/bin/sh\necho {text} \"$@\"\n")).unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", other.path().display());
        let made = shell(&|name| (name == PATH).then(|| path.clone()), Some(&python));
        assert_eq!(made.python, Some(python));
        for command in ["python a b", "bash -c 'python a b'"] {
            let text = format!("{}(\n{command}\n)", made.prelude);
            let mut bash = Command::new("bash");
            let output = bash.args(["-c", &text]).envs(made.variables.clone()).output().unwrap();
            assert_eq!(output.stdout, b"ours a b\n", "{output:?}");
        }
    }

    #[test]
    fn python_means_this_one_though_another_is_on_the_path() {
        answers("python");
    }

    #[test]
    fn python_means_this_one_under_whatever_name_it_has() {
        answers("python3.11");
    }

    #[test]
    fn a_path_on_which_this_python_comes_first_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python");
        std::fs::write(&python, "").unwrap();
        let path = format!("/nowhere:{}:/usr/bin", folder.path().display());
        let made = shell(&|name| (name == PATH).then(|| path.clone()), Some(&python));
        assert!(made.variables.iter().all(|(name, _)| name != PATH), "{made:?}");
        assert_eq!(made.prelude, "");
    }
}
