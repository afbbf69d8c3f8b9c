//! Text in, batches out. Nothing stands here yet: issue 5 builds it.
