//! Rows of tables on servers: which server has which, one question to each.

use std::sync::Arc;

use program::{Distributed, Error, OpDesc, Result};
use ps::message::{LookUp, Reply};
use ps::tcp::{Client, Ticket};
use tensor::rows::merge_sorted;
use tensor::{DType, MergeScratch, Rows, Shape, Tensor, Value};

use super::{Cluster, unexpected};

/// A value to be sent: keyed rows with every id once.
pub(super) fn merged(value: &Value) -> Value {
    let Value::Rows(rows) = value else { return value.clone() };
    if rows.ids.windows(2).all(|pair| pair[0] < pair[1]) {
        return value.clone();
    }
    let (width, mut out) = (rows.width(), Rows::default());
    let mut scratch = MergeScratch::default();
    out.height = rows.height;
    match rows.value.dtype() {
        DType::F32 => {
            let Ok(data) = rows.value.data::<f32>() else { return value.clone() };
            merge_sorted([(&rows.ids[..], data)].into_iter(), width, &mut scratch, &mut out);
        }
        DType::F64 => {
            let Ok(data) = rows.value.data::<f64>() else { return value.clone() };
            merge_sorted([(&rows.ids[..], data)].into_iter(), width, &mut scratch, &mut out);
        }
        _ => return value.clone(),
    }
    Value::Rows(out)
}

/// A part of a table: where it is and what the server calls it.
struct Part<'a> {
    endpoint: &'a str,
    table: &'a str,
    keys: Vec<i64>,
}

/// Fetches the rows of all `ids`, each once, and puts them where they belong.
pub(super) fn prefetch(
    cluster: &Cluster,
    job: Option<&Distributed>,
    op: &OpDesc,
    ids: &[&Tensor],
    out: &mut [Tensor],
) -> Result<()> {
    if op.kind == "prefetch" {
        return prefetch_shards(cluster, job, op, ids, out);
    }
    let all: Result<Vec<&[i64]>> = ids.iter().map(|ids| Ok(ids.data::<i64>()?)).collect();
    let all = all?;
    let padding = Some(op.attrs.int("padding_idx", -1)?).filter(|&id| id != -1);
    let mut scratch = MergeScratch::default();
    let (unique, positions) = scratch.distinct(all.iter().flat_map(|ids| ids.iter()));
    let (parts, places) = parts(op, unique, padding)?;
    let tickets = ask(cluster, parts).map_err(program::op::host_error)?;
    let answers = answers(tickets).map_err(program::op::host_error)?;
    let width = width(job, op, &answers);
    let rows: Result<Vec<&[f32]>> = answers.iter().map(rows_of).collect();
    let (rows, mut positions) = (rows?, positions.iter());
    for (ids, out) in all.iter().zip(out) {
        let out = out.resize::<f32>(Shape::from([ids.len(), width]));
        let each = out.chunks_exact_mut(width.max(1)).zip(&mut positions);
        for (row, &position) in each.take(ids.len()) {
            let found = places[position as usize].and_then(|(part, at)| {
                let from = at as usize * width;
                rows[part as usize].get(from..from + width)
            });
            match found {
                Some(values) => row.copy_from_slice(values),
                // Padding reads as zeros.
                None => row.fill(0.0),
            }
        }
    }
    Ok(())
}

/// The numbers of an answer; none if nothing was asked.
fn rows_of(answer: &Tensor) -> Result<&[f32]> {
    if answer.is_initialized() { Ok(answer.data::<f32>()?) } else { Ok(&[]) }
}

/// Numbers in a row: as the servers say, or as the job does if nothing was asked for.
fn width(job: Option<&Distributed>, op: &OpDesc, answers: &[Tensor]) -> usize {
    if let Some(answer) = answers.iter().find(|answer| !answer.is_empty()) {
        return answer.shape().flatten_2d(1).1;
    }
    let table = op.input_names("W").first();
    let pieces = job.zip(table).and_then(|(job, table)| job.pieces(table).next().cloned());
    pieces.and_then(|piece| piece.origin_dims.get(1).copied()).unwrap_or(0).max(0) as usize
}

/// For each id, the part that holds it and its place among that part's keys; nothing for padding.
type Places = Vec<Option<(u32, u32)>>;

/// Deals distinct ids to the parts of the table that hold them.
fn parts<'a>(
    op: &'a OpDesc,
    unique: &[i64],
    padding: Option<i64>,
) -> Result<(Vec<Part<'a>>, Places)> {
    let tables = op.attrs.strs("table_names")?;
    let endpoints = match op.attrs.strs("endpoints")? {
        [] => op.attrs.strs("epmap")?,
        endpoints => endpoints,
    };
    let (mut parts, mut ends, mut height) = (Vec::new(), Vec::new(), 0i64);
    let sections = op.attrs.ints("height_sections")?;
    for ((table, endpoint), rows) in tables.iter().zip(endpoints).zip(sections) {
        parts.push(Part { endpoint, table, keys: Vec::new() });
        height += rows;
        ends.push(height);
    }
    let mut places = Vec::with_capacity(unique.len());
    for &id in unique {
        if Some(id) == padding {
            places.push(None);
            continue;
        }
        let at = ends.partition_point(|&end| end <= id);
        let Some(part) = parts.get_mut(at).filter(|_| id >= 0) else {
            let var = op.input_names("Ids").first().cloned().unwrap_or_default();
            return Err(Error::IdOutOfRange { var, position: 0, id, height });
        };
        let first = at.checked_sub(1).map_or(0, |before| ends[before]);
        places.push(Some((at as u32, part.keys.len() as u32)));
        part.keys.push(id - first);
    }
    Ok((parts, places))
}

type Asked = Vec<Option<(Arc<Client>, Ticket)>>;

fn ask(cluster: &Cluster, parts: Vec<Part<'_>>) -> crate::error::Result<Asked> {
    let mut asked = Vec::with_capacity(parts.len());
    for part in parts {
        if part.keys.is_empty() {
            asked.push(None);
            continue;
        }
        let client = cluster.client(part.endpoint)?;
        client.meet()?;
        let (after, table) = (client.round(), part.table.to_string());
        let ticket = client.ask(LookUp { after, table, keys: part.keys })?;
        asked.push(Some((client, ticket)));
    }
    Ok(asked)
}

fn answers(asked: Asked) -> crate::error::Result<Vec<Tensor>> {
    let answer = |asked: Option<(Arc<Client>, Ticket)>| match asked {
        None => Ok(Tensor::default()),
        Some((client, ticket)) => match client.wait(ticket, "rows of a table")? {
            Reply::Rows(rows) => Ok(rows),
            other => Err(unexpected(&client, &other)),
        },
    };
    asked.into_iter().map(answer).collect()
}

/// The ids of each shard as they stand, from the server of the shard.
fn prefetch_shards(
    cluster: &Cluster,
    job: Option<&Distributed>,
    op: &OpDesc,
    ids: &[&Tensor],
    out: &mut [Tensor],
) -> Result<()> {
    let table = job.and_then(|job| job.lookup_table.as_deref());
    let table = table.ok_or(crate::Error::NoJob).map_err(program::op::host_error)?;
    let mut parts = Vec::new();
    for (ids, endpoint) in ids.iter().zip(op.attrs.strs("epmap")?) {
        parts.push(Part { endpoint, table, keys: ids.data::<i64>()?.to_vec() });
    }
    let asked = ask(cluster, parts).map_err(program::op::host_error)?;
    let answers = answers(asked).map_err(program::op::host_error)?;
    let width = width(job, op, &answers);
    for (out, answer) in out.iter_mut().zip(answers) {
        *out = answer;
        if out.is_empty() {
            out.resize::<f32>(Shape::from([0, width]));
        }
    }
    Ok(())
}
