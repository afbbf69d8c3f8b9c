//! Tables that servers kept by rows, in a process without servers: all parts of a table become one
//! value that is only read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use program::VarDesc;
use program::distributed::{Spread, server_of};
use tensor::{DType, Dealt, KeyedTable, OtherRow, OtherRows, Rows, Value};

use super::distributed::TABLES;
use super::file::file_to_load;
use super::rows::{
    self, Form, Naming, PieceFile, Share, WAITING, read_pieces, read_what_fits, write_piece,
};
use crate::error::{Error, Result};
use crate::folder::{Folder, Stage};

/// How a table is found that may have been saved in any number of parts.
fn any_part(var: &str) -> PieceFile<'_> {
    PieceFile { var, number: 0, n: 1, naming: Naming::Counted }
}

/// Whether a variable was saved as the rows of a table, and not whole.
pub(super) fn is_kept(folder: &Folder, prefix: &str, var: &str) -> Result<bool> {
    if folder.has(&format!("{prefix}{}", file_to_load(var)?)) {
        return Ok(false);
    }
    rows::is_there(folder, any_part(var))
}

/// The rows of a table, as its variable says they are.
pub(super) fn read_kept(folder: &Folder, var: &VarDesc) -> Result<Value> {
    let &[height, width] = &var.meta.dims[..] else { return Err(no_table(folder, &var.name)) };
    let form = Form { height, width: width.max(0) as usize, dtype: DType::F32 };
    let own = any_part(&var.name);
    let rows = read_pieces(folder, own, form, &Share::Range(0..height))?;
    table(folder, &var.name, rows)
}

/// The rows of a table of which nothing but its files is known.
pub(super) fn read_any(folder: &Folder, var: &str) -> Result<Value> {
    let parts = folder.manifest().map(|list| list.parts(var)).unwrap_or_default();
    let listed = parts.first().and_then(|(_, file)| file.vars.first());
    let height = listed.and_then(|var| var.dims.first().copied()).unwrap_or(i64::MAX);
    let form = Form { height, width: 0, dtype: DType::F32 };
    let rows = read_what_fits(folder, any_part(var), form, &Share::Range(0..height))?;
    table(folder, var, rows)
}

fn table(folder: &Folder, var: &str, rows: Option<Rows>) -> Result<Value> {
    let rows = rows.ok_or_else(|| no_table(folder, var))?;
    let others = others(folder, var)?;
    let table = KeyedTable::new(rows, others).map_err(|_| no_table(folder, var))?;
    Ok(Value::Keyed(Arc::new(table)))
}

fn no_table(folder: &Folder, var: &str) -> Error {
    let path = folder.dir().join(TABLES).join(var);
    let problem = "its files are not the rows of a table of two dimensions".into();
    Error::RowsFile { path, problem }
}

/// The names of all tables that were saved by rows.
pub(super) fn kept_names(folder: &Folder) -> BTreeSet<String> {
    let listed = folder.manifest().into_iter().flat_map(|list| list.files());
    let mut names: BTreeSet<String> =
        listed.filter_map(|file| file.part.as_ref()).map(|part| part.var.clone()).collect();
    let entries = fs::read_dir(folder.dir().join(TABLES)).into_iter().flatten();
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_part = |text: &str| match text.split_once("of") {
            Some((number, n)) => is_number(number) && is_number(n),
            None => is_number(text) || text == "parts",
        };
        if let Some((var, _)) = name.rsplit_once('_').filter(|(_, part)| is_part(part)) {
            names.insert(var.to_string());
        }
    }
    names.retain(|name| !name.ends_with(WAITING));
    names
}

/// The suffix of the file that says what the rows of a part read as that do not exist.
const RULE: &str = "_rule";

/// Writes what rows of a part read as that do not exist.
pub fn write_rule(stage: &Stage, piece: PieceFile<'_>, rule: &OtherRow) -> Result<()> {
    stage.write(&format!("{}{RULE}", piece.name()?), rule.to_text().as_bytes())
}

/// The value of a table's rows that do not exist: zeros, if the folder does not say.
fn others(folder: &Folder, var: &str) -> Result<OtherRows> {
    let Some(parts) = rows::parts(folder, any_part(var))? else { return Ok(OtherRows::default()) };
    let mut rules = Vec::new();
    for piece in &parts.pieces {
        let name = format!("{}{RULE}", piece.name()?);
        if !folder.has(&name) {
            return Ok(OtherRows::default());
        }
        let bytes = folder.read(&name)?;
        let rule = std::str::from_utf8(&bytes).ok().and_then(OtherRow::from_text);
        let path = || folder.dir().join(&name);
        let problem = "it should say what rows read as that do not exist";
        rules.push(rule.ok_or_else(|| Error::RowsFile { path: path(), problem: problem.into() })?);
    }
    let dealt = match parts.spread {
        Some(Spread::Hash) => Dealt::Hash,
        Some(Spread::Range) => Dealt::Ranges(rules.iter().map(|rule| rule.first).collect()),
        // Dealt out as Fluid does it: such files come without rules.
        None => return Ok(OtherRows::default()),
    };
    Ok(OtherRows { parts: rules, dealt })
}

/// Writes a table that is only read, in as many parts as it has rules.
pub(super) fn write_kept(stage: &Stage, var: &str, table: &KeyedTable) -> Result<()> {
    let (others, n) = (table.others(), table.others().parts.len().max(1));
    let spread = match others.dealt {
        Dealt::Hash if n > 1 => Spread::Hash,
        _ => Spread::Range,
    };
    let part_of = |id: i64| match &others.dealt {
        Dealt::Hash => server_of(id, n),
        Dealt::Ranges(firsts) => firsts.partition_point(|&first| first <= id).max(1) - 1,
    };
    let mut parts: BTreeMap<usize, Vec<(i64, usize)>> = (0..n).map(|at| (at, Vec::new())).collect();
    for (place, &id) in table.ids().iter().enumerate() {
        parts.entry(part_of(id)).or_default().push((id, place));
    }
    let form = Form { height: table.height(), width: table.width(), dtype: DType::F32 };
    for (number, mut places) in parts {
        places.sort_unstable();
        let piece = PieceFile { var, number, n, naming: Naming::Counted };
        let ids: Vec<i64> = places.iter().map(|&(id, _)| id).collect();
        let values = rows::rows_of(table.value(), places.iter().map(|&(_, place)| place));
        let file = piece.create(stage, spread)?;
        write_piece(file, var, form, ids.into_iter(), values.map(|row| Ok(row.to_vec())))?;
        if let Some(rule) = others.parts.get(number) {
            write_rule(stage, piece, rule)?;
        }
    }
    Ok(())
}
