//! Files in a zip archive, as NumPy writes them: stored or deflated, without encryption.

use std::io::Read;

use flate2::read::DeflateDecoder;

/// The mark at the end of an archive, before the place of its list of files.
const END: &[u8] = b"PK\x05\x06";
/// The mark before an entry of that list.
const ENTRY: &[u8] = b"PK\x01\x02";

/// A little-endian number of `N` bytes.
fn number<const N: usize>(bytes: &[u8], at: usize) -> usize {
    let number = bytes[at..at + N].iter().rev();
    number.fold(0, |number, &byte| number << 8 | usize::from(byte))
}

/// The files of an archive, with their names, in the order of its list. An archive that is not whole fails the test.
pub(crate) fn entries(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let end = archive.windows(END.len()).rposition(|part| part == END).expect("npz is a zip");
    let n_entries = number::<2>(archive, end + 10);
    let mut at = number::<4>(archive, end + 16);
    let mut entries = Vec::new();
    for _ in 0..n_entries {
        let entry = &archive[at..];
        assert!(entry.starts_with(ENTRY), "the zip lists it");
        let name_len = number::<2>(entry, 28);
        let name = std::str::from_utf8(&entry[46..46 + name_len]).expect("names are utf-8");
        entries.push((name.to_string(), contents(archive, entry)));
        at += 46 + name_len + number::<2>(entry, 30) + number::<2>(entry, 32);
    }
    entries
}

/// The bytes of one file: behind a header of its own, whose name and extra field have lengths of their own.
fn contents(archive: &[u8], entry: &[u8]) -> Vec<u8> {
    let packed_len = number::<4>(entry, 20);
    let header = &archive[number::<4>(entry, 42)..];
    let begin = 30 + number::<2>(header, 26) + number::<2>(header, 28);
    let packed = &header[begin..begin + packed_len];
    let mut bytes = Vec::new();
    match number::<2>(entry, 10) {
        0 => bytes.extend_from_slice(packed),
        8 => drop(DeflateDecoder::new(packed).read_to_end(&mut bytes).expect("the zip is whole")),
        method => panic!("compressed by method {method}"),
    }
    assert_eq!(bytes.len(), number::<4>(entry, 24), "the zip is whole");
    assert_eq!(crc32fast::hash(&bytes) as usize, number::<4>(entry, 16), "the zip is whole");
    bytes
}
