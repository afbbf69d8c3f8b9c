//! The rules for names: a word stands for one idea, it is a word of the field, and values that belong
//! together have names of their own.

use std::collections::BTreeMap;

use testing::tree::{none, shipped, signature};

/// Names that may stand for more than two things: those that every crate has.
const EVERYWHERE: [&str; 2] = ["Error", "Result"];

/// Ops and the options of layers have Fluid's names.
const FLUID: [&str; 2] = ["crates/program/src/op/", "crates/program/src/layers/"];

/// Words that say what something is like, not what it is.
const METAPHORS: [&str; 34] = [
    "usher", "crew", "roll", "obituary", "ghost", "lane", "gate", "farewell", "reins", "door",
    "tour", "room", "due", "wish", "wishes", "trade", "traded", "trades", "trading", "meet",
    "meeting", "meetings", "met", "verdict", "mailbox", "audience", "keeper", "seat", "greeting",
    "said", "aside", "loan", "lending", "bury",
];

/// A type that is declared somewhere.
struct Declared<'a> {
    name: &'a str,
    /// It is the struct of an op: a name without contents.
    is_unit: bool,
}

/// The type that a line declares. Types that belong to an impl are none.
fn declared(line: &str) -> Option<Declared<'_>> {
    let inner = line.trim_start();
    let inner = match inner.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => inner.strip_prefix("pub ").unwrap_or(inner),
    };
    let (kind, rest) = inner.split_once(' ')?;
    let is_type = match kind {
        "type" => !line.starts_with(' '),
        kind => matches!(kind, "struct" | "enum" | "trait" | "union"),
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let is_type = is_type && name.starts_with(|c: char| c.is_uppercase());
    is_type.then_some(Declared { name, is_unit: kind == "struct" && after == ";" })
}

#[test]
fn declarations_are_found_in_every_form() {
    let name = |line: &'static str| declared(line).map(|found| found.name);
    assert_eq!(name("pub(in crate::serve) struct A<T> {"), Some("A"));
    assert_eq!(name("    pub(super) enum B {"), Some("B"));
    assert_eq!(name("type C = Vec<u8>;"), Some("C"));
    assert_eq!(name("    type Output = u8;"), None);
    assert_eq!(name("structure of"), None);
    assert!(declared("pub(super) struct Mean;").is_some_and(|found| found.is_unit));
}

#[test]
fn a_type_name_stands_for_at_most_two_things() {
    let sources = shipped();
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, text) in &sources {
        let of_fluid =
            |it: &Declared<'_>| match FLUID.iter().position(|home| file.starts_with(home)) {
                Some(0) => it.is_unit,
                found => found.is_some(),
            };
        for found in text.lines().filter_map(declared).filter(|found| !of_fluid(found)) {
            places.entry(found.name).or_default().push(file);
        }
    }
    assert!(places.len() > 500, "types are found: {}", places.len());
    let many = places.iter().filter(|(name, files)| files.len() > 2 && !EVERYWHERE.contains(name));
    let many = many.map(|(name, files)| format!("{name}: {}", files.join(" ")));
    none("one name for more than two things", many.collect());
}

/// `FooBar` and `foo_bar` are the words foo and bar.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[test]
fn names_are_words_of_the_field() {
    let mut found = Vec::new();
    let is_metaphor =
        |name: &str| words(name).iter().any(|word| METAPHORS.contains(&word.as_str()));
    for (file, text) in shipped() {
        let path = file.split_once("/src/").map_or("", |(_, path)| path);
        let parts = path.trim_end_matches(".rs").split('/');
        found.extend(parts.filter(|part| is_metaphor(part)).map(|_| file.clone()));
        let types = text.lines().filter_map(declared).filter(|it| is_metaphor(it.name));
        found.extend(types.map(|it| format!("{file}: {}", it.name)));
    }
    none("a word of the field instead of a metaphor", found);
    assert_eq!(words("CutWish").last().map(String::as_str), Some("wish"));
}

/// The members of every tuple type in a signature. The arguments of a closure are not a tuple.
fn tuples(signature: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for (at, _) in signature.match_indices('(') {
        let before = signature[..at].trim_end();
        let is_list = before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            || before.ends_with('>') && !before.ends_with("->");
        if !is_list {
            found.push(members(&signature[at + 1..]));
        }
    }
    found
}

/// The text between commas, up to the parenthesis that closes.
fn members(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut start = 0;
    let mut found = Vec::new();
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        depth += i32::from(matches!(c, '(' | '[' | '<'));
        depth -= i32::from(matches!(c, ')' | ']') || c == '>' && last != '-');
        last = c;
        if depth < 0 || depth == 0 && c == ',' {
            found.push(text[start..at].trim());
            start = at + 1;
        }
        if depth < 0 {
            break;
        }
    }
    found.retain(|member| !member.is_empty());
    found
}

#[test]
fn tuples_are_found_in_signatures() {
    assert_eq!(
        tuples("fn f(a: (u8, Vec<(u8, u8)>)) -> u8"),
        [vec!["u8", "Vec<(u8, u8)>"], vec!["u8", "u8"]]
    );
    assert_eq!(tuples("fn f<T>(a: impl Fn(u8, u8, u8)) -> Result<()>"), [Vec::<&str>::new()]);
    assert_eq!(tuples("fn f() -> (\n    u8,\n    u8,\n)"), [vec!["u8", "u8"]]);
}

/// Three values without names are mixed up sooner or later, and so are two arguments of one type. What
/// goes to Python and what layers return are Python's tuples. Ports of ops are pairs of names.
#[test]
fn values_that_belong_together_have_names() {
    let mut found = Vec::new();
    let free = |name: &str| name.starts_with("crates/python/") || name.starts_with(FLUID[1]);
    for (name, text) in shipped().into_iter().filter(|(name, _)| !free(name)) {
        for (at, _) in text.match_indices("fn ") {
            let whole = signature(&text[at..]);
            let head = whole.split('(').next().unwrap_or_default();
            let arguments = whole.split("->").next().unwrap_or_default();
            let is_name = |member: &str| member.starts_with('&') && member.ends_with("str");
            let of_one_type = |members: &Vec<&str>| {
                members.len() == 2 && members[0] == members[1] && !is_name(members[0])
            };
            if tuples(whole).iter().any(|members| members.len() > 2)
                || tuples(arguments).iter().any(of_one_type)
            {
                found.push(format!("{name}:{}: {head}", text[..at].lines().count()));
            }
        }
    }
    none("a struct with named fields instead of a tuple", found);
}
