//! The parameter server: knows tables and keys, never a program. Issue 4 builds it.
