//! Values of options.

use std::time::Duration;

use base::Endpoint;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use fleet::launch::options::LogFormat;

/// More processes than any machine runs is a slip of the finger.
const COUNT_MAX: usize = 10_000;

/// A number of processes or of restarts.
pub(crate) fn count(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number| number <= COUNT_MAX);
    number.ok_or_else(|| format!("it must be a number from 0 to {COUNT_MAX}"))
}

/// A port for other processes: not 0.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|&port| port > 0);
    port.ok_or_else(|| "it must be a port from 1 to 65535".to_string())
}

/// A time that may be none at all.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.ok_or_else(|| "it must be a number of seconds, 0 or more".to_string())
}

/// A time.
pub(crate) fn some_seconds(text: &str) -> Result<Duration, String> {
    let time = seconds(text).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| "it must be a number of seconds above 0".to_string())
}

/// `True` or `False`, as Python writes them.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "True" | "true" | "1" => Ok(true),
        "False" | "false" | "0" => Ok(false),
        _ => Err("it must be True or False".to_string()),
    }
}

/// An address, or nothing for the usual one.
pub(crate) fn address(text: &str) -> Result<String, String> {
    if text.is_empty() || text.parse::<Endpoint>().is_ok() {
        Ok(text.to_string())
    } else {
        Err("it must be HOST:PORT".to_string())
    }
}

/// Where a process answers.
pub(crate) fn endpoint(text: &str) -> Result<Endpoint, String> {
    text.parse().map_err(|error: base::BadEndpoint| error.to_string())
}

/// Words of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandWords(pub(crate) Vec<String>);

/// Splits words as a shell does: quotation marks keep them together, a backslash keeps the next sign as it is.
pub(crate) fn command_words(text: &str) -> Result<CommandWords, String> {
    let mut words = Vec::new();
    let mut word = None::<String>;
    let mut quote = None;
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match (sign, quote) {
            ('\'' | '"', None) => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (sign, Some(open)) if sign == open => quote = None,
            ('\\', None | Some('"')) => {
                let next = signs.next().ok_or("nothing follows the backslash")?;
                word.get_or_insert_default().push(next);
            }
            (sign, None) if sign.is_whitespace() => words.extend(word.take()),
            (sign, _) => word.get_or_insert_default().push(sign),
        }
    }
    match quote {
        Some(open) => Err(format!("the quotation mark {open} has no second one")),
        None => {
            words.extend(word);
            Ok(CommandWords(words))
        }
    }
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyValue {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<KeyValue, String> {
    let (key, value) = text.split_once('=').ok_or("it must be KEY=VALUE")?;
    Ok(KeyValue { key: key.to_string(), value: value.to_string() })
}

/// Words between commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommaList<T>(pub(crate) Vec<T>);

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// `ip,ip`.
pub(crate) fn names(text: &str) -> Result<CommaList<String>, String> {
    Ok(CommaList(items(text).map(str::to_string).collect()))
}

/// `ip:port,ip:port`.
pub(crate) fn endpoints(text: &str) -> Result<CommaList<Endpoint>, String> {
    items(text).map(endpoint).collect::<Result<_, _>>().map(CommaList)
}

/// `16,8`.
pub(crate) fn widths(text: &str) -> Result<CommaList<i64>, String> {
    let width = |item: &str| item.parse().map_err(|_| format!("`{item}` is not a number"));
    items(text).map(width).collect::<Result<_, _>>().map(CommaList)
}

/// How lines of logs look.
pub(crate) fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    let names = PossibleValuesParser::new(LogFormat::NAMES.iter().copied());
    names.try_map(|name| LogFormat::named(&name).ok_or("it must be text or json"))
}

/// One of these words, which stands for a value.
pub(crate) fn one_of<
    T: Clone + Send + Sync + 'static,
    E: std::error::Error + Send + Sync + 'static,
>(
    names: impl IntoIterator<Item = &'static str>,
    value: fn(&str) -> Result<T, E>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(move |name| value(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_does() {
        let words = |text: &str| command_words(text).map(|words| words.0);
        let plain = words("--oversubscribe  --mca btl tcp,self").unwrap();
        assert_eq!(plain, ["--oversubscribe", "--mca", "btl", "tcp,self"]);
        let quoted = words(r#"-x 'A=1 2' "say \"it\"" '' back\ slash"#).unwrap();
        assert_eq!(quoted, ["-x", "A=1 2", "say \"it\"", "", "back slash"]);
        assert!(words(" ").unwrap().is_empty());
        assert!(words("'open").is_err() && words("end\\").is_err());
    }
}
