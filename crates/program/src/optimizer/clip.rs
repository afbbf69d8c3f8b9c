//! Gradient clipping: by value, by norm, by the norm of all gradients of a group.

use std::collections::HashSet;

use crate::backward::ParamGrad;
use crate::block::OpDesc;
use crate::builder::{Builder, Var};
use crate::error::{Error, Result};
use crate::param::GradClip;
use crate::program::Program;
use crate::role;
use crate::var::VarKind;

/// Which parameters a clip that was set for some of them is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClipReach {
    /// As the code of Fluid 1.8.5 has it: if one parameter has no clip, no gradient is clipped, and
    /// otherwise all are clipped as the last parameter says.
    #[default]
    Together,
    /// As its documents have it: the gradients of these parameters are clipped, each as it says.
    Each,
}

/// Sets how the gradients of these parameters are clipped; of all parameters if `None`.
/// Optimizers that already ran are not affected.
pub fn set_gradient_clip(
    program: &mut Program,
    clip: &GradClip,
    params: Option<&[String]>,
    reach: ClipReach,
) -> Result<()> {
    let names = match params {
        Some(names) => names.to_vec(),
        None => program.parameters().map(|param| param.name.clone()).collect(),
    };
    for name in &names {
        if program.need_var(0, name)?.param.is_none() {
            return Err(Error::BadArgument {
                layer: "set_gradient_clip",
                argument: "param_list",
                rule: "only parameters have gradients to clip",
                actual: name.clone(),
            });
        }
    }
    for name in &names {
        let var = program.block_mut(0).var_mut(name);
        if let Some(info) = var.and_then(|var| var.param.as_mut()) {
            info.gradient_clip = Some(clip.clone());
            info.clips_together = reach == ClipReach::Together;
        }
    }
    Ok(())
}

/// Whether clips were set for some of these parameters, and so for none ([`ClipReach::Together`]).
pub fn clips_in_vain(program: &Program, pairs: &[ParamGrad]) -> bool {
    let info = |pair: &ParamGrad| program.find_var(0, &pair.param)?.param.as_ref();
    let together = |pair: &ParamGrad| info(pair).is_some_and(|info| info.clips_together);
    let clipped = |pair: &ParamGrad| info(pair).is_some_and(|info| info.gradient_clip.is_some());
    pairs.iter().any(together) && !pairs.iter().all(clipped)
}

/// The scope of ops that clip as a parameter says; the spelling is Fluid's.
const OWN_SCOPE: &str = "graident_clip_@CLIP";

/// Clips each gradient: as `all` says, except those in `skipped`; or else as its own parameter says.
pub fn clip_gradients(
    b: &mut Builder<'_>,
    pairs: &[ParamGrad],
    all: Option<&GradClip>,
    skipped: &HashSet<String>,
) -> Result<Vec<ParamGrad>> {
    let clips = match all {
        Some(all) => {
            let wanted = |pair: &ParamGrad| !skipped.contains(&pair.param);
            pairs.iter().map(|pair| wanted(pair).then(|| PairClip::own(all))).collect()
        }
        None => own_clips(b, pairs)?,
    };
    let first_op = b.main.block(b.main.current_block()).ops.len();
    let mut clipped = pairs.to_vec();
    let mut groups: Vec<NormGroup> = Vec::new();
    for (at, (pair, clip)) in pairs.iter().zip(clips).enumerate() {
        let Some(PairClip { clip, is_measured }) = clip else { continue };
        let around = all.is_none().then(|| b.main.enter_scope(OWN_SCOPE));
        let done = b.with_role(role::OPTIMIZE, &[&pair.param, &pair.grad], |b| -> Result<()> {
            let op = match clip {
                GradClip::Value { min, max } => {
                    OpDesc::new("clip").attr("min", min).attr("max", max)
                }
                GradClip::Norm { max_norm } => {
                    OpDesc::new("clip_by_norm").attr("max_norm", max_norm)
                }
                GradClip::GlobalNorm { max_norm, group } => {
                    let square = is_measured.then(|| square_sum(b, &pair.grad)).transpose()?;
                    join(&mut groups, group, max_norm, GroupMember { at, square });
                    return Ok(());
                }
            };
            clipped[at].grad = result(b, op.input("X", &pair.grad), &pair.grad)?;
            Ok(())
        });
        if let Some(around) = around {
            b.main.namescope = around;
        }
        done?;
    }
    for group in &groups {
        group.scale(b, pairs, &mut clipped)?;
    }
    name_clipped(b, first_op, &clipped);
    Ok(clipped)
}

/// How one gradient is clipped.
struct PairClip {
    clip: GradClip,
    /// Whether it is part of the norm that it is clipped by.
    is_measured: bool,
}

impl PairClip {
    fn own(clip: &GradClip) -> Self {
        Self { clip: clip.clone(), is_measured: true }
    }
}

/// Clips as the parameters say.
fn own_clips(b: &Builder<'_>, pairs: &[ParamGrad]) -> Result<Vec<Option<PairClip>>> {
    let (mut own, mut together) = (Vec::with_capacity(pairs.len()), false);
    for pair in pairs {
        let info = b.desc(&Var::from(&*pair.param))?.param.as_ref();
        together |= info.is_some_and(|info| info.clips_together);
        own.push(info.and_then(|info| info.gradient_clip.clone()));
    }
    check_groups(&own)?;
    if !together {
        return Ok(own.iter().map(|clip| clip.as_ref().map(PairClip::own)).collect());
    }
    let all: Option<Vec<GradClip>> = own.into_iter().collect();
    let Some(last) = all.as_ref().and_then(|all| all.last()) else {
        return Ok(pairs.iter().map(|_| None).collect());
    };
    let clipped = |own: &GradClip| {
        let is_measured = group_of(own) == group_of(last);
        Some(PairClip { clip: last.clone(), is_measured })
    };
    Ok(all.iter().flatten().map(clipped).collect())
}

fn group_of(clip: &GradClip) -> Option<&str> {
    match clip {
        GradClip::GlobalNorm { group, .. } => Some(group),
        _ => None,
    }
}

/// Parameters of one group must agree on the norm.
fn check_groups(clips: &[Option<GradClip>]) -> Result<()> {
    let mut seen: Vec<(&str, f32)> = Vec::new();
    for clip in clips.iter().flatten() {
        let GradClip::GlobalNorm { max_norm, group } = clip else { continue };
        match seen.iter().find(|(name, _)| name == group) {
            None => seen.push((group, *max_norm)),
            Some((_, norm)) if norm == max_norm => {}
            Some((_, norm)) => {
                return Err(Error::BadArgument {
                    layer: "GradientClipByGlobalNorm",
                    argument: "clip_norm",
                    rule: "all parameters of a group need the same norm",
                    actual: format!("{norm} and {max_norm} in group {group}"),
                });
            }
        }
    }
    Ok(())
}

/// Parameters whose gradients share one norm.
struct NormGroup {
    name: String,
    max_norm: f32,
    members: Vec<GroupMember>,
}

struct GroupMember {
    /// Which pair.
    at: usize,
    /// The variable with the sum of its squares, if that is part of the norm.
    square: Option<String>,
}

fn join(groups: &mut Vec<NormGroup>, name: String, max_norm: f32, member: GroupMember) {
    match groups.iter_mut().find(|group| group.name == name) {
        Some(group) => group.members.push(member),
        None => groups.push(NormGroup { name, max_norm, members: vec![member] }),
    }
}

impl NormGroup {
    /// Multiplies the gradients by `max_norm / max(max_norm, norm of all)`.
    fn scale(
        &self,
        b: &mut Builder<'_>,
        pairs: &[ParamGrad],
        clipped: &mut [ParamGrad],
    ) -> Result<()> {
        let Some(last) = self.members.last() else { return Ok(()) };
        let last = &pairs[last.at];
        let factor = b.with_role(role::OPTIMIZE, &[&last.param, &last.grad], |b| self.factor(b))?;
        for &GroupMember { at, .. } in &self.members {
            let pair = &pairs[at];
            let op = OpDesc::new("elementwise_mul").input("X", &pair.grad).input("Y", &factor);
            let op = op.attr("axis", -1);
            let product = b.with_role(role::OPTIMIZE, &[&pair.param, &pair.grad], |b| {
                result(b, op, &pair.grad)
            })?;
            clipped[at].grad = product;
        }
        Ok(())
    }

    fn factor(&self, b: &mut Builder<'_>) -> Result<String> {
        let squares = self.members.iter().filter_map(|member| member.square.clone());
        let squares: Vec<String> = squares.collect();
        let like = squares[0].clone();
        let sum = result(b, OpDesc::new("sum").input("X", squares), &like)?;
        let norm = result(b, OpDesc::new("sqrt").input("X", &sum), &like)?;
        let fill = OpDesc::new("fill_constant")
            .attr("shape", vec![1i64])
            .attr("value", self.max_norm)
            .attr("dtype", b.meta(&Var::from(&*like))?.dtype.code())
            .attr("force_cpu", false);
        let max_norm = result(b, fill, &like)?;
        let max = OpDesc::new("elementwise_max").input("X", &max_norm).input("Y", &norm);
        let max = result(b, max.attr("axis", -1), &like)?;
        let factor = OpDesc::new("elementwise_div").input("X", &max_norm).input("Y", &max);
        result(b, factor.attr("axis", -1), &like)
    }
}

/// The sum of squares of a gradient; rows of one id are added up before they are squared.
fn square_sum(b: &mut Builder<'_>, grad: &str) -> Result<String> {
    let mut dense = grad.to_string();
    if b.meta(&Var::from(grad))?.kind == VarKind::SelectedRows {
        let merged = result(b, OpDesc::new("merge_selected_rows").input("X", grad), grad)?;
        let values = OpDesc::new("get_tensor_from_selected_rows").input("X", &merged);
        dense = result(b, values, grad)?;
    }
    let square = result(b, OpDesc::new("square").input("X", &dense), grad)?;
    let sum = OpDesc::new("reduce_sum")
        .input("X", &square)
        .attr("dim", vec![0])
        .attr("keep_dim", false)
        .attr("reduce_all", true);
    result(b, sum, grad)
}

/// Appends an op with a fresh output: `<op>_0.tmp_0`, of the type of `like`.
fn result(b: &mut Builder<'_>, op: OpDesc, like: &str) -> Result<String> {
    let dtype = b.meta(&Var::from(like))?.dtype;
    let layer = b.layer_name(&op.kind, None);
    let out = b.temp(&layer, dtype);
    b.op(op.output("Out", &out))?;
    Ok(out.name().to_string())
}

/// From here on the clipped gradient is the parameter's: the ops that made it say so.
fn name_clipped(b: &mut Builder<'_>, first_op: usize, clipped: &[ParamGrad]) {
    let block = b.main.current_block();
    for op in &mut b.main.block_mut(block).ops[first_op..] {
        let vars = op.attrs.strs(role::ROLE_VAR).unwrap_or(&[]);
        let pair = clipped.iter().find(|pair| vars.first() == Some(&pair.param));
        if let Some(pair) = pair {
            op.attrs.set(role::ROLE_VAR, vec![pair.param.clone(), pair.grad.clone()]);
        }
    }
}
