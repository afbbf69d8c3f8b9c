//! What a user gets wrong is answered with a typed error that names the op, the variable and the
//! shape; nothing panics, and nothing is computed from it.
