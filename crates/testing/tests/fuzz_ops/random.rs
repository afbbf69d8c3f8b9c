//! Random numbers, tensors, keyed rows and attributes; small ones mostly, and some that are absurd.

use std::sync::Arc;

use program::Attr;
use tensor::{Bool, DType, Lod, Rows, Shape, Tensor, Value};

use crate::vocabulary::{Kind, Words};

/// A stream of numbers that a seed decides.
pub(crate) struct Random(u64);

/// No tensor of a case has more elements.
const ELEMENTS_MAX: usize = 2048;

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Common properties of the values of one case, so that they fit together now and then.
#[derive(Clone, Debug)]
pub(crate) struct Taste {
    pub(crate) sizes: [usize; 3],
    /// The type of most variables of the case.
    pub(crate) dtype: DType,
    dims: Vec<i64>,
}

impl Taste {
    pub(crate) fn new(random: &mut Random) -> Self {
        const USUAL: [DType; 12] = [
            DType::F32,
            DType::F32,
            DType::F32,
            DType::F32,
            DType::F64,
            DType::F64,
            DType::F64,
            DType::I64,
            DType::I64,
            DType::I32,
            DType::Bool,
            DType::U8,
        ];
        let mut size = || *random.one(&[0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8]);
        let sizes = [size(), size(), size()];
        let mut taste = Self { sizes, dtype: *random.one(&USUAL), dims: Vec::new() };
        taste.dims = taste.any_dims(random);
        taste
    }

    fn any_dtype(&self, random: &mut Random) -> DType {
        const RARE: [DType; 6] =
            [DType::Bool, DType::U8, DType::I8, DType::I16, DType::F16, DType::F64];
        match random.below(100) {
            0..70 => self.dtype,
            70..88 => DType::I64,
            88..95 => DType::I32,
            _ => *random.one(&RARE),
        }
    }

    /// The shape of the case, something near it, or anything.
    fn any_shape(&self, random: &mut Random) -> Vec<i64> {
        let mut dims = self.dims.clone();
        match random.below(100) {
            0..50 => {}
            50..58 => dims.truncate(1),
            58..66 => {
                dims.truncate(dims.len().saturating_sub(1));
                dims.push(1);
            }
            66..72 => {
                let at = random.below(dims.len());
                if let Some(dim) = dims.get_mut(at) {
                    *dim = *random.one(&self.sizes) as i64;
                }
            }
            72..78 => dims = vec![1],
            78..82 => dims.reverse(),
            _ => dims = self.any_dims(random),
        }
        let n: i64 = dims.iter().fold(1i64, |n, &dim| n.saturating_mul(dim));
        let fits = (0..=ELEMENTS_MAX as i64).contains(&n) && Shape::from_dims(&dims).is_ok();
        if fits { dims } else { vec![0; dims.len().min(9)] }
    }

    fn any_dims(&self, random: &mut Random) -> Vec<i64> {
        const RANKS: [usize; 20] = [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 4, 4, 4, 9];
        let rank = *random.one(&RANKS);
        let size = |random: &mut Random| match random.below(200) {
            0..150 => *random.one(&self.sizes) as i64,
            150..170 => 1,
            170..198 => random.below(7) as i64,
            _ => *random.one(&[1 << 20, 1 << 31, 1 << 40, 1 << 58]),
        };
        let mut dims: Vec<i64> = (0..rank).map(|_| size(random)).collect();
        let n = dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim as usize));
        if n.is_none_or(|n| n > ELEMENTS_MAX) {
            let at = random.below(rank);
            dims[at] = 0;
        }
        if Shape::from_dims(&dims).is_err() { vec![0; rank] } else { dims }
    }

    pub(crate) fn tensor(&self, random: &mut Random) -> Tensor {
        let shape = Shape::from_dims(&self.any_shape(random)).expect("checked");
        let dtype = self.any_dtype(random);
        let mut tensor = Tensor::default();
        tensor.resize_as(dtype, shape);
        fill(&mut tensor, random);
        if random.percent(40) {
            tensor.set_lod(lod(random, shape.dims().first().copied().unwrap_or(0)));
        }
        tensor
    }

    pub(crate) fn value(&self, random: &mut Random) -> Value {
        match random.below(100) {
            0..80 => Value::Tensor(self.tensor(random)),
            80..85 => Value::Shared(Arc::new(self.tensor(random))),
            85..94 => Value::Rows(self.rows(random)),
            94..97 => Value::Array((0..random.below(4)).map(|_| self.tensor(random)).collect()),
            _ => Value::Empty,
        }
    }

    /// Keyed rows as a peer may send them: as many ids as rows, but any ids.
    fn rows(&self, random: &mut Random) -> Rows {
        let mut value = self.tensor(random);
        value.set_lod(Lod::NONE);
        let n = value.dims().first().copied().unwrap_or(0);
        let n = if n > ELEMENTS_MAX { 0 } else { n };
        if value.dims().first() != Some(&n) {
            value = Tensor::new([0, 1], &[0f32; 0]).expect("nothing");
        }
        let ids = (0..n).map(|_| integer(random)).collect();
        Rows { ids, height: *random.one(&[0, 1, 4, 8, 1 << 40, -1]), value }
    }

    pub(crate) fn attr(&self, kind: Kind, words: &Words, random: &mut Random) -> Attr {
        let kind = match kind {
            Kind::Any => *random.one(&[Kind::Int, Kind::Int, Kind::Ints, Kind::Bool, Kind::Str]),
            known => known,
        };
        let text = |random: &mut Random| {
            let texts: Vec<&String> = words.texts.iter().collect();
            texts.get(random.below(texts.len())).map_or(String::new(), |text| text.to_string())
        };
        match kind {
            Kind::Int => match self.size(random) {
                small if i32::try_from(small).is_ok() => Attr::Int(small as i32),
                large => Attr::Long(large),
            },
            Kind::Ints => {
                let many = (0..random.below(5)).map(|_| self.size(random)).collect::<Vec<_>>();
                if random.percent(80) {
                    Attr::Ints(many.iter().map(|&size| size as i32).collect())
                } else {
                    Attr::Longs(many)
                }
            }
            Kind::Float => Attr::Float(real(random) as f32),
            Kind::Floats => {
                Attr::Floats((0..random.below(4)).map(|_| real(random) as f32).collect())
            }
            Kind::Bool => Attr::Bool(random.percent(50)),
            Kind::Strs => Attr::Strs((0..random.below(4)).map(|_| text(random)).collect()),
            Kind::Str | Kind::Any => Attr::Str(text(random)),
        }
    }

    fn size(&self, random: &mut Random) -> i64 {
        match random.below(100) {
            0..45 => *random.one(&self.sizes) as i64,
            _ => integer(random),
        }
    }
}

fn integer(random: &mut Random) -> i64 {
    // Nothing that a machine could just so hold: a tensor of it would be made and filled.
    const ABSURD: [i64; 9] =
        [i64::MIN, i64::MAX, 1 << 51, -(1 << 31), 7_777, 1 << 50, -(1 << 50), 1 << 62, 255];
    match random.below(100) {
        0..80 => random.below(6) as i64,
        80..95 => random.below(12) as i64 - 6,
        _ => *random.one(&ABSURD),
    }
}

fn real(random: &mut Random) -> f64 {
    const ABSURD: [f64; 8] =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e38, 0.0, -0.0, 1e-40];
    match random.below(100) {
        0..60 => random.below(1000) as f64 / 1000.0,
        60..90 => random.below(1000) as f64 / 100.0 - 5.0,
        _ => *random.one(&ABSURD),
    }
}

fn fill(tensor: &mut Tensor, random: &mut Random) {
    match tensor.dtype() {
        DType::F32 => each::<f32>(tensor, || real(random) as f32),
        DType::F64 => each::<f64>(tensor, || real(random)),
        DType::I32 => each::<i32>(tensor, || integer(random) as i32),
        DType::I64 => each::<i64>(tensor, || integer(random)),
        DType::Bool => each::<Bool>(tensor, || Bool::from(random.percent(50))),
        _ => tensor.bytes_mut().iter_mut().for_each(|byte| *byte = random.next() as u8),
    }
}

fn each<T: tensor::Element>(tensor: &mut Tensor, mut next: impl FnMut() -> T) {
    tensor.data_mut::<T>().expect("of this type").iter_mut().for_each(|x| *x = next());
}

fn lod(random: &mut Random, rows: usize) -> Lod {
    match random.below(10) {
        0..6 => Lod::from_offsets(vec![cuts(random, rows)]),
        6..8 => {
            let inner = cuts(random, rows);
            Lod::from_offsets(vec![cuts(random, inner.len() - 1), inner])
        }
        _ => {
            let level =
                |random: &mut Random| (0..random.below(5)).map(|_| random.below(7)).collect();
            Lod::from_offsets((0..1 + random.below(2)).map(|_| level(random)).collect())
        }
    }
}

/// Offsets from 0 to `end`.
fn cuts(random: &mut Random, end: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..random.below(4)).map(|_| random.below(end + 1)).collect();
    cuts.extend([0, end]);
    cuts.sort_unstable();
    cuts
}
