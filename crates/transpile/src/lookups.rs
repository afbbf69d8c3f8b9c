//! Look-ups in tables that trainers do not hold: all those of one table become one request.

use std::collections::HashMap;

use program::distributed::ENTRY;
use program::distributed::ops::{LookUpOp, TableParts};
use program::{OpDesc, Program};

use super::plan::{JobPlan, Param};

/// Look-ups that can be made at once, and where.
#[derive(Debug)]
struct LookUpGroup {
    lookups: Vec<usize>,
    /// Behind this op: the last that computes an id of the group.
    after: Option<usize>,
    /// Before this op: the first that reads a row.
    before: usize,
}

/// What replaces look-ups: ops to put before an op, and ops that go.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    pub(super) before: HashMap<usize, Vec<OpDesc>>,
    pub(super) gone: Vec<usize>,
}

impl JobPlan {
    /// Finds the look-ups in block 0, and the ops that replace them.
    pub(super) fn replace_lookups(&self, main: &Program) -> Replaced {
        let mut replaced = Replaced::default();
        for param in self.params.iter().filter(|param| param.is_remote) {
            for group in groups(&main.block(0).ops, &param.name) {
                let op = self.lookup_op(main, param, &group);
                replaced.put(&group, vec![op]);
            }
        }
        replaced
    }

    /// Tells look-ups in other blocks, and all gradients of look-ups, where their table is.
    pub(super) fn address_lookups(&self, main: &mut Program) {
        for block in 0..main.blocks().len() {
            for op in &mut main.block_mut(block).ops {
                let Some(table) = op.input_names("W").first().cloned() else { continue };
                let remote = self.params.iter().find(|p| p.is_remote && p.name == table);
                let Some(param) = remote else { continue };
                if op.traits().looks_up {
                    self.job.address(op, &self.parts(param));
                } else if op.traits().is_lookup_grad {
                    self.parts(param).tell_rows(op);
                }
            }
        }
    }

    /// Where the parts of a table are.
    fn parts(&self, param: &Param) -> TableParts {
        TableParts {
            names: param.blocks(),
            epmap: self.epmap(param),
            sections: param.sections(),
            spread: param.spread,
        }
    }

    fn lookup_op(&self, main: &Program, param: &Param, group: &LookUpGroup) -> OpDesc {
        let ops = &main.block(0).ops;
        let first = &ops[group.lookups[0]];
        let look_up = LookUpOp {
            ids: all(ops, group, |op| op.input_names("Ids")),
            table: &param.name,
            outputs: all(ops, group, |op| op.output_names("Out")),
            padding: padding(first),
            is_test: first.attrs.get("is_test").map(|_| is_test(first)),
            entry: first.attrs.get(ENTRY).and_then(|_| first.attrs.str(ENTRY, "").ok()),
            version: &first.kind,
        };
        let op = self.job.look_up_op(look_up, &self.parts(param));
        // A trainer of GEO holds the rows that it used.
        if self.is_geo() { op.output("W", &param.name) } else { op }
    }
}

impl Replaced {
    /// A block's ops with what replaces some of them.
    pub(super) fn apply(mut self, ops: Vec<OpDesc>) -> Vec<OpDesc> {
        let mut new = Vec::with_capacity(ops.len());
        for (at, op) in ops.into_iter().enumerate() {
            new.extend(self.before.remove(&at).unwrap_or_default());
            new.extend(Some(op).filter(|_| !self.gone.contains(&at)));
        }
        new
    }

    fn put(&mut self, group: &LookUpGroup, ops: Vec<OpDesc>) {
        let at = group.after.map_or(0, |after| after + 1);
        self.before.entry(at).or_default().extend(ops);
        self.gone.extend(&group.lookups);
    }
}

fn padding(op: &OpDesc) -> i64 {
    op.attrs.int("padding_idx", -1).unwrap_or(-1)
}

/// Whether rows that do not exist are not made.
fn is_test(op: &OpDesc) -> bool {
    op.attrs.bool("is_test", false).unwrap_or(false)
}

fn all<'a>(
    ops: &'a [OpDesc],
    group: &LookUpGroup,
    of: impl Fn(&'a OpDesc) -> &'a [String],
) -> Vec<String> {
    group.lookups.iter().flat_map(|&at| of(&ops[at])).cloned().collect()
}

/// Groups the look-ups of a table that are of one kind and can be made at one moment: all ids are
/// there, and no row has been read yet.
fn groups(ops: &[OpDesc], table: &str) -> Vec<LookUpGroup> {
    let mut groups: Vec<LookUpGroup> = Vec::new();
    for (at, op) in ops.iter().enumerate() {
        if !op.traits().looks_up || op.input_names("W").first().is_none_or(|w| w != table) {
            continue;
        }
        let reads =
            |other: &OpDesc| op.output_names("Out").iter().any(|o| other.reads().any(|r| r == o));
        let after = ops[..at].iter().rposition(|before| {
            before.writes().any(|written| op.input_names("Ids").iter().any(|id| id == written))
        });
        let before = ops[at + 1..].iter().position(reads).map_or(ops.len(), |next| at + 1 + next);
        let alike = |group: &LookUpGroup| {
            let first = &ops[group.lookups[0]];
            first.kind == op.kind
                && padding(first) == padding(op)
                && is_test(first) == is_test(op)
                && first.attrs.get(ENTRY) == op.attrs.get(ENTRY)
        };
        let fits = |group: &LookUpGroup| {
            group.after.max(after).is_none_or(|after| after < group.before.min(before))
        };
        match groups.iter_mut().find(|group| alike(group) && fits(group)) {
            Some(group) => {
                group.lookups.push(at);
                group.after = group.after.max(after);
                group.before = group.before.min(before);
            }
            None => groups.push(LookUpGroup { lookups: vec![at], after, before }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(ids: &str, out: &str) -> OpDesc {
        OpDesc::new("lookup_table").input("W", "t").input("Ids", ids).output("Out", out)
    }

    fn op(kind: &str, from: &str, to: &str) -> OpDesc {
        OpDesc::new(kind).input("X", from).output("Out", to)
    }

    #[test]
    fn look_ups_of_one_moment_are_one_group() {
        let ops = [lookup("a", "x"), op("cast", "b", "c"), lookup("c", "y"), op("mean", "x", "m")];
        let found = groups(&ops, "t");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].lookups.clone(), found[0].after), (vec![0, 2], Some(1)));
    }

    #[test]
    fn ids_computed_from_rows_wait_for_them() {
        let ops = [lookup("a", "x"), op("top_k", "x", "b"), lookup("b", "y")];
        let found = groups(&ops, "t");
        assert_eq!(found.iter().map(|g| g.lookups.clone()).collect::<Vec<_>>(), [vec![0], vec![2]]);
    }

    #[test]
    fn other_padding_is_another_group() {
        let ops = [lookup("a", "x"), lookup("b", "y").attr("padding_idx", 0i64)];
        assert_eq!(groups(&ops, "t").len(), 2);
    }
}
