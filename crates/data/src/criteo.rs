//! Click logs as Criteo published them: label TAB 13 whole numbers TAB 26 strings, any may be empty.
//!
//! The samples are those of `examples/ctr/criteo_reader.py N`: the ids are Python's
//! `hash(str(index) + text) % N` with `PYTHONHASHSEED=0` (SipHash-1-3, Python 3.11 and later), or
//! the checksum of `"<slot>:<text>"`; the numbers are scaled to about 0..1, or are log(1 + x),
//! divided by 8 or not.

use crate::checksum::crc32;
use crate::error::{Error, Refusal, Result, shown};
use crate::number::{Cursor, Id, Modulus, whole_float};
use crate::parse::Parse;
use crate::records::Records;
use crate::slot::Slot;

const N_NUMBERS: usize = 13;
const N_TEXTS: usize = 26;
const N_FIELDS: usize = 1 + N_NUMBERS + N_TEXTS;
/// The column of the first text.
const FIRST_TEXT: usize = 1 + N_NUMBERS;
/// The offset of each number, and its divisor.
const LEAST: [f64; N_NUMBERS] = [0., -3., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.];
const RANGE: [f64; N_NUMBERS] =
    [20., 603., 100., 50., 64000., 500., 100., 50., 500., 10., 10., 10., 50.];
/// Whole numbers below this have their logarithm in a table.
const N_LOGS: usize = 4096;

/// How a text becomes an id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hash {
    /// As `hash` of Python does.
    #[default]
    Python,
    /// By checksum.
    Crc32,
}

/// How a number becomes small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dense {
    /// (x - least) / range, by column.
    #[default]
    Scaled,
    /// log(1 + x) / 8; negative numbers count as 0.
    Log,
    /// log(1 + x); negative numbers count as 0.
    Log1p,
}

impl Dense {
    /// A number of a column, small.
    fn apply(self, x: f64, column: usize) -> f32 {
        let small = match self {
            Dense::Scaled => (x - LEAST[column]) / RANGE[column],
            Dense::Log => x.max(0.0).ln_1p() * 0.125,
            Dense::Log1p => x.max(0.0).ln_1p(),
        };
        small as f32
    }
}

/// The settings of `criteo-reader`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criteo {
    /// Ids are below this.
    pub n_ids: u64,
    /// How they are made.
    pub hash: Hash,
    /// How numbers are scaled.
    pub dense: Dense,
}

impl Criteo {
    /// The settings that arguments give.
    pub fn from_arguments(arguments: &[&str]) -> Result<Self> {
        let usage = |reason: String| Error::Usage { command: "criteo-reader", reason };
        let mut criteo = Self { n_ids: 0, hash: Hash::default(), dense: Dense::default() };
        let mut rest = arguments.iter();
        while let Some(&argument) = rest.next() {
            match (argument, argument.starts_with("--").then(|| rest.next().copied()).flatten()) {
                ("--hash", Some("python")) => criteo.hash = Hash::Python,
                ("--hash", Some("crc32")) => criteo.hash = Hash::Crc32,
                ("--dense", Some("scaled")) => criteo.dense = Dense::Scaled,
                ("--dense", Some("log")) => criteo.dense = Dense::Log,
                ("--dense", Some("log1p")) => criteo.dense = Dense::Log1p,
                (number, None) if criteo.n_ids == 0 => {
                    let n_ids = number.parse().ok().filter(|n| (1..1 << 63).contains(n));
                    let bad = || usage(format!("`{number}` is not a number of ids"));
                    criteo.n_ids = n_ids.ok_or_else(bad)?;
                }
                (other, value) => {
                    let value = value.map_or(String::new(), |value| format!(" {value}"));
                    return Err(usage(format!("`{other}{value}` is not known")));
                }
            }
        }
        if criteo.n_ids == 0 {
            return Err(usage("the number of ids is missing".to_string()));
        }
        Ok(criteo)
    }

    /// `dense_input`, `C1` … `C26`, `label`.
    pub fn slots() -> Vec<Slot> {
        let mut slots = vec![Slot::floats("dense_input").dense(&[-1, N_NUMBERS as i64])];
        slots.extend((1..=N_TEXTS).map(|at| Slot::ids(&format!("C{at}"))));
        slots.push(Slot::ids("label").dense(&[-1, 1]));
        slots
    }

    /// The parser of lines; it leaves out slots that are not used.
    pub(crate) fn parser(&self, used: Vec<bool>) -> CriteoParser {
        let is_log = self.dense != Dense::Scaled;
        CriteoParser {
            criteo: *self,
            modulus: Modulus::new(self.n_ids),
            used,
            logs: (0..if is_log { N_LOGS } else { 0 })
                .map(|x| self.dense.apply(x as f64, 0))
                .collect(),
            checksums: std::array::from_fn(|slot| crc32(0, format!("{slot}:").as_bytes())),
        }
    }
}

/// Reads lines of a click log.
pub(crate) struct CriteoParser {
    criteo: Criteo,
    modulus: Modulus,
    used: Vec<bool>,
    logs: Vec<f32>,
    /// The checksum of `"<slot>:"`, which those of ids continue.
    checksums: [u32; N_TEXTS],
}

impl CriteoParser {
    fn number(&self, text: &[u8], at: usize) -> std::result::Result<f32, Refusal> {
        if text.is_empty() {
            return Ok(0.0);
        }
        let mut cursor = Cursor::new(text);
        let whole = cursor.id();
        if let Id::Is(x) = whole
            && let Some(log) = usize::try_from(x).ok().and_then(|x| self.logs.get(x))
        {
            return Ok(*log);
        }
        let x = match whole {
            // Numbers beyond 63 bits have the bits of negative ones: the slow way reads them.
            Id::Is(x) if cursor.word().is_empty() && (x >= 0 || text.contains(&b'-')) => x as f64,
            _ => whole_float(text).filter(|x| x.is_finite()).ok_or_else(|| Refusal::Value {
                slot: "dense_input".to_string(),
                position: at + 1,
                expected: "a number or nothing",
                found: shown(text),
            })?,
        };
        Ok(self.criteo.dense.apply(x, at))
    }

    fn id(&self, text: &[u8], at: usize) -> i64 {
        match self.criteo.hash {
            Hash::Python => self.modulus.of_signed(python_hash(at + FIRST_TEXT, text)) as i64,
            Hash::Crc32 => self.modulus.of(crc32(self.checksums[at], text).into()) as i64,
        }
    }
}

impl Parse for CriteoParser {
    fn parse(&mut self, line: &[u8], out: &mut Records) -> std::result::Result<bool, Refusal> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (mut from, n_fields) = fields(line);
        if n_fields != N_FIELDS {
            let (expected, found) = (N_FIELDS, n_fields);
            return Err(Refusal::Fields { expected, found, separator: "tabs".to_string() });
        }
        from[N_FIELDS] = line.len() + 1;
        let field = |at: usize| &line[from[at]..from[at + 1] - 1];
        out.begin(0);
        if self.used[0] {
            out.push(N_NUMBERS as u32);
            for at in 0..N_NUMBERS {
                out.push(self.number(field(1 + at), at)?.to_bits());
            }
        }
        for at in 0..N_TEXTS {
            if self.used[1 + at] {
                out.push_one_id(self.id(field(FIRST_TEXT + at), at));
            }
        }
        if self.used[1 + N_TEXTS] {
            out.push_one_id(label(field(0))?);
        }
        Ok(true)
    }
}

/// Where each field of a line begins, and how many there are.
///
/// Fields are short, so tabs are looked for in eight bytes at once, all of them: a search from tab to
/// tab would begin more often than it skips.
fn fields(line: &[u8]) -> ([usize; N_FIELDS + 1], usize) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut from = [0; N_FIELDS + 1];
    let mut n_fields = 1;
    let mut found = |at: usize| {
        if let Some(from) = from.get_mut(n_fields) {
            *from = at + 1;
        }
        n_fields += 1;
    };
    let mut chunks = line.chunks_exact(8);
    for (nth, chunk) in (&mut chunks).enumerate() {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(chunk);
        let differs = u64::from_le_bytes(bytes) ^ (ONES * u64::from(b'\t'));
        // The high bit of each byte that is a tab, and of no other.
        let low = (differs & (ONES * 0x7f)) + ONES * 0x7f;
        let mut tabs = !(low | differs | (ONES * 0x7f));
        while tabs != 0 {
            found(nth * 8 + tabs.trailing_zeros() as usize / 8);
            tabs &= tabs - 1;
        }
    }
    let rest = line.len() - chunks.remainder().len();
    let tabs = chunks.remainder().iter().enumerate().filter(|(_, byte)| **byte == b'\t');
    tabs.for_each(|(at, _)| found(rest + at));
    (from, n_fields)
}

fn label(text: &[u8]) -> std::result::Result<i64, Refusal> {
    let mut cursor = Cursor::new(text);
    match cursor.id() {
        Id::Is(label) if cursor.word().is_empty() => Ok(label),
        _ => Err(Refusal::Value {
            slot: "label".to_string(),
            position: 1,
            expected: "a whole number",
            found: shown(text),
        }),
    }
}

/// `hash(str(index) + text)` of Python with `PYTHONHASHSEED=0`; `index` has two digits.
fn python_hash(index: usize, text: &[u8]) -> i64 {
    let head = [b'0' + (index / 10) as u8, b'0' + (index % 10) as u8];
    let first = u64::from(u16::from_le_bytes(head));
    let hash = if let Ok(text) = <&[u8; 8]>::try_from(text) {
        // Almost every text: no copy is made of it.
        let text = u64::from_le_bytes(*text);
        let mut sip = Sip::new();
        sip.absorb(text << 16 | first);
        sip.finish(text >> 48 | 10 << 56)
    } else if text.is_empty() {
        Sip::new().finish(first | 2 << 56)
    } else {
        siphash13(&[&head, text].concat())
    };
    // Python keeps -1 for errors.
    if hash == u64::MAX { -2 } else { hash as i64 }
}

fn siphash13(text: &[u8]) -> u64 {
    let mut sip = Sip::new();
    let (words, rest) = text.as_chunks::<8>();
    words.iter().for_each(|word| sip.absorb(u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = text.len() as u8;
    sip.finish(u64::from_le_bytes(last))
}

/// SipHash with one round per word and three at the end, of key 0.
struct Sip([u64; 4]);

impl Sip {
    #[inline]
    fn new() -> Self {
        Self([
            0x736f_6d65_7073_6575,
            0x646f_7261_6e64_6f6d,
            0x6c79_6765_6e65_7261,
            0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn absorb(&mut self, word: u64) {
        self.0[3] ^= word;
        round(&mut self.0);
        self.0[0] ^= word;
    }

    /// The hash; the last word has the length in its highest byte.
    #[inline]
    fn finish(mut self, last: u64) -> u64 {
        self.absorb(last);
        self.0[2] ^= 0xff;
        (0..3).for_each(|_| round(&mut self.0));
        self.0[0] ^ self.0[1] ^ self.0[2] ^ self.0[3]
    }
}

#[inline]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multi_slot::MultiSlot;
    use crate::native::Native;

    fn line(label: &str, numbers: [&str; N_NUMBERS], text: &str) -> String {
        let mut fields = vec![label];
        fields.extend(numbers);
        fields.extend([text; N_TEXTS]);
        fields.join("\t")
    }

    fn parse(arguments: &[&str], line: &str) -> std::result::Result<String, Refusal> {
        let criteo = Criteo::from_arguments(arguments).unwrap();
        let mut out = Records::default();
        criteo.parser(vec![true; 28]).parse(line.as_bytes(), &mut out)?;
        out.commit();
        let mut text = Vec::new();
        out.write_text(0, &Criteo::slots(), &mut text);
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn python_agrees_about_hashes() {
        // PYTHONHASHSEED=0 python3.11 -c 'print(hash("1468fd1e64"))' and so on.
        for (index, text, hash) in PYTHON_HASHES {
            assert_eq!(python_hash(*index, text.as_bytes()), *hash, "{index} {text}");
        }
    }

    #[test]
    fn numbers_are_scaled_and_what_is_missing_is_0() {
        let numbers = ["10", "-3", "", "5", "", "", "", "", "", "", "", "", "50"];
        let text = parse(&["1000"], &line("1", numbers, "")).unwrap();
        assert!(text.starts_with("13 0.5 0 0 0.1 0 0 0 0 0 0 0 0 1 1 "), "{text}");
        assert!(text.ends_with(" 1 1\n"), "{text}");
        let arguments = ["1000001", "--hash", "crc32", "--dense", "log"];
        let text = parse(&arguments, &line("0", numbers, "68fd1e64")).unwrap();
        // log1p(10) / 8; crc32(b"0:68fd1e64") % 1000001 by Python's zlib.
        assert!(text.starts_with("13 0.29973692 0 0 "), "{text}");
        let logs = parse(&["1000001", "--dense", "log1p"], &line("0", numbers, "")).unwrap();
        assert!(logs.starts_with("13 2.3978953 0 0 1.7917595 "), "{logs}");
        let ids = parse(&arguments, &line("0", [""; 13], "68fd1e64")).unwrap();
        assert!(ids.contains(&format!(" 1 {CRC_ID} ")), "{ids}");
    }

    #[test]
    fn what_the_command_prints_is_what_the_thread_reads() {
        let numbers = ["1", "-2", "33", "4.5", "5000", "6", "7", "8", "9", "1e2", "11", "12", "13"];
        let criteo = Criteo::from_arguments(&["77777"]).unwrap();
        let slots = Criteo::slots();
        let mut direct = Records::default();
        criteo
            .parser(vec![true; 28])
            .parse(line("1", numbers, "ab").as_bytes(), &mut direct)
            .unwrap();
        direct.commit();
        let mut printed = Vec::new();
        let input = format!("{}\n", line("1", numbers, "ab"));
        Native::Criteo(criteo).run(input.as_bytes(), &mut printed).unwrap();
        let mut piped = Records::default();
        MultiSlot::new(&slots).unwrap().parse(&printed[..printed.len() - 1], &mut piped).unwrap();
        piped.commit();
        assert_eq!(direct, piped);
    }

    #[test]
    fn refuses_lines_that_are_none() {
        let refused = |line: &str| parse(&["10"], line).unwrap_err();
        let short = Refusal::Fields { expected: 40, found: 2, separator: "tabs".to_string() };
        assert_eq!(refused("0\t1"), short);
        let mut numbers = [""; 13];
        numbers[4] = "x1";
        let error = refused(&line("0", numbers, ""));
        assert!(matches!(error, Refusal::Value { position: 5, .. }), "{error}");
        let error = refused(&line("", [""; 13], ""));
        assert!(matches!(&error, Refusal::Value { slot, .. } if slot == "label"), "{error}");
    }

    #[test]
    fn refuses_arguments_it_does_not_know() {
        for arguments in
            [&[][..], &["0"], &["-5"], &["10", "20"], &["10", "--hash"], &["10", "--hash", "md5"]]
        {
            let error = Criteo::from_arguments(arguments).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{error}");
        }
    }

    #[rustfmt::skip]
    const PYTHON_HASHES: &[(usize, &str, i64)] = &[
        (14, "68fd1e64", 858371208796119963),
        (39, "", -2289968036337822035),
        (20, "a", -121478739109327559),
        (21, "abcdef", 1925986657952619172),
        (22, "abcdefgh12345678", -1771553348760675170),
        (30, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 8085320163399579307),
    ];
    const CRC_ID: u32 = 296067;
}
