//! Kernels of matrix products by type. The `gemm` crates have them; `gemm` itself would bring those of complex numbers, too.

use gemm_common::Parallelism;

/// A kernel: sizes m, n and k; result, its column and row stride, and whether it is read; both matrices with their strides; the
/// factors of the result and of the product; what to conjugate.
#[doc(hidden)]
#[rustfmt::skip]
pub type Kernel<T> = unsafe fn(
    usize, usize, usize, *mut T, isize, isize, bool, *const T, isize, isize, *const T, isize, isize, T, T, bool, bool, bool, Parallelism,
);

/// Numbers with a kernel for products.
#[doc(hidden)]
pub trait HasKernel: Sized {
    /// The kernel for this processor.
    fn kernel() -> Kernel<Self>;
}

impl HasKernel for f32 {
    fn kernel() -> Kernel<Self> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl HasKernel for f64 {
    fn kernel() -> Kernel<Self> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}
