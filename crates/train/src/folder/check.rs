//! For tests with damaged input: whether a list of saved files can be read.

use super::manifest::{About, FolderSave, Manifest, SavedFile, SavedPart, SavedVar};
use super::text::hash;
use tensor::DType;

/// A list with all kinds of lines.
pub fn example() -> Vec<u8> {
    let var = SavedVar { name: "x y".to_string(), dtype: DType::F32, dims: vec![2, -1] };
    let part = SavedPart { var: "x y".to_string(), number: 1, n: 3 };
    let file = |name: &str, vars, part| SavedFile {
        name: name.to_string(),
        n_bytes: 7,
        checksum: 0xdead_beef,
        vars,
        part,
    };
    let files = vec![file("a/b", vec![var], None), file("t_1of3", Vec::new(), Some(part))];
    let about = About { step: Some(7), mode: "sync".to_string(), n_servers: 2, ..About::new("m") };
    let older = FolderSave { about: About::new("state"), files: vec![file("%", Vec::new(), None)] };
    let saves = vec![older, FolderSave { about, files }];
    Manifest { saves, removed: ["gone".to_string()].into() }.to_text().0.into_bytes()
}

/// Whether bytes are a list. A list is written as the same bytes again.
pub fn read(bytes: &[u8]) -> bool {
    Manifest::from_bytes(bytes).is_ok_and(|(manifest, _)| {
        assert_eq!(manifest.to_text().0.as_bytes(), bytes, "one list has one spelling");
        true
    })
}

/// The bytes with a hash that fits the rest: otherwise readers stop there.
pub fn with_hash(bytes: &[u8]) -> Vec<u8> {
    const LAST: &[u8] = b"whole ";
    let is_last =
        |at: &usize| bytes[*at..].starts_with(LAST) && (*at == 0 || bytes[*at - 1] == b'\n');
    let end = (0..bytes.len()).find(is_last).unwrap_or(bytes.len());
    let text = &bytes[..end];
    [text, LAST, format!("{:016x}\n", hash(text)).as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_can_be_read() {
        assert!(read(&example()));
        assert_eq!(with_hash(&example()), example());
        assert!(!read(b"paddlewheel folder 1\nsave\n"));
    }
}
