//! Python's pickle, as far as `{name: numpy array}` needs it (protocol 2; protocol 4 is read,
//! which version 2 of Paddle writes).
//!
//! The reader runs a handful of opcodes on plain data and calls nothing: a pickle that asks for
//! anything but arrays is refused, so a hostile file cannot run code here.

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

use tensor::DType;

/// Names of the only things a pickle may refer to.
const RECONSTRUCT: &str = "numpy.core.multiarray _reconstruct";
const NDARRAY: &str = "numpy ndarray";
const DTYPE: &str = "numpy dtype";
const ENCODE: &str = "_codecs encode";

/// numpy's letters for an element type.
const LETTERS: [(&str, DType); 9] = [
    ("b1", DType::Bool),
    ("u1", DType::U8),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use tensor::Tensor;

    #[test]
    fn arrays_survive() {
        let mut arrays = BTreeMap::new();
        arrays.insert(
            "fc_0.w_0".to_string(),
            Tensor::new([2, 2], &[1.5f32, -2.0, 0.0, f32::NAN]).unwrap(),
        );
        arrays.insert("ids".to_string(), Tensor::new([3], &[i64::MIN, -1, 7]).unwrap());
        arrays.insert("deep".to_string(), Tensor::full([1, 2, 1, 70000], 0.25f64));
        arrays.insert("empty".to_string(), Tensor::full([0, 3], 1i32));
        let back = read(&write(&arrays).unwrap()).unwrap();
        assert_eq!(back.into_iter().collect::<BTreeMap<_, _>>(), arrays);
    }

    /// `pickle.dumps({"w": array([[1, 2]], "f4"), "lr": array(0.5, "f4")}, protocol=4)`.
    const PROTOCOL_4: &[u8] = b"\x80\x04\x95\xbf\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01w\x94\
        \x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\
        \x8c\x07ndarray\x94\x93\x94K\x00\x85\x94C\x01b\x94\x87\x94R\x94(K\x01K\x01K\x02\x86\x94h\x05\
        \x8c\x05dtype\x94\x93\x94\x8c\x02f4\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNN\
        J\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b\x89C\x08\x00\x00\x80?\x00\x00\x00@\x94t\x94b\
        \x8c\x02lr\x94h\x04h\x07K\x00\x85\x94h\t\x87\x94R\x94(K\x01)h\x11\x89C\x04\x00\x00\x00?\x94t\x94bu.";

    #[test]
    fn protocol_4_is_read() {
        let arrays = read(PROTOCOL_4).unwrap();
        assert_eq!(arrays["w"], Tensor::new([1, 2], &[1.0f32, 2.0]).unwrap());
        assert_eq!(arrays["lr"], Tensor::new([1], &[0.5f32]).unwrap());
        for end in 0..PROTOCOL_4.len() {
            assert!(read(&PROTOCOL_4[..end]).is_err(), "cut after {end} bytes");
        }
    }

    #[track_caller]
    fn refuses(bytes: &[u8], at: usize) {
        let (offset, problem) = read(bytes).unwrap_err();
        assert_eq!(offset, at, "{problem}");
    }

    #[test]
    fn refuses_everything_else() {
        refuses(b"", 0);
        refuses(b"not a pickle", 0);
        refuses(b"\x80\x02}q\x00", 5);
        refuses(b"\x80\x02cos\nsystem\n", 2); // Would run a command in Python.
        refuses(b"\x80\x02K\x01.", 4); // A number is not a dictionary.
        refuses(b"\x80\x02}X\xff\xff\xff\xff", 3); // 4 GiB announced.
        refuses(b"\x80\x02}h\x07", 3); // Nothing was put there.
        refuses(b"\x80\x02}(u(t.", 7); // A tuple is not a dictionary.
        refuses(b"\x80\x02R", 2);
    }

    #[test]
    fn refuses_tuples_in_tuples_without_end() {
        let mut bytes = b"\x80\x02K\x00".to_vec();
        bytes.extend([0x85; 100_000]);
        assert!(read(&bytes).is_err());
    }

    /// Damaged bytes give arrays or an error, never a panic.
    #[test]
    fn survives_random_damage() {
        let mut arrays = BTreeMap::new();
        arrays.insert("w".to_string(), Tensor::new([2, 2], &[1.5f32, -2.0, 0.0, 9.0]).unwrap());
        arrays.insert("v".to_string(), Tensor::full([3], 200i64));
        let good = write(&arrays).unwrap();
        let mut state = 0x5eedu64;
        let mut dice = |n: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % n as u64) as usize
        };
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..=dice(3) {
                let at = dice(bytes.len());
                match dice(4) {
                    0 => bytes[at] = dice(256) as u8,
                    1 => bytes.truncate(at.max(1)),
                    2 => bytes.insert(at, dice(256) as u8),
                    _ => drop(bytes.remove(at)),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let _ = read(&bytes);
        }
    }
}
