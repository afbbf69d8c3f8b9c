//! `pyramid_hash`: Out = for each run of 2 to `pyramid_layer` tokens of a sequence a row of `num_emb` numbers: stretches of `rand_len` numbers of W, at places
//! that XXH32 of the run gives. A sequence without runs has a row of zeros.
//!
//! With `use_filter` a run must be in the Bloom filter WhiteList and not in BlackList (their `.._len` are 0 for none). In training a run is left out with
//! probability `drop_out_percent`, drawn from `seed` as C's `rand_r` does; otherwise Out is multiplied by it. DropPos = which runs are there, X_Temp_Out = the
//! tokens as floats.
//!
//! The gradient op moves W itself, by -`lr` times the gradient, as in Fluid: no optimizer knows of W.

use tensor::{DType, Lod, Shape, Tensor};

use super::ragged;
use super::sizes::bad_attr;
use super::xxhash::xxh32;
use super::{Grad, Infer, Kernel, Op, Run, traits};
use crate::attr::Attrs;
use crate::block::OpDesc;
use crate::error::Result;
use crate::names;
use crate::var::Meta;

pub(super) struct PyramidHash;
pub(super) struct PyramidHashGrad;

const OP: &str = "PyramidHashOP";
const WEIGHT: &str = "W is [space_len + rand_len, 1]";
const FILTER: &str = "a Bloom filter has a head of four numbers and as many bits as it says";

/// What the attributes say.
struct PyramidRules {
    width: usize,
    space: u32,
    stretch: usize,
    n_layers: usize,
}

impl PyramidRules {
    fn of(attrs: &Attrs) -> Result<Self> {
        let size = |name: &str| {
            let n = attrs.int(name, 0)?;
            let fits = usize::try_from(n).ok().filter(|&n| n > 0 && n < i32::MAX as usize);
            fits.ok_or_else(|| bad_attr(name, "positive", n))
        };
        let rules = Self {
            width: size("num_emb")?,
            space: size("space_len")? as u32,
            stretch: size("rand_len")?,
            n_layers: size("pyramid_layer")?,
        };
        if !rules.width.is_multiple_of(rules.stretch) {
            return Err(bad_attr("num_emb", "a multiple of `rand_len`", rules.width));
        }
        Ok(rules)
    }

    /// Where the stretches of a run begin in W.
    fn places(&self, run: &[f32]) -> impl Iterator<Item = usize> {
        let bytes: Vec<u8> = run.iter().flat_map(|token| token.to_le_bytes()).collect();
        let starts = (0..self.width).step_by(self.stretch);
        starts.map(move |start| (xxh32(&bytes, start as u32) % self.space) as usize)
    }

    fn weights(&self, run: &Run<'_>) -> Result<()> {
        if run.input("W")?.dims() == [self.space as usize + self.stretch, 1] {
            return Ok(());
        }
        Err(run.shape(WEIGHT, "W"))
    }

    /// The runs of tokens of each sequence.
    fn runs<'t>(&self, tokens: &'t [f32], offsets: &[usize]) -> Vec<Vec<&'t [f32]>> {
        let of_sequence = |pair: &[usize]| {
            let sequence = &tokens[pair[0]..pair[1]];
            (2..=self.n_layers.min(sequence.len())).flat_map(|n| sequence.windows(n)).collect()
        };
        offsets.windows(2).map(of_sequence).collect()
    }
}

/// A set of which some elements are there by mistake.
struct BloomFilter<'a> {
    n_bits: u64,
    n_hashes: u64,
    bits: &'a [u8],
}

impl<'a> BloomFilter<'a> {
    fn at(run: &'a Run<'_>, port: &str) -> Result<Self> {
        let bytes = run.input(port)?.bytes();
        let word = |at: usize| {
            let bytes = bytes.get(at * 8..(at + 1) * 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let filter = word(1).zip(word(2)).zip(bytes.get(32..));
        let filter = filter.map(|((n_bits, n_hashes), bits)| Self { n_bits, n_hashes, bits });
        let fits = |filter: &Self| {
            filter.n_bits > 0
                && filter.n_bits.div_ceil(8) <= filter.bits.len() as u64
                && filter.n_hashes < 1 << 16
        };
        filter.filter(fits).ok_or_else(|| run.shape(FILTER, port))
    }

    fn has(&self, run: &[f32]) -> bool {
        let bytes: Vec<u8> = run.iter().flat_map(|token| token.to_le_bytes()).collect();
        (0..self.n_hashes as u32).flat_map(|seed| murmur3(&bytes, seed)).all(|hash| {
            let bit = hash % self.n_bits;
            self.bits[(bit >> 3) as usize] & (0x80 >> (bit & 7)) != 0
        })
    }
}

/// MurmurHash3 of 128 bits for machines of 64.
fn murmur3(bytes: &[u8], seed: u32) -> [u64; 2] {
    const C: [u64; 2] = [0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f];
    let first = |k: u64| k.wrapping_mul(C[0]).rotate_left(31).wrapping_mul(C[1]);
    let second = |k: u64| k.wrapping_mul(C[1]).rotate_left(33).wrapping_mul(C[0]);
    let word =
        |part: &[u8]| part.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
    let [mut a, mut b] = [u64::from(seed); 2];
    let blocks = bytes.chunks_exact(16);
    let tail = blocks.remainder();
    for block in blocks {
        a = (a ^ first(word(&block[..8]))).rotate_left(27).wrapping_add(b);
        a = a.wrapping_mul(5).wrapping_add(0x52dc_e729);
        b = (b ^ second(word(&block[8..]))).rotate_left(31).wrapping_add(a);
        b = b.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    b ^= second(word(tail.get(8..).unwrap_or_default()));
    a ^= first(word(&tail[..tail.len().min(8)]));
    a ^= bytes.len() as u64;
    b ^= bytes.len() as u64;
    a = a.wrapping_add(b);
    b = b.wrapping_add(a);
    let mix = |mut k: u64| {
        k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        k ^ (k >> 33)
    };
    a = mix(a);
    b = mix(b);
    a = a.wrapping_add(b);
    [a, b.wrapping_add(a)]
}

/// The next number of C's `rand_r`, in 0 ..= 2³¹ - 1.
fn rand_r(seed: &mut u32) -> u32 {
    let mut result = 0;
    for bits in [11, 10, 10] {
        *seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
        result = (result << bits) ^ ((*seed >> 16) & ((1 << bits) - 1));
    }
    result
}

impl Op for PyramidHash {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let (x, w) = (infer.input("X")?, infer.input("W")?);
        let rules = PyramidRules::of(infer.attrs())?;
        if w.dims.len() != 2 {
            return Err(infer.shape(WEIGHT, "W"));
        }
        infer.set_output("X_Temp_Out", Meta::dense(DType::F32, &x.dims))?;
        infer.set_output("DropPos", Meta::dense(DType::I32, &[-1, 1]))?;
        let out = Meta::dense(w.dtype, &[-1, rules.width as i64]).with_lod_level(x.lod_level);
        infer.set_output("Out", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let rules = PyramidRules::of(run.attrs())?;
        let (mut out, mut drop_pos) = (run.take("Out"), run.take("DropPos"));
        let mut tokens = run.take("X_Temp_Out");
        rules.weights(run)?;
        let offsets = ragged::offsets(run, OP, "X")?;
        let x = run.input("X")?;
        let ids = run.data::<i32>("X")?;
        // One token for each row, the first of all numbers, as in Fluid.
        let n = x.dims().first().copied().unwrap_or(0).min(ids.len());
        let floats = tokens.resize_zeroed::<f32>(x.shape());
        floats.iter_mut().zip(&ids[..n]).for_each(|(float, &id)| *float = id as f32);
        let runs = rules.runs(floats, offsets);
        let kept = keep(run, &runs)?;
        let counts: Vec<usize> =
            kept.iter().map(|kept| kept.iter().filter(|&&k| k == 1).count()).collect();
        let rows: Vec<usize> = counts.iter().map(|&n| n.max(1)).collect();
        let shape = Shape::from([rows.iter().sum(), rules.width]);
        let numbers = out.try_resize_zeroed::<f32>(shape)?;
        let scale = match run.attrs().int("is_training", 0)? {
            0 => run.attrs().float("drop_out_percent", 0.0)?,
            _ => 1.0,
        };
        let weights = run.data::<f32>("W")?;
        for (row, tokens) in hashed_rows(&runs, &kept) {
            let out = numbers[row * rules.width..][..rules.width].chunks_exact_mut(rules.stretch);
            for (out, from) in out.zip(rules.places(tokens)) {
                out.iter_mut().zip(&weights[from..]).for_each(|(out, &w)| *out = w * scale);
            }
        }
        let all: Vec<i32> = kept.iter().flatten().copied().collect();
        drop_pos.resize::<i32>(Shape::from([all.len(), 1])).copy_from_slice(&all);
        out.set_lod(Lod::from_lengths(rows));
        run.put("Out", out);
        run.put("DropPos", drop_pos);
        run.put("X_Temp_Out", tokens);
        Ok(())
    }

    fn grad(&self, grad: &mut Grad<'_>) -> Result<()> {
        let mut op = OpDesc::new("pyramid_hash_grad")
            .input("X", grad.input("X"))
            .input("W", grad.input("W"))
            .input("DropPos", grad.output("DropPos"))
            .input("X_Temp_Out", grad.output("X_Temp_Out"))
            .input(&names::grad("Out"), grad.output_grad("Out"))
            .output("W", grad.input("W"));
        op.attrs = grad.op().attrs.clone();
        grad.emit(op)
    }
}

/// Which runs take part: 1, or 0.
fn keep(run: &Run<'_>, runs: &[Vec<&[f32]>]) -> Result<Vec<Vec<i32>>> {
    let attrs = run.attrs();
    let filters = attrs.bool("use_filter", true)?;
    let filter = |port: &str, length: &str| match attrs.int(length, 0)? {
        0 => Ok(None),
        _ if !filters => Ok(None),
        _ => BloomFilter::at(run, port).map(Some),
    };
    let wanted = filter("WhiteList", "white_list_len")?;
    let unwanted = filter("BlackList", "black_list_len")?;
    let trains = attrs.int("is_training", 0)? != 0;
    let (share, mut seed) = (attrs.float("drop_out_percent", 0.0)?, attrs.int("seed", 0)? as u32);
    let mut takes = |tokens: &&[f32]| {
        let passes = wanted.as_ref().is_none_or(|filter| filter.has(tokens))
            && !unwanted.as_ref().is_some_and(|filter| filter.has(tokens));
        if !passes {
            return 0;
        }
        let dropped = trains && (rand_r(&mut seed) as f32 / i32::MAX as f32) < share;
        i32::from(!dropped)
    };
    Ok(runs.iter().map(|runs| runs.iter().map(&mut takes).collect()).collect())
}

/// The runs that take part, each with its row of the result.
fn hashed_rows<'t>(runs: &[Vec<&'t [f32]>], kept: &[Vec<i32>]) -> Vec<(usize, &'t [f32])> {
    let (mut rows, mut row) = (Vec::new(), 0);
    for (runs, kept) in runs.iter().zip(kept) {
        let before = row;
        for (tokens, _) in runs.iter().zip(kept).filter(|(_, kept)| **kept != 0) {
            rows.push((row, *tokens));
            row += 1;
        }
        // A sequence without runs has a row of zeros.
        row = row.max(before + 1);
    }
    rows
}

impl Kernel for PyramidHashGrad {
    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        run.update([("W", "W")], |run, [w]| move_weights(run, w))
    }
}

/// W -= lr dOut where the runs took their stretches.
fn move_weights(run: &Run<'_>, w: &mut Tensor) -> Result<()> {
    let rules = PyramidRules::of(run.attrs())?;
    let rate = run.attrs().float("lr", 0.0)?;
    let offsets = ragged::offsets(run, OP, "X")?;
    let tokens = ragged::data_of_len::<f32>(run, "X_Temp_Out", run.input("X")?.len())?;
    let runs = rules.runs(tokens, offsets);
    let n_runs = runs.iter().map(Vec::len).sum();
    let mut kept = ragged::data_of_len::<i32>(run, "DropPos", n_runs)?;
    let mut of_sequences = Vec::new();
    for runs in &runs {
        let (own, rest) = kept.split_at(runs.len());
        of_sequences.push(own.to_vec());
        kept = rest;
    }
    if w.dims() != [rules.space as usize + rules.stretch, 1] {
        return Err(run.shape(WEIGHT, "W"));
    }
    let (weights, d_out) = (w.data_mut::<f32>()?, run.data::<f32>("Out@GRAD")?);
    for (row, tokens) in hashed_rows(&runs, &of_sequences) {
        let Some(d_out) = d_out.get(row * rules.width..(row + 1) * rules.width) else {
            return Err(run.shapes("the result has another shape", "Out@GRAD", "X"));
        };
        for (d_out, to) in d_out.chunks_exact(rules.stretch).zip(rules.places(tokens)) {
            weights[to..].iter_mut().zip(d_out).for_each(|(w, &d)| *w -= rate * d);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tensor::Tensor;

    use super::*;
    use crate::error::Error;
    use crate::op::check::{Check, check, seq};

    fn pyramid() -> Check {
        let weights: Vec<f32> = (0..12).map(|at| at as f32).collect();
        check("pyramid_hash")
            .input("X", seq(Tensor::new([4, 1], &[1i32, 2, 3, 7]).unwrap(), &[3, 1]))
            .input("W", Tensor::new([12, 1], &weights).unwrap())
            .attr("num_emb", 4)
            .attr("space_len", 10)
            .attr("rand_len", 2)
            .attr("pyramid_layer", 3)
            .attr("use_filter", false)
            .attr("is_training", 1)
            .attr("drop_out_percent", 0.0f32)
    }

    fn rows(check: &Check) -> Tensor {
        check.run("Out").tensor().unwrap().clone()
    }

    #[test]
    fn runs_get_stretches_of_weights() {
        let out = rows(&pyramid().output("Out").output("DropPos").output("X_Temp_Out"));
        // (1 2), (2 3), (1 2 3), and a row of zeros for the short sequence.
        assert_eq!((out.dims(), out.lod().lengths()), (&[4, 4][..], vec![vec![3, 1]]));
        let data = out.data::<f32>().unwrap();
        assert!(data[..12].chunks_exact(2).all(|pair| pair[1] == pair[0] + 1.0), "{data:?}");
        assert_eq!(data[12..], [0.0; 4]);
        let tested = pyramid().attr("is_training", 0).attr("drop_out_percent", 0.5f32);
        let tested = rows(&tested.output("Out"));
        let half: Vec<f32> = data.iter().map(|x| x * 0.5).collect();
        assert_eq!(tested.data::<f32>().unwrap(), half);
    }

    #[test]
    fn filters_and_drops() {
        // A filter of 8 bits that are all set has everything.
        let full = |bits: u8| {
            let mut bytes = Vec::new();
            for word in [17_070_416u64, 8, 1, 0] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.extend([bits, 0, 0, 0]);
            let floats: Vec<f32> =
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            Tensor::new([9, 1], &floats).unwrap()
        };
        let filtered = |port: &str, length: &str, bits: u8| {
            let check = pyramid().input(port, full(bits)).attr(length, 9).attr("use_filter", true);
            rows(&check.output("Out")).dims()[0]
        };
        assert_eq!(filtered("WhiteList", "white_list_len", 0xff), 4);
        assert_eq!(
            filtered("WhiteList", "white_list_len", 0),
            2,
            "a row of zeros for each sequence"
        );
        assert_eq!(filtered("BlackList", "black_list_len", 0xff), 2);
        let none = pyramid().attr("drop_out_percent", 2.0f32).output("Out");
        assert_eq!(rows(&none).dims(), [2, 4]);
    }

    #[test]
    fn hashes_and_draws_as_c_does() {
        // Published values.
        assert_eq!(murmur3(b"", 0), [0, 0]);
        assert_eq!(murmur3(b"hello", 0), [0xcbd8_a7b3_41bd_9b02, 0x5b1e_906a_48ae_1d19]);
        let mut seed = 1;
        assert_eq!([rand_r(&mut seed), rand_r(&mut seed)], [476_707_713, 1_186_278_907]);
    }

    #[test]
    fn refuses_sizes_that_do_not_fit() {
        let error = pyramid().attr("space_len", 11).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
        for (attr, value) in [("num_emb", 3), ("rand_len", 0)] {
            let error = pyramid().attr(attr, value).output("Out").fails();
            assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
        }
        let empty = Tensor::new([2, 1], &[0.0f32; 2]).unwrap();
        let check = pyramid().input("WhiteList", empty).attr("white_list_len", 2);
        let error = check.attr("use_filter", true).output("Out").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
