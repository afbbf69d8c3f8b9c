//! Optimizers: one file each with its options, its state and its op. Here is what their ops share: the
//! shape rule, and one [`Rule`] applied to a dense gradient or to the rows of a sparse one.

#[macro_use]
mod kind;

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod decayed_adagrad;
mod dpsgd;
mod ftrl;
mod lamb;
mod lars_momentum;
mod momentum;
mod rmsprop;
mod sgd;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamax::Adamax;
pub use decayed_adagrad::DecayedAdagrad;
pub use dpsgd::Dpsgd;
pub use ftrl::Ftrl;
pub use kind::{Accumulator, OptimizerKind};
pub use lamb::Lamb;
pub use lars_momentum::LarsMomentum;
pub use momentum::Momentum;
pub use rmsprop::RmsProp;
pub use sgd::Sgd;

use std::iter;
use std::mem;

use tensor::rows::merge_sorted;
use tensor::update::Rule;
use tensor::{DType, Float, Rows, Tensor, Value};

use self::kind::Setting;
use super::map::needed_float;
use super::{Infer, Run};
use crate::error::{Error, Result};
use crate::var::VarKind;

/// The parameter itself among the pairs of ports that an op updates.
const PARAM: (&str, &str) = ("Param", "ParamOut");

const SAME_SHAPE: &str = "a gradient must have the shape of its parameter";
const STATE_SHAPE: &str = "optimizer state must have the shape of its parameter";
const ROW_SHAPE: &str = "the rows of a gradient must be as wide as those of its parameter";

/// The treatment of a sparse gradient by an op. One without any row changes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sparse {
    /// Each listed row is a step of its own.
    InSequence,
    /// Rows of one id are added up; rows that are not listed stay as they are.
    Merged,
    /// Equal ids are added up first, and rows that are not listed get a gradient of 0.
    WithZeros,
    /// The gradient is made dense first: the rule must see the parameter as a whole.
    AsDense,
}

/// The shape rule: `pairs` of ports keep what they are, the gradient fits the parameter.
fn infer(infer: &mut Infer<'_>, pairs: &[(&str, &str)]) -> Result<()> {
    infer.check_dtype("Param", &[DType::F32, DType::F64], "float32 or float64")?;
    let (param, grad) = (infer.input("Param")?, infer.input("Grad")?);
    let known = !grad.dims.is_empty() && grad.dims.iter().chain(&param.dims).all(|&dim| dim >= 0);
    if grad.kind == VarKind::LodTensor && known && grad.dims != param.dims {
        return Err(infer.shapes(SAME_SHAPE, "Param", "Grad"));
    }
    for (input, output) in pairs {
        let meta = infer.input(input)?;
        infer.set_output(output, meta)?;
    }
    Ok(())
}

/// A float attribute in the type that is computed in.
fn constant<T: Float>(run: &Run<'_>, attr: &str, default: f32) -> Result<T> {
    Ok(T::of(f64::from(run.attrs().float(attr, default)?)))
}

/// A float attribute that must be there.
fn required<T: Float>(run: &Run<'_>, attr: &str) -> Result<T> {
    Ok(T::of(f64::from(needed_float(run, attr)?)))
}

/// The learning rate in the type that is computed in.
fn learning_rate<T: Float>(run: &Run<'_>) -> Result<T> {
    Ok(T::of(run.scalar("LearningRate")?))
}

/// Attribute of an update: a gradient without rows is a step like any other. So it is with a part of a
/// table that is spread by hash: rows of the same step may be in other parts.
pub const STEPS_WITHOUT_ROWS: &str = "steps_without_rows";

/// Whether the gradient has no row at all, which changes nothing, not even a count of steps.
fn is_without_rows(run: &Run<'_>) -> Result<bool> {
    if run.attrs().bool(STEPS_WITHOUT_ROWS, false)? {
        return Ok(false);
    }
    Ok(run.value("Grad")?.rows().is_some_and(|rows| rows.ids.is_empty()))
}

/// Applies a rule to a parameter that `run` has handed out, with whatever gradient there is.
fn apply<T: Float, const N: usize>(
    run: &mut Run<'_>,
    rule: &impl Rule<T, N>,
    sparse: Sparse,
    param: &mut Tensor,
    state: [&mut Tensor; N],
) -> Result<()> {
    let shape = param.shape();
    for state in &state {
        state.data::<T>()?;
        if state.shape() != shape {
            return Err(misfit(run, STATE_SHAPE, param, "its state", state));
        }
    }
    let state = state.map(|state| state.data_mut::<T>().expect("the type was checked"));
    if let Value::Rows(_) = run.value("Grad")? {
        let (height, width) = shape.flatten_2d(1);
        let mut table = RowView { param: param.data_mut()?, state, height, width };
        return table.apply_rows(run, rule, sparse);
    }
    let grad = run.input("Grad")?;
    if grad.shape() != shape {
        return Err(misfit(run, SAME_SHAPE, param, run.input_name("Grad"), grad));
    }
    rule.update(param.data_mut()?, state, run.data("Grad")?);
    Ok(())
}

fn misfit(run: &Run<'_>, rule: &'static str, param: &Tensor, name: &str, other: &Tensor) -> Error {
    Error::Shapes {
        rule,
        left: run.input_name("Param").to_string(),
        left_dims: param.shape().to_i64(),
        right: name.to_string(),
        right_dims: other.shape().to_i64(),
    }
}

/// A parameter and its state seen as rows.
struct RowView<'a, T, const N: usize> {
    param: &'a mut [T],
    state: [&'a mut [T]; N],
    height: usize,
    width: usize,
}

/// Rows ahead of the one being changed that are asked for.
const PREFETCH_ROWS: usize = 8;

/// A gradient as rows: each id with `width` values.
#[derive(Clone, Copy)]
struct Listed<'a, T> {
    ids: &'a [i64],
    values: &'a [T],
}

impl<T: Float, const N: usize> RowView<'_, T, N> {
    fn apply_rows(
        &mut self,
        run: &mut Run<'_>,
        rule: &impl Rule<T, N>,
        sparse: Sparse,
    ) -> Result<()> {
        let spare = run.spare();
        let (mut merged, mut scratch) = (spare.rows(), mem::take(&mut spare.merge));
        let mut extra = spare.tensor();
        let steps = !is_without_rows(run)?;
        let result = self.listed(run).and_then(|listed| {
            let ascending = listed.ids.windows(2).all(|pair| pair[0] < pair[1]);
            let listed = if sparse == Sparse::InSequence || ascending {
                listed
            } else {
                let one = iter::once((listed.ids, listed.values));
                merge_sorted(one, self.width, &mut scratch, &mut merged);
                Listed { ids: &merged.ids, values: merged.value.data()? }
            };
            if steps {
                self.step(rule, sparse, listed, &mut extra);
            }
            Ok(())
        });
        let spare = run.spare();
        spare.keep(extra);
        spare.keep_rows(merged);
        spare.merge = scratch;
        result
    }

    /// The gradient's rows, every id and the width checked.
    fn listed<'g>(&self, run: &'g Run<'_>) -> Result<Listed<'g, T>> {
        let none = Listed { ids: &[], values: &[] };
        let Value::Rows(rows) = run.value("Grad")? else { return Ok(none) };
        if rows.ids.is_empty() || self.width == 0 {
            return Ok(none);
        }
        let values = rows.value.data::<T>().map_err(|e| run.in_var("Grad", e.into()))?;
        if values.len() != rows.ids.len() * self.width {
            return Err(Error::Shapes {
                rule: ROW_SHAPE,
                left: run.input_name("Param").to_string(),
                left_dims: vec![self.height as i64, self.width as i64],
                right: run.input_name("Grad").to_string(),
                right_dims: rows.value.shape().to_i64(),
            });
        }
        check_ids(rows, self.height).map_err(|e| run.in_var("Grad", e))?;
        Ok(Listed { ids: &rows.ids, values })
    }

    /// Asks for a row and its state before they are needed: both miss every cache in a large table.
    fn prefetch(&self, row: usize) {
        tensor::prefetch_row(self.param, row, self.width);
        self.state.iter().for_each(|state| tensor::prefetch_row(state, row, self.width));
    }

    fn step(
        &mut self,
        rule: &impl Rule<T, N>,
        sparse: Sparse,
        listed: Listed<'_, T>,
        extra: &mut Tensor,
    ) {
        let Listed { ids, values } = listed;
        let rows = ids.iter().map(|&id| id as usize).zip(values.chunks_exact(self.width.max(1)));
        match sparse {
            Sparse::InSequence | Sparse::Merged => {
                for (at, (row, grad)) in rows.enumerate() {
                    if let Some(&soon) = ids.get(at + PREFETCH_ROWS) {
                        self.prefetch(soon as usize);
                    }
                    self.update_row(rule, row, grad);
                }
            }
            Sparse::WithZeros => {
                let zeros = &*extra.resize_zeroed::<T>([self.width].into());
                let mut rows = rows.peekable();
                for row in 0..self.height {
                    let grad = rows.next_if(|(listed, _)| *listed == row);
                    self.update_row(rule, row, grad.map_or(zeros, |(_, grad)| grad));
                }
            }
            Sparse::AsDense => {
                let dense = extra.resize_zeroed::<T>([self.height, self.width].into());
                for (row, grad) in rows {
                    dense[row * self.width..][..self.width].copy_from_slice(grad);
                }
                let state = self.state.each_mut().map(|state| &mut **state);
                rule.update(self.param, state, dense);
            }
        }
    }

    fn update_row(&mut self, rule: &impl Rule<T, N>, row: usize, grad: &[T]) {
        let (start, end) = (row * self.width, (row + 1) * self.width);
        let state = self.state.each_mut().map(|state| &mut state[start..end]);
        rule.update(&mut self.param[start..end], state, grad);
    }
}

/// The gradient's own height may be that of a larger table; the parameter's is what counts.
fn check_ids(rows: &Rows, height: usize) -> Result<()> {
    let height = height as i64;
    match rows.ids.iter().find(|&&row| row < 0 || row >= height) {
        Some(&row) => Err(tensor::Error::RowOutOfRange { row, height }.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
pub(in crate::op) mod tests {
    use super::*;
    use crate::block::OpDesc;
    use crate::op::check::{Check, check, t};
    use crate::op::{self, NoHost, Spare, Wiring};

    /// A sparse gradient of a table of `height` rows, two numbers wide.
    pub(crate) fn rows(height: i64, ids: &[i64], values: &[f64]) -> Rows {
        Rows { ids: ids.to_vec(), height, value: t(&[ids.len(), 2], values) }
    }

    /// An optimizer op on a table of three rows, with a learning rate of 0.5.
    pub(crate) fn on_table(kind: &str, grad: impl Into<Value>) -> Check {
        check(kind)
            .input("Param", t(&[3, 2], &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]))
            .input("Grad", grad)
            .input("LearningRate", t(&[1], &[0.5]))
    }

    fn with_param_grad(grad: impl Into<Value>) -> Check {
        on_table("momentum", grad)
            .input("Velocity", t(&[3, 2], &[1.0; 6]))
            .attr("mu", 0.5f32)
            .output("ParamOut")
            .output("VelocityOut")
    }

    #[test]
    fn an_id_outside_of_the_table_is_named() {
        for id in [-1, 3] {
            let error = with_param_grad(rows(9, &[0, id], &[0.0; 4])).fails();
            let out = tensor::Error::RowOutOfRange { row: id, height: 3 };
            assert!(matches!(error.root(), Error::Tensor(e) if *e == out), "{error}");
            assert!(error.to_string().contains("Grad0"), "{error}");
        }
    }

    #[test]
    fn refuses_rows_of_another_width() {
        let grad = Rows { ids: vec![1], height: 3, value: t(&[1, 3], &[0.0; 3]) };
        let error = with_param_grad(grad).fails();
        assert!(matches!(error.root(), Error::Shapes { rule: ROW_SHAPE, .. }), "{error}");
    }

    #[test]
    fn refuses_a_gradient_or_state_of_another_shape() {
        let error = with_param_grad(t(&[2, 3], &[0.0; 6])).fails();
        assert!(matches!(error.root(), Error::Shapes { rule: SAME_SHAPE, .. }), "{error}");
        let error = on_table("adagrad", t(&[3, 2], &[0.0; 6]))
            .input("Moment", t(&[3], &[0.0; 3]))
            .output("ParamOut")
            .fails();
        assert!(matches!(error.root(), Error::Shapes { rule: STATE_SHAPE, .. }), "{error}");
    }

    #[test]
    fn refuses_integers() {
        let error = check("sgd")
            .input("Param", op::check::ids(&[1], &[1]))
            .input("Grad", t(&[1], &[1.0]))
            .input("LearningRate", t(&[1], &[0.5]))
            .output("ParamOut")
            .fails();
        assert!(matches!(error.root(), Error::DType { actual: DType::I64, .. }), "{error}");
    }

    #[test]
    fn a_gradient_that_was_never_computed_is_named() {
        let error = with_param_grad(Value::Empty).fails();
        assert!(matches!(error.root(), Error::NotInitialized { var, .. } if var == "Grad0"));
    }

    #[test]
    fn the_parameter_changes_in_place() {
        let op = OpDesc::new("sgd")
            .input("Param", "p")
            .input("Grad", "g")
            .input("LearningRate", "lr")
            .output("ParamOut", "p");
        let slot = |name: &str| ["p", "g", "lr"].iter().position(|n| *n == name).unwrap();
        let wiring = Wiring::new(&op, slot);
        let values = [t(&[1], &[1.0]), t(&[1], &[4.0]), t(&[1], &[0.5])];
        let mut vars = values.map(Value::Tensor);
        let memory = |vars: &[Value]| vars[0].tensor().unwrap().bytes().as_ptr();
        let before = memory(&vars);
        let (mut spare, mut host) = (Spare::default(), NoHost);
        let mut run = Run::new(&op, &wiring, &mut vars, &mut spare, &mut host);
        op::find("sgd").unwrap().run(&mut run).unwrap();
        assert_eq!(vars[0], Value::Tensor(t(&[1], &[-1.0])));
        assert_eq!(memory(&vars), before);
    }
}
