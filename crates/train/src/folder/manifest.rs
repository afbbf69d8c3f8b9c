//! The list of what was saved into a folder.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Component, Path};

use base::formats::SAVED_FILES;
use tensor::DType;

use super::PRIVATE;
use super::text::{hash, name, word};

/// The first line.
const FORMAT: &str = "paddlewheel folder";

/// The description of a save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The kind of save, in a word: `variables`, `model`, `state`, `checkpoint`, `tables`, `file`.
    pub kind: String,
    /// The step or round after which it was saved, where that is known.
    pub step: Option<u64>,
    /// The mode of the job; empty on one machine.
    pub mode: String,
    /// How many servers the job has; 0 on one machine.
    pub n_servers: usize,
}

impl About {
    /// A save of this kind, on one machine.
    pub fn new(kind: &str) -> Self {
        Self { kind: kind.to_string(), ..Self::default() }
    }
}

/// A variable in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedVar {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its shape.
    pub dims: Vec<i64>,
}

/// Which part of a variable a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPart {
    /// The variable.
    pub var: String,
    /// Which part, from 0.
    pub number: usize,
    /// How many there are.
    pub n: usize,
}

/// A file that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// Its name below the folder.
    pub name: String,
    /// Its size.
    pub n_bytes: u64,
    /// CRC-32 of its contents.
    pub checksum: u32,
    /// The variables in it, in order.
    pub vars: Vec<SavedVar>,
    /// Which part of a variable it is, if it is one.
    pub part: Option<SavedPart>,
}

/// One save, with those of its files that no later one replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderSave {
    /// Its description.
    pub about: About,
    /// Its files, in order of their names.
    pub files: Vec<SavedFile>,
}

/// The files that were saved into a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The saves, the newest last.
    pub saves: Vec<FolderSave>,
    /// Files that the newest save removes.
    pub removed: BTreeSet<String>,
}

/// A fault in a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It is of a version that is not known here.
    Version(u32),
    /// A line that does not belong to a manifest.
    Line(usize, &'static str),
    /// The hash at its end is not that of the rest.
    Hash { expected: u64, found: u64 },
}

impl Manifest {
    /// All files.
    pub fn files(&self) -> impl Iterator<Item = &SavedFile> {
        self.saves.iter().flat_map(|save| &save.files)
    }

    /// The file of this name.
    pub fn find(&self, name: &str) -> Option<&SavedFile> {
        self.files().find(|file| file.name == name)
    }

    /// The newest save.
    pub fn newest(&self) -> Option<&About> {
        self.saves.last().map(|save| &save.about)
    }

    /// The parts of a variable, in order.
    pub fn parts<'a>(&'a self, var: &'a str) -> Vec<(&'a SavedPart, &'a SavedFile)> {
        let part = |file: &'a SavedFile| Some((file.part.as_ref()?, file));
        let mut parts: Vec<_> =
            self.files().filter_map(part).filter(|(part, _)| part.var == var).collect();
        parts.sort_by_key(|(part, _)| part.number);
        parts
    }

    /// The list after one more save. Files that it does not replace stay, if they are still `there`.
    pub(super) fn with(
        &self,
        save: FolderSave,
        removed: BTreeSet<String>,
        there: impl Fn(&SavedFile) -> bool,
    ) -> Self {
        let names: BTreeSet<&str> = save.files.iter().map(|file| file.name.as_str()).collect();
        let stays = |file: &SavedFile| {
            !names.contains(file.name.as_str()) && !removed.contains(&file.name) && there(file)
        };
        let mut saves = self.saves.clone();
        for older in &mut saves {
            older.files.retain(stays);
        }
        // Saves of the same kind into one folder, one after the other, are one list.
        saves.retain(|older| !older.files.is_empty());
        match saves.last_mut().filter(|last| last.about == save.about) {
            Some(last) => {
                last.files.extend(save.files.iter().cloned());
                last.files.sort_by(|a, b| a.name.cmp(&b.name));
            }
            None => saves.push(save),
        }
        Self { saves, removed }
    }

    /// The text of the file, and its hash.
    pub(super) fn to_text(&self) -> (String, u64) {
        let mut text = format!("{FORMAT} {}\n", SAVED_FILES.version);
        for save in &self.saves {
            write_save(&mut text, save).expect("text grows without errors");
        }
        for name in &self.removed {
            writeln!(text, "removed {}", word(name)).expect("text grows without errors");
        }
        let hash = hash(text.as_bytes());
        writeln!(text, "whole {hash:016x}").expect("text grows without errors");
        (text, hash)
    }

    /// Reads the text of the file, and says its hash.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<(Self, u64), Flaw> {
        let first = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let version = std::str::from_utf8(first).ok().and_then(|line| line.strip_prefix(FORMAT));
        let version: Option<u32> = version.and_then(|rest| rest.strip_prefix(' ')?.parse().ok());
        let version = version.ok_or(Flaw::Line(1, "this is not a list of saved files"))?;
        // A version that is not known may look like anything else.
        if !SAVED_FILES.can_read(version) {
            return Err(Flaw::Version(version));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Flaw::Line(1, "this is not text"))?;
        let mut manifest = Self::default();
        let (mut names, mut at) = (BTreeSet::new(), 0);
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            if let Some(rest) = line.strip_prefix("whole ") {
                return finish(manifest, text, at, rest, number);
            }
            let read = match number {
                1 => Ok(()),
                _ => manifest.line(line.trim_end_matches('\n'), &mut names),
            };
            read.map_err(|problem| Flaw::Line(number, problem))?;
            at += line.len();
        }
        Err(Flaw::Line(text.lines().count(), "the list is cut short"))
    }

    fn line(&mut self, line: &str, names: &mut BTreeSet<String>) -> Result<(), &'static str> {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        match (kind, &words[..]) {
            ("save", [kind, step, mode, servers]) => {
                let step = match *step {
                    "-" => None,
                    step => Some(step.parse().map_err(|_| "a step is a number")?),
                };
                let n_servers = servers.parse().map_err(|_| "servers are counted")?;
                let mode = if *mode == "-" { String::new() } else { plain(mode)? };
                let about = About { kind: plain(kind)?, step, mode, n_servers };
                self.saves.push(FolderSave { about, files: Vec::new() });
            }
            ("file", [checksum, n_bytes, file]) => {
                let name = file_name(file)?;
                if !names.insert(name.clone()) {
                    return Err("a file is listed twice");
                }
                let checksum = u32::from_str_radix(checksum, 16);
                let file = SavedFile {
                    name,
                    n_bytes: n_bytes.parse().map_err(|_| "a size is a number")?,
                    checksum: checksum.map_err(|_| "a checksum has eight digits")?,
                    vars: Vec::new(),
                    part: None,
                };
                self.saves.last_mut().ok_or("a file belongs to a save")?.files.push(file);
            }
            ("var", [dtype, dims, var]) => {
                let dtype = DType::from_name(dtype).ok_or("an unknown element type")?;
                let var = SavedVar { name: plain(var)?, dtype, dims: dims_of(dims)? };
                self.last_file()?.vars.push(var);
            }
            ("part", [number, n, var]) => {
                let number_of = |word: &str| word.parse().map_err(|_| "parts are counted");
                let part =
                    SavedPart { var: plain(var)?, number: number_of(number)?, n: number_of(n)? };
                self.last_file()?.part = Some(part);
            }
            ("removed", [file]) => {
                self.removed.insert(file_name(file)?);
            }
            _ => return Err("a line of no known kind"),
        }
        Ok(())
    }

    fn last_file(&mut self) -> Result<&mut SavedFile, &'static str> {
        let save = self.saves.last_mut().ok_or("this line belongs to a file")?;
        save.files.last_mut().ok_or("this line belongs to a file")
    }
}

/// The last line: the hash of the lines above it.
fn finish(
    manifest: Manifest,
    text: &str,
    at: usize,
    rest: &str,
    number: usize,
) -> Result<(Manifest, u64), Flaw> {
    let expected = u64::from_str_radix(rest.trim_end_matches('\n'), 16);
    let expected = expected.map_err(|_| Flaw::Line(number, "a hash has sixteen digits"))?;
    let found = hash(&text.as_bytes()[..at]);
    let (canonical, _) = manifest.to_text();
    if found != expected {
        Err(Flaw::Hash { expected, found })
    } else if canonical != text {
        // One text for one list: the hash names it.
        Err(Flaw::Line(number, "the list is spelled in another way"))
    } else {
        Ok((manifest, found))
    }
}

fn write_save(text: &mut String, save: &FolderSave) -> std::fmt::Result {
    let About { kind, step, mode, n_servers } = &save.about;
    let step = step.map_or("-".to_string(), |step| step.to_string());
    let mode = if mode.is_empty() { "-".to_string() } else { word(mode) };
    writeln!(text, "save {} {step} {mode} {n_servers}", word(kind))?;
    for file in &save.files {
        write_file(text, file)?;
    }
    Ok(())
}

pub(super) fn write_file(text: &mut String, file: &SavedFile) -> std::fmt::Result {
    writeln!(text, "file {:08x} {} {}", file.checksum, file.n_bytes, word(&file.name))?;
    for var in &file.vars {
        let dims: Vec<String> = var.dims.iter().map(i64::to_string).collect();
        let dims = if dims.is_empty() { "-".to_string() } else { dims.join(",") };
        writeln!(text, "var {} {dims} {}", var.dtype.name(), word(&var.name))?;
    }
    if let Some(part) = &file.part {
        writeln!(text, "part {} {} {}", part.number, part.n, word(&part.var))?;
    }
    Ok(())
}

fn plain(text: &str) -> Result<String, &'static str> {
    name(text).ok_or("a name with a wrong code in it")
}

/// The name of a file, which must be below the folder and not among our own.
fn file_name(text: &str) -> Result<String, &'static str> {
    let name = plain(text)?;
    if is_safe(&name) { Ok(name) } else { Err("a file outside of the folder") }
}

/// Whether a file of this name is in the folder, and none of the private ones.
pub(crate) fn is_safe(name: &str) -> bool {
    is_inside(name) && !name.starts_with(PRIVATE)
}

/// Whether a file of this name is in the folder. Programs that load all files of a folder load the private ones too.
pub(crate) fn is_inside(name: &str) -> bool {
    let is_plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    let is_odd = name.is_empty() || name.ends_with('/') || name.contains('\0');
    !is_odd && is_plain
}

fn dims_of(text: &str) -> Result<Vec<i64>, &'static str> {
    match text {
        "-" => Ok(Vec::new()),
        dims => dims.split(',').map(|dim| dim.parse().map_err(|_| "a shape is numbers")).collect(),
    }
}
