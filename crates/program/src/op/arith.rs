//! Arithmetic over all number types: integers wrap around instead of stopping the program.

use tensor::Number;

/// The number types of elementwise kernels.
pub(super) trait Arith: Number {
    /// Whether the type holds integers, which cannot be divided by zero.
    const WHOLE: bool;
    /// No number of the type is smaller.
    const LOWEST: Self;
    /// No number of the type is greater.
    const HIGHEST: Self;

    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// The quotient; integers are cut off towards zero, and `other` is not zero.
    fn over(self, other: Self) -> Self;
    /// The remainder, as Fluid has it: with the sign of `self` for integers, of `other` for floats.
    fn modulo(self, other: Self) -> Self;
    fn power(self, other: Self) -> Self;
}

macro_rules! whole {
    ($($t:ty),*) => {$(
        impl Arith for $t {
            const WHOLE: bool = true;
            const LOWEST: Self = <$t>::MIN;
            const HIGHEST: Self = <$t>::MAX;

            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn over(self, other: Self) -> Self {
                self.wrapping_div(other)
            }
            fn modulo(self, other: Self) -> Self {
                self.wrapping_rem(other)
            }
            fn power(self, other: Self) -> Self {
                Self::of(self.f64().powf(other.f64()))
            }
        }
    )*};
}

macro_rules! real {
    ($($t:ty),*) => {$(
        impl Arith for $t {
            const WHOLE: bool = false;
            const LOWEST: Self = <$t>::NEG_INFINITY;
            const HIGHEST: Self = <$t>::INFINITY;

            fn plus(self, other: Self) -> Self {
                self + other
            }
            fn minus(self, other: Self) -> Self {
                self - other
            }
            fn times(self, other: Self) -> Self {
                self * other
            }
            fn over(self, other: Self) -> Self {
                self / other
            }
            fn modulo(self, other: Self) -> Self {
                let rest = self % other;
                if rest != 0.0 && (rest < 0.0) != (other < 0.0) { rest + other } else { rest }
            }
            fn power(self, other: Self) -> Self {
                self.powf(other)
            }
        }
    )*};
}

whole!(i32, i64);
real!(f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_floats_follow_the_divisor() {
        assert_eq!(i32::MIN.over(-1), i32::MIN);
        assert_eq!(i64::MAX.plus(1), i64::MIN);
        assert_eq!((-7i64).modulo(2), -1);
        assert_eq!((-7.5f64).modulo(2.0), 0.5);
        assert_eq!(7i32.power(-2), 0);
    }
}
