//! The contents of a folder: variables, the files of their numbers, and programs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use base::EvenIfPoisoned;
use metrics::Phase;
use program::{OpDesc, Program, stream};
use tensor::{DType, Rows, Shape, Tensor, Value};
use train::folder::{About, Folder, Manifest, SavedFile};

use crate::error::{Error, Result};

/// Folder of the parts of tables that servers save.
const TABLES: &str = "__lookup_table__/";
/// How the names of the list and of the folder of a save begin.
const PRIVATE: &str = ".paddlewheel";
/// Rows that wait for an entry rule.
const WAITING: &str = "@WAITING";
/// Files of `fluid.save` that hold arrays.
const PICKLES: [&str; 2] = [".pdparams", ".pdopt"];

/// How the numbers of a variable are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldForm {
    /// All of them, in order.
    Dense,
    /// The rows that exist, with their ids: how many.
    Rows(u64),
    /// How often rows were named that an entry rule has not taken in: of how many.
    Waiting(u64),
}

/// A variable of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldVar {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its shape. That of a table by rows is the shape of the whole table.
    pub dims: Vec<i64>,
    /// How its numbers are kept.
    pub form: HeldForm,
    /// Bytes of its numbers and ids.
    pub n_bytes: u64,
    /// The files that hold it; several, if it has parts.
    pub files: Vec<String>,
    /// Its position among the variables of its file, and how many those are.
    at: (usize, usize),
}

/// A program of a folder.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedProgram {
    /// The file.
    pub file: String,
    /// The program.
    pub program: Program,
}

/// A file of several variables.
#[derive(Debug)]
struct CombinedFile {
    name: String,
    tensors: Vec<Tensor>,
}

/// The contents of a folder.
#[derive(Debug)]
pub struct Contents {
    folder: Folder,
    /// The last file of several variables that was read.
    combined: Mutex<Option<CombinedFile>>,
    /// Bytes that were compared with their checksums.
    n_checked: u64,
    /// The saves that wrote it, the newest last; none if it has no list of files.
    pub saves: Vec<About>,
    /// In order of their names.
    pub vars: Vec<HeldVar>,
    /// In order of their files.
    pub programs: Vec<NamedProgram>,
    /// Files that hold neither.
    pub others: Vec<String>,
    /// How many files there are.
    pub n_files: usize,
    /// Their size.
    pub n_bytes: u64,
}

impl Contents {
    /// Looks at a folder, or at the files of `fluid.save` under a prefix. Every file that has a checksum
    /// is compared with it.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_in(path, Phase::default())
    }

    /// The same, as the first part of longer work.
    pub(crate) fn read_in(path: &Path, phase: Phase) -> Result<Self> {
        let (dir, stem) = place(path)?;
        let folder = Folder::open(&dir)?.counted_by(phase);
        let files = folder.manifest().into_iter().flat_map(Manifest::files);
        let n_checked = files.map(|file| file.n_bytes).sum();
        // More is known when it is read. Until then: all is checked, read and written.
        folder.phase().set_total(n_checked * 3);
        folder.verify()?;
        let saves = folder.manifest().into_iter().flat_map(|list| &list.saves);
        let saves = saves.map(|save| save.about.clone()).collect();
        let mut contents = Self {
            folder,
            combined: Mutex::default(),
            n_checked,
            saves,
            vars: Vec::new(),
            programs: Vec::new(),
            others: Vec::new(),
            n_files: 0,
            n_bytes: 0,
        };
        let mut found = FoundVars::default();
        for name in names(&contents.folder, stem.as_deref())? {
            contents.n_files += 1;
            contents.add_file(&name, &mut found)?;
        }
        contents.vars = found.vars.into_values().collect();
        contents.name_combined(found.unknown)?;
        contents.vars.sort_by(|a, b| a.name.cmp(&b.name));
        if contents.vars.is_empty() && contents.programs.is_empty() {
            return Err(Error::NothingSaved { path: path.to_path_buf() });
        }
        Ok(contents)
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.folder.dir()
    }

    /// So many bytes of work are left behind reading what is there.
    pub(crate) fn expect(&self, n_bytes: u64) {
        self.folder.phase().set_total(self.n_checked + n_bytes);
    }

    /// So many of them are done. Reading the folder counts by itself.
    pub(crate) fn done(&self, n_bytes: u64) {
        self.folder.phase().add(n_bytes);
    }

    /// Whether the folder has a list of its saved files.
    pub fn is_listed(&self) -> bool {
        self.folder.manifest().is_some()
    }

    /// The variable of this name.
    pub fn var(&self, name: &str) -> Option<&HeldVar> {
        self.vars.iter().find(|var| var.name == name)
    }

    fn add_file(&mut self, name: &str, found: &mut FoundVars) -> Result<()> {
        let saved = self.folder.saved(name).cloned();
        let reader = self.folder.reader(name)?;
        self.n_bytes += reader.n_bytes();
        drop(reader);
        match saved {
            Some(file) if file.part.is_some() || is_part_name(name).is_some() => {
                self.add_part(name, &file, found)
            }
            Some(file) if !file.vars.is_empty() => {
                let n = file.vars.len();
                for (at, var) in file.vars.into_iter().enumerate() {
                    let n_bytes = n_elements(&var.dims) * var.dtype.size() as u64;
                    let (form, files) = (HeldForm::Dense, vec![name.to_string()]);
                    let (dtype, dims) = (var.dtype, var.dims);
                    let at = (at, n);
                    found.add(HeldVar { name: var.name, dtype, dims, form, n_bytes, files, at });
                }
                Ok(())
            }
            saved => self.add_unknown(name, saved.is_some(), found),
        }
    }

    /// A part of a table: its first bytes say how many rows it has.
    fn add_part(&self, name: &str, file: &SavedFile, found: &mut FoundVars) -> Result<()> {
        let bad = |problem: &str| bad_file(self.dir(), name, problem);
        let Some(var) = file.vars.first() else { return self.add_rows(name, found) };
        let mut head = [0; 12];
        let mut reader = self.folder.reader(name)?;
        reader.read_exact(&mut head).map_err(|_| bad("it is cut short"))?;
        let n = u64::from_le_bytes(head[4..].try_into().expect("eight bytes"));
        let width = n_elements(&var.dims[1.min(var.dims.len())..]);
        let n_bytes = n.saturating_mul(8 + width * var.dtype.size() as u64);
        let (dtype, dims) = (var.dtype, var.dims.clone());
        let form = form_of(&var.name, n);
        let (name, files) = (var.name.clone(), vec![name.to_string()]);
        found.add(HeldVar { name, dtype, dims, form, n_bytes, files, at: (0, 1) });
        Ok(())
    }

    /// A part that no list describes.
    fn add_rows(&self, name: &str, found: &mut FoundVars) -> Result<()> {
        let var = is_part_name(name).unwrap_or(name).to_string();
        let rows = stream::rows_from_bytes(&self.folder.read(name)?);
        let rows = rows.map_err(|error| bad_file(self.dir(), name, &error.to_string()))?;
        let n = rows.ids.len() as u64;
        let width = rows.width();
        let dims = vec![rows.height, width as i64];
        let dtype = rows.value.dtype();
        let n_bytes = n * (8 + (width * dtype.size()) as u64);
        let (form, files) = (form_of(&var, n), vec![name.to_string()]);
        found.add(HeldVar { name: var, dtype, dims, form, n_bytes, files, at: (0, 1) });
        Ok(())
    }

    /// A file that no list describes: a program, a variable, or something else.
    fn add_unknown(&mut self, name: &str, is_listed: bool, found: &mut FoundVars) -> Result<()> {
        let bytes = self.folder.read(name)?;
        if let Some(program) = program_of(&bytes) {
            self.programs.push(NamedProgram { file: name.to_string(), program });
            return Ok(());
        }
        if name == "__model__" {
            let problem = Program::from_bytes(&bytes).err().map(|error| error.to_string());
            let problem = problem.unwrap_or_else(|| "it is not a program".to_string());
            return Err(bad_file(self.dir(), name, &problem));
        }
        if !is_listed && is_part_name(name).is_some() {
            return self.add_rows(name, found);
        }
        match stream::value_from_bytes(&bytes) {
            Ok(value) if !is_listed => {
                found.add(described(name, &value));
                Ok(())
            }
            _ if !is_listed && bytes.starts_with(&[0; 4]) => {
                found.unknown.push(name.to_string());
                Ok(())
            }
            _ => {
                self.others.push(name.to_string());
                Ok(())
            }
        }
    }

    /// Files of several variables that no list describes: the program beside them says which those are.
    fn name_combined(&mut self, unknown: Vec<String>) -> Result<()> {
        for file in unknown {
            let mut names = Vec::new();
            for named in &self.programs {
                let vars = named.program.list_vars().filter(|var| train::io::is_persistable(var));
                names = vars.map(|var| var.name.clone()).collect();
            }
            names.sort();
            names.dedup();
            let bytes = self.folder.read(&file)?;
            let Ok(tensors) = stream::combined_from_bytes(&bytes, names.len()) else {
                self.others.push(file);
                continue;
            };
            let n = names.len();
            for (at, (name, tensor)) in names.iter().zip(tensors).enumerate() {
                let mut var = described(name, &Value::Tensor(tensor));
                (var.files, var.at) = (vec![file.clone()], (at, n));
                self.vars.push(var);
            }
        }
        Ok(())
    }

    /// The numbers of a variable. Rows are in order of their ids.
    pub fn value(&self, var: &HeldVar) -> Result<Value> {
        match (&var.files[..], var.form) {
            ([file], HeldForm::Dense) if PICKLES.iter().any(|end| file.ends_with(end)) => {
                let wanted = [var.name.clone()];
                let mut state = train::io::load_state(&self.dir().join(file), Some(&wanted))?;
                let tensor = state.remove(&var.name);
                tensor.ok_or_else(|| bad_file(self.dir(), file, "a variable is not in it"))
            }
            ([file], HeldForm::Dense) => self.dense(var, file),
            (files, _) => self.rows(var, files).map(Value::Rows),
        }
    }

    fn dense(&self, var: &HeldVar, file: &str) -> Result<Value> {
        let bad = |error: program::Error| bad_file(self.dir(), file, &error.to_string());
        let (at, n) = var.at;
        if n == 1 {
            return stream::value_from_bytes(&self.folder.read(file)?).map_err(bad);
        }
        let mut last = self.combined.lock().even_if_poisoned();
        if last.as_ref().is_none_or(|last| last.name != file) {
            let tensors = stream::combined_from_bytes(&self.folder.read(file)?, n).map_err(bad)?;
            *last = Some(CombinedFile { name: file.to_string(), tensors });
        }
        let tensor = last.as_ref().and_then(|last| last.tensors.get(at)).cloned();
        let tensor = tensor.map(Value::Tensor);
        tensor.ok_or_else(|| bad_file(self.dir(), file, "a variable is not in it"))
    }

    /// The variables in the file of a variable, in order.
    pub(crate) fn beside(&self, var: &HeldVar) -> Vec<&HeldVar> {
        let mut beside: Vec<_> =
            self.vars.iter().filter(|other| other.files == var.files).collect();
        beside.sort_by_key(|other| other.at);
        beside
    }

    /// The rows of one part of a table.
    pub(crate) fn part(&self, file: &str) -> Result<Rows> {
        let rows = stream::rows_from_bytes(&self.folder.read(file)?);
        rows.map_err(|error| bad_file(self.dir(), file, &error.to_string()))
    }

    /// Whether a hash says which part of a table has a row.
    pub(crate) fn is_spread_by_hash(&self, var: &HeldVar) -> Result<bool> {
        let note = format!("{TABLES}{}_parts", var.name);
        Ok(self.folder.has(&note) && self.folder.read(&note)?.ends_with(b" hash"))
    }

    fn rows(&self, var: &HeldVar, files: &[String]) -> Result<Rows> {
        let (mut parts, mut order) = (Vec::new(), Vec::new());
        for (part, file) in files.iter().enumerate() {
            let rows = self.part(file)?;
            order.extend(rows.ids.iter().enumerate().map(|(at, &id)| (id, part, at)));
            parts.push(rows);
        }
        order.sort_unstable();
        if let Some(pair) = order.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let problem = format!("row {} is in it twice, or in another part too", pair[1].0);
            return Err(bad_file(self.dir(), &files[pair[1].1], &problem));
        }
        let width = parts.first().map_or(0, Rows::width);
        let mut value = Tensor::default();
        value.try_resize_as(var.dtype, Shape::from([order.len(), width]))?;
        let row_bytes = width * var.dtype.size();
        let places = value.bytes_mut().chunks_exact_mut(row_bytes.max(1));
        for (to, &(_, part, at)) in places.zip(&order) {
            let from = parts[part].value.bytes();
            let from = from.get(at * row_bytes..(at + 1) * row_bytes);
            let other =
                || bad_file(self.dir(), &files[part], "its rows have another width or type");
            to.copy_from_slice(from.ok_or_else(other)?);
        }
        let height = var.dims.first().copied().unwrap_or(0);
        Ok(Rows { ids: order.into_iter().map(|(id, ..)| id).collect(), height, value })
    }
}

/// Variables, while files are looked at.
#[derive(Default)]
struct FoundVars {
    vars: BTreeMap<String, HeldVar>,
    /// Files that may hold several variables.
    unknown: Vec<String>,
}

impl FoundVars {
    /// A variable, or one more part of it.
    fn add(&mut self, new: HeldVar) {
        let Some(old) = self.vars.get_mut(&new.name) else {
            self.vars.insert(new.name.clone(), new);
            return;
        };
        old.form = match (old.form, new.form) {
            (HeldForm::Rows(a), HeldForm::Rows(b)) => HeldForm::Rows(a + b),
            (HeldForm::Waiting(a), HeldForm::Waiting(b)) => HeldForm::Waiting(a + b),
            // The same variable in two forms: the last is the newer in order of the files' names.
            (_, form) => {
                (old.files, old.at, old.n_bytes) = (new.files, new.at, new.n_bytes);
                old.form = form;
                return;
            }
        };
        old.n_bytes += new.n_bytes;
        old.files.extend(new.files);
    }
}

fn form_of(var: &str, n: u64) -> HeldForm {
    if var.ends_with(WAITING) { HeldForm::Waiting(n) } else { HeldForm::Rows(n) }
}

fn described(name: &str, value: &Value) -> HeldVar {
    let files = vec![name.to_string()];
    let (tensor, form, dims) = match value {
        Value::Rows(rows) => {
            let dims = vec![rows.height, rows.width() as i64];
            (&rows.value, HeldForm::Rows(rows.ids.len() as u64), dims)
        }
        other => {
            let tensor = other.tensor().expect("files hold rows or tensors");
            (tensor, HeldForm::Dense, tensor.shape().to_i64())
        }
    };
    let ids = if let HeldForm::Rows(n) = form { 8 * n } else { 0 };
    let n_bytes = tensor.bytes().len() as u64 + ids;
    let name = name.to_string();
    HeldVar { name, dtype: tensor.dtype(), dims, form, n_bytes, files, at: (0, 1) }
}

fn program_of(bytes: &[u8]) -> Option<Program> {
    let program = Program::from_bytes(bytes).ok()?;
    program.blocks().iter().any(|block| !block.ops.is_empty()).then_some(program)
}

/// The variable of a file whose name is that of a part: `__lookup_table__/<var>_<k>of<n>`.
fn is_part_name(name: &str) -> Option<&str> {
    let (var, number) = name.strip_prefix(TABLES)?.rsplit_once('_')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let fits = match number.split_once("of") {
        Some((number, n)) => is_number(number) && is_number(n),
        None => is_number(number),
    };
    fits.then_some(var)
}

fn n_elements(dims: &[i64]) -> u64 {
    dims.iter().fold(1, |n: u64, &dim| n.saturating_mul(dim.unsigned_abs()))
}

pub(crate) fn bad_file(dir: &Path, name: &str, problem: &str) -> Error {
    Error::BadFile { path: dir.join(name), problem: problem.to_string() }
}

/// The folder, and the stem of its files if `fluid.save` wrote them.
fn place(path: &Path) -> Result<(PathBuf, Option<String>)> {
    if path.is_dir() {
        return Ok((path.to_path_buf(), None));
    }
    let text = path.to_string_lossy().into_owned();
    let stem = PICKLES.iter().find_map(|end| text.strip_suffix(end)).unwrap_or(&text);
    let (dir, name) = stem.rsplit_once('/').unwrap_or((".", stem));
    let dir = PathBuf::from(if dir.is_empty() { "/" } else { dir });
    if name.is_empty() || !dir.join(format!("{name}{}", PICKLES[0])).is_file() {
        Err(Error::NoFolder { path: path.to_path_buf() })
    } else {
        Ok((dir, Some(name.to_string())))
    }
}

/// The names of all files, listed or not, in order.
fn names(folder: &Folder, stem: Option<&str>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let unreadable = |path: &Path, source| Error::Read { path: path.to_path_buf(), source };
    walk(folder.dir(), "", &mut names).map_err(|source| unreadable(folder.dir(), source))?;
    let removed = folder.manifest().map(|list| list.removed.clone()).unwrap_or_default();
    names.retain(|name| !removed.contains(name));
    let listed = folder.manifest().into_iter().flat_map(Manifest::files);
    names.extend(listed.map(|file| file.name.clone()));
    names.sort();
    names.dedup();
    if let Some(stem) = stem {
        names.retain(|name| {
            let end = name.strip_prefix(stem);
            end.is_some_and(|end| end.starts_with('.') && !end[1..].contains('.'))
        });
    }
    Ok(names)
}

fn walk(folder: &Path, prefix: &str, names: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A save does not write names that are not Unicode.
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with(PRIVATE) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{prefix}{name}/"), names)?;
        } else if kind.is_file() {
            names.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

/// The variables that a saved program is fed, in order.
pub(crate) fn feeds(program: &Program) -> Vec<String> {
    by_column(program, "feed", |op| op.output_names("Out"))
}

/// The variables that are fetched of a saved program, in order.
pub(crate) fn fetches(program: &Program) -> Vec<String> {
    by_column(program, "fetch", |op| op.input_names("X"))
}

fn by_column(program: &Program, kind: &str, vars: impl Fn(&OpDesc) -> &[String]) -> Vec<String> {
    let mut columns = Vec::new();
    for op in program.block(0).ops.iter().filter(|op| op.kind == kind) {
        let column = op.attrs.int("col", 0).unwrap_or(0);
        columns.extend(vars(op).iter().map(|var| (column, var.clone())));
    }
    columns.sort_by_key(|&(column, _)| column);
    columns.into_iter().map(|(_, var)| var).collect()
}
