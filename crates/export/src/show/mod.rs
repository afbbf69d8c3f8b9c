//! The contents of a folder, for people.

mod layout;
mod snapshots;
mod svg;
mod table;

use std::fmt::Write;
use std::path::Path;

use base::printable;
use program::OpDesc;
use train::folder::About;
use train::io::Checkpoints;

use crate::contents::{Contents, HeldForm, HeldVar, NamedProgram, feeds, fetches};
use crate::error::{Error, Result};
use table::{ColumnSide, TextTable};

/// Attributes without an effect on the result of an op.
const PLUMBING: [&str; 5] = ["op_callstack", "op_device", "op_namescope", "op_role", "op_role_var"];
/// Longer texts are cut in tables.
const CELL_MAX: usize = 60;

/// The contents of a folder, as text: variables, programs, and the facts about the saves that wrote
/// it. Control characters in names are written out.
pub fn text(path: &Path) -> Result<String> {
    Ok(printable(&whole_text(path)?).into_owned())
}

fn whole_text(path: &Path) -> Result<String> {
    if !path.exists() {
        // A prefix of fluid.save is not a file itself.
        return Contents::read(path).map(|contents| contents_text(path, &contents));
    }
    if let Some(text) = snapshots::text(path)? {
        return Ok(text);
    }
    let checkpoints = Checkpoints::new(path);
    let serials = if path.is_dir() { checkpoints.serials() } else { Vec::new() };
    if serials.is_empty() {
        return Contents::read(path).map(|contents| contents_text(path, &contents));
    }
    let complete = checkpoints.complete();
    let mut table = TextTable::new(&[("checkpoint", ColumnSide::Left), ("", ColumnSide::Left)]);
    for &serial in &serials {
        let is_complete = complete.contains(&serial);
        let state = if is_complete { "complete" } else { "not complete" };
        table.row(vec![format!("checkpoint_{serial}"), state.to_string()]);
    }
    let mut text = format!("{}: checkpoints\n\n{table}", path.display());
    if let Some(&newest) = complete.iter().max() {
        let folder = checkpoints.folder(newest);
        let contents = Contents::read(&folder)?;
        write!(text, "\n{}", contents_text(&folder, &contents)).expect("text grows");
    }
    Ok(text)
}

/// The graph of the program of a folder, as SVG.
pub fn picture(path: &Path) -> Result<String> {
    let contents = Contents::read(path)?;
    match contents.programs.first() {
        Some(named) => Ok(svg::draw(&named.program)),
        None => Err(Error::NoModel { path: path.to_path_buf() }),
    }
}

fn contents_text(path: &Path, contents: &Contents) -> String {
    let mut text = format!("{}: {}", path.display(), counted(contents.n_files, "file"));
    write!(text, ", {} bytes", grouped(contents.n_bytes)).expect("text grows");
    let checked = if contents.is_listed() {
        ", checksums match"
    } else {
        ", no list of files: another program wrote it"
    };
    text.push_str(checked);
    text.push('\n');
    for about in &contents.saves {
        writeln!(text, "saved: {}", about_text(about)).expect("text grows");
    }
    if !contents.vars.is_empty() {
        write!(text, "\n{}", vars_table(&contents.vars)).expect("text grows");
    }
    for named in &contents.programs {
        write!(text, "\n{}", program_text(named)).expect("text grows");
    }
    if !contents.others.is_empty() {
        writeln!(text, "\nother files: {}", contents.others.join(", ")).expect("text grows");
    }
    text
}

fn about_text(about: &About) -> String {
    let step = about.step.map(|step| format!(", after step {step}"));
    let mode = (!about.mode.is_empty()).then(|| format!(", {} mode", about.mode));
    let servers =
        (about.n_servers > 0).then(|| format!(", {}", counted(about.n_servers, "server")));
    [Some(about.kind.clone()), step, mode, servers].into_iter().flatten().collect()
}

fn vars_table(vars: &[HeldVar]) -> String {
    let (left, right) = (ColumnSide::Left, ColumnSide::Right);
    let head =
        [("variable", left), ("type", left), ("shape", left), ("rows", right), ("bytes", right)];
    let mut table = TextTable::new(&[&head[..], &[("file", left)]].concat());
    for var in vars {
        let rows = match var.form {
            HeldForm::Dense => String::new(),
            HeldForm::Rows(n) => grouped(n),
            HeldForm::Waiting(n) => format!("{} wait", grouped(n)),
        };
        let file = match &var.files[..] {
            [file] => file.clone(),
            files => format!("{} … ({} parts)", files[0], files.len()),
        };
        let (dtype, dims) = (var.dtype.name().to_string(), format!("{:?}", var.dims));
        table.row(vec![var.name.clone(), dtype, dims, rows, grouped(var.n_bytes), file]);
    }
    let n_bytes: u64 = vars.iter().map(|var| var.n_bytes).sum();
    format!("{table}{}, {} bytes\n", counted(vars.len(), "variable"), grouped(n_bytes))
}

fn program_text(named: &NamedProgram) -> String {
    let program = &named.program;
    let n_ops: usize = program.blocks().iter().map(|block| block.ops.len()).sum();
    let blocks = counted(program.blocks().len(), "block");
    let mut text = format!("program {}: {blocks}, {}\n", named.file, counted(n_ops, "op"));
    for (word, names) in [("feeds", feeds(program)), ("fetches", fetches(program))] {
        if !names.is_empty() {
            writeln!(text, "{word}: {}", names.join(", ")).expect("text grows");
        }
    }
    for block in program.blocks() {
        if program.blocks().len() > 1 {
            writeln!(text, "block {}, inside {}", block.idx, block.parent).expect("text grows");
        }
        let (left, right) = (ColumnSide::Left, ColumnSide::Right);
        let head = [("#", right), ("op", left), ("inputs", left), ("outputs", left)];
        let mut table = TextTable::new(&[&head[..], &[("attributes", left)]].concat());
        for (at, op) in block.ops.iter().enumerate() {
            let (reads, writes) = (ports(&op.inputs), ports(&op.outputs));
            table.row(vec![at.to_string(), op.kind.clone(), reads, writes, attrs(op)]);
        }
        write!(text, "{table}").expect("text grows");
    }
    text
}

fn ports(ports: &[(String, Vec<String>)]) -> String {
    let used = ports.iter().filter(|(_, vars)| !vars.is_empty());
    let texts = used.map(|(port, vars)| format!("{port}={}", cut(&vars.join(","))));
    texts.collect::<Vec<_>>().join(" ")
}

fn attrs(op: &OpDesc) -> String {
    let shown = op.attrs.iter().filter(|(name, _)| !PLUMBING.contains(name));
    shown
        .map(|(name, value)| format!("{name}={}", cut(&value.to_string())))
        .collect::<Vec<_>>()
        .join(" ")
}

fn cut(text: &str) -> String {
    if text.chars().count() > CELL_MAX {
        text.chars().take(CELL_MAX - 1).chain(['…']).collect()
    } else {
        text.to_string()
    }
}

fn counted(n: usize, what: &str) -> String {
    let end = if n == 1 { "" } else { "s" };
    format!("{} {what}{end}", grouped(n as u64))
}

/// A number with commas: 1,234,567.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let text = [0, 12, 123, 1234, 1_234_567].map(grouped);
        assert_eq!(text, ["0", "12", "123", "1,234", "1,234,567"]);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("abc"), "abc");
        assert_eq!(cut(&"x".repeat(100)).chars().count(), CELL_MAX);
    }
}
