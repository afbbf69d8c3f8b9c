//! From a type known at run time to a type known to the compiler.

/// Runs a `Result` body with `$T` standing for `f32` or `f64`.
#[macro_export]
macro_rules! for_float {
    ($dtype:expr, $var:expr, $T:ident => $body:expr) => {
        match $dtype {
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            actual => Err($crate::Error::DType {
                var: $var.to_string(),
                expected: "float32 or float64",
                actual,
            }),
        }
    };
}

/// Runs a `Result` body with `$T` standing for `i32` or `i64`.
#[macro_export]
macro_rules! for_int {
    ($dtype:expr, $var:expr, $T:ident => $body:expr) => {
        match $dtype {
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::I32 => {
                type $T = i32;
                $body
            }
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::I64 => {
                type $T = i64;
                $body
            }
            actual => Err($crate::Error::DType {
                var: $var.to_string(),
                expected: "int32 or int64",
                actual,
            }),
        }
    };
}

/// Runs a `Result` body with `$T` standing for any number type that is computed with.
#[macro_export]
macro_rules! for_number {
    ($dtype:expr, $var:expr, $T:ident => $body:expr) => {
        match $dtype {
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::F32 => {
                type $T = f32;
                $body
            }
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::F64 => {
                type $T = f64;
                $body
            }
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::I32 => {
                type $T = i32;
                $body
            }
            #[allow(clippy::useless_conversion)] // One of the widths converts to itself.
            tensor::DType::I64 => {
                type $T = i64;
                $body
            }
            actual => {
                Err($crate::Error::DType { var: $var.to_string(), expected: "a number", actual })
            }
        }
    };
}

pub use {for_float, for_int, for_number};
