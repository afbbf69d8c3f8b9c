//! The two widths kernels compute in, and the numbers that only need arithmetic.

use std::ops::{AddAssign, MulAssign, SubAssign};

use crate::Element;
use crate::kernel::HasKernel;

/// Any number type of a tensor: the operations of comparison, sum and cast kernels.
pub trait Number:
    Element + num_traits::Num + num_traits::NumCast + PartialOrd + AddAssign + SubAssign + MulAssign
{
    /// The value in this type. Fractions are cut off; an integer that cannot hold the number gets what
    /// Fluid gets from the processor: the least `i32` or `i64`, of which narrow types keep the low bits.
    fn of(value: f64) -> Self;
    /// The value as a double.
    fn f64(self) -> f64;
}

/// `f32` or `f64`: the types of differentiable kernels.
pub trait Float: Number + num_traits::Float + HasKernel {}

macro_rules! number {
    ($($t:ty, $value:ident => $of:expr);*) => {$(
        impl Number for $t {
            fn of($value: f64) -> Self {
                $of
            }

            fn f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

number!(
    u8, value => to_i32(value) as u8;
    i8, value => to_i32(value) as i8;
    i16, value => to_i32(value) as i16;
    i32, value => to_i32(value);
    i64, value => to_i64(value);
    f32, value => value as f32;
    f64, value => value
);

fn to_i32(value: f64) -> i32 {
    let fits = value > f64::from(i32::MIN) - 1.0 && value < f64::from(i32::MAX) + 1.0;
    if fits { value as i32 } else { i32::MIN }
}

fn to_i64(value: f64) -> i64 {
    // The least i64 is a double, and saturating gives it for all below.
    if value < i64::MAX as f64 { value as i64 } else { i64::MIN }
}

impl Float for f32 {}
impl Float for f64 {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of the op `cast` of Fluid 1.8.5.
    #[test]
    fn integers_overflow_as_in_fluid() {
        for (value, narrow, byte) in [(1e10, 0, 0), (f64::NAN, 0, 0), (f64::INFINITY, 0, 0)] {
            assert_eq!((i32::of(value), i16::of(value), u8::of(value)), (i32::MIN, narrow, byte));
        }
        assert_eq!((u8::of(300.0), u8::of(-300.0), u8::of(-2.7)), (44, 212, 254));
        assert_eq!((i8::of(300.0), i8::of(255.5), i16::of(70000.0)), (44, -1, 4464));
        assert_eq!(
            (i32::of(-2.7), i32::of(2147483647.9), i32::of(-2147483648.9)),
            (-2, i32::MAX, i32::MIN)
        );
        assert_eq!((i64::of(1e10), i64::of(-1e10)), (10_000_000_000, -10_000_000_000));
        for value in [9.3e18, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -9.3e18] {
            assert_eq!(i64::of(value), i64::MIN, "{value}");
        }
    }
}
