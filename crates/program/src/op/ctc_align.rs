//! `ctc_align`: Output = the tokens of each sequence of Input without `blank`, and without those that repeat the one before them
//! (`merge_repeated`). Where Input has no sequences its rows are, of the lengths in InputLength; then Output is filled up with
//! `padding_value`, and OutputLength has the lengths. If nothing is left of any sequence, Output is one -1.

use tensor::{Element, Lod, Shape};

use super::ragged;
use super::{Infer, Op, Run, for_int, no_gradient, traits};
use crate::error::Result;

pub(super) struct CtcAlign;

const OP: &str = "CTCAlignOp";
const MATRIX: &str = "Input is a matrix with a length for each row";

impl Op for CtcAlign {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let input = infer.input("Input")?;
        if input.lod_level > 0 {
            return infer.set_output("Output", input.with_dims(vec![-1, 1]));
        }
        if let Some(lengths) = infer.opt_input("InputLength")? {
            let n = input.dims.first().copied().unwrap_or(-1);
            infer.set_output("OutputLength", lengths.with_dims(vec![n, 1]))?;
        }
        infer.set_output("Output", input)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        if run.input("Input")?.lod().is_empty() {
            return align_rows(run);
        }
        run.make("Output", |run, output| {
            let input = run.input("Input")?;
            let offsets = ragged::only_offsets(run, OP, "Input")?;
            let rule = AlignRule::of(run)?;
            for_int!(input.dtype(), run.input_name("Input"), T => {
                let data = input.data::<T>()?;
                let (mut kept, mut lengths) = (Vec::new(), Vec::new());
                for pair in offsets.windows(2) {
                    let before = kept.len();
                    let width = ragged::width(input);
                    rule.align(&data[pair[0] * width..pair[1] * width], |token| kept.push(token));
                    lengths.push(kept.len() - before);
                }
                if kept.is_empty() {
                    kept.push(-1);
                }
                output.resize::<T>(Shape::from([kept.len(), 1])).copy_from_slice(&kept);
                output.set_lod(Lod::from_lengths(lengths));
                Ok(())
            })
        })
    }

    no_gradient!();
}

/// What the attributes say.
struct AlignRule {
    blank: i64,
    merges: bool,
}

impl AlignRule {
    fn of(run: &Run<'_>) -> Result<Self> {
        let attrs = run.attrs();
        Ok(Self { blank: attrs.int("blank", 0)?, merges: attrs.bool("merge_repeated", true)? })
    }

    fn align<T: Element + PartialEq + Into<i64>>(&self, tokens: &[T], mut keep: impl FnMut(T)) {
        let mut before = -1;
        for &token in tokens {
            let id: i64 = token.into();
            if id != self.blank && !(self.merges && id == before) {
                keep(token);
            }
            before = id;
        }
    }
}

fn align_rows(run: &mut Run<'_>) -> Result<()> {
    let (mut output, mut output_length) = (run.take("Output"), run.take("OutputLength"));
    let rule = AlignRule::of(run)?;
    let padding = run.attrs().int("padding_value", 0)?;
    let input = run.input("Input")?;
    let lengths = super::sizes::integers(run.input("InputLength")?, run.input_name("InputLength"))?;
    let &[n_rows, width] = input.dims() else { return Err(run.shape(MATRIX, "Input")) };
    if lengths.len() != n_rows || lengths.iter().any(|n| !(0..=width as i64).contains(n)) {
        return Err(run.shapes(MATRIX, "Input", "InputLength"));
    }
    for_int!(input.dtype(), run.input_name("Input"), T => {
        let data = input.data::<T>()?;
        let output = output.resize::<T>(input.shape());
        output.fill(padding as T);
        let counts = output_length.resize::<T>(Shape::from([n_rows, 1]));
        for (row, (count, &n)) in counts.iter_mut().zip(&lengths).enumerate() {
            *count = 0;
            rule.align(&data[row * width..][..n as usize], |token| {
                output[row * width + *count as usize] = token;
                *count += 1;
            });
        }
        Ok(())
    })?;
    run.put("Output", output);
    run.put("OutputLength", output_length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, ids, seq};

    #[test]
    fn drops_blanks_and_repeats() {
        let input = seq(ids(&[7, 1], &[0, 1, 1, 0, 1, 2, 2]), &[4, 3]);
        let check = || check("ctc_align").input("Input", input.clone()).attr("blank", 0);
        check().gives("Output", seq(ids(&[3, 1], &[1, 1, 2]), &[1, 2]));
        check()
            .attr("merge_repeated", false)
            .gives("Output", seq(ids(&[5, 1], &[1, 1, 1, 2, 2]), &[2, 3]));
    }

    #[test]
    fn gives_minus_one_if_nothing_is_left() {
        let input = seq(ids(&[2, 1], &[0, 0]), &[2]);
        let out = check("ctc_align").input("Input", input).output("Output").run("Output");
        assert_eq!(out.tensor().unwrap().data::<i64>().unwrap(), [-1]);
    }

    #[test]
    fn fills_rows_up() {
        check("ctc_align")
            .input("Input", ids(&[2, 4], &[0, 1, 1, 0, 1, 2, 2, 3]))
            .input("InputLength", ids(&[2, 1], &[4, 3]))
            .attr("padding_value", 9)
            .gives("OutputLength", ids(&[2, 1], &[1, 2]))
            .gives("Output", ids(&[2, 4], &[1, 9, 9, 9, 1, 2, 9, 9]));
    }

    #[test]
    fn refuses_lengths_beyond_the_rows() {
        let check = check("ctc_align").input("Input", ids(&[1, 2], &[1, 2]));
        let error = check.input("InputLength", ids(&[1, 1], &[3])).output("Output").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
