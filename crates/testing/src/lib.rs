//! Not shipped.
