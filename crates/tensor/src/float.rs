//! The two widths kernels compute in, and the numbers that only need arithmetic.

use std::ops::{AddAssign, MulAssign, SubAssign};

use crate::Element;

/// Any number type of a tensor: what comparison, sum and cast kernels need.
pub trait Number:
    Element + num_traits::Num + num_traits::NumCast + PartialOrd + AddAssign + SubAssign + MulAssign
{
    /// The nearest value of this type, truncating towards zero and saturating at the ends.
    fn of(value: f64) -> Self;
    /// The value as a double.
    fn f64(self) -> f64;
}

/// `f32` or `f64`: what differentiable kernels are generic over.
pub trait Float: Number + num_traits::Float {}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn of(value: f64) -> Self {
                value as $t
            }

            fn f64(self) -> f64 {
                self as f64
            }
        }
    )*};
}

number!(u8, i8, i16, i32, i64, f32, f64);

impl Float for f32 {}
impl Float for f64 {}
