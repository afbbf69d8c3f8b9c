//! Sizes and places as a layer takes them: numbers, of which the program may compute some.

use tensor::DType;

use super::fill::{FillConstant, fill_constant};
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::Result;

/// A number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Amount<T> {
    /// Known.
    Is(T),
    /// What a variable holds when the program runs.
    In(Var),
}

/// One number of a list.
pub type Size = Amount<i64>;

impl<T> From<&Var> for Amount<T> {
    fn from(var: &Var) -> Self {
        Amount::In(var.clone())
    }
}

impl From<f64> for Amount<f64> {
    fn from(value: f64) -> Self {
        Amount::Is(value)
    }
}

/// A list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One by one.
    List(Vec<Size>),
    /// What a variable holds when the program runs.
    In(Var),
}

impl From<i32> for Size {
    fn from(size: i32) -> Self {
        Size::Is(size.into())
    }
}

impl From<Vec<Size>> for Sizes {
    fn from(sizes: Vec<Size>) -> Self {
        Sizes::List(sizes)
    }
}

impl<T: Copy + Into<i64>> From<&[T]> for Sizes {
    fn from(sizes: &[T]) -> Self {
        Sizes::List(sizes.iter().map(|&size| Size::Is(size.into())).collect())
    }
}

impl<T: Copy + Into<i64>, const N: usize> From<&[T; N]> for Sizes {
    fn from(sizes: &[T; N]) -> Self {
        Sizes::from(&sizes[..])
    }
}

impl<T: Copy + Into<i64>> From<&Vec<T>> for Sizes {
    fn from(sizes: &Vec<T>) -> Self {
        Sizes::from(&sizes[..])
    }
}

/// The ports at which an op takes sizes from variables.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizePorts {
    /// One variable holds all sizes.
    pub(super) whole: &'static str,
    /// One variable for each size.
    pub(super) list: &'static str,
}

impl Sizes {
    /// What is known: -1 for a number that a variable holds, nothing if one holds them all.
    pub(super) fn known(&self) -> Vec<i64> {
        let known = |size: &Size| match size {
            Size::Is(size) => *size,
            Size::In(_) => -1,
        };
        match self {
            Sizes::List(sizes) => sizes.iter().map(known).collect(),
            Sizes::In(_) => Vec::new(),
        }
    }

    /// What is known, as 32-bit numbers: the attributes of most ops hold those.
    pub(super) fn known_ints(&self) -> Vec<i32> {
        let within = |size: i64| size.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        self.known().into_iter().map(within).collect()
    }

    /// Which numbers are known, of a list as long as `n`.
    pub(super) fn are_known(&self, n: usize) -> Vec<bool> {
        match self {
            Sizes::List(sizes) => sizes.iter().map(|size| matches!(size, Size::Is(_))).collect(),
            Sizes::In(_) => vec![false; n],
        }
    }

    /// Gives an op what variables hold.
    pub(super) fn on(
        &self,
        b: &mut Builder<'_>,
        layer: &str,
        op: OpDesc,
        ports: SizePorts,
    ) -> Result<OpDesc> {
        let sizes = match self {
            Sizes::In(var) => return Ok(op.input(ports.whole, var)),
            Sizes::List(sizes) if sizes.iter().all(|size| matches!(size, Size::Is(_))) => {
                return Ok(op);
            }
            Sizes::List(sizes) => sizes,
        };
        let vars: Result<Vec<Var>> = sizes.iter().map(|size| constant(b, layer, size)).collect();
        Ok(op.input(ports.list, &*vars?))
    }
}

/// A variable that holds a number.
fn constant(b: &mut Builder<'_>, layer: &str, size: &Size) -> Result<Var> {
    let size = match size {
        Size::In(var) => return Ok(var.clone()),
        Size::Is(size) => *size,
    };
    let out = b.temp_stopped(layer, DType::I32);
    let options = FillConstant { force_cpu: true, out: Some(&out) };
    fill_constant(b, &[1], DType::I32, size as f64, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;

    #[test]
    fn known_numbers_need_no_variables() {
        let mut net = Net::default();
        let op = OpDesc::new("reshape2");
        let sizes = Sizes::from(&[2, -1]);
        let ports = SizePorts { whole: "Shape", list: "ShapeTensor" };
        assert_eq!(sizes.on(&mut net.builder(), "l", op.clone(), ports).unwrap(), op);
        assert_eq!(sizes.known(), [2, -1]);
        assert!(net.main.block(0).ops.is_empty());
    }

    #[test]
    fn a_list_with_a_variable_becomes_variables() {
        let mut net = Net::default();
        let sizes = Sizes::from(vec![Size::Is(3), Size::In(Var::from("n"))]);
        let ports = SizePorts { whole: "Shape", list: "ShapeTensor" };
        let op = sizes.on(&mut net.builder(), "l", OpDesc::new("reshape2"), ports).unwrap();
        assert_eq!(op.input_names("ShapeTensor"), ["l.tmp_0", "n"]);
        assert_eq!((sizes.known(), sizes.are_known(2)), (vec![3, -1], vec![true, false]));
        let whole = Sizes::In(Var::from("all"));
        let op = whole.on(&mut net.builder(), "l", OpDesc::new("reshape2"), ports).unwrap();
        assert_eq!(op.input_names("Shape"), ["all"]);
        assert!(whole.known().is_empty());
    }
}
