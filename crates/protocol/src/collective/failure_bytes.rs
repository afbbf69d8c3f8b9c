//! The bytes of a failure that one trainer tells another.

use wire::codec::{Reader, Writer};
use wire::{Error, Failure, Result};

/// Appends the bytes of a failure.
pub(super) fn encode(failure: &Failure, out: &mut Writer<'_>) {
    let (kind, numbers, texts) = match failure {
        Failure::Lost { trainer, endpoint, why } => (0, [u64::from(*trainer), 0], [endpoint, why]),
        Failure::Left { trainer, endpoint, what } => {
            (1, [u64::from(*trainer), 0], [endpoint, what])
        }
        Failure::Missing { waiting, waited_ms, what, missing } => {
            (2, [u64::from(*waiting), *waited_ms], [what, missing])
        }
        Failure::Differ { left, left_says, right, right_says } => {
            (3, [u64::from(*left), u64::from(*right)], [left_says, right_says])
        }
        Failure::NotBegun { trainer, endpoint, why } => {
            (4, [u64::from(*trainer), 0], [endpoint, why])
        }
    };
    out.u8(kind);
    numbers.into_iter().for_each(|number| out.u64(number));
    texts.into_iter().for_each(|text| out.str(text));
}

/// Reads a failure.
pub(super) fn decode(input: &mut Reader<'_>) -> Result<Failure> {
    let kind = input.u8()?;
    let first = input.u64()?;
    let second = input.u64()?;
    let (one, two) = (input.str()?, input.str()?);
    let trainer = first as u32;
    Ok(match kind {
        0 => Failure::Lost { trainer, endpoint: one, why: two },
        1 => Failure::Left { trainer, endpoint: one, what: two },
        2 => Failure::Missing { waiting: trainer, waited_ms: second, what: one, missing: two },
        3 => {
            Failure::Differ { left: trainer, left_says: one, right: second as u32, right_says: two }
        }
        4 => Failure::NotBegun { trainer, endpoint: one, why: two },
        _ => return Err(Error::Malformed("a failure of an unknown kind")),
    })
}
