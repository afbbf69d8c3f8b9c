//! A program without its servers: look-ups in tables that were on servers read the variable again.

use crate::block::OpDesc;
use crate::distributed::ENTRY;
use crate::distributed::ops::ADDRESS;
use crate::program::Program;
use crate::role;

const IS_TEST: &str = "is_test";

impl Program {
    /// Has look-ups read their tables as variables of the scope, wherever the tables are now.
    pub fn look_up_locally(&mut self) {
        for block in 0..self.blocks().len() {
            let ops = std::mem::take(&mut self.block_mut(block).ops);
            self.block_mut(block).ops = ops.into_iter().flat_map(local).collect();
        }
    }
}

/// The ops that compute the same without servers.
fn local(mut op: OpDesc) -> Vec<OpDesc> {
    if op.kind == "distributed_lookup_table" {
        return separate(&op);
    }
    if op.traits().looks_up {
        ADDRESS.iter().for_each(|name| drop(op.attrs.remove(name)));
    }
    vec![op]
}

/// The look-ups that one request stands for.
fn separate(op: &OpDesc) -> Vec<OpDesc> {
    let kind = op.attrs.str("lookup_table_version", "lookup_table").unwrap_or("lookup_table");
    let look_up = |(ids, out): (&String, &String)| {
        let mut look_up = OpDesc::new(kind)
            .input("W", op.input_names("W"))
            .input("Ids", ids)
            .output("Out", out)
            .attr("is_sparse", true)
            .attr("is_distributed", false)
            .attr("remote_prefetch", false)
            .attr("padding_idx", op.attrs.int("padding_idx", -1).unwrap_or(-1))
            .attr(role::ROLE, role::FORWARD)
            .attr(role::NAMESCOPE, "/");
        // Only where the layer has it: a program that is made for tests sets it there.
        for name in [ENTRY, IS_TEST] {
            if let Some(value) = op.attrs.get(name) {
                look_up.attrs.set(name, value.clone());
            }
        }
        look_up
    };
    op.input_names("Ids").iter().zip(op.output_names("Outputs")).map(look_up).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn requests_become_look_ups_again() {
        let mut program = Program::default();
        let request = OpDesc::new("distributed_lookup_table")
            .input("Ids", names(&["a", "b"]))
            .input("W", "table")
            .output("Outputs", names(&["x", "y"]))
            .attr("padding_idx", 3i64)
            .attr("lookup_table_version", "lookup_table_v2")
            .attr("epmap", names(&["127.0.0.1:1"]))
            .attr("table_names", names(&["table"]));
        let addressed = OpDesc::new("lookup_table")
            .input("Ids", "c")
            .input("W", "table")
            .output("Out", "z")
            .attr("epmap", names(&["127.0.0.1:1"]))
            .attr("table_names", names(&["table"]));
        let ruled = request.clone().attr(ENTRY, "none").attr(IS_TEST, false);
        program.block_mut(0).ops = vec![request, addressed, ruled];
        program.look_up_locally();
        let ops = &program.block(0).ops;
        let kinds: Vec<&str> = ops.iter().map(|op| op.kind.as_str()).collect();
        let [old, new] = ["lookup_table", "lookup_table_v2"];
        assert_eq!(kinds, [new, new, old, new, new]);
        assert_eq!(
            (&ops[1].input_names("Ids")[0], &ops[1].output_names("Out")[0]),
            (&"b".to_string(), &"y".to_string())
        );
        assert_eq!(ops[0].attrs.int("padding_idx", 0).unwrap(), 3);
        assert!(ops.iter().all(|op| op.attrs.get("epmap").is_none()));
        assert!(ops[0].attrs.get(IS_TEST).is_none() && ops[3].attrs.get(IS_TEST).is_some());
        let test = program.inference_optimize(true);
        let is_test = |at: usize| test.block(0).ops[at].attrs.bool(IS_TEST, false).unwrap();
        assert_eq!((is_test(0), is_test(3)), (false, true));
    }
}
