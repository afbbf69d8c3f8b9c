//! Rows of tables on servers: which server has which, one question to each.

use std::sync::Arc;

use net::tcp::{Client, Ticket};
use program::distributed::route::{IdPartition, LookUpRoute};
use program::distributed::{Piece, server_of};
use program::{Error, Result};
use tensor::{MergeScratch, Rows, Shape, Tensor};
use wire::message::{self, Reply};

use super::exchange::{Exchange, ExchangeStep};
use super::in_flight::Seen;
use super::links::Links;
use super::rows_of::pick;
use super::{unexpected, wire_id};

/// Rows that were asked for.
#[derive(Debug)]
pub(super) struct RowsRequest {
    /// The ids of all slots.
    ids: Vec<i64>,
    /// For each of them, its position among the distinct ones.
    positions: Vec<u32>,
    /// Where the answer has the row of each distinct id; nowhere if it is padding.
    places: Vec<Option<AnswerRow>>,
    asked: RowQuestions,
    /// This trainer's own steps that the rows contain.
    seen: Seen,
    /// How often the job had gone back.
    n_back: u64,
}

/// A row of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AnswerRow {
    part: u32,
    row: u32,
}

impl RowsRequest {
    /// Asks when all gradients handed over are on their way: what servers answer contains them.
    pub(super) fn ask(
        links: &Links,
        exchange: &(impl Exchange + ?Sized),
        look_up: &LookUpRoute,
        all: &[&[i64]],
        scratch: &mut MergeScratch,
    ) -> Result<Self> {
        let ids = all.concat();
        let (distinct, positions) = scratch.distinct(ids.iter());
        let positions = positions.to_vec();
        let (keys, places) = partition(look_up, distinct)?;
        let (seen, n_back) = (exchange.wait_written(), links.n_back());
        let asked = ask(links, look_up, keys).map_err(program::op::host_error)?;
        Ok(Self { ids, positions, places, asked, seen, n_back })
    }

    fn is_for(&self, links: &Links, all: &[&[i64]]) -> bool {
        self.n_back == links.n_back()
            && self.ids.len() == all.iter().map(|ids| ids.len()).sum::<usize>()
            && self.ids.iter().eq(all.iter().copied().flatten())
    }
}

/// Fetches the rows of all `ids`, each once, and puts them where they belong; notes what they contain of this
/// trainer's own steps, where that is known.
pub(super) fn look_up(
    exchange: &(impl Exchange + ?Sized),
    step: &mut ExchangeStep<'_>,
    look_up: &Arc<LookUpRoute>,
    ids: &[&Tensor],
    out: &mut [Tensor],
) -> Result<()> {
    let ExchangeStep { links, prefetch, .. } = step;
    if look_up.partition == IdPartition::Done {
        exchange.wait_written();
        return prefetch_parts(links, look_up, ids, out);
    }
    let all: Result<Vec<&[i64]>> = ids.iter().map(|ids| Ok(ids.data::<i64>()?)).collect();
    let all = all?;
    let question = match prefetch.take(look_up) {
        Some(question) if question.is_for(links, &all) => question,
        _ => RowsRequest::ask(links, exchange, look_up, &all, prefetch.scratch())?,
    };
    prefetch.note(look_up);
    let RowsRequest { positions, places, asked, seen, .. } = question;
    let answers = answers(asked).map_err(program::op::host_error)?;
    let width = width(look_up, &answers);
    let rows: Result<Vec<&[f32]>> = answers.iter().map(numbers).collect();
    let (rows, mut positions) = (rows?, positions.into_iter());
    for (ids, out) in all.iter().zip(out) {
        let out = out.resize::<f32>(Shape::from([ids.len(), width]));
        for (row, position) in out.chunks_exact_mut(width.max(1)).zip(&mut positions) {
            let values = places[position as usize].and_then(|AnswerRow { part, row }| {
                rows[part as usize].get(row as usize * width..(row as usize + 1) * width)
            });
            match values {
                Some(values) => row.copy_from_slice(values),
                // Padding reads as zeros.
                None => row.fill(0.0),
            }
        }
    }
    step.bundle.read.read_rows(seen);
    Ok(())
}

/// The rows of a table on servers, in the order of these distinct ids, of which none is padding.
pub(super) fn fetch_rows(links: &Links, look_up: &LookUpRoute, distinct: &[i64]) -> Result<Tensor> {
    let (keys, places) = partition(look_up, distinct)?;
    let asked = ask(links, look_up, keys).map_err(program::op::host_error)?;
    let answers = answers(asked).map_err(program::op::host_error)?;
    let width = width(look_up, &answers);
    let mut out = Tensor::default();
    let to = out.try_resize::<f32>(Shape::from([distinct.len(), width]))?;
    let rows = answers.iter().map(numbers).collect::<Result<Vec<_>>>()?;
    for (to, place) in to.chunks_exact_mut(width.max(1)).zip(places) {
        let from = place.and_then(|AnswerRow { part, row }| {
            rows[part as usize].get(row as usize * width..(row as usize + 1) * width)
        });
        match from {
            Some(from) => to.copy_from_slice(from),
            None => to.fill(0.0),
        }
    }
    Ok(out)
}

/// Rows as the parts of their table know them, for each part.
pub(super) fn deal_rows(look_up: &LookUpRoute, rows: &Rows) -> Result<Vec<Rows>> {
    let (keys, places) = partition(look_up, &rows.ids)?;
    let mut positions: Vec<Vec<usize>> = keys.iter().map(|_| Vec::new()).collect();
    for (at, place) in places.iter().enumerate() {
        positions[place.map_or(0, |place| place.part as usize)].push(at);
    }
    let parts = keys.into_iter().zip(positions).zip(&look_up.pieces);
    let part = |((ids, positions), piece): ((Vec<i64>, Vec<usize>), &Piece)| Rows {
        ids,
        height: piece.n_rows(),
        value: pick(&rows.value, &positions),
    };
    Ok(parts.map(part).collect())
}

/// The numbers of an answer; none if nothing was asked for.
fn numbers(answer: &Tensor) -> Result<&[f32]> {
    if answer.is_empty() { Ok(&[]) } else { Ok(answer.data::<f32>()?) }
}

/// Numbers in a row: as the servers say, or as the job does if nothing was asked for.
fn width(look_up: &LookUpRoute, answers: &[Tensor]) -> usize {
    let answer = answers.iter().find(|answer| !answer.is_empty());
    answer.map_or(look_up.width, |answer| answer.shape().flatten_2d(1).1)
}

/// The keys that each part of a table is asked for.
type Keys = Vec<Vec<i64>>;

/// Deals distinct ids out to the parts of the table that hold them; also where the row of each will
/// be.
fn partition(look_up: &LookUpRoute, distinct: &[i64]) -> Result<(Keys, Vec<Option<AnswerRow>>)> {
    let pieces = &look_up.pieces;
    let mut keys: Keys = pieces.iter().map(|_| Vec::with_capacity(distinct.len())).collect();
    let mut places = Vec::with_capacity(distinct.len());
    for &id in distinct {
        if Some(id) == look_up.padding {
            places.push(None);
            continue;
        }
        let at = match look_up.partition {
            IdPartition::Hash => server_of(id, pieces.len()),
            _ if pieces.len() == 1 => 0,
            IdPartition::Range | IdPartition::Done => {
                pieces.partition_point(|piece| piece.rows.end <= id)
            }
        };
        let Some(piece) = pieces.get(at).filter(|piece| piece.has(id)) else {
            let var = look_up.ids.first().cloned().unwrap_or_default();
            let height = pieces.last().map_or(0, |piece| piece.rows.end);
            return Err(Error::IdOutOfRange { var, position: 0, id, height });
        };
        places.push(Some(AnswerRow { part: at as u32, row: keys[at].len() as u32 }));
        keys[at].push(id - piece.rows.start);
    }
    Ok((keys, places))
}

/// A question for rows.
#[derive(Debug)]
struct RowQuestion {
    client: Arc<Client>,
    ticket: Ticket,
    n_rows: usize,
}

/// One for each piece; none where nothing is asked for.
type RowQuestions = Vec<Option<RowQuestion>>;

fn ask(links: &Links, look_up: &LookUpRoute, keys: Keys) -> crate::error::Result<RowQuestions> {
    let mut asked = Vec::with_capacity(keys.len());
    for (piece, keys) in look_up.pieces.iter().zip(keys) {
        if keys.is_empty() {
            asked.push(None);
            continue;
        }
        let client = links.client(piece.server)?;
        client.ensure_connected()?;
        let after = links.round();
        let table = wire_id(piece);
        let n_rows = keys.len();
        let ask =
            message::LookUp { peek: look_up.peek, ..message::LookUp::new(after, table, keys) };
        let ticket = client.ask(ask)?;
        asked.push(Some(RowQuestion { client, ticket, n_rows }));
    }
    Ok(asked)
}

fn answers(asked: RowQuestions) -> crate::error::Result<Vec<Tensor>> {
    let answer = |asked: Option<RowQuestion>| match asked {
        None => Ok(Tensor::default()),
        Some(RowQuestion { client, ticket, n_rows }) => {
            match client.wait(ticket, "rows of a table")? {
                // A row that did not come must not pass for one of zeros.
                Reply::Rows(rows) if rows.dims().first() == Some(&n_rows) => Ok(rows),
                other => Err(unexpected(&client, &other)),
            }
        }
    };
    asked.into_iter().map(answer).collect()
}

/// The ids of each part as they stand, from the server of the part.
fn prefetch_parts(
    links: &Links,
    look_up: &LookUpRoute,
    ids: &[&Tensor],
    out: &mut [Tensor],
) -> Result<()> {
    let keys: Result<Keys> = ids.iter().map(|ids| Ok(ids.data::<i64>()?.to_vec())).collect();
    let asked = ask(links, look_up, keys?).map_err(program::op::host_error)?;
    let answers = answers(asked).map_err(program::op::host_error)?;
    let width = width(look_up, &answers);
    for (out, answer) in out.iter_mut().zip(answers) {
        *out = answer;
        if out.is_empty() {
            out.resize::<f32>(Shape::from([0, width]));
        }
    }
    Ok(())
}
