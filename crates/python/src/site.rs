//! The current lines of the user's script: the parts of a program that they build remember them.
//!
//! A layer takes a few microseconds, so little may be done here: Python's code objects and places in
//! them are kept, and become files and lines when an error wants to name them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::EvenIfPoisoned;
use program::{Frame, Program, Site, Trace};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The line that calls a layer, and the one that calls its function.
const N_USERS: usize = 2;
/// Our own Python is thin: behind so many functions of it there is no script.
const N_MAX: usize = 12;
/// Functions that were looked at are remembered, but not for ever.
const N_KNOWN_MAX: usize = 4096;

/// A function of Python and how far it had come.
#[derive(Debug)]
struct Spot {
    code: Py<PyAny>,
    at: i64,
}

#[derive(Debug)]
struct Spots(Vec<Spot>);

impl Trace for Spots {
    fn frames(&self) -> Vec<Frame> {
        Python::attach(|py| {
            let mut frames = self.0.iter().filter_map(|spot| spot.frame(py).ok());
            let innermost: Vec<Frame> = frames.next().into_iter().collect();
            // Callers of the script, such as a notebook or a test runner, are not part of it.
            let callers = frames.take_while(|frame| !frame.file.contains("/site-packages/"));
            innermost.into_iter().chain(callers).collect()
        })
    }
}

impl Spot {
    fn frame(&self, py: Python<'_>) -> PyResult<Frame> {
        let code = self.code.bind(py);
        let mut line = code.getattr("co_firstlineno")?.extract()?;
        for start in py.import("dis")?.call_method1("findlinestarts", (code,))?.try_iter()? {
            let (offset, begins): (i64, Option<u32>) = start?.extract()?;
            if offset > self.at {
                break;
            }
            line = begins.unwrap_or(line);
        }
        let file = code.getattr("co_filename")?.extract()?;
        Ok(Frame { file, line, function: code.getattr("co_name")?.extract()? })
    }
}

/// The folder of this package.
fn home(py: Python<'_>) -> &str {
    static HOME: PyOnceLock<String> = PyOnceLock::new();
    HOME.get_or_init(py, || {
        let file = py.import("paddlewheel").and_then(|own| own.getattr("__file__")?.extract());
        let file: String = file.unwrap_or_default();
        file.trim_end_matches("__init__.py").to_string()
    })
}

/// Where the script is now; unknown if Python does not say.
pub(crate) fn here(py: Python<'_>) -> Site {
    spots(py).map_or_else(|_| Site::default(), |spots| Site::new(Spots(spots)))
}

fn spots(py: Python<'_>) -> PyResult<Vec<Spot>> {
    static GET_FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let get_frame = GET_FRAME
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("sys")?.getattr("_getframe")?.unbind()))?;
    let mut frame = get_frame.bind(py).call0()?;
    let mut found = Vec::with_capacity(N_USERS);
    for _ in 0..N_MAX {
        let code = frame.getattr(intern!(py, "f_code"))?;
        if !is_own(&code)? {
            let at = frame.getattr(intern!(py, "f_lasti"))?.extract()?;
            found.push(Spot { code: code.unbind(), at });
        }
        if found.len() == N_USERS {
            break;
        }
        frame = frame.getattr(intern!(py, "f_back"))?;
        if frame.is_none() {
            break;
        }
    }
    Ok(found)
}

/// Whether a function is of this package: its own lines are not the user's mistake.
fn is_own(code: &Bound<'_, PyAny>) -> PyResult<bool> {
    // Held, so that no other function can come to lie where one was.
    static KNOWN: Mutex<BTreeMap<usize, (Py<PyAny>, bool)>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().even_if_poisoned();
    let address = code.as_ptr() as usize;
    if let Some((_, is_own)) = known.get(&address) {
        return Ok(*is_own);
    }
    let file: String = code.getattr(intern!(code.py(), "co_filename"))?.extract()?;
    let is_own = file.starts_with(home(code.py()));
    if known.len() >= N_KNOWN_MAX {
        known.clear();
    }
    known.insert(address, (code.clone().unbind(), is_own));
    Ok(is_own)
}

/// Ops that `build` adds to the programs remember the line that is at work.
pub(crate) fn noted<R>(
    py: Python<'_>,
    programs: (&mut Program, &mut Program),
    build: impl FnOnce(&mut Program, &mut Program) -> R,
) -> R {
    let site = here(py);
    let (main, startup) = programs;
    (main.site, startup.site) = (site.clone(), site);
    let result = build(main, startup);
    (main.site, startup.site) = (Site::default(), Site::default());
    result
}
