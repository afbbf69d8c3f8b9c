//! What the pipe commands of a dataset are given: Fluid's scripts expect things of Python that are
//! not always so.

use std::path::Path;

use data::Shell;

/// Salts Python's `hash` of texts, in each process another way unless it is set.
const HASH_SEED: &str = "PYTHONHASHSEED";
/// Where commands are looked for.
const PATH: &str = "PATH";

/// The setting of pipe commands, given this process's variables and its Python, if it is one.
///
/// Readers make ids with `hash`, so all processes must agree on it; and they are started as `python`,
/// which is not everywhere a command: then it means this Python.
pub fn shell(var: &dyn Fn(&str) -> Option<String>, python: Option<&Path>) -> Shell {
    let mut shell = Shell::default();
    if var(HASH_SEED).is_none_or(|seed| seed.is_empty()) {
        shell.variables.push((HASH_SEED.to_string(), "0".to_string()));
    }
    let path = var(PATH).unwrap_or_default();
    let there = path.split(':').any(|folder| Path::new(folder).join("python").is_file());
    if let (false, Some(python)) = (there, python) {
        let python = python.display().to_string().replace('\'', r"'\''");
        shell.prelude = format!(
            "python() {{ '{python}' \"$@\"; }}\nif [ -n \"$BASH_VERSION\" ]; then export -f python; fi\n"
        );
    }
    shell
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn python_is_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let var = |name: &str| (name == PATH).then(|| folder.path().display().to_string());
        let made = shell(&var, Some(Path::new("/bin/echo")));
        for command in ["python a b", "bash -c 'python a b'"] {
            let text = format!("{}(\n{command}\n)", made.prelude);
            let output = Command::new("bash").args(["-c", &text]).output().unwrap();
            assert_eq!(output.stdout, b"a b\n", "{output:?}");
        }
        std::fs::write(folder.path().join("python"), "").unwrap();
        assert_eq!(shell(&var, Some(Path::new("/bin/echo"))).prelude, "");
    }
}
