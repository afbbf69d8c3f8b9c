//! Ops that make the numbers of their outputs from the numbers of their inputs at the same places.

use tensor::{Float, Shape};

use super::{Infer, Run, dims};
use crate::error::Result;

/// The ports of such an op.
pub(super) struct Zip<const I: usize, const O: usize> {
    /// The first gives type and shape; the others are alike.
    pub(super) inputs: [&'static str; I],
    pub(super) outputs: [&'static str; O],
    /// The first output has the sequences of the first input.
    pub(super) sequences: bool,
}

impl<const I: usize, const O: usize> Zip<I, O> {
    /// The shape rule: inputs must be alike, and outputs are, too.
    pub(super) fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        for port in &self.inputs[1..] {
            dims::infer_same(infer, self.inputs[0], port)?;
        }
        let first = infer.input(self.inputs[0])?;
        for (at, port) in self.outputs.into_iter().enumerate() {
            let keeps = at == 0 && self.sequences;
            infer.set_output(port, if keeps { first.clone() } else { first.with_lod_level(0) })?;
        }
        Ok(())
    }

    /// Fills all outputs with `f`, if the inputs are alike.
    pub(super) fn run<T: Float>(
        &self,
        run: &mut Run<'_>,
        f: impl Fn([T; I]) -> [T; O],
    ) -> Result<()> {
        for port in &self.inputs[1..] {
            dims::run_same(run, self.inputs[0], port)?;
        }
        let shape = run.input(self.inputs[0])?.shape();
        self.fill(run, shape, f)
    }

    /// Fills all outputs with `f`. The inputs have as many numbers as `shape`.
    pub(super) fn fill<T: Float>(
        &self,
        run: &mut Run<'_>,
        shape: Shape,
        f: impl Fn([T; I]) -> [T; O],
    ) -> Result<()> {
        let n = shape.n_elements();
        let mut tensors = self.outputs.map(|port| run.take(port));
        let mut inputs: [&[T]; I] = [&[]; I];
        for (input, port) in inputs.iter_mut().zip(self.inputs) {
            *input = &run.data::<T>(port)?[..n];
        }
        let outputs = tensors.each_mut().map(|tensor| &mut tensor.resize::<T>(shape)[..n]);
        for at in 0..n {
            let values = f(inputs.map(|input| input[at]));
            for k in 0..O {
                outputs[k][at] = values[k];
            }
        }
        if self.sequences {
            tensors[0].set_lod(run.input(self.inputs[0])?.lod().clone());
        }
        for (port, tensor) in self.outputs.into_iter().zip(tensors) {
            run.put(port, tensor);
        }
        Ok(())
    }
}
