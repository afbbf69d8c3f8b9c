//! Shapes and element types from numbers of a file, a message or an attribute: checked, or refused.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::{RANK_MAX, Shape};

/// The largest product of the other sizes of a tensor that holds nothing: rows without columns are
/// counted one by one, and a real tensor does not have a trillion of them.
const EMPTY_MAX: usize = 1 << 28;

impl Shape {
    /// A shape from numbers of a file or an attribute: not negative, not too many, addressable.
    pub fn from_dims(dims: &[i64]) -> Result<Self> {
        if dims.len() > RANK_MAX {
            return Err(Error::RankTooHigh { rank: dims.len() });
        }
        let mut sizes = [0; RANK_MAX];
        let mut n_elements = 1usize;
        for (size, &dim) in sizes.iter_mut().zip(dims) {
            let too_many = || Error::TooManyElements(dims.to_vec());
            *size = usize::try_from(dim).map_err(|_| too_many())?;
            // Zeros do not count: a caller may replace one by another size later.
            n_elements = n_elements.checked_mul((*size).max(1)).ok_or_else(too_many)?;
        }
        // Eight bytes is the widest element; beyond this no buffer could hold the tensor.
        let most = if dims.contains(&0) { EMPTY_MAX } else { isize::MAX as usize / 8 };
        if n_elements > most {
            return Err(Error::TooManyElements(dims.to_vec()));
        }
        Ok(Shape::new(&sizes[..dims.len()]))
    }
}

impl DType {
    /// The type of a code found in a program or file.
    pub fn from_code(code: i64) -> Result<Self> {
        DType::all().find(|dtype| i64::from(dtype.code()) == code).ok_or(Error::UnknownDType(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_codes_that_are_no_element_type() {
        for dtype in DType::all() {
            assert_eq!(DType::from_code(i64::from(dtype.code())), Ok(dtype));
        }
        assert_eq!(DType::from_code(7), Err(Error::UnknownDType(7)));
        assert_eq!(DType::from_code(-1), Err(Error::UnknownDType(-1)));
    }

    #[test]
    fn refuses_what_cannot_be_held() {
        assert_eq!(Shape::from_dims(&[1; 10]), Err(Error::RankTooHigh { rank: 10 }));
        assert!(matches!(Shape::from_dims(&[-1, 2]), Err(Error::TooManyElements(_))));
        assert!(matches!(Shape::from_dims(&[1 << 40, 1 << 40]), Err(Error::TooManyElements(_))));
        let hidden = Shape::from_dims(&[1 << 40, 0, 1 << 40]);
        assert!(matches!(hidden, Err(Error::TooManyElements(_))), "a 0 hides nothing");
        assert!(matches!(Shape::from_dims(&[1 << 40, 0]), Err(Error::TooManyElements(_))));
        assert_eq!(Shape::from_dims(&[0, 1 << 20]), Ok(Shape::from([0, 1 << 20])));
    }
}
