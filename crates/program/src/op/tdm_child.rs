//! `tdm_child`: the children of tree nodes, and which of them are leaves.
//!
//! A row of TreeInfo is a node: item id, layer, parent, children. Node 0 stands for "none" and has no
//! children; a node whose item id is not 0 is a leaf (LeafMask 1).

use tensor::{DType, Number, Shape};

use super::{Infer, Op, Run, for_int, no_gradient, sizes, traits};
use crate::attr::Attrs;
use crate::error::{Error, Result};

pub(super) struct TdmChild;

/// Numbers of a node before its children.
const N_HEAD: usize = 3;

fn n_children(attrs: &Attrs) -> Result<usize> {
    let value = attrs.int("child_nums", 0)?;
    let positive = usize::try_from(value).ok().filter(|&n| n > 0);
    positive.ok_or_else(|| Error::BadAttr {
        attr: "child_nums".to_string(),
        expected: "positive".to_string(),
        actual: value.to_string(),
    })
}

impl Op for TdmChild {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        let mut out = infer.input("X")?;
        out.dims.push(n_children(infer.attrs())? as i64);
        out.dtype = DType::from_code(infer.attrs().int("dtype", 2)?)?;
        infer.set_output("LeafMask", out.clone())?;
        infer.set_output("Child", out)
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let n_children = n_children(run.attrs())?;
        let dtype = DType::from_code(run.attrs().int("dtype", 2)?)?;
        let (mut child, mut mask) = (run.take("Child"), run.take("LeafMask"));
        let x = run.input("X")?;
        let mut dims = x.shape().to_i64();
        dims.push(n_children as i64);
        let shape = Shape::from_dims(&dims)?;
        let ids = sizes::integers(x, run.input_name("X"))?;
        let info = run.input("TreeInfo")?;
        for_int!(info.dtype(), run.input_name("TreeInfo"), I => {
            let tree = Tree::<I>::of(run, n_children)?;
            for_int!(dtype, "Child", O => {
                let (child, mask) = (child.try_resize_zeroed::<O>(shape)?, mask.resize_zeroed::<O>(shape));
                fill(&tree, &ids, child, mask).map_err(|lost: NoNode| Error::BadValue {
                    rule: "a node must be in the tree",
                    var: run.input_name(lost.port).to_string(),
                    position: lost.position,
                    value: lost.id as f64,
                })
            })
        })?;
        run.put("Child", child);
        run.put("LeafMask", mask);
        Ok(())
    }

    no_gradient!();
}

/// A port that names a node that is not there.
struct NoNode {
    port: &'static str,
    position: usize,
    id: i64,
}

/// Writes the children of each id.
fn fill<I: Number + Into<i64>, O: Number>(
    tree: &Tree<'_, I>,
    ids: &[i64],
    child: &mut [O],
    mask: &mut [O],
) -> std::result::Result<(), NoNode> {
    let n_children = tree.size - N_HEAD;
    for (position, &id) in ids.iter().enumerate() {
        let node = tree.node(id).ok_or(NoNode { port: "X", position, id })?;
        if id == 0 || node[N_HEAD].into() == 0 {
            continue;
        }
        for (at, &id) in (position * n_children..).zip(&node[N_HEAD..]) {
            let lost = NoNode { port: "TreeInfo", position, id: id.into() };
            let leaf = tree.node(id.into()).ok_or(lost)?;
            child[at] = O::of(id.f64());
            mask[at] = O::of(if leaf[0].into() == 0 { 0.0 } else { 1.0 });
        }
    }
    Ok(())
}

/// Nodes of equal size.
struct Tree<'a, I> {
    numbers: &'a [I],
    size: usize,
}

impl<'a, I: Number> Tree<'a, I> {
    fn of(run: &'a Run<'_>, n_children: usize) -> Result<Self> {
        let info = run.input("TreeInfo")?;
        let size = n_children.saturating_add(N_HEAD);
        if info.shape().rank() != 2 || info.shape().last() != size {
            return Err(run.shape("a node must be 3 + child_nums numbers", "TreeInfo"));
        }
        Ok(Self { numbers: info.data()?, size })
    }

    fn node(&self, id: i64) -> Option<&'a [I]> {
        let start = usize::try_from(id).ok()?.checked_mul(self.size)?;
        self.numbers.get(start..start.checked_add(self.size)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::check::{Check, check, ids};
    use tensor::Tensor;

    fn child(nodes: [i64; 4]) -> Check {
        let tree = [
            [0, 0, 0, 1, 2],
            [0, 1, 0, 3, 4],
            [0, 1, 0, 5, 6],
            [0, 2, 1, 0, 0],
            [1, 2, 1, 0, 0],
            [2, 2, 2, 0, 0],
            [3, 2, 2, 0, 0],
        ];
        check("tdm_child")
            .input("X", ids(&[4, 1], &nodes))
            .input("TreeInfo", Tensor::new([7, 5], &tree.concat()).unwrap())
            .attr("child_nums", 2)
    }

    /// The results of Fluid 1.8.5 for the op `tdm_child` with this tree.
    #[test]
    fn finds_children_and_leaves() {
        let int = |numbers: &[i32]| Tensor::new([4, 1, 2], numbers).unwrap();
        child([2, 3, 0, 1])
            .gives("Child", int(&[5, 6, 0, 0, 0, 0, 3, 4]))
            .gives("LeafMask", int(&[1, 1, 0, 0, 0, 0, 0, 1]));
        let wide = ids(&[4, 1, 2], &[5, 6, 0, 0, 0, 0, 3, 4]);
        child([2, 3, 0, 1]).attr("dtype", 3).output("LeafMask").gives("Child", wide);
    }

    #[test]
    fn refuses_nodes_outside_of_the_tree() {
        for bad in [7, -1] {
            let error = child([2, bad, 0, 1]).output("Child").output("LeafMask").fails();
            assert!(matches!(error.root(), Error::BadValue { position: 1, .. }), "{error}");
        }
        let error = child([0; 4]).attr("child_nums", 3).output("Child").output("LeafMask").fails();
        assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    }
}
