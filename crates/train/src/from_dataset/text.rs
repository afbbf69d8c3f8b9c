//! The output of a pass, in Fluid's words: users search their logs for them.

use std::fmt::Write as _;

use base::printable;
use tensor::{DType, Tensor};

use super::Progress;
use crate::executor::OpTime;

/// One fetched variable as Fluid prints it.
pub fn fetched_text(label: &str, name: &str, tensor: &Tensor) -> String {
    let (label, name) = (printable(label), printable(name));
    let mut text = format!("{label}\t{name}\t\tlod: {}\n\tdim: ", lod(tensor));
    let dims: Vec<String> = tensor.dims().iter().map(usize::to_string).collect();
    // Writing to a string cannot fail.
    let _ =
        write!(text, "{}\n\tlayout: NCHW\n\tdtype: {}\n\tdata: [", dims.join(", "), kind(tensor));
    for at in 0..tensor.len() {
        if at > 0 {
            text.push(' ');
        }
        number(tensor, at, &mut text);
    }
    text.push_str("]\n\t\n");
    text
}

fn lod(tensor: &Tensor) -> String {
    let level = |offsets: &Vec<usize>| {
        let offsets: Vec<String> = offsets.iter().map(usize::to_string).collect();
        format!("{{{}}}", offsets.join(", "))
    };
    format!("{{{}}}", tensor.lod().levels().iter().map(level).collect::<String>())
}

fn kind(tensor: &Tensor) -> &'static str {
    match tensor.dtype() {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I32 => "int",
        DType::I64 => "int64_t",
        DType::Bool => "bool",
        other => other.name(),
    }
}

fn number(tensor: &Tensor, at: usize, text: &mut String) {
    let whole = match tensor.dtype() {
        DType::F32 | DType::F64 => return short(tensor.get_f64(at), text),
        DType::I64 => tensor.data::<i64>().map_or(0, |data| data[at]),
        _ => tensor.get_f64(at) as i64,
    };
    let _ = write!(text, "{whole}");
}

/// Six significant digits, as C++ streams write them.
fn short(x: f64, text: &mut String) {
    if x.is_nan() {
        return text.push_str(if x.is_sign_negative() { "-nan" } else { "nan" });
    }
    if x.is_infinite() || x == 0.0 {
        let _ = write!(text, "{x}");
        return;
    }
    // Rounding may carry: 999999.5 has seven digits before the point.
    let rounded = format!("{x:.5e}");
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let fixed = format!("{x:.*}", (5 - exponent) as usize);
        text.push_str(without_zeros(&fixed));
        return;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(text, "{}e{sign}{:02}", without_zeros(digits), exponent.abs());
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Where the time of the first thread went, as Fluid's `debug` says it.
pub fn debug_text(times: &[OpTime], progress: &Progress) -> String {
    let Progress { n_batches, n_samples, elapsed, waited } = *progress;
    let mut text = String::new();
    let mut times: Vec<&OpTime> = times.iter().filter(|time| time.block == 0).collect();
    times.sort_by_key(|time| time.index);
    for time in times {
        let mean = time.total.as_secs_f64() / time.calls.max(1) as f64;
        let _ = writeln!(text, "op_name:[{}][{}], op_mean_time:[{mean:.6}s]", time.index, time.op);
    }
    let (waited, total) = (waited.as_secs_f64(), elapsed.as_secs_f64());
    let _ = writeln!(text, "mean read time: {:.6}s", waited / n_batches.max(1) as f64);
    let _ = writeln!(text, "IO percent: {:.6}", 100.0 * waited / total.max(1e-9));
    let _ = writeln!(text, "{:6.2} instances/s", n_samples as f64 / total.max(1e-9));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensor::Lod;

    #[track_caller]
    fn check(x: f64, expected: &str) {
        let mut text = String::new();
        short(x, &mut text);
        assert_eq!(text, expected);
    }

    #[test]
    fn numbers_look_as_in_fluid() {
        check(1e-7, "1e-07");
        check(1e10, "1e+10");
        check(123456.7, "123457");
        check(1234567.8, "1.23457e+06");
        check(999999.5, "1e+06");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(-0.5, "-0.5");
        check(2e120, "2e+120");
        check(0.0, "0");
        check(f64::NEG_INFINITY, "-inf");
    }

    #[test]
    fn a_record_looks_as_in_fluid() {
        let mut tensor = Tensor::new([4, 1], &[0i64, 1, 2, 3]).unwrap();
        tensor.set_lod(Lod::from_lengths([1, 3]));
        let expected = "auc\tauc_0.tmp_0\t\tlod: {{0, 1, 4}}\n\tdim: 4, 1\n\tlayout: NCHW\n\
            \tdtype: int64_t\n\tdata: [0 1 2 3]\n\t\n";
        assert_eq!(fetched_text("auc", "auc_0.tmp_0", &tensor), expected);
    }
}
