//! Ops whose result holds numbers of one input at other places: where each comes from is said once,
//! for the kernel and for its gradient.

use tensor::{RANK_MAX, Shape, Tensor};

use super::strips::advance;
use super::{Run, for_number};
use crate::error::Result;

/// Where the numbers of a result come from.
pub(super) trait Moves {
    /// The shape of the result.
    fn shape(&self) -> Shape;

    /// The place in the input of the number at these coordinates of the result, if it has one.
    fn source(&self, at: &[usize]) -> Option<usize>;

    /// The number of the places that nothing comes to.
    fn fill(&self) -> f64 {
        0.0
    }
}

/// The ports of such an op.
#[derive(Clone, Copy)]
pub(super) struct MovePorts {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) d_from: &'static str,
    pub(super) d_to: &'static str,
}

/// Calls `f(place, coordinates)` for each element of a shape, in order.
pub(super) fn for_each_place(shape: Shape, mut f: impl FnMut(usize, &[usize])) {
    if shape.n_elements() == 0 {
        return;
    }
    let mut at = [0; RANK_MAX];
    let mut place = 0;
    loop {
        f(place, &at[..shape.rank()]);
        place += 1;
        if !advance(&mut at[..shape.rank()], |axis| shape.dim(axis)) {
            return;
        }
    }
}

/// The place of an element in a tensor of this shape.
pub(super) fn place_of(shape: Shape, at: &[usize]) -> usize {
    at.iter().enumerate().fold(0, |place, (axis, &i)| place * shape.dim(axis) + i)
}

/// Fills the result: each number from its place.
pub(super) fn run_moves<M: Moves>(
    run: &mut Run<'_>,
    ports: MovePorts,
    plan: impl Fn(&Run<'_>) -> Result<M>,
) -> Result<()> {
    let mut out = run.take(ports.to);
    let moves = plan(run)?;
    let x = run.input(ports.from)?;
    out.try_resize_as(x.dtype(), moves.shape())?;
    let fill = fill_bytes(x, moves.fill());
    match x.dtype().size() {
        1 => copy::<1>(x, &mut out, &moves, fill),
        2 => copy::<2>(x, &mut out, &moves, fill),
        4 => copy::<4>(x, &mut out, &moves, fill),
        _ => copy::<8>(x, &mut out, &moves, fill),
    }
    run.put(ports.to, out);
    Ok(())
}

/// A number as the bytes of the tensor's type; types that nothing computes with know only zeros.
fn fill_bytes(like: &Tensor, value: f64) -> [u8; 8] {
    use tensor::Number;
    let mut bytes = [0; 8];
    let result: Result<()> = for_number!(like.dtype(), "", T => {
        let number = <T as Number>::of(value).to_ne_bytes();
        bytes[..number.len()].copy_from_slice(&number);
        Ok(())
    });
    // Zeros are zeros in every type.
    let _ = result;
    bytes
}

fn copy<const N: usize>(x: &Tensor, out: &mut Tensor, moves: &impl Moves, fill: [u8; 8]) {
    let (from, _) = x.bytes().as_chunks::<N>();
    let shape = out.shape();
    let (to, _) = out.bytes_mut().as_chunks_mut::<N>();
    let (fill, _) = fill.as_chunks::<N>();
    for_each_place(shape, |place, at| {
        to[place] = moves.source(at).map_or(fill[0], |source| from[source]);
    });
}

/// Adds the gradient of each number of the result to that of its place in the input.
pub(super) fn run_moves_back<M: Moves>(
    run: &mut Run<'_>,
    ports: MovePorts,
    plan: impl Fn(&Run<'_>) -> Result<M>,
) -> Result<()> {
    let mut d_x = run.take(ports.d_from);
    let moves = plan(run)?;
    let (x, d_out) = (run.input(ports.from)?, run.input(ports.d_to)?);
    if d_out.shape() != moves.shape() {
        return Err(run.shapes(
            "the gradient must have the result's shape",
            ports.d_to,
            ports.from,
        ));
    }
    for_number!(d_out.dtype(), run.input_name(ports.d_to), T => {
        let (from, to) = (d_out.data::<T>()?, d_x.resize_zeroed::<T>(x.shape()));
        for_each_place(moves.shape(), |place, at| {
            if let Some(source) = moves.source(at) {
                to[source] += from[place];
            }
        });
        Ok(())
    })?;
    d_x.set_lod(x.lod().clone());
    run.put(ports.d_from, d_x);
    Ok(())
}

/// `Op, OpGrad: "X" -> "Out", reads ["X"]; traits; infer; plan` makes both ops of a move.
///
/// The gradient reads the ports in brackets as far as the op has them: what `plan` asks for.
macro_rules! moves {
    ($op:ident, $grad:ident: $from:literal -> $to:literal, reads [$($read:literal),*];
        traits($($traits:tt)*); $infer:path; $plan:path) => {
        pub(super) struct $op;
        pub(super) struct $grad;

        const _: () = {
            const PORTS: $crate::op::moves::MovePorts = $crate::op::moves::MovePorts {
                from: $from,
                to: $to,
                d_from: concat!($from, "@GRAD"),
                d_to: concat!($to, "@GRAD"),
            };

            impl $crate::op::Op for $op {
                $crate::op::traits!($($traits)*);

                fn infer(&self, infer: &mut $crate::op::Infer<'_>) -> $crate::error::Result<()> {
                    $infer(infer)
                }

                fn run(&self, run: &mut $crate::op::Run<'_>) -> $crate::error::Result<()> {
                    $crate::op::moves::run_moves(run, PORTS, $plan)
                }

                fn grad(&self, grad: &mut $crate::op::Grad<'_>) -> $crate::error::Result<()> {
                    let has = |port: &&str| !grad.op().input_names(port).is_empty();
                    let read: Vec<&str> = [$($read),*].into_iter().filter(has).collect();
                    grad.emit_usual($crate::op::Keep::grads(&[$to], &[$from]).inputs(&read))
                }
            }

            impl $crate::op::Kernel for $grad {
                fn run(&self, run: &mut $crate::op::Run<'_>) -> $crate::error::Result<()> {
                    $crate::op::moves::run_moves_back(run, PORTS, $plan)
                }
            }
        };
    };
}
pub(super) use moves;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_a_shape_in_order() {
        let mut seen = Vec::new();
        for_each_place(Shape::from([2, 2]), |place, at| seen.push((place, at.to_vec())));
        let expected = [(0, vec![0, 0]), (1, vec![0, 1]), (2, vec![1, 0]), (3, vec![1, 1])];
        assert_eq!(seen, expected);
        for_each_place(Shape::from([2, 0]), |_, _| panic!("there is nothing"));
        assert_eq!(place_of(Shape::from([2, 3, 4]), &[1, 2, 3]), 23);
    }
}
