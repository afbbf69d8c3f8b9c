//! `hello`: which trainers are let in.
//!
//! The processes of a job must agree on parameters. Scripts of servers and trainers may differ in what does not matter to
//! the other side (metrics, the optimizer of a trainer, what is printed). A parameter that a trainer looks for and
//! does not find, or finds with another shape, matters.

use std::collections::{BTreeMap, BTreeSet};

use wire::message::{Hello, Pong, VERSION, VarInfo, Welcome};
use wire::recovery::TermState;
use wire::{ConnId, Millis, Refusal, TrainerId};

use super::keys::TrainerKeys;
use super::{Action, Server, failure, notice, term};

/// Names that a line of the log mentions.
const MENTIONED_MAX: usize = 5;

/// Kinds of refused connections that are mentioned.
const REFUSALS_MENTIONED_MAX: usize = 256;

/// For so long a server that cannot begin waits for trainers that it has not told why.
const FAREWELL_MS: u64 = 60_000;

/// A hello that was not answered yet, and where it came from.
#[derive(Debug)]
pub(super) struct PendingHello {
    pub(super) conn: ConnId,
    pub(super) id: u64,
    pub(super) hello: Hello,
}

/// Processes that are not let in, or not yet.
#[derive(Debug, Default)]
pub(super) struct UnknownPeers {
    pub(super) keys: TrainerKeys,
    last_refusal: Option<LastRefusal>,
    /// Kinds of refused connections that the log has.
    mentioned: BTreeSet<String>,
}

/// A job that cannot begin: the trainers that know it. Those that come later would wait for a server that has ended.
#[derive(Debug)]
struct LastRefusal {
    refusal: Refusal,
    since: Millis,
    told: BTreeSet<TrainerId>,
}

pub(super) fn serve(server: &mut Server, now: Millis, conn: ConnId, id: u64, hello: Hello) {
    if let Some(refusal) = stranger(server, conn, &hello) {
        return refuse_peer(server, conn, id, refusal);
    }
    if let Some(refusal) = other_start(server, &hello) {
        let trainer = TrainerId(hello.trainer);
        return refuse_start(server, conn, id, trainer, refusal);
    }
    let pending = PendingHello { conn, id, hello };
    if server.config.recovers {
        in_term(server, now, pending);
    } else {
        admit(server, now, pending);
    }
}

/// The reason why this is not a trainer of the job.
fn stranger(server: &Server, conn: ConnId, hello: &Hello) -> Option<Refusal> {
    let n_trainers = server.config.n_trainers;
    let trainer = hello.trainer;
    if hello.version != VERSION {
        return Some(Refusal::Version { ours: VERSION, theirs: hello.version });
    }
    // Before any message about the job.
    if let Some(refusal) = server.peers.keys.refusal(conn, trainer, n_trainers, server.clock.now) {
        return Some(refusal);
    }
    if hello.job != server.config.job {
        let (ours, theirs) = (server.config.job.clone(), hello.job.clone());
        return Some(Refusal::OtherJob { ours, theirs });
    }
    if trainer >= n_trainers {
        return Some(Refusal::TrainerOutOfRange { trainer, n_trainers });
    }
    if server.term.members.who(conn).is_some_and(|who| who.0 != trainer) {
        return Some(Refusal::Malformed("two trainers on one connection".to_string()));
    }
    let is_of_a_term = hello.term.number > 0 && !server.config.recovers;
    let keeps_none = || {
        Refusal::Failed("this server keeps no cuts, and others of its job do: give all of them the same folder of snapshots".to_string())
    };
    other_model(&server.vars.ours, &hello.vars).or_else(|| is_of_a_term.then(keeps_none))
}

/// Lets a trainer in, unless another process has its rank.
fn admit(server: &mut Server, now: Millis, pending: PendingHello) {
    let PendingHello { conn, id, hello } = pending;
    let trainer = TrainerId(hello.trainer);
    let was_active = server.term.members.of(trainer).is_active();
    match server.term.members.admit(trainer, hello.incarnation, conn, now) {
        Err(refusal) => refuse_peer(server, conn, id, refusal),
        Ok(admitted) => {
            server.terms.came(trainer);
            server.peers.keys.let_in(conn, trainer.0, now);
            if !was_active && server.term.members.of(trainer).is_active() {
                server.term.expect(trainer);
            }
            if let Some(old) = admitted.replaced {
                server.actions.push(Action::Close(old));
            }
            if admitted.is_new {
                // A part that an earlier process of this rank began and did not end does not belong to a round.
                server.term.rounds.forget_open(trainer);
                server.term.news.remove(&trainer);
                server.term.staleness.forget(trainer);
                if server.term.members.is_alone(trainer) {
                    server.term.all_gathers.forget();
                    server.term.all_to_all.forget();
                }
                server.inform(format!("{trainer} joined"));
                mention_differences(server, trainer, &hello.vars);
            }
            server.vars.greet(trainer, hello.vars);
            let accepted = server.term.members.of(trainer).accepted();
            let round = server.term.rounds.reached(trainer);
            server.reply(conn, id, Welcome { accepted, round });
            notice::tell(server, conn);
            if let Some((seq, refusal)) = server.term.members.of(trainer).refused() {
                server.reply(conn, seq, refusal);
            }
        }
    }
}

/// Lets a trainer in, opens a term or loads its base for it, or tells it the term of this server.
pub(super) fn in_term(server: &mut Server, now: Millis, pending: PendingHello) {
    let (ours, theirs) = (server.terms.term, pending.hello.term);
    let (trainer, incarnation) = (TrainerId(pending.hello.trainer), pending.hello.incarnation);
    if let Some(refusal) = server.term.members.rival(trainer, incarnation, now) {
        return refuse_peer(server, pending.conn, pending.id, refusal);
    }
    let is_ours = theirs == ours && theirs.base.is_some();
    let is_open = theirs.number == ours.number && ours.base.is_none();
    match &server.failure {
        Some(failure) if !is_ours => {
            let failure = failure.clone();
            return refuse_peer(server, pending.conn, pending.id, failure);
        }
        _ => {}
    }
    match theirs.base {
        None if theirs.number > ours.number => term::open(server, now, theirs.number),
        Some(base) if is_open && server.cuts.kept().contains(&base) => {
            return term::load(server, base, pending);
        }
        Some(_) if is_ours && server.terms.loading.is_some() => return wait(server, pending),
        Some(_) if is_ours && !server.term.members.of(trainer).has_other(incarnation) => {
            return admit(server, now, pending);
        }
        _ => {}
    }
    refuse_term(server, pending);
}

pub(super) fn refuse_term(server: &mut Server, pending: PendingHello) {
    let PendingHello { conn, id, hello } = pending;
    let term_state = term_state(server, TrainerId(hello.trainer), hello.incarnation);
    server.reply(conn, id, Refusal::OtherTerm(term_state));
    server.actions.push(Action::Close(conn));
}

pub(super) fn term_state(server: &Server, trainer: TrainerId, incarnation: u64) -> TermState {
    let has_member = server.term.members.of(trainer).has_other(incarnation);
    TermState { term: server.terms.term, cuts: server.cuts.kept().to_vec(), has_member }
}

/// Lets a hello wait until the base is loaded. A trainer that greets again hears that it is not
/// forgotten.
fn wait(server: &mut Server, pending: PendingHello) {
    let Some(loading) = &mut server.terms.loading else { return };
    let conn = pending.conn;
    if loading.hellos.iter().any(|waiting| waiting.conn == conn) {
        server.reply(conn, pending.id, Pong::default());
    } else {
        loading.hellos.push(pending);
    }
}

/// Why the job cannot begin, if this trainer begins from another checkpoint than this server. A server that
/// keeps cuts begins from them.
fn other_start(server: &Server, hello: &Hello) -> Option<Refusal> {
    if let Some(last_refusal) = &server.peers.last_refusal {
        return Some(last_refusal.refusal.clone());
    }
    if let Some(why) = hello.vars.iter().find_map(VarInfo::no_start_words) {
        return (!server.config.recovers).then(|| Refusal::Failed(why.to_string()));
    }
    let start = |vars: &[VarInfo]| {
        vars.iter().find_map(|var| Some((var.dims.first().copied(), var.start_words()?)))
    };
    let (ours, theirs) = (start(&server.vars.ours)?, start(&hello.vars)?);
    let is_other = !server.config.recovers && ours.0 != theirs.0;
    is_other.then(|| {
        Refusal::Failed(format!(
            "the processes of this job begin from different checkpoints: this server from {}, trainer {} from {}. \
             Each machine has only a part of them: merge the folders of checkpoints of all machines, copy the result to \
             all of them, and start the job again (to begin anew instead, remove them everywhere)",
            ours.1, hello.trainer, theirs.1
        ))
    })
}

/// Tells a trainer that the job cannot begin. Others of the job wait for it, so they are told too.
fn refuse_start(server: &mut Server, conn: ConnId, id: u64, trainer: TrainerId, refusal: Refusal) {
    if server.peers.last_refusal.is_none() {
        failure::set(server, refusal.clone());
        server.peers.last_refusal = Some(LastRefusal {
            refusal: refusal.clone(),
            since: server.clock.now,
            told: BTreeSet::new(),
        });
    }
    if let Some(last_refusal) = &mut server.peers.last_refusal {
        last_refusal.told.insert(trainer);
    }
    server.term.members.told(trainer);
    refuse_peer(server, conn, id, refusal);
}

/// Whether all trainers have been told that the job cannot begin, or are gone.
pub(super) fn has_said_farewell(server: &Server) -> bool {
    server.peers.last_refusal.as_ref().is_none_or(|last_refusal| {
        let all = (0..server.config.n_trainers).map(TrainerId);
        let mut untold = all.filter(|trainer| !last_refusal.told.contains(trainer));
        let is_late = server.clock.now.since(last_refusal.since) >= FAREWELL_MS;
        is_late || !untold.any(|trainer| server.term.members.of(trainer).is_awaited())
    })
}

/// Says what only the server has: it will not change by this trainer's doing.
fn mention_differences(server: &mut Server, trainer: TrainerId, theirs: &[VarInfo]) {
    let known: BTreeSet<&str> = params(theirs).map(|held| held.name.as_str()).collect();
    let all = params(&server.vars.ours).map(|held| held.name.as_str());
    let only_ours: Vec<&str> = all.filter(|name| !known.contains(name)).collect();
    if known.is_empty() || only_ours.is_empty() {
        return;
    }
    let mentioned = only_ours[..only_ours.len().min(MENTIONED_MAX)].join(", ");
    let more = only_ours.len().saturating_sub(MENTIONED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    server.warn(format!(
        "the script of {trainer} has no parameter {mentioned}{more}: it sends no gradients for it"
    ));
}

/// Why a trainer that looks for these parameters cannot take part.
fn other_model(ours: &[VarInfo], theirs: &[VarInfo]) -> Option<Refusal> {
    let ours: BTreeMap<&str, &[i64]> =
        params(ours).map(|held| (held.name.as_str(), &held.dims[..])).collect();
    if ours.is_empty() {
        return None;
    }
    let differs = |held: &&VarInfo| match ours.get(held.name.as_str()) {
        None => true,
        Some(dims) => !dims.is_empty() && !held.dims.is_empty() && **dims != held.dims,
    };
    let first = params(theirs).find(differs)?;
    let found = ours.get(first.name.as_str());
    Some(Refusal::OtherModel {
        var: first.name.clone(),
        ours: found.map_or("no such variable".to_string(), |dims| format!("shape {dims:?}")),
        theirs: format!("{:?}", first.dims),
    })
}

/// Refuses a process that is not a trainer of this job, or not now.
pub(super) fn refuse_peer(server: &mut Server, conn: ConnId, id: u64, refusal: Refusal) {
    let kind = match &refusal {
        Refusal::DuplicateTrainer { trainer, .. } => format!("duplicate {trainer}"),
        Refusal::OtherKey { trainer, .. } => format!("other key {trainer}"),
        other => other.to_string(),
    };
    // A process that tries again and again is mentioned once.
    if server.peers.mentioned.len() < REFUSALS_MENTIONED_MAX && server.peers.mentioned.insert(kind)
    {
        let from = server.peers.keys.address_of(conn);
        server.warn(format!("refused a connection{from}: {refusal}"));
    }
    server.reply(conn, id, refusal);
    server.actions.push(Action::Close(conn));
}

/// The variables that both sides must have.
fn params(vars: &[VarInfo]) -> impl Iterator<Item = &VarInfo> {
    vars.iter().filter(|held| held.is_param)
}
