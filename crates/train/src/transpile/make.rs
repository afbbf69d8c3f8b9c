//! Makes the ops that talk, with the attributes Fluid gives them.

use program::{OpDesc, VarDesc, role};

use super::plan::Plan;

/// An op of a role, as `append_op` would complete it.
pub(super) fn with_role(op: OpDesc, number: i32) -> OpDesc {
    op.attr(role::ROLE, number).attr(role::NAMESCOPE, "/")
}

/// A variable that only orders ops.
pub(super) fn control(number: usize) -> VarDesc {
    VarDesc { name: format!("__control_var@{number}"), ..VarDesc::default() }
}

/// What a `send` op says.
pub(super) struct Sent<'a> {
    pub(super) vars: Vec<String>,
    pub(super) control: &'a str,
    pub(super) epmap: Vec<String>,
    /// Rows per block and the blocks' names, when the communicator cuts.
    pub(super) cut: Option<(Vec<i64>, Vec<String>)>,
    pub(super) role_var: Option<[String; 2]>,
}

impl Plan {
    pub(super) fn send(&self, sent: Sent<'_>) -> OpDesc {
        let (sections, names) = sent.cut.unwrap_or_default();
        let mut op = OpDesc::new("send")
            .input("X", sent.vars)
            .output("Out", sent.control)
            .attr("epmap", sent.epmap)
            .attr("sections", sections)
            .attr("send_varnames", names)
            .attr("merge_add", false)
            .attr("use_send_handler", true)
            .attr("trainer_id", self.job.trainer_id as i32)
            .attr("job", self.job.job.as_str());
        if let Some(pair) = sent.role_var {
            op.attrs.set(role::ROLE_VAR, pair.to_vec());
        }
        with_role(op, role::RPC)
    }

    pub(super) fn recv(&self, out: Vec<String>, epmap: Vec<String>, names: Vec<String>) -> OpDesc {
        let op = OpDesc::new("recv")
            .output("Out", out)
            .attr("epmap", epmap)
            .attr("recv_varnames", names)
            .attr("varnames", Vec::<String>::new())
            .attr("trainer_id", self.job.trainer_id as i32)
            .attr("with_barrier", true)
            .attr("do_not_run", 0)
            .attr("job", self.job.job.as_str());
        with_role(op, role::RPC)
    }

    pub(super) fn barrier(&self, kind: &str, after: Vec<String>, out: Vec<String>) -> OpDesc {
        let mut op = OpDesc::new(kind);
        if !after.is_empty() {
            op = op.input("X", after);
        }
        let op = op
            .output("Out", out)
            .attr("endpoints", self.job.endpoints.clone())
            .attr("trainer_id", self.job.trainer_id as i32)
            .attr("job", self.job.job.as_str());
        with_role(op, role::RPC)
    }
}

/// Joins the blocks of a parameter again.
pub(super) fn concat(blocks: Vec<String>, whole: &str, number: i32) -> OpDesc {
    let op = OpDesc::new("concat").input("X", blocks).output("Out", whole).attr("axis", 0);
    with_role(op, number)
}
