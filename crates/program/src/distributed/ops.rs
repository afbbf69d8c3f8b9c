//! The ops that talk to servers, with the attributes that Fluid gives them.
//!
//! This is the only place that writes these attributes; [`route`](super::route) reads them back.

use super::{Distributed, Spread};
use crate::block::OpDesc;
use crate::role;

/// Attribute of a look-up: which rows its table takes in; Fluid's.
pub const ENTRY: &str = "entry";
/// The attributes of a look-up that address its table.
pub(crate) const ADDRESS: [&str; 7] =
    ["epmap", "table_names", "endpoints", "trainer_id", "job", "height_sections", Spread::ATTR];

/// The attributes of a `send` op.
#[derive(Clone, Debug, Default)]
pub struct SendOp<'a> {
    /// The variables.
    pub vars: Vec<String>,
    /// The variable that orders it before others.
    pub control: &'a str,
    /// A server for each piece.
    pub epmap: Vec<String>,
    /// Rows of each piece, when the sender cuts.
    pub sections: Vec<i64>,
    /// The servers' names of the pieces, when the sender cuts.
    pub names: Vec<String>,
    /// The parameter and its gradient.
    pub role_var: Option<[String; 2]>,
    /// It is a counter of steps, which every server gets at once.
    pub is_counter: bool,
}

/// Where the parts of a table are.
#[derive(Clone, Debug)]
pub struct TableParts {
    /// The servers' names of them.
    pub names: Vec<String>,
    /// A server for each.
    pub epmap: Vec<String>,
    /// Rows of each; by hash, those of the whole.
    pub sections: Vec<i64>,
    /// The assignment of rows to servers.
    pub spread: Spread,
}

/// The attributes of a look-up of several slots.
#[derive(Clone, Debug)]
pub struct LookUpOp<'a> {
    /// The variables with ids.
    pub ids: Vec<String>,
    /// The table.
    pub table: &'a str,
    /// The variables with rows.
    pub outputs: Vec<String>,
    /// The id that reads as zeros.
    pub padding: i64,
    /// Rows that do not exist are not made. A program that is made for tests sets it where it is.
    pub is_test: Option<bool>,
    /// Which rows the table takes in, if the look-ups say so.
    pub entry: Option<&'a str>,
    /// The kind of the look-ups that it stands for.
    pub version: &'a str,
}

/// An op of a role, as a layer would complete it.
pub fn with_role(op: OpDesc, number: i32) -> OpDesc {
    op.attr(role::ROLE, number).attr(role::NAMESCOPE, "/")
}

impl Distributed {
    /// Says whose op it is.
    fn signed(&self, op: OpDesc) -> OpDesc {
        op.attr("trainer_id", self.trainer_id as i32).attr("job", self.job.as_str())
    }

    /// `send`.
    pub fn send_op(&self, send: SendOp<'_>) -> OpDesc {
        let op = OpDesc::new("send")
            .input("X", send.vars)
            .output("Out", send.control)
            .attr("epmap", send.epmap)
            .attr("sections", send.sections)
            .attr("send_varnames", send.names)
            .attr("merge_add", send.is_counter)
            .attr("use_send_handler", !send.is_counter);
        let mut op = self.signed(op);
        if let Some(pair) = send.role_var {
            op.attrs.set(role::ROLE_VAR, pair.to_vec());
        }
        with_role(op, role::RPC)
    }

    /// `recv`; `names` are what servers call the pieces of one variable, if it is cut.
    pub fn recv_op(&self, out: Vec<String>, epmap: Vec<String>, names: Vec<String>) -> OpDesc {
        let op = OpDesc::new("recv")
            .output("Out", out)
            .attr("epmap", epmap)
            .attr("recv_varnames", names)
            .attr("varnames", Vec::<String>::new());
        let op = self.signed(op).attr("with_barrier", true).attr("do_not_run", 0);
        with_role(op, role::RPC)
    }

    /// `send_barrier` or `fetch_barrier`, to all servers.
    pub fn barrier_op(&self, kind: &str, after: Vec<String>, out: Vec<String>) -> OpDesc {
        let mut op = OpDesc::new(kind);
        if !after.is_empty() {
            op = op.input("X", after);
        }
        let op = op.output("Out", out).attr("endpoints", self.endpoints.clone());
        with_role(self.signed(op), role::RPC)
    }

    /// `distributed_lookup_table`: several look-ups in one table, at once.
    pub fn look_up_op(&self, look_up: LookUpOp<'_>, parts: &TableParts) -> OpDesc {
        let op = OpDesc::new("distributed_lookup_table")
            .input("Ids", look_up.ids)
            .input("W", look_up.table)
            .output("Outputs", look_up.outputs)
            .attr("table_names", parts.names.clone())
            .attr("endpoints", parts.epmap.clone())
            .attr("epmap", parts.epmap.clone())
            .attr("padding_idx", look_up.padding)
            .attr("lookup_table_version", look_up.version);
        let mut op = self.signed(op);
        if let Some(is_test) = look_up.is_test {
            op.attrs.set("is_test", is_test);
        }
        if let Some(entry) = look_up.entry {
            op.attrs.set(ENTRY, entry);
        }
        parts.tell_rows(&mut op);
        with_role(op, role::FORWARD)
    }

    /// Tells a look-up where its table is.
    pub fn address(&self, op: &mut OpDesc, parts: &TableParts) {
        op.attrs.set("epmap", parts.epmap.clone());
        op.attrs.set("table_names", parts.names.clone());
        op.attrs.set("trainer_id", self.trainer_id as i32);
        op.attrs.set("job", self.job.as_str());
        parts.tell_rows(op);
    }
}

impl TableParts {
    /// Tells the gradient of a look-up which rows each part has.
    pub fn tell_rows(&self, op: &mut OpDesc) {
        op.attrs.set("height_sections", self.sections.clone());
        if self.spread == Spread::Hash {
            op.attrs.set(Spread::ATTR, self.spread.name());
        }
    }
}
