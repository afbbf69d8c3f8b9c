//! Whole variables from their pieces on servers.

use std::collections::{BTreeMap, BTreeSet};

use program::Distributed;
use program::distributed::{Placement, ServerId, Spread, server_of};
use ps::message::{Pull, Reply};
use tensor::Tensor;

use super::session::{join, tensor_of};
use super::{Cluster, unexpected};
use crate::error::{Error, Result};

/// Bytes asked for in one question; a table comes in several answers.
const ANSWER_BYTES: i64 = 64 << 20;

/// The variables whose pieces `wanted` picks, whole: all servers are asked at once, small pieces
/// together. Memory of `old` ones is used again.
pub(crate) fn fetch(
    cluster: &Cluster,
    job: &Distributed,
    wanted: impl Fn(&Placement) -> bool,
    old: &mut BTreeMap<String, Tensor>,
) -> Result<BTreeMap<String, Tensor>> {
    let mut tickets = Vec::new();
    for (server, endpoint) in job.endpoints.iter().enumerate() {
        let placed: Vec<&Placement> = job.on(endpoint).filter(|placed| wanted(placed)).collect();
        for group in groups(&placed) {
            let client = cluster.client(ServerId(server))?;
            let names: Vec<String> = group.iter().map(|placed| placed.slice.clone()).collect();
            let ticket = client.ask(Pull { after: 0, changed: false, names })?;
            tickets.push((client, group, ticket));
        }
    }
    let mut pieces: BTreeMap<&str, BTreeMap<usize, Tensor>> = BTreeMap::new();
    let mut dims: BTreeMap<&str, &[i64]> = BTreeMap::new();
    let mut hashed: BTreeSet<&str> = BTreeSet::new();
    for (client, group, ticket) in tickets {
        let values = match client.wait(ticket, "parameters")? {
            Reply::Values(values) => values.0,
            other => return Err(unexpected(&client, &other)),
        };
        for (placed, value) in group.into_iter().zip(values) {
            let tensor = tensor_of(value).map_err(|actual| Error::NotDense {
                endpoint: placed.endpoint.clone(),
                var: placed.slice.clone(),
                actual,
            })?;
            pieces.entry(&placed.origin).or_default().insert(placed.block, tensor);
            dims.insert(&placed.origin, &placed.origin_dims);
            if placed.spread == Spread::Hash {
                hashed.insert(&placed.origin);
            }
        }
    }
    let give_back = |origin: &str, whole, rest: Vec<Tensor>| {
        for (piece, placed) in rest.into_iter().zip(job.pieces(origin)) {
            if let Some(server) = job.server(&placed.endpoint) {
                cluster.client(server)?.recycle(piece);
            }
        }
        Ok((origin.to_string(), whole))
    };
    let whole = |(origin, pieces): (&str, BTreeMap<usize, Tensor>)| {
        let mut whole = old.remove(origin).unwrap_or_default();
        let n_rows = dims.get(origin).and_then(|dims| dims.first().copied()).unwrap_or(0);
        let mut parts: Vec<Tensor> = pieces.into_values().collect();
        if hashed.contains(origin) {
            let rest = deal(parts, n_rows, &mut whole)?;
            return give_back(origin, whole, rest);
        }
        if parts.first().is_some_and(|first| first.dims().first() == Some(&(n_rows as usize))) {
            // State that is not cut (a power of Adam's) has a copy beside each piece.
            parts.truncate(1);
        }
        let rest = join(parts, &mut whole)?;
        give_back(origin, whole, rest)
    };
    pieces.into_iter().map(whole).collect()
}

/// A table spread by hash: a server sends its rows in the order of their numbers, or all if it holds
/// the table whole. The pieces come back.
fn deal(pieces: Vec<Tensor>, n_rows: i64, whole: &mut Tensor) -> Result<Vec<Tensor>> {
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

/// Pieces to be asked for together.
fn groups<'a>(placed: &[&'a Placement]) -> Vec<Vec<&'a Placement>> {
    let (mut groups, mut n_bytes) = (Vec::<Vec<&Placement>>::new(), i64::MAX);
    for &placed in placed {
        let size = placed.slice_dims.iter().product::<i64>().saturating_mul(4);
        n_bytes = n_bytes.saturating_add(size);
        match groups.last_mut() {
            Some(group) if n_bytes <= ANSWER_BYTES => group.push(placed),
            _ => {
                groups.push(vec![placed]);
                n_bytes = size;
            }
        }
    }
    groups
}
