//! Comparing numbers with a tolerance, and saying where they part.

use tensor::Tensor;

/// How far apart two numbers may be: `absolute + relative * |expected|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The part that does not depend on the numbers.
    pub absolute: f64,
    /// The part that grows with the expected number.
    pub relative: f64,
}

impl Tolerance {
    /// The same bits (NaN equals NaN).
    pub const EXACT: Tolerance = Tolerance::absolute(0.0);

    /// A distance.
    pub const fn absolute(absolute: f64) -> Self {
        Self { absolute, relative: 0.0 }
    }

    /// A share of the expected number.
    pub const fn relative(relative: f64) -> Self {
        Self { absolute: 0.0, relative }
    }

    /// A share of the expected number, but of 1 where that is smaller.
    pub const fn of(share: f64) -> Self {
        Self { absolute: share, relative: share }
    }

    fn holds(self, actual: f64, expected: f64) -> bool {
        actual == expected
            || (actual.is_nan() && expected.is_nan())
            || (actual - expected).abs() <= self.absolute + self.relative * expected.abs()
    }
}

/// Fails the test at the first number that is too far from the expected one.
#[track_caller]
pub fn assert_close(what: &str, actual: &[f64], expected: &[f64], tolerance: Tolerance) {
    assert_eq!(actual.len(), expected.len(), "{what}: how many numbers");
    for (at, (&actual, &expected)) in actual.iter().zip(expected).enumerate() {
        assert!(
            tolerance.holds(actual, expected),
            "{what}[{at}] is {actual}, expected {expected} within {tolerance:?}"
        );
    }
}

/// Compares tensors like numbers; their shapes must be equal too.
#[track_caller]
pub fn assert_tensor(what: &str, actual: &Tensor, expected: &Tensor, tolerance: Tolerance) {
    assert_eq!(actual.shape(), expected.shape(), "{what}: the shape");
    assert_close(what, &numbers(actual), &numbers(expected), tolerance);
}

/// The elements of a tensor of any type as doubles.
pub fn numbers(tensor: &Tensor) -> Vec<f64> {
    (0..tensor.len()).map(|at| tensor.get_f64(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_a_limit() {
        assert!(Tolerance::of(0.1).holds(1.2, 1.0));
        assert!(!Tolerance::relative(0.1).holds(1.2, 1.0));
        assert!(!Tolerance::EXACT.holds(0.0, f64::NAN));
        assert!(Tolerance::EXACT.holds(f64::NAN, f64::NAN));
    }

    #[test]
    #[should_panic(expected = "x[1] is 3, expected 2")]
    fn names_the_first_number_that_differs() {
        assert_close("x", &[1.0, 3.0], &[1.0, 2.0], Tolerance::EXACT);
    }
}
