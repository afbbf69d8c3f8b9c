//! Pipe commands that need no pipe: they are done here, by the thread that reads.
//!
//! `cat` (the default) and our own readers give the same samples either way; `exec` before the
//! command starts the process nevertheless.

use std::io::{Read, Write};

use crate::criteo::Criteo;
use crate::csv::Csv;
use crate::error::{Error, Refusal, Result, shown};
use crate::files::{LINE_BYTES_MAX, Lines, ReadLine};
use crate::multi_slot::MultiSlot;
use crate::parquet::{BadRow, Parquet, ParquetReader, RowReader};
use crate::parse::Parse;
use crate::records::Records;
use crate::slot::Slot;

/// The parser that makes samples of a file.
pub(crate) enum Parser {
    /// Reads text, line by line.
    Lines(Box<dyn Parse>),
    /// Reads the rows of a file that is not text.
    Table(ParquetReader),
}

/// A reader of our own.
#[derive(Clone, Debug, PartialEq)]
pub enum Native {
    /// `criteo-reader`
    Criteo(Criteo),
    /// `csv-reader`
    Csv(Csv),
    /// `parquet-reader`
    Parquet(Parquet),
}

/// The names by which they are called.
pub const COMMANDS: [&str; 3] = ["criteo-reader", "csv-reader", "parquet-reader"];

impl Native {
    /// The reader of these words, the first its name; `None` if it is none of ours.
    pub fn from_words(words: &[&str]) -> Result<Option<Self>> {
        match words {
            ["criteo-reader", arguments @ ..] => {
                Criteo::from_arguments(arguments).map(|criteo| Some(Native::Criteo(criteo)))
            }
            ["csv-reader", arguments @ ..] => {
                Csv::from_arguments(arguments).map(|csv| Some(Native::Csv(csv)))
            }
            ["parquet-reader", arguments @ ..] => {
                Parquet::from_arguments(arguments).map(|parquet| Some(Native::Parquet(parquet)))
            }
            _ => Ok(None),
        }
    }

    /// The slots it makes, in order.
    pub fn slots(&self) -> Vec<Slot> {
        match self {
            Native::Criteo(_) => Criteo::slots(),
            Native::Csv(csv) => csv.slots(),
            Native::Parquet(parquet) => parquet.slots(),
        }
    }

    fn parser(&self, slots: &[Slot]) -> Parser {
        let used = slots.iter().map(|slot| slot.used).collect();
        match self {
            Native::Criteo(criteo) => Parser::Lines(Box::new(criteo.parser(used))),
            Native::Csv(csv) => Parser::Lines(Box::new(csv.parser(slots))),
            Native::Parquet(parquet) => Parser::Table(parquet.table(slots)),
        }
    }

    /// Does the work of the command: `input` becomes lines of counted slots.
    ///
    /// Lines are read as they come; a file that is not text is read as a whole before.
    pub fn run(&self, input: impl Read, output: impl Write) -> Result<()> {
        let slots = self.slots();
        match self.parser(&slots) {
            Parser::Lines(parser) => run_lines(parser, &slots, input, output),
            Parser::Table(table) => run_table(&table, &slots, input, output),
        }
    }
}

/// Text that is written in large pieces.
const OUT_BYTES: usize = 64 << 10;

fn run_lines(
    mut parser: Box<dyn Parse>,
    slots: &[Slot],
    input: impl Read,
    mut output: impl Write,
) -> Result<()> {
    let mut lines = Lines::new(input);
    let (mut records, mut text) = (Records::default(), Vec::new());
    let failed = |source| Error::ReadFile { file: STDIN.to_string(), source };
    loop {
        let at = lines.n_lines + 1;
        let line = match lines.next().map_err(failed)? {
            ReadLine::Text(line) => line,
            ReadLine::TooLong => return Err(too_long(at)),
            ReadLine::End => break,
        };
        records.clear();
        let bad = |refusal| bad_line(at, line, refusal);
        if parser.parse(line, &mut records).map_err(bad)? {
            records.commit();
            records.write_text(0, slots, &mut text);
        }
        if text.len() > OUT_BYTES && !written(&mut output, &mut text)? {
            return Ok(());
        }
    }
    written(&mut output, &mut text)?;
    Ok(())
}

const STDIN: &str = "standard input";

fn run_table(
    table: &ParquetReader,
    slots: &[Slot],
    mut input: impl Read,
    output: impl Write,
) -> Result<()> {
    struct Printed<'a, W> {
        slots: &'a [Slot],
        text: Vec<u8>,
        output: W,
        is_wanted: bool,
    }
    impl<W: Write> RowReader for Printed<'_, W> {
        fn taken(&mut self, records: &mut Records, _: u64) -> Result<()> {
            records.write_text(0, self.slots, &mut self.text);
            records.clear();
            if self.text.len() > OUT_BYTES && !written(&mut self.output, &mut self.text)? {
                self.is_wanted = false;
                return Err(Error::Stopped);
            }
            Ok(())
        }

        fn bad(&mut self, bad: BadRow) -> Result<()> {
            Err(bad.error(STDIN, ""))
        }
    }
    let mut bytes = Vec::new();
    let failed = |source| Error::ReadFile { file: STDIN.to_string(), source };
    input.read_to_end(&mut bytes).map_err(failed)?;
    let mut printed = Printed { slots, text: Vec::new(), output, is_wanted: true };
    let done = table.read(STDIN, bytes::Bytes::from(bytes), &mut Records::default(), &mut printed);
    if !printed.is_wanted {
        return Ok(());
    }
    done?;
    written(&mut printed.output, &mut printed.text)?;
    Ok(())
}

/// Writes a text and empties it. Returns whether the reader wants more.
fn written(output: &mut impl Write, text: &mut Vec<u8>) -> Result<bool> {
    let done = output.write_all(text).and_then(|()| output.flush());
    text.clear();
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(source) => Err(Error::ReadFile { file: "standard output".to_string(), source }),
    }
}

fn bad_line(line: u64, text: &[u8], refusal: Refusal) -> Error {
    let (file, command) = (STDIN.to_string(), String::new());
    Error::BadLine { file, line, command, refusal, text: shown(text) }
}

fn too_long(line: u64) -> Error {
    bad_line(line, b"", Refusal::TooLong { max: LINE_BYTES_MAX })
}

/// How the lines of a file are made and read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Format {
    /// The file holds counted slots.
    Plain,
    /// The file is read by a reader of ours.
    Native(Native),
    /// A command prints counted slots.
    Piped,
}

impl Format {
    /// The format that a pipe command stands for.
    pub(crate) fn of(command: &str) -> Result<Self> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let plain = |word: &str| {
            let odd = |c: char| !(c.is_ascii_alphanumeric() || "-_./=,%:+#".contains(c));
            !word.contains(odd)
        };
        Ok(match words.as_slice() {
            [] | ["cat"] => Format::Plain,
            ["paddlewheel", rest @ ..] if rest.iter().all(|word| plain(word)) => {
                Native::from_words(rest)?.map_or(Format::Piped, Format::Native)
            }
            _ => Format::Piped,
        })
    }

    /// The parser of this format.
    pub(crate) fn parser(&self, slots: &[Slot], ins_id: bool, content: bool) -> Result<Parser> {
        match self {
            Format::Plain | Format::Piped => {
                let lines = MultiSlot::new(slots)?.with_names(ins_id, content);
                Ok(Parser::Lines(Box::new(lines)))
            }
            Format::Native(native) => {
                crate::slot::check(slots)?;
                native.check(slots)?;
                Ok(native.parser(slots))
            }
        }
    }
}

impl Native {
    /// Checks that the slots of a dataset are those this makes.
    fn check(&self, slots: &[Slot]) -> Result<()> {
        let made = self.slots();
        let same = |(made, slot): (&Slot, &Slot)| {
            let sized = match (made.n_dense(), slot.n_dense()) {
                (Some(made), Some(wanted)) => made == wanted,
                (None, Some(wanted)) => wanted == 1,
                _ => true,
            };
            made.kind == slot.kind && sized
        };
        if made.len() == slots.len() && made.iter().zip(slots).all(same) {
            return Ok(());
        }
        let words = |slots: &[Slot]| {
            let word = |slot: &Slot| {
                let size = slot.n_dense().map_or(String::new(), |n| format!(" x {n}"));
                format!("{} ({:?}{size})", slot.name, slot.kind)
            };
            slots.iter().map(word).collect::<Vec<_>>().join(", ")
        };
        let command = match self {
            Native::Criteo(_) => COMMANDS[0],
            Native::Csv(_) => COMMANDS[1],
            Native::Parquet(_) => COMMANDS[2],
        };
        let command = command.to_string();
        Err(Error::NativeSlots { command, makes: words(&made), has: words(slots) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_without_a_shell_in_them_are_ours() {
        assert_eq!(Format::of("cat").unwrap(), Format::Plain);
        assert_eq!(Format::of(" ").unwrap(), Format::Plain);
        let native = Format::of("paddlewheel criteo-reader 1000").unwrap();
        assert!(matches!(native, Format::Native(Native::Criteo(_))));
        for piped in [
            "python criteo_reader.py 1000",
            "paddlewheel criteo-reader $N",
            "paddlewheel criteo-reader 1000 | head",
            "exec paddlewheel criteo-reader 1000",
            "cat | sort",
        ] {
            assert_eq!(Format::of(piped).unwrap(), Format::Piped, "{piped}");
        }
        let error = Format::of("paddlewheel criteo-reader many").unwrap_err();
        assert!(matches!(error, Error::Usage { .. }), "{error}");
    }

    #[test]
    fn refuses_a_dataset_of_other_slots() {
        let native = Format::of("paddlewheel criteo-reader 1000").unwrap();
        let error = native.parser(&[Slot::ids("c")], false, false).err().unwrap();
        assert!(matches!(error, Error::NativeSlots { .. }), "{error}");
    }
}
