//! One pass over the files: what its threads share, and how one of them reads a file.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tensor::EvenIfPoisoned;

use crate::error::{Error, Refusal, Result, shown};
use crate::files::{self, Files, LINE_BYTES_MAX, Lines, Opened, ReadLine};
use crate::native::{Format, Parser};
use crate::parquet::{BadRow, RowReader};
use crate::pipe::{CommandGroup, CommandInput, Order, Pipe};
use crate::records::Records;
use crate::settings::Settings;

/// Bad lines and files that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many lines.
    pub n_lines: u64,
    /// How many files, from the first error in them on.
    pub n_files: u64,
    /// What was wrong with the first.
    pub first: String,
}

/// Where the lines of a thread go.
pub(crate) struct Sink<'a> {
    pub(crate) parser: &'a mut Parser,
    pub(crate) records: &'a mut Records,
    /// Lines or rows at the beginning of the file that were read before, and are passed over.
    pub(crate) n_before: u64,
    /// What this thread has left out.
    pub(crate) skipped: &'a mut Skipped,
    pub(crate) taken: Taken<'a>,
}

/// Sees the records after each new one, with what was read until there, and may take them out.
pub(crate) type Taken<'a> = &'a mut dyn FnMut(&mut Records, Seen<'_>) -> Result<()>;

/// What was read so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// Lines or rows of the present file.
    pub(crate) n_lines: u64,
    /// What this thread has left out.
    pub(crate) skipped: &'a Skipped,
}

/// What the threads of a pass share.
pub(crate) struct Pass {
    pub(crate) settings: Settings,
    pub(crate) format: Format,
    pub(crate) files: Files,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) n_rows: AtomicU64,
    pub(crate) skipped: Arc<Mutex<Skipped>>,
    /// The processes; there are none before the first pipe command.
    group: OnceLock<CommandGroup>,
    starting: Mutex<()>,
}

impl Pass {
    /// A pass over all files, or over the rest of them: `before` was read or skipped already.
    pub(crate) fn new(settings: &Settings, before: (u64, Skipped)) -> Result<Self> {
        settings.check()?;
        let format = Format::of(&settings.pipe_command)?;
        // Refuses slots that do not fit before anything starts.
        format.parser(&settings.slots, settings.ins_id, settings.content)?;
        Ok(Self {
            settings: settings.clone(),
            format,
            files: Files::new(&settings.files),
            stop: Arc::default(),
            n_rows: AtomicU64::new(before.0),
            skipped: Arc::new(Mutex::new(before.1)),
            group: OnceLock::new(),
            starting: Mutex::new(()),
        })
    }

    pub(crate) fn parser(&self) -> Result<Parser> {
        let Settings { slots, ins_id, content, .. } = &self.settings;
        self.format.parser(slots, *ins_id, *content)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The error of a pass in which nothing was read.
    pub(crate) fn no_rows(&self) -> Error {
        let (n_files, command) = (self.files.paths().len(), self.command());
        let first = self.files.paths().first().cloned().unwrap_or_default();
        Error::NoRows { n_files, first, command }
    }

    /// The command as errors name it: none if it does nothing.
    fn command(&self) -> String {
        match self.format {
            Format::Plain => String::new(),
            _ => self.settings.pipe_command.clone(),
        }
    }

    /// Counts what is left out, or says that it was too much.
    fn skip(&self, error: Error, own: &mut Skipped, count: fn(&mut Skipped)) -> Result<()> {
        let max = self.settings.skips_max;
        if max == 0 || matches!(error, Error::Stopped) {
            return Err(error);
        }
        let mut skipped = self.skipped.lock().even_if_poisoned();
        if skipped.n_lines + skipped.n_files >= max {
            return Err(Error::TooManySkipped { max, last: Box::new(error) });
        }
        for skipped in [&mut *skipped, own] {
            count(skipped);
            if skipped.first.is_empty() {
                skipped.first = error.to_string();
            }
        }
        Ok(())
    }

    /// Reads a file.
    pub(crate) fn read(&self, file: &str, sink: &mut Sink<'_>) -> Result<()> {
        if let Parser::Lines(parser) = sink.parser {
            parser.begin();
        }
        match self.read_strictly(file, sink) {
            // These are about a line, or about all: the file has nothing to do with it.
            Err(
                error @ (Error::TooManySkipped { .. }
                | Error::BadLine { .. }
                | Error::BadRow { .. }
                | Error::DenseFill { .. }
                | Error::FileShorter { .. }
                | Error::Stopped),
            ) => Err(error),
            Err(error) => self.skip(error, sink.skipped, |skipped| skipped.n_files += 1),
            Ok(()) => Ok(()),
        }
    }

    fn read_strictly(&self, file: &str, sink: &mut Sink<'_>) -> Result<()> {
        let failed = |source| Error::ReadFile { file: file.to_string(), source };
        let fetch = self.settings.fetch(file);
        let (input, filled) = match fetch {
            Some(fetch) => (CommandInput::Fetched(fetch), false),
            None => {
                let (opened, filled) = files::open(file).map_err(failed)?;
                (CommandInput::Opened(opened), filled)
            }
        };
        if let Parser::Table(table) = sink.parser {
            let CommandInput::Opened(Opened::Plain(source)) = input else {
                let reason = "only files of this machine can be, as they are".to_string();
                return Err(Error::BadParquet { file: file.to_string(), reason });
            };
            let Sink { n_before, .. } = *sink;
            let (skipped, taken) = (&mut *sink.skipped, &mut *sink.taken);
            let mut rows = TableSink { pass: self, file, n_before, skipped, taken };
            table.read(file, source, sink.records, &mut rows)?;
            files::note_read(file);
            return Ok(());
        }
        let input = match input {
            CommandInput::Opened(opened) if self.format != Format::Piped => {
                let mut lines = Lines::new(opened.reader());
                let read = self.lines(file, &mut lines, sink);
                read?.map_err(failed)?;
                return whole(file, sink.n_before, lines.n_lines);
            }
            input => input,
        };
        let mut lines = Lines::new(self.start(file, input)?);
        if let Err(source) = self.lines(file, &mut lines, sink)? {
            return Err(lines.into_source().error(source));
        }
        files::note_read(file);
        let n_lines = lines.n_lines;
        let pipe = lines.into_source();
        let silent = pipe.n_bytes == 0 && filled;
        pipe.finish()?;
        if silent {
            return Err(Error::PipeSilent { command: self.command(), file: file.to_string() });
        }
        whole(file, sink.n_before, n_lines)
    }

    fn start(&self, file: &str, input: CommandInput) -> Result<Pipe> {
        // A reader of ours takes what was fetched as it comes.
        let command = match self.format {
            Format::Piped => self.settings.pipe_command.as_str(),
            Format::Plain | Format::Native(_) => "cat",
        };
        let order = Order {
            command,
            file,
            shell: &self.settings.shell,
            slots: &self.settings.slots,
            silence_max: self.settings.silence_max,
            stop: self.stop.clone(),
        };
        Pipe::start(self.group(command)?, order, input)
    }

    fn group(&self, command: &str) -> Result<&CommandGroup> {
        let _one = self.starting.lock().even_if_poisoned();
        if let Some(group) = self.group.get() {
            return Ok(group);
        }
        let failed = |source| Error::StartPipe { command: command.to_string(), source };
        let group = CommandGroup::new().map_err(failed)?;
        Ok(self.group.get_or_init(|| group))
    }

    /// Reads all lines. The outer error is the data's, the inner one that of reading.
    fn lines<R: Read>(
        &self,
        file: &str,
        lines: &mut Lines<R>,
        sink: &mut Sink<'_>,
    ) -> Result<std::io::Result<()>> {
        // A table has no lines.
        let Parser::Lines(parser) = &mut *sink.parser else { return Ok(Ok(())) };
        loop {
            if self.stopped() {
                return Err(Error::Stopped);
            }
            let at = lines.n_lines + 1;
            let line = match lines.next() {
                Ok(ReadLine::Text(line)) => line,
                Ok(ReadLine::End) => return Ok(Ok(())),
                Ok(ReadLine::TooLong) => {
                    return Err(self.bad(file, at, b"", Refusal::TooLong { max: LINE_BYTES_MAX }));
                }
                Err(error) => return Ok(Err(error)),
            };
            if at <= sink.n_before {
                parser.pass_over(line);
                continue;
            }
            match parser.parse(line, sink.records) {
                Ok(true) => {
                    sink.records.commit();
                    (sink.taken)(sink.records, Seen { n_lines: at, skipped: sink.skipped })?;
                }
                Ok(false) => {}
                Err(refusal) => {
                    let error = self.bad(file, at, line, refusal);
                    self.skip(error, sink.skipped, |skipped| skipped.n_lines += 1)?;
                }
            }
        }
    }

    fn bad(&self, file: &str, line: u64, text: &[u8], refusal: Refusal) -> Error {
        let (file, command) = (file.to_string(), self.command());
        Error::BadLine { file, line, command, refusal, text: shown(text) }
    }
}

/// Refuses a file that ends before the place from which it should be read.
fn whole(file: &str, expected: u64, found: u64) -> Result<()> {
    if found < expected {
        return Err(Error::FileShorter { file: file.to_string(), expected, found });
    }
    Ok(())
}

/// Where the rows of a table go.
struct TableSink<'a> {
    pass: &'a Pass,
    file: &'a str,
    n_before: u64,
    skipped: &'a mut Skipped,
    taken: Taken<'a>,
}

impl RowReader for TableSink<'_> {
    fn n_before(&self) -> u64 {
        self.n_before
    }

    fn taken(&mut self, records: &mut Records, n_rows: u64) -> Result<()> {
        if self.pass.stopped() {
            return Err(Error::Stopped);
        }
        (self.taken)(records, Seen { n_lines: n_rows, skipped: self.skipped })
    }

    fn bad(&mut self, bad: BadRow) -> Result<()> {
        let error = bad.error(self.file, &self.pass.command());
        self.pass.skip(error, self.skipped, |skipped| skipped.n_lines += 1)
    }

    fn ended(&mut self, n_rows: u64) -> Result<()> {
        whole(self.file, self.n_before, n_rows)
    }
}
