//! Who am I, start, stop: the only reader of the environment. Issue 4 builds it.
