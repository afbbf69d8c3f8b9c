//! Rows of tables on servers: which server has which, one question to each.

use std::sync::Arc;

use program::distributed::{Spread, server_of};
use program::{Distributed, Error, OpDesc, Result};
use ps::message::{LookUp, Reply};
use ps::tcp::{Client, Ticket};
use tensor::rows::merge_sorted;
use tensor::{DType, MergeScratch, Rows, Shape, Tensor, Value};

use super::ahead::Ahead;
use super::under_way::Seen;
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
    /// Rows that do not exist are not made.
    peek: bool,
}

/// Rows that were asked for.
#[derive(Debug)]
pub(super) struct Question {
    /// The ids of all slots.
    ids: Vec<i64>,
    /// For each of them, its position among the distinct ones.
    positions: Vec<u32>,
    /// Where the answer has the row of each distinct id; nowhere if it is padding.
    places: Vec<Option<Place>>,
    asked: Asked,
    /// What the rows contain of this trainer's own steps.
    seen: Seen,
}

/// A row of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    part: u32,
    row: u32,
}

impl Question {
    /// Asks when all gradients handed over are on their way: what servers answer contains them.
    pub(super) fn ask(
        cluster: &Cluster,
        op: &OpDesc,
        all: &[&[i64]],
        scratch: &mut MergeScratch,
    ) -> Result<Self> {
        let ids = all.concat();
        let (distinct, positions) = scratch.distinct(ids.iter());
        let positions = positions.to_vec();
        let (parts, places) = parts(op, distinct)?;
        let seen = cluster.wait_written();
        let asked = ask(cluster, parts).map_err(program::op::host_error)?;
        Ok(Self { ids, positions, places, asked, seen })
    }

    fn is_for(&self, all: &[&[i64]]) -> bool {
        self.ids.len() == all.iter().map(|ids| ids.len()).sum::<usize>()
            && self.ids.iter().eq(all.iter().copied().flatten())
    }
}

/// Fetches the rows of all `ids`, each once, and puts them where they belong; what they contain of
/// this trainer's own steps, where that is known.
pub(super) fn prefetch(
    cluster: &Cluster,
    (job, ahead): (Option<&Distributed>, &mut Ahead),
    op: &OpDesc,
    ids: &[&Tensor],
    out: &mut [Tensor],
) -> Result<Option<Seen>> {
    let all: Result<Vec<&[i64]>> = ids.iter().map(|ids| Ok(ids.data::<i64>()?)).collect();
    let all = all?;
    let question = match ahead.take(op) {
        Some(question) if question.is_for(&all) => question,
        _ => Question::ask(cluster, op, &all, ahead.scratch())?,
    };
    ahead.note(op);
    let Question { positions, places, asked, seen, .. } = question;
    let answers = answers(asked).map_err(program::op::host_error)?;
    let width = width(job, op, &answers);
    let rows: Result<Vec<&[f32]>> = answers.iter().map(numbers).collect();
    let (rows, mut positions) = (rows?, positions.into_iter());
    for (ids, out) in all.iter().zip(out) {
        let out = out.resize::<f32>(Shape::from([ids.len(), width]));
        for (row, position) in out.chunks_exact_mut(width.max(1)).zip(&mut positions) {
            let values = places[position as usize].and_then(|Place { part, row }| {
                rows[part as usize].get(row as usize * width..(row as usize + 1) * width)
            });
            match values {
                Some(values) => row.copy_from_slice(values),
                // Padding reads as zeros.
                None => row.fill(0.0),
            }
        }
    }
    Ok(Some(seen))
}

/// The numbers of an answer; none if nothing was asked for.
fn numbers(answer: &Tensor) -> Result<&[f32]> {
    if answer.is_empty() { Ok(&[]) } else { Ok(answer.data::<f32>()?) }
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

/// Deals distinct ids out to the parts of the table that hold them; also where the row of each will
/// be.
fn parts<'a>(op: &'a OpDesc, distinct: &[i64]) -> Result<(Vec<Part<'a>>, Vec<Option<Place>>)> {
    let tables = op.attrs.strs("table_names")?;
    let endpoints = match op.attrs.strs("endpoints")? {
        [] => op.attrs.strs("epmap")?,
        endpoints => endpoints,
    };
    let padding = Some(op.attrs.int("padding_idx", -1)?).filter(|&id| id != -1);
    let peek = op.attrs.bool("is_test", false)?;
    let part = |(table, endpoint): (&'a String, &'a String)| Part {
        endpoint,
        table,
        keys: Vec::with_capacity(distinct.len()),
        peek,
    };
    let mut parts: Vec<Part<'a>> = tables.iter().zip(endpoints).map(part).collect();
    let mut height = 0;
    let sections = op.attrs.ints("height_sections")?.into_iter().take(parts.len());
    let grow = |rows| {
        height += rows;
        height
    };
    let ends: Vec<i64> = sections.map(grow).collect();
    let (spread, n_parts) = (Spread::of(&op.attrs)?, parts.len());
    let mut places = Vec::with_capacity(distinct.len());
    for &id in distinct {
        if Some(id) == padding {
            places.push(None);
            continue;
        }
        let section = ends.partition_point(|&end| end <= id);
        if id < 0 || section >= ends.len() {
            let var = op.input_names("Ids").first().cloned().unwrap_or_default();
            return Err(Error::IdOutOfRange { var, position: 0, id, height });
        }
        let (at, key) = match spread {
            Spread::Hash => (server_of(id, n_parts), id),
            Spread::Range if section == 0 => (0, id),
            Spread::Range => (section, id - ends[section - 1]),
        };
        places.push(Some(Place { part: at as u32, row: parts[at].keys.len() as u32 }));
        parts[at].keys.push(key);
    }
    Ok((parts, places))
}

/// Questions, and how many rows each asks for.
type Asked = Vec<Option<(Arc<Client>, Ticket, usize)>>;

fn ask(cluster: &Cluster, parts: Vec<Part<'_>>) -> crate::error::Result<Asked> {
    let mut asked = Vec::with_capacity(parts.len());
    for Part { endpoint, table, keys, peek } in parts {
        if keys.is_empty() {
            asked.push(None);
            continue;
        }
        let client = cluster.client(endpoint)?;
        client.meet()?;
        let (after, table, n) = (cluster.round(), table.to_string(), keys.len());
        let ticket = client.ask(LookUp { after, table, keys, peek })?;
        asked.push(Some((client, ticket, n)));
    }
    Ok(asked)
}

fn answers(asked: Asked) -> crate::error::Result<Vec<Tensor>> {
    let answer = |asked: Option<(Arc<Client>, Ticket, usize)>| match asked {
        None => Ok(Tensor::default()),
        Some((client, ticket, n)) => match client.wait(ticket, "rows of a table")? {
            // A row that did not come must not pass for one of zeros.
            Reply::Rows(rows) if rows.dims().first() == Some(&n) => Ok(rows),
            other => Err(unexpected(&client, &other)),
        },
    };
    asked.into_iter().map(answer).collect()
}
