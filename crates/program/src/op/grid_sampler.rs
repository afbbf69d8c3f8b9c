//! `grid_sampler`: Output[n, c, i, j] = X[n, c] at the point Grid[n, i, j] = (x, y), between its four neighbours; -1 and
//! 1 are the edges, and what lies outside counts as 0.

use tensor::{Float, Shape};

use super::{Grad, Infer, Keep, Kernel, Op, Run, dims, for_float, traits};
use crate::error::Result;

pub(super) struct GridSampler;
pub(super) struct GridSamplerGrad;

const RULE: &str =
    "Grid must be [images, height, width, 2] for X of [images, channels, height, width]";

/// One of the four neighbours of a point.
struct Corner<T> {
    /// Its place in a plane, if it lies inside.
    place: Option<usize>,
    /// Its shares along x and y.
    shares: [T; 2],
    /// How the shares change with x and y.
    signs: [T; 2],
}

/// The neighbours of a point in a plane.
fn corners<T: Float>(x: T, y: T, height: usize, width: usize) -> [Corner<T>; 4] {
    let half = T::of(0.5);
    let (right, low) = (T::of(width as f64 - 1.0), T::of(height as f64 - 1.0));
    let (x, y) = ((x + T::one()) * half * right, (y + T::one()) * half * low);
    let (west, north) = (x.floor(), y.floor());
    std::array::from_fn(|i| {
        let (is_east, is_south) = (i % 2 == 1, i / 2 == 1);
        let along = |from: T, at: T, is_second: bool| {
            let behind = at - from;
            if is_second {
                [from + T::one(), behind, T::one()]
            } else {
                [from, T::one() - behind, -T::one()]
            }
        };
        let [column, share_x, sign_x] = along(west, x, is_east);
        let [row, share_y, sign_y] = along(north, y, is_south);
        let is_inside = column >= T::zero() && column <= right && row >= T::zero() && row <= low;
        let place = is_inside.then(|| row.f64() as usize * width + column.f64() as usize);
        Corner { place, shares: [share_x, share_y], signs: [sign_x, sign_y] }
    })
}

fn shape(run: &Run<'_>) -> Result<Shape> {
    let (x, grid) = (run.input("X")?.shape(), run.input("Grid")?.shape());
    match (x.dims(), grid.dims()) {
        (&[n, _, h, w], &[m, i, j, 2]) if n == m && h == i && w == j => Ok(x),
        _ => Err(run.shapes(RULE, "X", "Grid")),
    }
}

impl Op for GridSampler {
    traits!(All(&["X", "Grid"]), "X": [F32, F64], "Grid": [F32, F64]);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, grid) = (infer.input("X")?, infer.input("Grid")?);
        let (&[n, _, h, w], &[m, i, j, 2]) = (&x.dims[..], &grid.dims[..]) else {
            return Err(infer.shapes(RULE, "X", "Grid"));
        };
        if !dims::agree(&[n, h, w], &[m, i, j]) {
            return Err(infer.shapes(RULE, "X", "Grid"));
        }
        infer.set_output("Output", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.fill("Output", "X", |run, x, out| {
            let shape = shape(run)?;
            let (h, w) = (shape.dim(2), shape.dim(3));
            let (pixels, channels) = (h * w, shape.dim(1));
            for_float!(x.dtype(), run.input_name("X"), T => {
                let (data, grid) = (x.data::<T>()?, run.data::<T>("Grid")?);
                let out = out.resize_zeroed::<T>(shape);
                for (at, point) in grid.chunks_exact(2).enumerate() {
                    let (image, pixel) = (at / pixels, at % pixels);
                    for corner in corners(point[0], point[1], h, w) {
                        let Some(place) = corner.place else { continue };
                        for channel in 0..channels {
                            let plane = (image * channels + channel) * pixels;
                            out[plane + pixel] += data[plane + place] * corner.shares[0] * corner.shares[1];
                        }
                    }
                }
                Ok(())
            })
        })
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Output"], &["X", "Grid"]).inputs(&["X", "Grid"]))
    }
}

impl Kernel for GridSamplerGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let (mut d_x, mut d_grid) = (run.take("X@GRAD"), run.take("Grid@GRAD"));
        let shape = shape(run)?;
        dims::run_same(run, "X", "Output@GRAD")?;
        let (h, w) = (shape.dim(2), shape.dim(3));
        let (pixels, channels) = (h * w, shape.dim(1));
        let x = run.input("X")?;
        for_float!(x.dtype(), run.input_name("X"), T => {
            let (data, grid) = (x.data::<T>()?, run.data::<T>("Grid")?);
            let d_out = run.data::<T>("Output@GRAD")?;
            let d_x = d_x.resize_zeroed::<T>(shape);
            let d_grid = d_grid.resize_zeroed::<T>(run.input("Grid")?.shape());
            let halves = [0.5 * (w as T - 1.0), 0.5 * (h as T - 1.0)];
            for (at, point) in grid.chunks_exact(2).enumerate() {
                let (image, pixel) = (at / pixels, at % pixels);
                for corner in corners(point[0], point[1], h, w) {
                    let Some(place) = corner.place else { continue };
                    let ([share_x, share_y], [sign_x, sign_y]) = (corner.shares, corner.signs);
                    for channel in 0..channels {
                        let plane = (image * channels + channel) * pixels;
                        let d = d_out[plane + pixel];
                        d_x[plane + place] += d * share_x * share_y;
                        d_grid[2 * at] += d * data[plane + place] * sign_x * share_y * halves[0];
                        d_grid[2 * at + 1] += d * data[plane + place] * share_x * sign_y * halves[1];
                    }
                }
            }
            Ok(())
        })?;
        run.put("X@GRAD", d_x);
        run.put("Grid@GRAD", d_grid);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Error;
    use crate::op::check::{check, some, t};

    #[test]
    fn looks_between_pixels() {
        let op = check("grid_sampler").input("X", t(&[1, 1, 1, 3], &[1.0, 2.0, 4.0]));
        let grid = t(&[1, 1, 3, 2], &[-1.0, 0.0, 0.5, 0.0, 2.0, 0.0]);
        op.input("Grid", grid).gives("Output", t(&[1, 1, 1, 3], &[1.0, 3.0, 0.0]));
    }

    #[test]
    fn gradient_matches_finite_differences() {
        let grid = [-0.9, 0.3, 0.2, -0.7, 0.45, 0.15, -0.35, 0.85, 1.3, 0.1, 0.6, -0.2];
        let op = check("grid_sampler").input("X", some(&[1, 2, 2, 3]));
        op.input("Grid", t(&[1, 2, 3, 2], &grid)).output("Output").grad(&["X", "Grid"]);
    }

    #[test]
    fn refuses_another_grid() {
        let op = check("grid_sampler").input("X", some(&[1, 1, 2, 2]));
        let error = op.input("Grid", some(&[1, 2, 3, 2])).output("Output").fails();
        assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    }
}
