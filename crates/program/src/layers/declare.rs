//! `layers!`: what a layer is called, what it takes and what it is good for, said once.
//!
//! ```text
//! layers! { losses;
//!     /// Squares near errors and takes far ones (beyond `delta`) as they are.
//!     fn huber_loss(input: Floats, label: Floats, delta: f32) -> Var { |b|
//!         let op = one_op(b, "huber_loss", None).input("X", input).input("Y", label);
//!         op.attr("delta", delta).also("Residual").out("Out")
//!     }
//! }
//! ```
//!
//! In the parentheses stands the signature of Python: what must be said, and after a semicolon what
//! may be left out, with Fluid's value (`axis: i32 = (-1)`; `[value, "text"]` where Python writes it in
//! another way). Options in `Softmax<'a> { .. }` are a struct with a `Default` in Rust, others are
//! arguments. Behind `|b|` (the builder) or `|b, name_of_the_layer|` is the body. Several heads before
//! one signature are layers that share it.
//!
//! From this come a function and its options here. `losses!`, the declarations themselves, is what
//! the crate `python` makes its functions, their signatures and their documentation from; a kind
//! ([`kind!`]) is a Rust type here, and there a type that says what Python may give.

/// The Rust type of an argument.
macro_rules! kind {
    ($a:lifetime Input) => { &$a Var };
    ($a:lifetime Given) => { &$a Var };
    ($a:lifetime Floats) => { &$a Var };
    ($a:lifetime Ids) => { &$a Var };
    ($a:lifetime Truths) => { &$a Var };
    ($a:lifetime Inputs) => { &$a [Var] };
    ($a:lifetime MaybeInput) => { Option<&$a Var> };
    ($a:lifetime f32) => { f32 };
    ($a:lifetime i32) => { i32 };
    ($a:lifetime i64) => { i64 };
    ($a:lifetime bool) => { bool };
    ($a:lifetime Flag) => { bool };
    ($a:lifetime MaybeF32) => { Option<f32> };
    ($a:lifetime MaybeI32) => { Option<i32> };
    ($a:lifetime MaybeI64) => { Option<i64> };
    ($a:lifetime MaybeBool) => { Option<bool> };
    ($a:lifetime Number) => { f64 };
    ($a:lifetime Value) => { impl Into<$crate::layers::Amount<f64>> };
    ($a:lifetime Text) => { &$a str };
    ($a:lifetime Name) => { Option<&$a str> };
    ($a:lifetime Ints) => { &$a [i32] };
    ($a:lifetime MaybeInts) => { Option<&$a [i32]> };
    ($a:lifetime Axes) => { Option<&$a [i32]> };
    ($a:lifetime Known) => { &$a [i64] };
    ($a:lifetime MaybeKnown) => { Option<&$a [i64]> };
    ($a:lifetime Dtype) => { tensor::DType };
    ($a:lifetime MaybeDtype) => { Option<tensor::DType> };
    ($a:lifetime Count) => { $crate::layers::Amount<i32> };
    ($a:lifetime Factor) => { $crate::layers::Amount<f32> };
    ($a:lifetime Dims) => { impl Into<$crate::layers::Sizes> };
    ($a:lifetime MaybeDims) => { Option<$crate::layers::Sizes> };
    ($a:lifetime MaybeSeed) => { Option<$crate::layers::Size> };
    ($a:lifetime MaybeFactor) => { Option<$crate::layers::Amount<f32>> };
    ($a:lifetime Places) => { impl Into<$crate::layers::Sizes> };
    ($a:lifetime Dim) => { impl Into<$crate::layers::Size> };
}

/// The value of an argument that is left out.
macro_rules! usual {
    ([$value:expr, $text:literal]) => { $value };
    (($($value:tt)*)) => { $($value)* };
    ($value:expr) => { $value };
}

/// Declares layers; see the top of this file.
macro_rules! layers {
    ($family:ident; $(
        $($(#[$doc:meta])* fn $name:ident)+ ($($signature:tt)*) -> $result:tt $body:tt
    )*) => {
        $(alike! { [$($(#[$doc])* fn $name)+] ($($signature)*) -> $result $body })*
        export! {
            ($) $family $($($(#[$doc])* fn $name)+ ($($signature)*) -> $result $body)*
        }
    };
}

/// Layers of one signature.
macro_rules! alike {
    ([$($(#[$doc:meta])* fn $name:ident)+] $signature:tt -> $result:tt $body:tt) => {
        options! { $signature $($name)+ }
        $(function! { $(#[$doc])* $name $signature -> $result $body })+
    };
}

/// The struct of a layer's options.
macro_rules! options {
    (($($arg:ident: $kind:ident),*; $options:ident<$a:lifetime> {
        $($option:ident: $option_kind:ident = $usual:tt),* $(,)?
    }) $($name:ident)+) => {
        #[doc = concat!("Options of", $(" [`", stringify!($name), "`]",)+ "; defaults as in Fluid.")]
        #[derive(Clone, Debug)]
        pub struct $options<$a> {
            $(
                #[doc = concat!("`", stringify!($usual), "` if nothing is said.")]
                pub $option: kind!($a $option_kind),
            )*
        }

        impl Default for $options<'_> {
            fn default() -> Self {
                Self { $($option: usual!($usual)),* }
            }
        }
    };
    (($($arg:ident: $kind:ident),*; $options:ident {
        $($option:ident: $option_kind:ident = $usual:tt),* $(,)?
    }) $($name:ident)+) => {
        #[doc = concat!("Options of", $(" [`", stringify!($name), "`]",)+ "; defaults as in Fluid.")]
        #[derive(Clone, Debug)]
        pub struct $options {
            $(
                #[doc = concat!("`", stringify!($usual), "` if nothing is said.")]
                pub $option: kind!('static $option_kind),
            )*
        }

        impl Default for $options {
            fn default() -> Self {
                Self { $($option: usual!($usual)),* }
            }
        }
    };
    ($signature:tt $($name:ident)+) => {};
}

/// The function of a layer.
macro_rules! function {
    ($(#[$doc:meta])* $name:ident ($($arg:ident: $kind:ident),*; $options:ident<$a:lifetime> {
        $($option:ident: $option_kind:ident = $usual:tt),* $(,)?
    }) -> $result:tt { |$b:ident $(, $this:ident)?| $($body:tt)* }) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, non_snake_case)] // As many as Fluid has, by Fluid's names.
        pub fn $name(
            $b: &mut Builder<'_>,
            $($arg: kind!('_ $kind),)*
            options: $options<'_>,
        ) -> Result<$result> {
            $(let $this = stringify!($name);)?
            let $options { $($option),* } = options;
            $($body)*
        }
    };
    ($(#[$doc:meta])* $name:ident ($($arg:ident: $kind:ident),*; $options:ident {
        $($option:ident: $option_kind:ident = $usual:tt),* $(,)?
    }) -> $result:tt { |$b:ident $(, $this:ident)?| $($body:tt)* }) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, non_snake_case)] // As many as Fluid has, by Fluid's names.
        pub fn $name(
            $b: &mut Builder<'_>,
            $($arg: kind!('_ $kind),)*
            options: $options,
        ) -> Result<$result> {
            $(let $this = stringify!($name);)?
            let $options { $($option),* } = options;
            $($body)*
        }
    };
    ($(#[$doc:meta])* $name:ident (
        $($arg:ident: $kind:ident),* $(; $($option:ident: $option_kind:ident = $usual:tt),*)?
    ) -> $result:tt { |$b:ident $(, $this:ident)?| $($body:tt)* }) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, non_snake_case)] // As many as Fluid has, by Fluid's names.
        pub fn $name(
            $b: &mut Builder<'_>,
            $($arg: kind!('_ $kind),)*
            $($($option: kind!('_ $option_kind),)*)?
        ) -> Result<$result> {
            $(let $this = stringify!($name);)?
            $($body)*
        }
    };
}

/// Hands the declarations of a family to a macro of another crate.
macro_rules! export {
    (($d:tt) $family:ident $($layer:tt)*) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $family {
            ($d bind:ident) => { $d bind! { $family; $($layer)* } };
        }
    };
}

/// The files of layers: their names are those of this module, and `every_layer!` has them all.
macro_rules! families {
    (($d:tt) $($file:ident: $family:ident),* $(,)?) => {
        $(pub use $file::*;)*

        /// Hands the declarations of all layers to a macro, family by family, then their names.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! every_layer {
            ($d bind:ident) => {
                $($crate::$family! { $d bind })*
                $d bind! { @all $($family)* }
            };
        }
    };
}
