//! One pass over the files: the state that its threads share, and the reading of a file by one of
//! them.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use base::{EvenIfPoisoned, ProcessGroup};

use crate::error::{Error, Refusal, Result, of_read, shown};
use crate::files::{self, Files, LINE_BYTES_MAX, Lines, OpenText, Opened, ReadLine};
use crate::native::{Format, Parser};
use crate::parquet::{BadRow, RowReader};
use crate::pipe::{CommandInput, Order, Pipe};
use crate::records::Records;
use crate::settings::Settings;
use crate::source::{Place, ReadAhead, RemoteBlocks, Remotes};

/// Bad lines and files that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many lines.
    pub n_lines: u64,
    /// How many files, from the first error in them on.
    pub n_files: u64,
    /// The first error.
    pub first: String,
}

/// The part of a file that was read before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// Lines or rows.
    pub(crate) n_lines: u64,
    /// Their bytes; 0 if that is not known.
    pub(crate) byte: u64,
    /// The version of the file, 0 if it is not known.
    pub(crate) version: u64,
}

/// Where the lines of a thread go.
pub(crate) struct Sink<'a> {
    pub(crate) parser: &'a mut Parser,
    pub(crate) records: &'a mut Records,
    /// The part of the file that was read before, to be skipped.
    pub(crate) before: Before,
    /// The lines and files that this thread has left out.
    pub(crate) skipped: &'a mut Skipped,
    pub(crate) taken: Taken<'a>,
}

/// Sees the records after each new one, with what was read until there, and may take them out.
pub(crate) type Taken<'a> = &'a mut dyn FnMut(&mut Records, Seen<'_>) -> Result<()>;

/// The progress of a thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// Of the present file.
    pub(crate) at: Before,
    /// The lines and files that this thread has left out.
    pub(crate) skipped: &'a Skipped,
}

/// State that the threads of a pass share.
pub(crate) struct Pass {
    pub(crate) settings: Settings,
    pub(crate) format: Format,
    pub(crate) files: Files,
    remotes: Remotes,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) n_rows: AtomicU64,
    pub(crate) skipped: Arc<Mutex<Skipped>>,
    /// The processes; there are none before the first pipe command.
    group: OnceLock<ProcessGroup>,
    starting: Mutex<()>,
}

impl Pass {
    /// A pass over all files, or over the rest of them: `before` was read or skipped already.
    pub(crate) fn new(settings: &Settings, before: (u64, Skipped)) -> Result<Self> {
        settings.check()?;
        let format = Format::of(&settings.pipe_command)?;
        // Refuses slots that do not fit before anything starts.
        format.parser(&settings.slots, settings.ins_id, settings.content)?;
        let stop: Arc<AtomicBool> = Arc::default();
        Ok(Self {
            settings: settings.clone(),
            format,
            files: Files::new(&settings.files),
            remotes: Remotes::new(&settings.stores, stop.clone()),
            stop,
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

    /// Counts lines and files that are left out; an error if they are too many.
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
                | Error::Unreachable { .. }
                | Error::Stopped),
            ) => Err(error),
            Err(error) => self.skip(error, sink.skipped, |skipped| skipped.n_files += 1),
            Ok(()) => Ok(()),
        }
    }

    fn read_strictly(&self, file: &str, sink: &mut Sink<'_>) -> Result<()> {
        let is_table = matches!(sink.parser, Parser::Table(_));
        if let Some(fetch) = self.settings.fetch(file) {
            let reason = "what a command prints cannot be, only files as they are".to_string();
            return if is_table {
                Err(Error::BadParquet { file: file.to_string(), reason })
            } else {
                self.read_piped(file, CommandInput::Fetched(fetch), sink).map(|_| ())
            };
        }
        let place = self.remotes.file(file)?;
        if is_table {
            return self.read_table(file, place, sink);
        }
        if self.format != Format::Piped {
            return self.read_text(file, &place, sink);
        }
        let version = sink.before.version;
        let text = open(file, &place, Before { version, ..Before::default() })?;
        let n_bytes = self.read_piped(file, CommandInput::Opened(text.opened), sink)?;
        if n_bytes == 0 && text.filled {
            return Err(Error::PipeSilent { command: self.command(), file: file.to_string() });
        }
        Ok(())
    }

    /// Reads the output of a command. Returns its length.
    fn read_piped(&self, file: &str, input: CommandInput, sink: &mut Sink<'_>) -> Result<u64> {
        let mut lines = Lines::new(self.start(file, input)?);
        if let Err(source) = self.lines(file, &mut lines, sink, None)? {
            return Err(lines.into_source().error(source));
        }
        let n_lines = lines.n_lines;
        let mut pipe = lines.into_source();
        pipe.note_end();
        let n_bytes = pipe.n_bytes;
        pipe.finish()?;
        whole(file, sink.before.n_lines, n_lines)?;
        Ok(n_bytes)
    }

    /// Reads the lines of a file, from the byte on where they were left if that is known.
    fn read_text(&self, file: &str, place: &Place, sink: &mut Sink<'_>) -> Result<()> {
        let failed = |source| of_read(file, source);
        let before = sink.before;
        // A file that is shorter now is read from its beginning, to say what it has.
        let resumes = before.byte > 0
            && !matches!(place, Place::Local(path) if is_shorter(path, before.byte));
        let from = if resumes { before } else { Before { byte: 0, ..before } };
        if let (true, Parser::Lines(parser)) = (resumes, &mut *sink.parser)
            && parser.needs_header()
        {
            let first = open(file, place, Before { byte: 0, ..before })?;
            let mut lines = Lines::new(first.opened.reader());
            // Lines before the header may have been left out.
            while parser.needs_header() && lines.n_lines < before.n_lines {
                match lines.next().map_err(failed)? {
                    ReadLine::Text(line) => parser.pass_over(line),
                    ReadLine::TooLong | ReadLine::End => break,
                }
            }
        }
        let text = open(file, place, from)?;
        let version = text.version;
        let is_plain = text.is_plain;
        let mut reader = text.opened.reader();
        let mut lines = if resumes {
            check_place(file, &mut reader, from)?;
            Lines::at(reader, from.n_lines, from.byte)
        } else {
            Lines::new(reader)
        };
        let counted = Counted { is_plain, version };
        self.lines(file, &mut lines, sink, Some(counted))?.map_err(failed)?;
        whole(file, before.n_lines, lines.n_lines)
    }

    fn read_table(&self, file: &str, place: Place, sink: &mut Sink<'_>) -> Result<()> {
        let Parser::Table(table) = &mut *sink.parser else { return Ok(()) };
        let Before { n_lines: n_before, version, .. } = sink.before;
        let (skipped, taken) = (&mut *sink.skipped, &mut *sink.taken);
        let mut rows = TableSink { pass: self, file, n_before, version, skipped, taken };
        match place {
            Place::Local(path) => {
                let text = files::open(&path).map_err(|source| of_read(file, source))?;
                let Opened::Plain(source) = text.opened else {
                    let reason = "only a file as it is can be, not a packed one".to_string();
                    return Err(Error::BadParquet { file: file.to_string(), reason });
                };
                table.read(file, source, sink.records, &mut rows)?;
                files::note_read(file);
                Ok(())
            }
            Place::Remote(remote) => {
                let blocks = RemoteBlocks::open(remote, version)?;
                rows.version = blocks.version();
                let read = table.read(file, blocks.clone(), sink.records, &mut rows);
                match (read, blocks.failure()) {
                    // The reader of the format has other words for it.
                    (Err(Error::BadParquet { .. }), Some(failure)) => Err(failure),
                    (read, _) => read,
                }
            }
        }
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

    fn group(&self, command: &str) -> Result<&ProcessGroup> {
        let _one = self.starting.lock().even_if_poisoned();
        if let Some(group) = self.group.get() {
            return Ok(group);
        }
        let failed = |source| Error::StartPipe { command: command.to_string(), source };
        let group = ProcessGroup::new().map_err(failed)?;
        Ok(self.group.get_or_init(|| group))
    }

    /// Reads all lines. The outer error is the data's, the inner one that of reading.
    fn lines<R: Read>(
        &self,
        file: &str,
        lines: &mut Lines<R>,
        sink: &mut Sink<'_>,
        counted: Option<Counted>,
    ) -> Result<std::io::Result<()>> {
        // A table has no lines.
        let Parser::Lines(parser) = &mut *sink.parser else { return Ok(Ok(())) };
        let version = counted.map_or(0, |counted| counted.version);
        let is_plain = counted.is_some_and(|counted| counted.is_plain);
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
            if at <= sink.before.n_lines {
                parser.pass_over(line);
                continue;
            }
            match parser.parse(line, sink.records) {
                Ok(true) => {
                    sink.records.commit();
                    let byte = if is_plain { lines.n_bytes } else { 0 };
                    let seen = Before { n_lines: at, byte, version };
                    (sink.taken)(sink.records, Seen { at: seen, skipped: sink.skipped })?;
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

/// Facts about the text that lines come from.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// Its bytes are those of the file.
    is_plain: bool,
    /// The version of the file, 0 if it is not known.
    version: u64,
}

/// Opens a file, or one byte before the place where reading resumes ([`check_place`]).
fn open(file: &str, place: &Place, before: Before) -> Result<OpenText> {
    let failed = |source| of_read(file, source);
    let byte = before.byte.saturating_sub(1);
    match place {
        Place::Local(path) if before.byte == 0 => files::open(path).map_err(failed),
        Place::Local(path) => files::open_at(path, byte).map_err(failed),
        Place::Remote(remote) => {
            let ahead = ReadAhead::open(remote.clone(), byte, before.version)?;
            let version = ahead.version().digest();
            let text = match before.byte {
                0 => files::unpack(ahead).map_err(failed)?,
                _ => OpenText::plain(Opened::Stream(Box::new(ahead))),
            };
            Ok(OpenText { version, ..text })
        }
    }
}

fn is_shorter(path: &str, byte: u64) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() < byte)
}

/// Skips the byte before the place where reading resumes: a line ends there, or the file.
fn check_place(file: &str, reader: &mut dyn Read, before: Before) -> Result<()> {
    let failed = |source| of_read(file, source);
    let mut two = Vec::new();
    reader.take(1).read_to_end(&mut two).map_err(failed)?;
    if two != b"\n" {
        reader.take(1).read_to_end(&mut two).map_err(failed)?;
    }
    if two == b"\n" || two.len() == 1 {
        return Ok(());
    }
    let Before { n_lines, byte, .. } = before;
    let was = format!("{n_lines} lines in {byte} bytes");
    let is = "a file in which no line ends there".to_string();
    Err(Error::FileChanged { file: file.to_string(), was, is })
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
    /// The version of the file, 0 if it is not known.
    version: u64,
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
        let at = Before { n_lines: n_rows, byte: 0, version: self.version };
        (self.taken)(records, Seen { at, skipped: self.skipped })
    }

    fn bad(&mut self, bad: BadRow) -> Result<()> {
        let error = bad.error(self.file, &self.pass.command());
        self.pass.skip(error, self.skipped, |skipped| skipped.n_lines += 1)
    }

    fn ended(&mut self, n_rows: u64) -> Result<()> {
        whole(self.file, self.n_before, n_rows)
    }
}
