//! The formats of our own files: the version of each that is written, and those that are read.
//!
//! Readers and writers ask here, and the table in `docs/reference/formats.md` is printed from [`ALL`]. Formats of others (Fluid's
//! variables and programs) have the versions of others. The version of the network protocol is that of its greeting.

/// A format of files, or of bytes in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// What it is, in a few words.
    pub name: &'static str,
    /// The version that is written.
    pub version: u32,
    /// The versions that are read.
    pub reads: &'static [u32],
    /// The files that have it, and its code below `crates/`.
    pub files: &'static str,
    /// See [`Format::files`].
    pub code: &'static str,
}

impl Format {
    /// The version, where one byte says it.
    pub const fn byte(&self) -> u8 {
        assert!(self.version < 0x100, "a byte has the version");
        self.version as u8
    }

    /// Whether a version can be read.
    pub fn can_read(&self, version: impl Into<u32>) -> bool {
        self.reads.contains(&version.into())
    }
}

/// Files of sections that a server keeps for each cut, and when a term begins.
pub const SNAPSHOT: Format = Format {
    name: "snapshot of a server",
    version: 1,
    reads: &[1],
    files: "`server.N/base.C`, `cut.C`, `term.S.T`",
    code: "server/src/serve/snapshot/file.rs",
};

/// Journals of cuts whose files are gone.
pub const SERVER_JOURNAL: Format = Format {
    name: "journal of a server",
    version: 1,
    reads: &[1],
    files: "`server.N/journal.S.T`",
    code: "server/src/serve/snapshot/journal.rs",
};

/// The protocol and the contributions of trainers at a cut.
pub const CUT_STATE: Format = Format {
    name: "state of the protocol at a cut",
    version: 1,
    reads: &[1],
    files: "a section of a snapshot",
    code: "protocol/src/server/cut_state.rs",
};

/// What only a trainer has at a cut.
pub const TRAINER_STATE: Format = Format {
    name: "state of a trainer at a cut",
    version: 3,
    reads: &[2, 3],
    files: "a section of a snapshot",
    code: "train/src/recover/state.rs",
};

/// The events of a trainer's script. Version 3 is a part that says where the journal ends.
pub const TRAINER_JOURNAL: Format = Format {
    name: "journal of a trainer",
    version: 4,
    reads: &[1, 2, 3, 4],
    files: "a section of a snapshot, a record of a journal",
    code: "train/src/recover/journal.rs",
};

/// How far a pass over files is.
pub const PASS: Format = Format {
    name: "progress of a pass",
    version: 1,
    reads: &[1],
    files: "a part of the state of a trainer",
    code: "train/src/from_dataset/cutting.rs",
};

/// Where the readers of a pass are.
pub const POSITIONS: Format = Format {
    name: "positions of readers",
    version: 2,
    reads: &[2],
    files: "a part of the progress of a pass",
    code: "data/src/position.rs",
};

/// Samples after a global shuffle.
pub const SHARE: Format = Format {
    name: "samples after a global shuffle",
    version: 1,
    reads: &[1],
    files: "`trainer.N/shuffle-K`",
    code: "data/src/share.rs",
};

/// Whose snapshots are in a folder.
pub const JOB: Format = Format {
    name: "description of a job",
    version: 1,
    reads: &[1],
    files: "`job`, `job.again`",
    code: "fleet/src/launch/snapshots.rs",
};

/// The list of the files of saves.
pub const SAVED_FILES: Format = Format {
    name: "list of saved files",
    version: 1,
    reads: &[1],
    files: "`.paddlewheel`",
    code: "train/src/folder/manifest.rs",
};

/// The encoding of a model of `paddlewheel fit`.
pub const CTR: Format = Format {
    name: "encoding of a table's columns",
    version: 1,
    reads: &[1],
    files: "`ctr.json`",
    code: "ctr/src/json.rs",
};

/// All of them.
pub const ALL: [Format; 11] = [
    SAVED_FILES,
    SNAPSHOT,
    SERVER_JOURNAL,
    CUT_STATE,
    TRAINER_STATE,
    TRAINER_JOURNAL,
    PASS,
    POSITIONS,
    SHARE,
    JOB,
    CTR,
];

/// The table of formats, in Markdown; `link` is the way from the page to `crates/`.
pub fn page(link: &str) -> String {
    let mut page =
        "| format | version | reads | files | code |\n|---|--:|---|---|---|\n".to_string();
    for Format { name, version, reads, files, code } in ALL {
        let reads: Vec<String> = reads.iter().map(u32::to_string).collect();
        let (reads, file) = (reads.join(", "), code.rsplit('/').next().unwrap_or(code));
        page += &format!("| {name} | {version} | {reads} | {files} | [{file}]({link}{code}) |\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_reads_its_own_version_and_no_later_one() {
        for format in ALL {
            assert!(format.can_read(format.version), "{}", format.name);
            assert_eq!(format.reads.iter().max(), Some(&format.version), "{}", format.name);
            assert!(format.reads.is_sorted() && !format.can_read(0u32), "{}", format.name);
            let same = ALL.iter().filter(|other| other.name == format.name);
            assert_eq!(same.count(), 1, "{}", format.name);
        }
    }

    #[test]
    fn the_page_has_a_row_for_each() {
        let page = page("../");
        assert_eq!(page.lines().count(), ALL.len() + 2);
        assert!(page.contains("| 4 | 1, 2, 3, 4 |") && page.contains("(../ctr/src/json.rs)"));
    }
}
