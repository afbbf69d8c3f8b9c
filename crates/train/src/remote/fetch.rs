//! Whole variables from their pieces on servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use program::Distributed;
use program::distributed::{Piece, Placement, ServerId, Spread, server_of};
use tensor::Tensor;
use wire::VarId;
use wire::message::{Pull, Reply};

use super::links::Links;
use super::session::{join, tensor_of};
use super::{unexpected, wire_id};
use crate::error::{Error, Result};

/// Bytes asked for in one question; a table comes in several answers.
const ANSWER_BYTES: i64 = 64 << 20;

/// Variables of a job that are fetched whole: what is asked for, and how it is put together.
#[derive(Debug)]
pub(crate) struct WholeFetch {
    /// In the order of their names.
    vars: Vec<FetchedVar>,
    questions: Vec<PieceRequest>,
    names: Arc<[String]>,
}

#[derive(Debug)]
struct FetchedVar {
    n_rows: i64,
    is_hashed: bool,
    /// In the order of their blocks.
    pieces: Vec<Piece>,
}

/// Pieces on one server that are asked for together.
#[derive(Debug)]
struct PieceRequest {
    server: ServerId,
    vars: Vec<VarId>,
    places: Vec<PieceIndex>,
}

/// A piece with the bytes of its answer.
struct SizedPiece {
    n_bytes: i64,
    var: VarId,
    place: PieceIndex,
}

/// Which piece of which variable an answer is.
#[derive(Clone, Copy, Debug)]
struct PieceIndex {
    var: usize,
    piece: usize,
}

/// Pieces of a variable, by block.
type Blocks<'a> = BTreeMap<usize, &'a Placement>;

impl WholeFetch {
    /// The variables whose pieces `wanted` picks.
    pub(crate) fn new(job: &Distributed, wanted: impl Fn(&Placement) -> bool) -> Self {
        let mut by_origin: BTreeMap<&str, Blocks<'_>> = BTreeMap::new();
        for placed in job.placement.iter().filter(|placed| wanted(placed)) {
            let blocks = by_origin.entry(placed.origin.as_str()).or_default();
            blocks.insert(placed.piece.block, placed);
        }
        let mut by_server: BTreeMap<ServerId, Vec<SizedPiece>> = BTreeMap::new();
        let (mut vars, mut names) = (Vec::new(), Vec::new());
        for (var, (origin, blocks)) in by_origin.into_iter().enumerate() {
            let first = blocks.values().next();
            for (piece, placed) in blocks.values().enumerate() {
                let n_bytes = program::var::n_elements(&placed.dims()).saturating_mul(4);
                let place = PieceIndex { var, piece };
                let sized = SizedPiece { n_bytes, var: wire_id(&placed.piece), place };
                by_server.entry(placed.piece.server).or_default().push(sized);
            }
            vars.push(FetchedVar {
                n_rows: first.and_then(|placed| placed.origin_dims.first().copied()).unwrap_or(0),
                is_hashed: first.is_some_and(|placed| placed.spread == Spread::Hash),
                pieces: blocks.into_values().map(|placed| placed.piece.clone()).collect(),
            });
            names.push(origin.to_string());
        }
        let questions = by_server.into_iter().flat_map(|(server, all)| questions(server, all));
        Self { vars, questions: questions.collect(), names: names.into() }
    }

    /// The names of the variables, in the order in which they are fetched.
    pub(crate) fn names(&self) -> &Arc<[String]> {
        &self.names
    }

    /// Fetches them: all servers are asked at once, small pieces together. Memory of `old` ones is used
    /// again.
    pub(crate) fn run(&self, links: &Links, mut old: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let mut tickets = Vec::with_capacity(self.questions.len());
        for question in &self.questions {
            let client = links.client(question.server)?;
            let vars = question.vars.clone();
            let ticket = client.ask(Pull::new(0, vars))?;
            tickets.push((client, ticket));
        }
        let mut parts: Vec<Vec<Tensor>> =
            self.vars.iter().map(|var| vec![Tensor::default(); var.pieces.len()]).collect();
        for (question, (client, ticket)) in self.questions.iter().zip(tickets) {
            let values = match client.wait(ticket, "parameters")? {
                Reply::Values(values) if values.0.len() == question.places.len() => values.0,
                other => return Err(unexpected(&client, &other)),
            };
            for (&PieceIndex { var, piece }, value) in question.places.iter().zip(values) {
                parts[var][piece] = tensor_of(value).map_err(|actual| Error::NotDense {
                    endpoint: client.endpoint().to_string(),
                    var: self.vars[var].pieces[piece].name.clone(),
                    actual,
                })?;
            }
        }
        old.resize(self.vars.len(), Tensor::default());
        let all = self.vars.iter().zip(parts).zip(old);
        all.map(|((var, parts), mut whole)| {
            for (rest, piece) in var.assemble(parts, &mut whole)?.into_iter().zip(&var.pieces) {
                links.client(piece.server)?.recycle(rest);
            }
            Ok(whole)
        })
        .collect()
    }
}

impl FetchedVar {
    /// Makes the whole of its pieces; what is left of them comes back.
    fn assemble(&self, mut parts: Vec<Tensor>, whole: &mut Tensor) -> Result<Vec<Tensor>> {
        if self.is_hashed {
            return put_back_hashed(parts, self.n_rows, whole);
        }
        if parts.first().is_some_and(|first| first.dims().first() == Some(&(self.n_rows as usize)))
        {
            // State that is not cut (a power of Adam's) has a copy beside each piece.
            parts.truncate(1);
        }
        Ok(join(parts, whole)?)
    }
}

/// Pieces on one server, in as few questions as answers have room.
fn questions(server: ServerId, all: Vec<SizedPiece>) -> Vec<PieceRequest> {
    let (mut questions, mut n_asked) = (Vec::<PieceRequest>::new(), 0i64);
    for SizedPiece { n_bytes, var, place } in all {
        n_asked = n_asked.saturating_add(n_bytes);
        if questions.is_empty() || n_asked > ANSWER_BYTES {
            questions.push(PieceRequest { server, vars: Vec::new(), places: Vec::new() });
            n_asked = n_bytes;
        }
        if let Some(question) = questions.last_mut() {
            question.vars.push(var);
            question.places.push(place);
        }
    }
    questions
}

/// A table spread by hash: a server sends its rows in the order of their numbers, or all if it holds
/// the table whole. The pieces come back.
fn put_back_hashed(pieces: Vec<Tensor>, n_rows: i64, whole: &mut Tensor) -> Result<Vec<Tensor>> {
    let Some(first) = pieces.first() else { return Ok(pieces) };
    let n_rows = n_rows.max(0) as usize;
    whole.resize_as(first.dtype(), first.shape().with_dim(0, n_rows));
    let row_bytes = first.shape().flatten_2d(1).1 * first.dtype().size();
    let mut next = vec![0; pieces.len()];
    for (row, out) in whole.bytes_mut().chunks_exact_mut(row_bytes.max(1)).enumerate() {
        let server = server_of(row as i64, pieces.len());
        let is_whole = pieces[server].dims().first() == Some(&n_rows);
        let at = if is_whole { row } else { next[server] };
        next[server] += 1;
        let values = pieces[server].bytes().get(at * row_bytes..(at + 1) * row_bytes);
        out.copy_from_slice(values.ok_or_else(|| program::Error::Shapes {
            rule: "servers send all rows that a hash gives them",
            left: String::new(),
            left_dims: first.shape().to_i64(),
            right: String::new(),
            right_dims: pieces[server].shape().to_i64(),
        })?);
    }
    Ok(pieces)
}
