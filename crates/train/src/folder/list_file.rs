//! The list of saved files as a file that every program can load.
//!
//! Programs, Fluid's `load_program_state` among them, load every file of a folder as a variable. So the list is
//! one: a tensor of bytes, the text. Its name is the only thing that tells it from others.

use program::stream::payload_head;
use tensor::DType;

/// The bytes of the file with this text.
pub(super) fn to_bytes(text: &str) -> Vec<u8> {
    [&head(text.len())[..], text.as_bytes()].concat()
}

/// The text in the bytes of a file, if they are those of a list.
pub(super) fn text_of(bytes: &[u8]) -> Option<&[u8]> {
    // The head grows with the number of digits that its length needs.
    (head(0).len()..=head(bytes.len()).len()).find_map(|n_head| {
        let text = bytes.get(n_head..)?;
        (bytes[..n_head] == head(text.len())).then_some(text)
    })
}

/// The head before the text in Fluid's format of variables: version and levels of sequences, both 0, and the tensor's own head.
fn head(n_bytes: usize) -> Vec<u8> {
    let no_sequences = [&0u32.to_le_bytes()[..], &0u64.to_le_bytes()].concat();
    [no_sequences, payload_head(DType::U8, &[n_bytes])].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_variable() {
        for n in [0, 1, 127, 128, 40_000] {
            let text = "x".repeat(n);
            let bytes = to_bytes(&text);
            assert_eq!(text_of(&bytes), Some(text.as_bytes()));
            let tensor = program::stream::tensor_from_bytes(&bytes).unwrap();
            assert_eq!((tensor.dims(), tensor.bytes()), (&[n][..], text.as_bytes()));
        }
        assert_eq!(text_of(b"paddlewheel folder 1"), None);
        assert_eq!(text_of(b""), None);
    }
}
