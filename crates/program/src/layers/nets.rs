//! Composites of layers (`fluid.nets`).

use super::*;
use crate::error::Error;
use crate::param::ParamAttr;

/// Options of [`simple_img_conv_pool`]; defaults as in `fluid.nets.simple_img_conv_pool`.
#[derive(Clone, Debug)]
pub struct SimpleImgConvPool<'a> {
    /// What surrounds the image before pooling.
    pub pool_padding: Padding,
    /// `max` or `avg`.
    pub pool_type: &'a str,
    /// One window covers the whole image.
    pub global_pooling: bool,
    /// Options of the convolution.
    pub conv: Conv2d<'a>,
}

impl Default for SimpleImgConvPool<'_> {
    fn default() -> Self {
        let conv = Conv2d::default();
        let pool_padding = Padding::both(0, 0);
        Self { pool_padding, pool_type: "max", global_pooling: false, conv }
    }
}

/// What [`simple_img_conv_pool`] must be told.
#[derive(Clone, Copy, Debug)]
pub struct ConvPoolSizes {
    /// Channels of the result.
    pub num_filters: i64,
    /// Height and width of the convolution.
    pub filter_size: [i64; 2],
    /// Height and width of a pooling window.
    pub pool_size: [i32; 2],
    /// How far pooling windows are apart.
    pub pool_stride: [i32; 2],
}

/// A convolution with its activation, then pooling.
pub fn simple_img_conv_pool(
    b: &mut Builder<'_>,
    input: &Var,
    sizes: ConvPoolSizes,
    options: SimpleImgConvPool<'_>,
) -> Result<Var> {
    let use_cudnn = options.conv.use_cudnn;
    let conv = conv2d(b, input, sizes.num_filters, sizes.filter_size, options.conv)?;
    let pool = Pool2d {
        pool_size: sizes.pool_size,
        pool_type: options.pool_type,
        pool_stride: sizes.pool_stride,
        pool_padding: options.pool_padding,
        global_pooling: options.global_pooling,
        use_cudnn,
        ..Pool2d::default()
    };
    pool2d(b, &conv, pool)
}

/// Options of [`img_conv_group`]; defaults as in `fluid.nets.img_conv_group`. Lists hold one value
/// for all convolutions, or one each.
#[derive(Clone, Debug)]
pub struct ImgConvGroup<'a> {
    /// Padding of each convolution.
    pub conv_padding: Vec<i32>,
    /// Height and width of each convolution.
    pub conv_filter_size: Vec<i64>,
    /// Activation of each convolution, after its batch norm if it has one.
    pub conv_act: Option<&'a str>,
    /// How the filters are named, filled and trained.
    pub param_attr: Vec<ParamAttr>,
    /// Whether a batch norm follows each convolution.
    pub conv_with_batchnorm: Vec<bool>,
    /// Dropout after each batch norm.
    pub conv_batchnorm_drop_rate: Vec<f32>,
    /// How far pooling windows are apart.
    pub pool_stride: [i32; 2],
    /// `max` or `avg`.
    pub pool_type: &'a str,
    /// Changes nothing here; the program keeps it for Fluid.
    pub use_cudnn: bool,
}

impl Default for ImgConvGroup<'_> {
    fn default() -> Self {
        Self {
            conv_padding: vec![1],
            conv_filter_size: vec![3],
            conv_act: None,
            param_attr: vec![ParamAttr::default()],
            conv_with_batchnorm: vec![false],
            conv_batchnorm_drop_rate: vec![0.0],
            pool_stride: [1, 1],
            pool_type: "max",
            use_cudnn: true,
        }
    }
}

/// The value of convolution `k` of `n`.
fn pick<T: Clone>(list: &[T], k: usize, n: usize, argument: &'static str) -> Result<T> {
    match list {
        [one] => Ok(one.clone()),
        _ if list.len() == n => Ok(list[k].clone()),
        _ => {
            let (layer, rule) = ("img_conv_group", "must hold one value, or one per convolution");
            Err(Error::BadArgument { layer, argument, rule, actual: list.len().to_string() })
        }
    }
}

/// Several convolutions, each perhaps with batch normalisation and dropout, then pooling.
pub fn img_conv_group(
    b: &mut Builder<'_>,
    input: &Var,
    conv_num_filter: &[i64],
    pool_size: [i32; 2],
    options: ImgConvGroup<'_>,
) -> Result<Var> {
    let (mut x, n) = (input.clone(), conv_num_filter.len());
    for (k, &num_filters) in conv_num_filter.iter().enumerate() {
        let padding = pick(&options.conv_padding, k, n, "conv_padding")?;
        let size = pick(&options.conv_filter_size, k, n, "conv_filter_size")?;
        let with_norm = pick(&options.conv_with_batchnorm, k, n, "conv_with_batchnorm")?;
        let conv = Conv2d {
            padding: Padding::both(padding, padding),
            param_attr: pick(&options.param_attr, k, n, "param_attr")?,
            act: options.conv_act.filter(|_| !with_norm),
            use_cudnn: options.use_cudnn,
            ..Conv2d::default()
        };
        x = conv2d(b, &x, num_filters, [size; 2], conv)?;
        if with_norm {
            x = batch_norm(b, &x, BatchNorm { act: options.conv_act, ..BatchNorm::default() })?;
            let rate = pick(&options.conv_batchnorm_drop_rate, k, n, "conv_batchnorm_drop_rate")?;
            if rate.abs() > 1e-5 {
                x = dropout(b, &x, rate, Dropout::default())?;
            }
        }
    }
    let pool = Pool2d {
        pool_size,
        pool_type: options.pool_type,
        pool_stride: options.pool_stride,
        use_cudnn: options.use_cudnn,
        ..Pool2d::default()
    };
    pool2d(b, &x, pool)
}

/// A gated linear unit: one half of the input times the sigmoid of the other. Fluid's default
/// `dim` is -1.
pub fn glu(b: &mut Builder<'_>, input: &Var, dim: i32) -> Result<Var> {
    let halves = split(b, input, &Parts::Equal(2), dim, None)?;
    let [value, gate] = halves.as_slice() else {
        let layer = "glu";
        let argument = "input";
        let rule = "must split into two halves";
        return Err(Error::BadArgument { layer, argument, rule, actual: halves.len().to_string() });
    };
    let gate = sigmoid(b, gate, None)?;
    elementwise_mul(b, value, &gate, Elementwise::default())
}

/// Options of [`scaled_dot_product_attention`]; defaults as in Fluid.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Into how many heads the columns are split.
    pub num_heads: i64,
    /// Dropout of the weights.
    pub dropout_rate: f32,
}

impl Default for Attention {
    fn default() -> Self {
        Self { num_heads: 1, dropout_rate: 0.0 }
    }
}

/// Attention of [batch, steps, width] queries to keys, as weighted means of values.
pub fn scaled_dot_product_attention(
    b: &mut Builder<'_>,
    queries: &Var,
    keys: &Var,
    values: &Var,
    options: Attention,
) -> Result<Var> {
    let heads = options.num_heads;
    check_attention(b, [queries, keys, values], heads)?;
    let key_width = b.meta(keys)?.dims[2];
    let mut qkv = [queries.clone(), keys.clone(), values.clone()];
    if heads > 1 {
        for x in &mut qkv {
            let width = b.meta(x)?.dims[2];
            *x =
                fc(b, std::slice::from_ref(x), width, Fc { num_flatten_dims: 2, ..Fc::default() })?;
        }
        for x in &mut qkv {
            *x = split_heads(b, x, heads)?;
        }
    }
    let [q, k, v] = qkv;
    let factor = ((key_width / heads) as f64).powf(-0.5) as f32;
    let scaled = scale(b, &q, Scale { scale: Amount::Is(factor), ..Scale::default() })?;
    let product = matmul(b, &scaled, &k, Matmul { transpose_y: true, ..Matmul::default() })?;
    let dims: Vec<i32> = b.meta(&product)?.dims.iter().map(|&dim| dim as i32).collect();
    let last = dims.last().copied().unwrap_or(-1);
    let softmax = Reshape { act: Some("softmax"), ..Reshape::default() };
    let weights = reshape(b, &product, &[-1, last], softmax)?;
    let mut weights = reshape(b, &weights, &dims, Reshape::default())?;
    if options.dropout_rate != 0.0 {
        weights = dropout(b, &weights, options.dropout_rate, Dropout::default())?;
    }
    let context = matmul(b, &weights, &v, Matmul::default())?;
    if heads > 1 { join_heads(b, &context) } else { Ok(context) }
}

fn check_attention(b: &Builder<'_>, [q, k, v]: [&Var; 3], heads: i64) -> Result<()> {
    let [q, k, v] = [b.meta(q)?.dims, b.meta(k)?.dims, b.meta(v)?.dims];
    let bad = |argument, rule, actual: String| {
        Err(Error::BadArgument { layer: "scaled_dot_product_attention", argument, rule, actual })
    };
    if [&q, &k, &v].iter().any(|dims| dims.len() != 3) {
        return bad("inputs", "must have 3 dimensions", format!("{q:?}, {k:?}, {v:?}"));
    }
    if q[2] != k[2] {
        return bad("keys", "must be as wide as the queries", format!("{} and {}", k[2], q[2]));
    }
    if k[1] != v[1] {
        return bad("values", "must be as many as the keys", format!("{} and {}", v[1], k[1]));
    }
    if heads < 1 || k[2] % heads != 0 || v[2] % heads != 0 {
        return bad("num_heads", "must divide the widths", heads.to_string());
    }
    Ok(())
}

/// [batch, steps, width] to [batch, heads, steps, width / heads].
fn split_heads(b: &mut Builder<'_>, x: &Var, heads: i64) -> Result<Var> {
    let dims = b.meta(x)?.dims;
    let shape = [dims[0], dims[1], heads, dims[2] / heads].map(|dim| dim as i32);
    let x = reshape(b, x, &shape, Reshape::default())?;
    transpose(b, &x, &[0, 2, 1, 3], None)
}

/// The way back.
fn join_heads(b: &mut Builder<'_>, x: &Var) -> Result<Var> {
    let x = transpose(b, x, &[0, 2, 1, 3], None)?;
    let dims = b.meta(&x)?.dims;
    let shape = [dims[0], dims[1], dims[2] * dims[3]].map(|dim| dim as i32);
    reshape(b, &x, &shape, Reshape::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Net;

    fn kinds(net: &Net) -> Vec<&str> {
        net.main.block(0).ops.iter().map(|op| &*op.kind).collect()
    }

    #[test]
    fn convolution_and_pooling() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b, "x", &[1, 28, 28], Data::default()).unwrap();
        let filter_size = [5, 5];
        let pool_size = [2, 2];
        let pool_stride = [2, 2];
        let sizes = ConvPoolSizes { num_filters: 20, filter_size, pool_size, pool_stride };
        let conv = Conv2d { act: Some("relu"), ..Conv2d::default() };
        let options = SimpleImgConvPool { conv, ..SimpleImgConvPool::default() };
        let y = simple_img_conv_pool(&mut b, &x, sizes, options).unwrap();
        assert_eq!(
            (y.name(), &*b.meta(&y).unwrap().dims),
            ("pool2d_0.tmp_0", &[-1, 20, 12, 12][..])
        );
        assert_eq!(kinds(&net), ["conv2d", "elementwise_add", "relu", "pool2d"]);
    }

    #[test]
    fn a_group_of_convolutions() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b, "x", &[3, 32, 32], Data::default()).unwrap();
        let options = ImgConvGroup {
            conv_act: Some("relu"),
            conv_with_batchnorm: vec![true],
            conv_batchnorm_drop_rate: vec![0.3, 0.0],
            pool_stride: [2, 2],
            ..ImgConvGroup::default()
        };
        let y = img_conv_group(&mut b, &x, &[8, 8], [2, 2], options).unwrap();
        assert_eq!(b.meta(&y).unwrap().dims, [-1, 8, 16, 16]);
        let conv = ["conv2d", "elementwise_add", "batch_norm", "relu"];
        let expected: Vec<&str> =
            conv.iter().chain(&["dropout"]).chain(&conv).chain(&["pool2d"]).copied().collect();
        assert_eq!(kinds(&net), expected);
    }

    #[test]
    fn a_gate() {
        let mut net = Net::default();
        let mut b = net.builder();
        let x = data(&mut b, "x", &[6], Data::default()).unwrap();
        let y = glu(&mut b, &x, -1).unwrap();
        let dims = &*b.meta(&y).unwrap().dims.clone();
        assert_eq!((y.name(), dims), ("elementwise_mul_0.tmp_0", &[-1i64, 3][..]));
    }

    #[test]
    fn attention_names_follow_fluid() {
        let mut net = Net::default();
        let mut b = net.builder();
        let mut input = |name: &str| data(&mut b, name, &[3, 8], Data::default()).unwrap();
        let q = input("q");
        let k = input("k");
        let v = input("v");
        let options = Attention { num_heads: 2, dropout_rate: 0.1 };
        let y = scaled_dot_product_attention(&mut b, &q, &k, &v, options).unwrap();
        assert_eq!((y.name(), &*b.meta(&y).unwrap().dims), ("reshape2_5.tmp_0", &[-1, 3, 8][..]));
        let bad = Attention { num_heads: 3, ..Attention::default() };
        let error = scaled_dot_product_attention(&mut b, &q, &k, &v, bad).unwrap_err();
        assert!(matches!(error, Error::BadArgument { argument: "num_heads", .. }), "{error}");
    }
}
