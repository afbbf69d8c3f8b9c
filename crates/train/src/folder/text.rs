//! Words of a manifest: names without blanks and line ends.

/// A name as one word. Bytes that would end it are written as `%` and two digits.
pub(super) fn word(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '%' | '\0'..=' ' | '\x7f' => out.push_str(&format!("%{:02X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// The name that a word stands for; `None` if no name is written like this.
pub(super) fn name(word: &str) -> Option<String> {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some((plain, code)) = rest.split_once('%') {
        out.push_str(plain);
        let byte = u8::from_str_radix(code.get(..2)?, 16).ok().filter(u8::is_ascii)?;
        out.push(char::from(byte));
        rest = &code[2..];
    }
    out.push_str(rest);
    (self::word(&out) == word).then_some(out)
}

/// 64 bits of FNV-1a.
pub(super) fn hash(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_as_words() {
        for text in ["fc_0.w_0", "a b", "100%", "a\nb\t", "", "größe/…", "\u{7f}"] {
            let word = word(text);
            assert!(!word.contains([' ', '\n', '\t']), "{word}");
            assert_eq!(name(&word).as_deref(), Some(text));
        }
    }

    #[test]
    fn other_spellings_are_refused() {
        for text in ["a%", "a%2", "a%zz", "a%41", "a%0a", "a b", "%FF", "%+1"] {
            assert_eq!(name(text), None, "{text}");
        }
    }

    #[test]
    fn the_hash_is_fnv() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
