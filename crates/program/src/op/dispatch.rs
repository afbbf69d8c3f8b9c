//! From a type known at run time to a type known to the compiler.

/// Runs a `Result` body with `$T` standing for the one of the listed types that `$dtype` says.
#[doc(hidden)]
#[macro_export]
macro_rules! for_types {
    ($dtype:expr, $var:expr, $expected:literal, $T:ident => $body:expr, $($variant:ident = $t:ty),*) => {
        match $dtype {
            $(
                #[allow(clippy::useless_conversion)] // One of the types converts to itself.
                tensor::DType::$variant => {
                    type $T = $t;
                    $body
                }
            )*
            actual => {
                let var = $var.to_string();
                Err($crate::Error::DType { var, expected: $expected, actual })
            }
        }
    };
}

/// Runs a `Result` body with `$T` standing for `f32` or `f64`.
#[macro_export]
macro_rules! for_float {
    ($dtype:expr, $var:expr, $T:ident => $body:expr) => {
        $crate::for_types!($dtype, $var, "float32 or float64", $T => $body, F32 = f32, F64 = f64)
    };
}

/// Runs a `Result` body with `$T` standing for `i32` or `i64`.
#[macro_export]
macro_rules! for_int {
    ($dtype:expr, $var:expr, $T:ident => $body:expr) => {
        $crate::for_types!($dtype, $var, "int32 or int64", $T => $body, I32 = i32, I64 = i64)
    };
}

/// Runs a `Result` body with `$T` standing for any number type that is computed with.
#[macro_export]
macro_rules! for_number {
    ($dtype:expr, $var:expr, $T:ident => $body:expr) => {
        $crate::for_types!($dtype, $var, "a number", $T => $body,
            F32 = f32, F64 = f64, I32 = i32, I64 = i64)
    };
}

pub use {for_float, for_int, for_number};
