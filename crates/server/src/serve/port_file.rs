//! The file by which Fluid's scripts and tests learn that a server listens, and on which port:
//! `/tmp/paddle.<process>.port`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file, for as long as the server listens.
#[derive(Debug)]
pub(super) struct PortFile(Option<PathBuf>);

impl PortFile {
    /// Writes it. On a machine without such a folder, no process waits for the file.
    pub(super) fn write(port: u16) -> Self {
        let path = Path::new("/tmp").join(format!("paddle.{}.port", std::process::id()));
        // An ended process may have left one. A link that another user put there is not followed.
        let _ = fs::remove_file(&path);
        let written = File::create_new(&path).and_then(|mut file| write!(file, "{port}"));
        Self(written.is_ok().then_some(path))
    }
}

impl Drop for PortFile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The processes that needed it have read it.
            let _ = fs::remove_file(path);
        }
    }
}
