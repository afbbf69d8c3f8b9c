//! `dropout`: sets elements of X to 0 with probability `dropout_prob`; Mask is 1 where one stayed.
//!
//! `downgrade_in_infer` leaves what stays as it is and multiplies everything by 1 - p when testing;
//! `upscale_in_train` divides what stays by 1 - p and does nothing when testing.

use tensor::{DType, rng};

use super::{BySample, Grad, Infer, Keep, Kernel, Op, Run, Traits, dims, for_float};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct Dropout;
pub(super) struct DropoutGrad;

struct DropoutOptions {
    /// The probability to drop.
    p: f32,
    upscale: bool,
    is_test: bool,
}

impl DropoutOptions {
    fn of(attrs: &Attrs) -> Result<Self> {
        let bad = |attr: &str, expected: &str, actual: String| {
            Err(Error::BadAttr { attr: attr.to_string(), expected: expected.to_string(), actual })
        };
        let p = attrs.float("dropout_prob", 0.5)?;
        if !(0.0..=1.0).contains(&p) {
            return bad("dropout_prob", "between 0 and 1", p.to_string());
        }
        let upscale = match attrs.str("dropout_implementation", "downgrade_in_infer")? {
            "downgrade_in_infer" => false,
            "upscale_in_train" => true,
            other => {
                let expected = "downgrade_in_infer or upscale_in_train";
                return bad("dropout_implementation", expected, other.to_string());
            }
        };
        Ok(Self { p, upscale, is_test: attrs.bool("is_test", false)? })
    }

    /// The factor in training of an element that stays.
    fn scale(&self) -> f32 {
        if self.upscale && self.p < 1.0 { 1.0 / (1.0 - self.p) } else { 1.0 }
    }
}

impl Op for Dropout {
    fn traits(&self, attrs: &Attrs) -> Traits {
        let is_test = attrs.bool("is_test", false).unwrap_or(false);
        let by_sample = if is_test { BySample::Rows("X") } else { BySample::Never };
        let types = &[("X", &[DType::F16, DType::F32, DType::F64] as &[DType])];
        Traits { knows_is_test: true, ..Traits::new(by_sample, types) }
    }

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        DropoutOptions::of(infer.attrs())?;
        let x = infer.input("X")?;
        infer.set_output("Mask", x.with_dtype(DType::U8).with_lod_level(0))?;
        infer.set_output("Out", x)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let options = DropoutOptions::of(run.attrs())?;
        if options.is_test {
            return test(run, &options);
        }
        let mut rng = rng::Rng::new(seed(run)?);
        let (mut out, mut mask) = (run.take("Out"), run.take("Mask"));
        let x = run.input("X")?;
        let mask_data = mask.resize::<u8>(x.shape());
        draw(&mut rng, options.p, mask_data);
        for_float!(x.dtype(), run.input_name("X"), T => {
            let scale = T::from(options.scale());
            let elements = x.data::<T>()?.iter().zip(&*mask_data);
            for (out, (&x, &stays)) in out.resize::<T>(x.shape()).iter_mut().zip(elements) {
                *out = if stays != 0 { x * scale } else { 0.0 };
            }
            Ok(())
        })?;
        out.set_lod(x.lod().clone());
        run.put("Out", out);
        run.put("Mask", mask);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        grad.emit_usual(Keep::grads(&["Out"], &["X"]).outputs(&["Mask"]))
    }
}

fn test(run: &mut Run<'_>, options: &DropoutOptions) -> Result<()> {
    let mut out = run.take("Out");
    let x = run.input("X")?;
    let scale = if options.upscale { 1.0 } else { 1.0 - options.p };
    for_float!(x.dtype(), run.input_name("X"), T => {
        let elements = out.resize::<T>(x.shape()).iter_mut().zip(x.data::<T>()?);
        elements.for_each(|(out, &x)| *out = x * T::from(scale));
        Ok(())
    })?;
    out.set_lod(x.lod().clone());
    run.put("Out", out);
    Ok(())
}

/// A fixed seed begins the same stream each time; otherwise it is another one.
fn seed(run: &mut Run<'_>) -> Result<u32> {
    if run.opt_input("Seed").is_some() {
        return Ok(run.scalar("Seed")? as u32);
    }
    if run.attrs().bool("fix_seed", false)? {
        Ok(run.attrs().int("seed", 0)? as u32)
    } else {
        Ok(run.host().fresh_seed())
    }
}

/// One draw per element, in order, whatever the type of the elements.
fn draw(rng: &mut rng::Rng, p: f32, mask: &mut [u8]) {
    let mut numbers = [0f32; 64];
    for mask in mask.chunks_mut(numbers.len()) {
        let numbers = &mut numbers[..mask.len()];
        rng::uniform(rng, 0.0, 1.0, numbers);
        mask.iter_mut().zip(&*numbers).for_each(|(mask, &u)| *mask = u8::from(u >= p));
    }
}

/// dX = dOut where the element stayed, scaled as in training.
impl Kernel for DropoutGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let options = DropoutOptions::of(run.attrs())?;
        dims::run_same(run, "Mask", "Out@GRAD")?;
        run.fill("X@GRAD", "Out@GRAD", |run, d_out, d_x| {
            for_float!(d_out.dtype(), run.input_name("Out@GRAD"), T => {
                let scale = T::from(options.scale());
                let elements = d_out.data::<T>()?.iter().zip(run.data::<u8>("Mask")?);
                for (d_x, (&d, &stays)) in d_x.resize::<T>(d_out.shape()).iter_mut().zip(elements) {
                    *d_x = if stays != 0 { d * scale } else { 0.0 };
                }
                Ok(())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use super::*;
    use crate::op::check::{Check, check, t};

    /// The elements that stay in Fluid 1.8.5 for this seed and probability.
    const STAYS: [u8; 12] = [0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1];

    fn dropout(implementation: &str) -> Check {
        check("dropout")
            .input("X", t(&[2, 6], &[2.0; 12]))
            .attr("dropout_prob", 0.3f32)
            .attr("fix_seed", true)
            .attr("seed", 5)
            .attr("dropout_implementation", implementation)
    }

    fn values(scale: f64) -> Tensor {
        t(&[2, 6], &STAYS.map(|stays| f64::from(stays) * 2.0 * scale))
    }

    #[test]
    fn drops_what_fluid_drops() {
        let mask = Tensor::new([2, 6], &STAYS).unwrap();
        dropout("downgrade_in_infer").gives("Mask", mask).gives("Out", values(1.0));
        dropout("upscale_in_train").gives("Out", values(1.0 / 0.7));
    }

    #[test]
    fn testing_drops_nothing() {
        let test = |implementation: &str| dropout(implementation).attr("is_test", true);
        test("downgrade_in_infer").gives("Out", t(&[2, 6], &[1.4; 12]));
        test("upscale_in_train").gives("Out", t(&[2, 6], &[2.0; 12]));
    }

    #[test]
    fn a_probability_of_one_drops_everything() {
        let all = dropout("upscale_in_train").attr("dropout_prob", 1.0f32);
        all.gives("Out", t(&[2, 6], &[0.0; 12])).output("Mask").grad(&["X"]);
    }

    #[test]
    fn gradient_matches_finite_differences() {
        for implementation in ["downgrade_in_infer", "upscale_in_train"] {
            dropout(implementation).output("Out").output("Mask").grad(&["X"]);
        }
    }

    #[test]
    fn refuses_what_is_no_probability() {
        let error = dropout("upscale_in_train").attr("dropout_prob", 1.5f32).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        let error = dropout("sometimes").output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
}
