//! Cutting a gradient and sending the pieces, or receiving pieces and joining them, without the
//! pieces: `send` and `recv` take the whole variable and the names that its pieces have on servers.

use std::sync::Arc;

use program::Program;
use program::distributed::Piece;
use program::distributed::route::{self, Grads, Recv, Route, Sent};

use super::only;
use crate::executor::plan::{BlockPlan, Planned, Replacement, Uses};

/// A send stands where its gradient is complete, which may be between two ops that could be one.
/// It moves behind the product that follows it, and so does the cut before it: neither touches what
/// a product writes. The order of sends stays as it is.
pub(super) fn sink_sends(plan: &mut BlockPlan) {
    let is_sending = |planned: &Planned| {
        matches!(planned.desc.kind.as_str(), "send" | "split_byref" | "c_allreduce_sum")
    };
    let mut at = 0;
    while at < plan.ops.len() {
        let first = at;
        while plan.ops.get(at).is_some_and(is_sending) {
            at += 1;
        }
        let is_product = plan.ops.get(at).is_some_and(|planned| planned.desc.kind == "mul_grad");
        if at > first && is_product && is_free(plan, first, at) {
            plan.ops[first..=at].rotate_right(1);
        }
        at += 1;
    }
}

/// Whether the op at `at` and those from `first` on can change places.
fn is_free(plan: &BlockPlan, first: usize, at: usize) -> bool {
    let (moved, passed) = (&plan.ops[first..at], &plan.ops[at].desc);
    moved.iter().all(|planned| {
        let touched = planned.desc.reads().chain(planned.desc.writes());
        let mut touched = touched.collect::<Vec<_>>().into_iter();
        touched.all(|var| !passed.writes().any(|written| written == var))
            && !planned.desc.writes().any(|var| passed.reads().any(|read| read == var))
    })
}

/// The outputs of a `fetch_barrier` say what must be there before it ends; it writes nothing, and
/// what `recv` ops received is there.
pub(super) fn bare_barriers(plan: &mut BlockPlan) {
    for planned in &mut plan.ops {
        if planned.desc.kind == "fetch_barrier" {
            planned.desc.outputs.clear();
        }
    }
}

/// The cut at `at`, if one `send` sends its pieces and no other op reads them.
pub(super) fn find_send(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let cut = &plan.ops[at].desc;
    let sections = match cut.kind.as_str() {
        "split_byref" => cut.attrs.ints("sections").ok()?,
        "split_selected_rows" => cut.attrs.ints("height_sections").ok()?,
        _ => return None,
    };
    let (whole, pieces) = (only(cut.input_names("X"))?, cut.output_names("Out"));
    let &[send_at] = uses.readers(pieces.first()?) else { return None };
    let send = &plan.ops[send_at];
    let (grads, apart) = sent_apart(send)?;
    let private = |var: &String| super::is_private(plan, uses, var, at, send_at);
    let fits = send.desc.input_names("X") == pieces
        && apart.len() == pieces.len()
        && sections.len() == pieces.len()
        && height(program, whole) == Some(sections.iter().sum())
        && pieces.iter().all(private)
        && uses.unwritten(whole, at, send_at);
    if !fits {
        return None;
    }
    let mut by = Planned { index: plan.ops[at].index, ..send.clone() };
    set_port(&mut by.desc.inputs, "X", whole);
    let (mut start, mut cut) = (0, Vec::new());
    for (piece, n_rows) in apart.into_iter().zip(sections) {
        cut.push(Piece { rows: start..start + n_rows, ..piece.clone() });
        start += n_rows;
    }
    let vars = vec![Sent::Pieces(Arc::from(cut))];
    let may_queue = program.distributed.as_ref().is_some_and(|job| job.mode.sends_in_background());
    let grads = Grads { vars, may_queue, ..grads.clone() };
    by.route = Some(Route::Send(route::Send::Grads(grads)));
    Some(Replacement { gone: vec![at, send_at], at: send_at, by })
}

/// The variables of a `send`, if each of them is whole on one server and goes now.
fn sent_apart<'a>(planned: &'a Planned) -> Option<(&'a Grads, Vec<&'a Piece>)> {
    let Some(Route::Send(route::Send::Grads(grads))) = &planned.route else { return None };
    let whole = |sent: &'a Sent| match sent {
        Sent::Pieces(pieces) if pieces.len() == 1 => pieces.first().filter(|one| one.is_whole()),
        _ => None,
    };
    let apart: Option<Vec<&Piece>> = grads.vars.iter().map(whole).collect();
    Some((grads, apart.filter(|_| !grads.may_queue)?))
}

/// The `recv` at `at`, if one `concat` joins its pieces and no other op reads them.
pub(super) fn find_recv(
    plan: &BlockPlan,
    program: &Program,
    uses: &Uses,
    at: usize,
) -> Option<Replacement> {
    let recv = &plan.ops[at];
    let Some(Route::Recv(route)) = &recv.route else { return None };
    let pieces = recv.desc.output_names("Out");
    let &[concat_at] = uses.readers(pieces.first()?) else { return None };
    let concat = &plan.ops[concat_at].desc;
    let whole = only(concat.output_names("Out"))?;
    let private = |var: &String| super::is_private(plan, uses, var, at, concat_at);
    let untouched = |&other: &usize| other <= at || other >= concat_at;
    let fits = concat.kind == "concat"
        && concat.attrs.int("axis", 0).ok()? == 0
        && concat.input_names("AxisTensor").is_empty()
        && concat.input_names("X") == pieces
        && route.vars.len() == pieces.len()
        && pieces.iter().all(private)
        && uses.readers(whole).iter().chain(uses.writers(whole)).all(untouched)
        && uses.barriers().iter().all(untouched);
    if !fits {
        return None;
    }
    let mut by = recv.clone();
    set_port(&mut by.desc.outputs, "Out", whole);
    let may_skip = program.distributed.as_ref().is_some_and(|job| job.mode.sends_in_background());
    let vars = vec![route.vars.concat()];
    by.route = Some(Route::Recv(Recv { vars, may_skip, ..*route }));
    Some(Replacement { gone: vec![at, concat_at], at, by })
}

/// Sends after which nobody reads what was sent: servers may get the memory instead of a copy.
pub(super) fn send_for_good(plan: &mut BlockPlan) {
    let uses = plan.uses();
    for at in 0..plan.ops.len() {
        let last = |var: &String| {
            let written_before = uses.writers(var).iter().all(|&writer| writer < at);
            !plan.pinned.contains(var) && uses.readers(var) == [at] && written_before
        };
        let is_last = plan.ops[at].desc.input_names("X").iter().all(last);
        if let Some(Route::Send(route::Send::Grads(grads))) = &mut plan.ops[at].route {
            grads.for_good = is_last;
        }
    }
}

fn height(program: &Program, var: &str) -> Option<i64> {
    program.find_var(0, var)?.meta.dims.first().copied()
}

fn set_port(ports: &mut [(String, Vec<String>)], port: &str, var: &str) {
    for (_, vars) in ports.iter_mut().filter(|(name, _)| name == port) {
        *vars = vec![var.to_string()];
    }
}
