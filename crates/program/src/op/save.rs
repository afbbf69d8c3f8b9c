//! `save`: writes variable X to the file `file_path`. `save_combine`: writes all of X, in their
//! order, to one file.

use tensor::{DType, Tensor, Value};

use super::{Op, Run, traits};
use crate::error::{Error, Result};
use crate::stream;

pub(super) struct Save;
pub(super) struct SaveCombine;

impl Op for Save {
    traits!(Never; has_side_effect, uses_files);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let bytes = match run.value("X")? {
            Value::Rows(rows) => {
                let mut bytes = Vec::new();
                stream::write_rows(&mut bytes, rows);
                bytes
            }
            _ => tensors(run)?,
        };
        write(run, &bytes)
    }
}

impl Op for SaveCombine {
    traits!(Never; has_side_effect, uses_files);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let bytes = tensors(run)?;
        write(run, &bytes)
    }
}

fn tensors(run: &Run<'_>) -> Result<Vec<u8>> {
    let as_half = run.attrs().bool("save_as_fp16", false)?;
    let mut bytes = Vec::new();
    for index in 0..run.n_inputs("X") {
        if run.value_at("X", index)?.is_empty() {
            let var = run.input_name_at("X", index).to_string();
            return Err(Error::SavesNothing { op: run.op().kind.clone(), var });
        }
        let tensor = run.input_at("X", index)?;
        if as_half && tensor.dtype() == DType::F32 {
            stream::write_tensor(&mut bytes, &halved(tensor)?);
        } else {
            stream::write_tensor(&mut bytes, tensor);
        }
    }
    Ok(bytes)
}

fn write(run: &mut Run<'_>, bytes: &[u8]) -> Result<()> {
    let path = run.attrs().str("file_path", "")?;
    if !run.attrs().bool("overwrite", true)? && run.host().read_file(path).is_ok() {
        return Err(Error::FileExists { path: path.to_string() });
    }
    run.host().write_file(path, bytes)
}

/// The same numbers in half precision.
fn halved(tensor: &Tensor) -> Result<Tensor> {
    let halves: Vec<u8> =
        tensor.data::<f32>()?.iter().flat_map(|&x| half_bits(x).to_le_bytes()).collect();
    let mut half = Tensor::from_bytes(DType::F16, tensor.shape(), &halves)?;
    half.set_lod(tensor.lod().clone());
    Ok(half)
}

/// The nearest number of half precision, ties to even.
fn half_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00; // Not a number.
    }
    if magnitude >= 0x4780_0000 {
        return sign | 0x7c00; // 65536 and more is infinite.
    }
    let (mantissa, shift) = if magnitude >= 0x3880_0000 {
        (magnitude - (112 << 23), 13)
    } else {
        // Below 2^-14 the exponent is fixed and the mantissa gives up digits.
        let exponent = magnitude >> 23;
        (magnitude & 0x007f_ffff | 0x0080_0000, (126 - exponent).min(31))
    };
    let (kept, rest) = (mantissa >> shift, mantissa & ((1 << shift) - 1));
    let half = 1 << (shift - 1);
    let up = rest > half || (rest == half && kept & 1 == 1);
    sign | (kept + u32::from(up)) as u16
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tensor::{Rows, Tensor, Value};

    use super::half_bits;
    use crate::block::OpDesc;
    use crate::error::{Error, Result};
    use crate::op::{self, Host, NoHost, Run, Spare, Wiring};
    use crate::stream::{self, Problem};

    /// A file system of a test.
    #[derive(Default)]
    struct Files(HashMap<String, Vec<u8>>);

    impl Host for Files {
        fn write_file(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
            self.0.insert(path.to_string(), bytes.to_vec());
            Ok(())
        }

        fn read_file(&mut self, path: &str) -> Result<Vec<u8>> {
            let missing = || Error::Host(format!("no file {path}").into());
            self.0.get(path).cloned().ok_or_else(missing)
        }
    }

    fn run(op: &OpDesc, vars: &mut [Value], host: &mut dyn Host) -> Result<()> {
        // The variables are called by their places.
        let wiring = Wiring::new(op, |name| name.parse().unwrap());
        op::find(&op.kind)?.run(&mut Run::new(op, &wiring, vars, &mut Spare::default(), host))
    }

    fn save(kind: &str, vars: &[&str]) -> OpDesc {
        let vars: Vec<String> = vars.iter().map(|var| var.to_string()).collect();
        OpDesc::new(kind).input("X", vars).attr("file_path", "dir/file")
    }

    fn load(kind: &str, vars: &[&str]) -> OpDesc {
        let vars: Vec<String> = vars.iter().map(|var| var.to_string()).collect();
        OpDesc::new(kind).output("Out", vars).attr("file_path", "dir/file")
    }

    fn tensor() -> Value {
        Value::Tensor(Tensor::new([2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap())
    }

    #[test]
    fn what_is_saved_can_be_loaded() {
        let rows = Rows { ids: vec![3], height: 5, value: Tensor::full([1, 2], 0.5f32) };
        for value in [tensor(), Value::Rows(rows)] {
            let mut files = Files::default();
            let mut vars = [value.clone(), Value::Empty];
            run(&save("save", &["0"]), &mut vars, &mut files).unwrap();
            run(&load("load", &["1"]), &mut vars, &mut files).unwrap();
            assert_eq!(vars[1], value);
        }
    }

    #[test]
    fn several_go_into_one_file_in_their_order() {
        let other = Value::Tensor(Tensor::full([1], 7i64));
        let mut files = Files::default();
        let mut vars = [tensor(), other.clone(), Value::Empty, Value::Empty];
        run(&save("save_combine", &["1", "0"]), &mut vars, &mut files).unwrap();
        run(&load("load_combine", &["2", "3"]), &mut vars, &mut files).unwrap();
        assert_eq!(vars[2..], [other, tensor()]);
        let error = run(&load("load_combine", &["2"]), &mut vars, &mut files).unwrap_err();
        let Error::BadStream { problem, .. } = &error else { panic!("{error}") };
        assert!(matches!(problem, Problem::Partial { wanted: 1, .. }), "{error}");
    }

    #[test]
    fn a_part_of_a_tensor_can_be_loaded() {
        let mut files = Files::default();
        let mut vars = [tensor(), Value::Empty];
        run(&save("save", &["0"]), &mut vars, &mut files).unwrap();
        let part = |seek: i64| load("load", &["1"]).attr("seek", seek).attr("shape", vec![1i64, 2]);
        run(&part(2), &mut vars, &mut files).unwrap();
        assert_eq!(vars[1], Value::Tensor(Tensor::new([1, 2], &[3.0f32, 4.0]).unwrap()));
        let error = run(&part(3), &mut vars, &mut files).unwrap_err();
        let Error::BadStream { problem, .. } = &error else { panic!("{error}") };
        assert_eq!(*problem, Problem::Slice { start: 3, end: 5, len: 4 });
    }

    #[test]
    fn saves_in_half_precision() {
        let mut files = Files::default();
        let mut vars = [tensor()];
        let op = save("save", &["0"]).attr("save_as_fp16", true);
        run(&op, &mut vars, &mut files).unwrap();
        let tensor = stream::tensor_from_bytes(&files.0["dir/file"]).unwrap();
        assert_eq!(tensor.dtype(), tensor::DType::F16);
        assert_eq!(tensor.bytes()[..4], [0x00, 0x3c, 0x00, 0x40]);
    }

    #[test]
    fn half_precision_rounds_to_even() {
        for (x, expected) in [
            (0.0, 0),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65520.0, 0x7c00),
            (1e9, 0x7c00),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (2f32.powi(-24), 1),
            (2f32.powi(-25), 0),
            (2f32.powi(-14), 0x0400),
            (6.1033e-5, 0x0400),
            (1e-30, 0),
        ] {
            assert_eq!(half_bits(x), expected, "{x}");
        }
        assert_eq!(half_bits(f32::NAN) & 0x7e00, 0x7e00);
    }

    #[test]
    fn refuses_nothing_and_what_is_there_already() {
        let mut files = Files::default();
        let error = run(&save("save", &["0"]), &mut [Value::Empty], &mut files).unwrap_err();
        assert!(matches!(error, Error::SavesNothing { ref var, .. } if var == "0"), "{error}");
        let array = &mut [Value::Array(Vec::new())];
        let error = run(&save("save", &["0"]), array, &mut files).unwrap_err();
        assert!(matches!(error, Error::WrongKind { .. }), "{error}");
        run(&save("save", &["0"]), &mut [tensor()], &mut files).unwrap();
        let op = save("save", &["0"]).attr("overwrite", false);
        let error = run(&op, &mut [tensor()], &mut files).unwrap_err();
        assert!(matches!(error, Error::FileExists { ref path } if path == "dir/file"), "{error}");
    }

    #[test]
    fn refuses_without_a_file_system() {
        let error = run(&save("save", &["0"]), &mut [tensor()], &mut NoHost).unwrap_err();
        assert!(matches!(error, Error::NoHost { .. }), "{error}");
        let error = run(&load("load", &["0"]), &mut [tensor()], &mut NoHost).unwrap_err();
        assert!(matches!(error, Error::NoHost { .. }), "{error}");
    }
}
