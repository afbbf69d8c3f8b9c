//! The part of training that an op belongs to: the `op_role` attribute and its friends.

use crate::attr::Attr;

/// Attribute with one of the numbers below.
pub const ROLE: &str = "op_role";
/// Attribute with pairs of parameter and gradient names.
pub const ROLE_VAR: &str = "op_role_var";
/// Attribute with the `name_scope` an op was made in.
pub const NAMESCOPE: &str = "op_namescope";
/// Attribute with the lines of the script that made the op.
pub const CALLSTACK: &str = "op_callstack";
/// Attribute with the device an op is meant for.
pub const DEVICE: &str = "op_device";

/// The attributes that every op has.
pub const COMMON: [&str; 5] = [ROLE, ROLE_VAR, NAMESCOPE, CALLSTACK, DEVICE];

/// The default of an attribute of every op; `None` for others.
pub fn common(name: &str) -> Option<Attr> {
    match name {
        ROLE => Some(Attr::Int(FORWARD)),
        ROLE_VAR | CALLSTACK => Some(Attr::Strs(Vec::new())),
        NAMESCOPE | DEVICE => Some(Attr::Str(String::new())),
        _ => None,
    }
}

/// Computes predictions and loss.
pub const FORWARD: i32 = 0x0000;
/// Computes gradients.
pub const BACKWARD: i32 = 0x0001;
/// Changes parameters.
pub const OPTIMIZE: i32 = 0x0002;
/// Talks to other processes.
pub const RPC: i32 = 0x0004;
/// Prepares data for other processes.
pub const DIST: i32 = 0x0008;
/// Computes the learning rate.
pub const LR_SCHED: i32 = 0x0010;
/// Flag: the op that makes the loss, or the first gradient.
pub const LOSS: i32 = 0x0100;
