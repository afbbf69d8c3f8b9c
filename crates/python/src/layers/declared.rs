//! Layers that the core declares (`layers!` in crates/program/src/layers/declare.rs): of each
//! declaration a function with Fluid's signature is made, with the same documentation.

use program::layers::{self, Amount, Size};
use pyo3::prelude::*;

use super::kinds::*;
use crate::framework::context::build;

/// A default as Python writes it.
macro_rules! text {
    (true) => {
        "True"
    };
    (false) => {
        "False"
    };
    ([$value:expr, $text:literal]) => {
        $text
    };
    ((- $number:literal)) => {
        concat!("-", stringify!($number))
    };
    ($value:tt) => {
        stringify!($value)
    };
}

/// The value of an argument: the given one, else the default.
macro_rules! value {
    ($given:ident [$usual:expr, $text:literal]) => { $given.or($usual) };
    ($given:ident ($($usual:tt)*)) => { $given.or($($usual)*) };
    ($given:ident $usual:expr) => { $given.or($usual) };
}

/// A name as Python writes it.
macro_rules! word {
    (r#ref) => {
        "ref"
    };
    ($word:ident) => {
        stringify!($word)
    };
}

macro_rules! commas {
    () => { "" };
    ($first:expr, $($rest:expr,)*) => { concat!($first $(, ", ", $rest)*) };
}

/// The functions of a family of declarations.
macro_rules! bind {
    (@all $($family:ident)*) => {
        /// Adds all declared layers.
        pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
            $($family::add(m)?;)*
            Ok(())
        }
    };
    ($family:ident; $(
        $($(#[$doc:meta])* fn $name:ident)+ ($($signature:tt)*) -> $result:tt $body:tt
    )*) => {
        mod $family {
            use super::*;

            $(alike! { [$($(#[$doc])* fn $name)+] ($($signature)*) })*

            pub(super) fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
                $($(m.add_function(wrap_pyfunction!($name, m)?)?;)+)*
                Ok(())
            }
        }
    };
}

/// The functions of one signature.
macro_rules! alike {
    ([$($(#[$doc:meta])* fn $name:ident)+] $signature:tt) => {
        $(function! { $(#[$doc])* $name $signature })+
    };
}

/// The function of a declaration: the options are a struct of the core's, or arguments.
macro_rules! function {
    ($(#[$doc:meta])* $name:ident ($($arg:ident: $kind:ident),*; $options:ident $(<$a:lifetime>)? {
        $($option:ident: $option_kind:ident = $usual:tt),* $(,)?
    })) => {
        function! {
            @ $(#[$doc])* $name ($($arg: $kind),*) ($($option: $option_kind = $usual),*) |b|
            layers::$name(b, $($arg.core(),)* layers::$options {
                $($option: value!($option $usual)),*
            })
        }
    };
    ($(#[$doc:meta])* $name:ident (
        $($arg:ident: $kind:ident),* $(; $($option:ident: $option_kind:ident = $usual:tt),*)?
    )) => {
        function! {
            @ $(#[$doc])* $name ($($arg: $kind),*) ($($($option: $option_kind = $usual),*)?) |b|
            layers::$name(b, $($arg.core(),)* $($(value!($option $usual)),*)?)
        }
    };
    (@ $(#[$doc:meta])* $name:ident ($($arg:ident: $kind:ident),*)
        ($($option:ident: $option_kind:ident = $usual:tt),*) |$b:ident| $call:expr) => {
        #[doc = concat!(
            stringify!($name), "(",
            commas!(
                $(word!($arg),)*
                $(concat!(stringify!($option), "=", text!($usual)),)*
            ),
            ")\n--\n"
        )]
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = ($($arg,)* $($option = Left::out()),*), text_signature = None)]
        #[allow(non_snake_case)] // The keywords are Fluid's.
        fn $name(
            py: Python<'_>,
            $($arg: $kind,)*
            $($option: Left<$option_kind>),*
        ) -> PyResult<Py<PyAny>> {
            build(py, |$b| $call)?.made(py)
        }
    };
}

program::every_layer! { bind }
