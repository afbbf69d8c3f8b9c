//! Rows of tables on servers: which server has which, one question to each.

use std::sync::Arc;

use program::{Distributed, Error, OpDesc, Result};
use ps::message::{LookUp, Reply};
use ps::tcp::{Client, Ticket};
use tensor::rows::merge_sorted;
use tensor::{DType, MergeScratch, Rows, Shape, Tensor, Value};

use super::ahead::Ahead;
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
    /// Each once, sorted.
    unique: Vec<i64>,
    /// Where the ids of each part begin among them.
    starts: Vec<usize>,
    asked: Asked,
}

impl Question {
    fn ask(cluster: &Cluster, op: &OpDesc, all: &[&[i64]]) -> Result<Self> {
        let ids = all.concat();
        let padding = op.attrs.int("padding_idx", -1)?;
        let mut unique = ids.clone();
        unique.retain(|&id| id != padding || padding == -1);
        unique.sort_unstable();
        unique.dedup();
        let (parts, starts) = parts(op, &unique)?;
        let asked = ask(cluster, &parts).map_err(program::op::host_error)?;
        Ok(Self { ids, unique, starts, asked })
    }

    fn is_for(&self, all: &[&[i64]]) -> bool {
        self.ids.len() == all.iter().map(|ids| ids.len()).sum::<usize>()
            && self.ids.iter().eq(all.iter().copied().flatten())
    }
}

/// Fetches the rows of all `ids`, each once, and puts them where they belong.
pub(super) fn prefetch(
    cluster: &Cluster,
    (job, ahead): (Option<&Distributed>, &mut Ahead),
    op: &OpDesc,
    ids: &[&Tensor],
    out: &mut [Tensor],
) -> Result<()> {
    if op.kind == "prefetch" {
        return prefetch_shards(cluster, job, op, ids, out);
    }
    let all: Result<Vec<&[i64]>> = ids.iter().map(|ids| Ok(ids.data::<i64>()?)).collect();
    let all = all?;
    let question = match ahead.take(op) {
        Some(question) if question.is_for(&all) => question,
        _ => Question::ask(cluster, op, &all)?,
    };
    // An error of the next batch is the next step's.
    if let Some(Ok(next)) = ahead.next_of(op).map(|next| Question::ask(cluster, op, &next)) {
        ahead.keep(op, next);
    }
    let Question { unique, starts, asked, .. } = question;
    let answers = answers(asked).map_err(program::op::host_error)?;
    let width = width(job, op, &answers);
    for (ids, out) in all.iter().zip(out) {
        let out = out.resize::<f32>(Shape::from([ids.len(), width]));
        for (&id, row) in ids.iter().zip(out.chunks_exact_mut(width.max(1))) {
            match unique.binary_search(&id) {
                Ok(at) => {
                    let part = starts.partition_point(|&start| start <= at) - 1;
                    let rows = answers[part].data::<f32>()?;
                    let from = (at - starts[part]) * width;
                    match rows.get(from..from + width) {
                        Some(values) => row.copy_from_slice(values),
                        None => row.fill(0.0),
                    }
                }
                // Padding reads as zeros.
                Err(_) => row.fill(0.0),
            }
        }
    }
    Ok(())
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

/// Cuts sorted ids into the parts of the table that hold them; also where each part starts in them.
fn parts<'a>(op: &'a OpDesc, unique: &[i64]) -> Result<(Vec<Part<'a>>, Vec<usize>)> {
    let tables = op.attrs.strs("table_names")?;
    let endpoints = match op.attrs.strs("endpoints")? {
        [] => op.attrs.strs("epmap")?,
        endpoints => endpoints,
    };
    let sections = op.attrs.ints("height_sections")?;
    let height: i64 = sections.iter().sum();
    let peek = op.attrs.bool("is_test", false)?;
    if let Some(&id) = unique.iter().find(|&&id| id < 0 || id >= height) {
        let var = op.input_names("Ids").first().cloned().unwrap_or_default();
        return Err(Error::IdOutOfRange { var, position: 0, id, height });
    }
    let (mut parts, mut starts, mut first) = (Vec::new(), Vec::new(), 0);
    for ((table, endpoint), rows) in tables.iter().zip(endpoints).zip(sections) {
        let from = unique.partition_point(|&id| id < first);
        let to = unique.partition_point(|&id| id < first + rows);
        let keys = unique[from..to].iter().map(|id| id - first).collect();
        parts.push(Part { endpoint, table, keys, peek });
        starts.push(from);
        first += rows;
    }
    Ok((parts, starts))
}

type Asked = Vec<Option<(Arc<Client>, Ticket)>>;

fn ask(cluster: &Cluster, parts: &[Part<'_>]) -> crate::error::Result<Asked> {
    let mut asked = Vec::with_capacity(parts.len());
    for part in parts {
        if part.keys.is_empty() {
            asked.push(None);
            continue;
        }
        let client = cluster.client(part.endpoint)?;
        client.meet()?;
        let (after, table) = (client.round(), part.table.to_string());
        let (keys, peek) = (part.keys.clone(), part.peek);
        let ticket = client.ask(LookUp { after, table, keys, peek })?;
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
        let keys = ids.data::<i64>()?.to_vec();
        parts.push(Part { endpoint, table, keys, peek: false });
    }
    let asked = ask(cluster, &parts).map_err(program::op::host_error)?;
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
