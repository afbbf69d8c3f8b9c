//! The text form of protobuf messages, as far as descriptions need it: fields, messages in braces,
//! lists, strings, numbers and words.

use crate::error::{Error, Result};

/// Messages within messages; deeper text is not a description.
const DEPTH_MAX: usize = 8;

/// Where something stands, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextPosition {
    line: usize,
    column: usize,
}

impl TextPosition {
    pub(crate) fn error(self, reason: impl Into<String>) -> Error {
        Error::BadDesc { line: self.line, column: self.column, reason: reason.into() }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FieldValue {
    Text(String),
    /// A number or a name.
    Word(String),
    Message(Vec<TextField>),
}

/// A field and its value; a list is several fields of one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TextField {
    pub(crate) name: String,
    pub(crate) place: TextPosition,
    pub(crate) value: FieldValue,
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    Word(String),
    Sign(char),
    End,
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Text(text) | Token::Word(text) => format!("\"{text}\""),
            Token::Sign(sign) => format!("\"{sign}\""),
            Token::End => "the end".to_string(),
        }
    }
}

/// Reads a message.
pub(crate) fn parse(text: &str) -> Result<Vec<TextField>> {
    Parser { tokens: tokens(text)?, at: 0 }.fields(None, DEPTH_MAX)
}

struct Parser {
    /// The last one is the end.
    tokens: Vec<(TextPosition, Token)>,
    at: usize,
}

impl Parser {
    fn next(&self) -> &Token {
        &self.tokens[self.at].1
    }

    fn take(&mut self) -> (TextPosition, Token) {
        let taken = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        taken
    }

    /// Skips one of these signs, if it comes next.
    fn pass(&mut self, signs: &[char]) -> bool {
        let is_here = matches!(self.next(), Token::Sign(sign) if signs.contains(sign));
        if is_here {
            self.take();
        }
        is_here
    }

    /// Fields up to the sign that closes the message, or to the end.
    fn fields(&mut self, close: Option<char>, depth: usize) -> Result<Vec<TextField>> {
        let mut fields = Vec::new();
        loop {
            match self.take() {
                (_, Token::End) if close.is_none() => return Ok(fields),
                (_, Token::Sign(sign)) if close == Some(sign) => return Ok(fields),
                (place, Token::Word(name)) => {
                    self.field(name, place, depth, &mut fields)?;
                    self.pass(&[',', ';']);
                }
                (place, other) => {
                    let or = close.map_or(String::new(), |sign| format!(" or \"{sign}\""));
                    let found = other.shown();
                    return Err(place.error(format!("Expected a field{or}, found {found}.")));
                }
            }
        }
    }

    /// The part of a field behind its name.
    fn field(
        &mut self,
        name: String,
        place: TextPosition,
        depth: usize,
        out: &mut Vec<TextField>,
    ) -> Result<()> {
        let colon = self.pass(&[':']);
        if !(colon && self.pass(&['['])) {
            let value = self.value(colon, depth)?;
            out.push(TextField { name, place, value });
            return Ok(());
        }
        while !self.pass(&[']']) {
            let value = self.value(colon, depth)?;
            out.push(TextField { name: name.clone(), place, value });
            if !self.pass(&[',']) && *self.next() != Token::Sign(']') {
                let (place, found) = self.take();
                let found = found.shown();
                return Err(place.error(format!("Expected \",\" or \"]\", found {found}.")));
            }
        }
        Ok(())
    }

    fn value(&mut self, colon: bool, depth: usize) -> Result<FieldValue> {
        let (place, token) = self.take();
        match token {
            Token::Sign(open @ ('{' | '<')) => {
                let depth = depth.checked_sub(1).ok_or_else(|| place.error("Nested too deep."))?;
                let close = if open == '{' { '}' } else { '>' };
                self.fields(Some(close), depth).map(FieldValue::Message)
            }
            other if !colon => {
                Err(place.error(format!("Expected \":\", found {}.", other.shown())))
            }
            Token::Word(word) => Ok(FieldValue::Word(word)),
            Token::Text(mut text) => {
                // Strings that follow each other are one.
                while let Token::Text(more) = self.next() {
                    text += more;
                    self.take();
                }
                Ok(FieldValue::Text(text))
            }
            other => Err(place.error(format!("Expected a value, found {}.", other.shown()))),
        }
    }
}

fn is_of_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '+' | '.')
}

/// Takes a text apart.
fn tokens(text: &str) -> Result<Vec<(TextPosition, Token)>> {
    let mut tokens = Vec::new();
    let (mut rest, mut place) = (text, TextPosition { line: 1, column: 1 });
    while let Some(first) = rest.chars().next() {
        let (token, n_bytes) = match first {
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' | '\'' => {
                let (text, n_bytes) = quoted(rest, first).map_err(|reason| place.error(reason))?;
                (Some(Token::Text(text)), n_bytes)
            }
            _ if first.is_whitespace() => (None, first.len_utf8()),
            _ if is_of_word(first) => {
                let n_bytes = rest.find(|char| !is_of_word(char)).unwrap_or(rest.len());
                (Some(Token::Word(rest[..n_bytes].to_string())), n_bytes)
            }
            _ => (Some(Token::Sign(first)), first.len_utf8()),
        };
        tokens.extend(token.map(|token| (place, token)));
        for char in rest[..n_bytes].chars() {
            match char {
                '\n' => place = TextPosition { line: place.line + 1, column: 1 },
                _ => place.column += 1,
            }
        }
        rest = &rest[n_bytes..];
    }
    tokens.push((place, Token::End));
    Ok(tokens)
}

/// A string between quotation marks, and how long it is with them.
fn quoted(text: &str, mark: char) -> std::result::Result<(String, usize), &'static str> {
    const OPEN: &str = "String missing ending quote.";
    let mut bytes = Vec::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '\n' => return Err(OPEN),
            '\\' => {
                let (_, escaped) = chars.next().ok_or(OPEN)?;
                let mut digits = String::new();
                // Up to three octal digits, or two hexadecimal ones behind an x.
                let (radix, most) = if escaped == 'x' { (16, 2) } else { (8, 3) };
                digits.extend(Some(escaped).filter(|char| char.is_digit(8)));
                while let Some((_, more)) = chars.next_if(|(_, more)| {
                    (radix == 16 || !digits.is_empty())
                        && digits.len() < most
                        && more.is_digit(radix)
                }) {
                    digits.push(more);
                }
                match (escaped, u8::from_str_radix(&digits, radix)) {
                    (_, Ok(byte)) => bytes.push(byte),
                    ('n', _) => bytes.push(b'\n'),
                    ('r', _) => bytes.push(b'\r'),
                    ('t', _) => bytes.push(b'\t'),
                    ('"' | '\'' | '\\' | '?', _) => bytes.push(escaped as u8),
                    _ => return Err("Unknown escape in a string."),
                }
            }
            _ if char == mark => {
                let text = String::from_utf8(bytes).map_err(|_| "A string is not UTF-8.")?;
                return Ok((text, at + 1));
            }
            _ => bytes.extend(char.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Err(OPEN)
}

/// A text between quotation marks, as protobuf escapes it.
pub(crate) fn quote(text: &str) -> String {
    use std::fmt::Write;
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' => out += "\\\"",
            b'\'' => out += "\\'",
            b'\\' => out += "\\\\",
            b'\n' => out += "\\n",
            b'\r' => out += "\\r",
            b'\t' => out += "\\t",
            b' '..=b'~' => out.push(char::from(byte)),
            byte => {
                // Writing to memory does not fail.
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(name: &str, place: (usize, usize), word: &str) -> TextField {
        let place = TextPosition { line: place.0, column: place.1 };
        TextField { name: name.to_string(), place, value: FieldValue::Word(word.to_string()) }
    }

    #[test]
    fn fields_lists_and_messages_are_read() {
        let found = parse("a: 1 # comment\nb <c: [2, -3]>;\nd: \"x\" 'y'").unwrap();
        assert_eq!(found[0], word("a", (1, 1), "1"));
        let inner = vec![word("c", (2, 4), "2"), word("c", (2, 4), "-3")];
        assert_eq!(found[1].value, FieldValue::Message(inner));
        assert_eq!(found[2].value, FieldValue::Text("xy".to_string()));
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn strings_survive() {
        for text in ["", "a b", "\"'\\\n\t\r", "é 数", "\u{1}7"] {
            let found = parse(&format!("t: {}", quote(text))).unwrap();
            assert_eq!(found[0].value, FieldValue::Text(text.to_string()));
        }
        let found = parse(r"t: '\x41\101\?'").unwrap();
        assert_eq!(found[0].value, FieldValue::Text("AA?".to_string()));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        let deep = "a {".repeat(20);
        let cases = [
            ("a", "1:2", "Expected \":\", found the end."),
            ("a 3", "1:3", "Expected \":\", found \"3\"."),
            ("a: 1\n  : 2", "2:3", "Expected a field, found \":\"."),
            ("a {\nb: 1", "2:5", "Expected a field or \"}\", found the end."),
            ("a: \"x", "1:4", "String missing ending quote."),
            ("a: '\\q'", "1:4", "Unknown escape in a string."),
            ("a: [1 2]", "1:7", "Expected \",\" or \"]\", found \"2\"."),
            (&deep, "1:27", "Nested too deep."),
        ];
        for (text, place, reason) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert_eq!(error, format!("{place} : {reason}"), "{text}");
        }
    }
}
