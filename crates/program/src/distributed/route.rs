//! The work of a remote op, read from its attributes once, when the program is prepared.
//!
//! The attributes are Fluid's, and text: names, end points, numbers of rows. This is the only place
//! that reads them; while a program runs, servers and variables are numbers and pieces are ready.

use std::ops::Range;
use std::sync::Arc;

use super::{Distributed, Piece, ServerId, Spread, VarId};
use crate::block::OpDesc;
use crate::error::{Error, Result};
use crate::names;

/// The pseudo variable of a `send` that says: take note of the parameters as they are now (GEO).
pub const PARAM_INIT: &str = "param_init";

/// The look-up whose ids come without the dimension of 1 at their end.
const PLAIN: &str = "lookup_table_v2";

/// The message of an op to servers, or its question.
#[derive(Clone, Debug)]
pub enum Route {
    /// `send`.
    Send(Send),
    /// `recv`.
    Recv(Recv),
    /// `send_barrier`, `fetch_barrier`: which servers.
    Barrier(Vec<ServerId>),
    /// Rows of a table.
    LookUp(Arc<LookUpRoute>),
    /// `checkpoint_notify`.
    Save(SaveRoute),
}

/// The treatment of its variables by `send`.
#[derive(Clone, Debug)]
pub enum Send {
    /// GEO: takes note of the parameters as they are now.
    NoteParams,
    /// GEO: takes note of the rows that were used, of these tables.
    NoteRows(Vec<String>),
    /// Sends gradients.
    Grads(Grads),
}

/// Gradients to be sent.
#[derive(Clone, Debug)]
pub struct Grads {
    /// For each variable at the op's input, in order.
    pub vars: Vec<Sent>,
    /// They may be handed to a sender in the background, if there is one.
    pub may_queue: bool,
    /// No op reads the variables afterwards: servers may get their memory instead of a copy.
    pub for_good: bool,
}

/// How one variable is sent.
#[derive(Clone, Debug)]
pub enum Sent {
    /// Each piece to its server.
    Pieces(Arc<[Piece]>),
    /// All of it to each server, at once (a counter of steps).
    Copies(Vec<Piece>),
}

/// The source of the variables of `recv`.
#[derive(Clone, Debug)]
pub struct Recv {
    /// For each variable at the op's output, its pieces in order.
    pub vars: Vec<Vec<Piece>>,
    /// Nothing is to be received if a sender in the background does that.
    pub may_skip: bool,
    /// Something else receives.
    pub is_off: bool,
}

/// Rows of a table that an op asks for.
#[derive(Debug)]
pub struct LookUpRoute {
    /// The parts of the table.
    pub pieces: Vec<Piece>,
    /// Which part has which row.
    pub partition: IdPartition,
    /// The id that reads as zeros.
    pub padding: Option<i64>,
    /// Rows that do not exist are not made.
    pub peek: bool,
    /// Numbers in a row, if the job says it.
    pub width: usize,
    /// Ids come without the dimension of 1 at their end.
    pub plain_ids: bool,
    /// The variables that hold the ids.
    pub ids: Vec<String>,
}

/// How ids are partitioned among the parts of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdPartition {
    /// By ranges of rows. Each server counts its rows from 0.
    Range,
    /// By a hash of the id. Every part has the height of the whole table, and ids are not changed.
    Hash,
    /// The op has done it already: it has a list of ids for each part.
    Done,
}

/// Parts of a table that servers write to their disks.
#[derive(Clone, Debug)]
pub struct SaveRoute {
    /// The table.
    pub table: String,
    /// The servers that have a part of it.
    pub servers: Vec<ServerId>,
    /// The folder.
    pub dir: String,
}

/// The servers that the ops of a program can talk to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Servers<'a> {
    /// The job of the program.
    pub job: Option<&'a Distributed>,
    /// The end points of the job, by number.
    pub endpoints: &'a [String],
    /// The names of each server's variables, by their numbers.
    pub vars: &'a [Vec<String>],
}

impl Servers<'_> {
    fn number(&self, endpoint: &str) -> Result<ServerId> {
        let at = self.endpoints.iter().position(|known| known == endpoint);
        at.map(ServerId).ok_or_else(|| Error::UnknownServer {
            endpoint: endpoint.to_string(),
            known: self.endpoints.to_vec(),
        })
    }

    fn numbers(&self, endpoints: &[String]) -> Result<Vec<ServerId>> {
        endpoints.iter().map(|endpoint| self.number(endpoint)).collect()
    }

    fn piece(&self, name: &str, server: ServerId, block: usize, rows: Range<i64>) -> Result<Piece> {
        let names = self.vars.get(server.0).map_or(&[][..], Vec::as_slice);
        let var = VarId::find(names, name).ok_or_else(|| Error::NotOnServer {
            var: name.to_string(),
            endpoint: self.endpoints.get(server.0).cloned().unwrap_or_default(),
        })?;
        Ok(Piece { name: name.to_string(), server, var, block, rows })
    }

    fn whole(&self, name: &str, server: ServerId) -> Result<Piece> {
        self.piece(name, server, 0, Piece::ALL)
    }

    /// One variable on several servers, whole.
    fn copies(&self, name: &str, on: &[ServerId]) -> Result<Vec<Piece>> {
        on.iter().map(|&server| self.whole(name, server)).collect()
    }

    /// Pieces with their servers; `sections` are the rows of each, or none if it is not cut.
    fn pieces(&self, names: &[String], on: &[ServerId], sections: &[i64]) -> Result<Vec<Piece>> {
        let mut start = 0i64;
        let each = names.iter().zip(on).enumerate().map(|(at, (name, &server))| {
            let Some(&n_rows) = sections.get(at) else { return self.whole(name, server) };
            let rows = start..start.saturating_add(n_rows.max(0));
            start = rows.end;
            self.piece(name, server, at, rows)
        });
        each.collect()
    }

    fn sends_in_background(&self) -> bool {
        self.job.is_some_and(|job| job.mode.sends_in_background())
    }
}

impl Route {
    /// The route of an op, if it talks to servers and there are any.
    pub fn read(op: &OpDesc, servers: &Servers<'_>) -> Result<Option<Self>> {
        if servers.endpoints.is_empty() {
            return Ok(None);
        }
        Ok(Some(match op.kind.as_str() {
            "send" => Route::Send(read_send(op, servers)?),
            "recv" => Route::Recv(read_recv(op, servers)?),
            "send_barrier" => read_barrier(op, servers)?,
            "fetch_barrier" => read_barrier(op, servers)?,
            "prefetch" => Route::LookUp(Arc::new(read_shards(op, servers)?)),
            "checkpoint_notify" => Route::Save(read_save(op, servers)?),
            "distributed_lookup_table" => Route::LookUp(Arc::new(read_look_up(op, servers)?)),
            _ if is_remote_look_up(op)? => Route::LookUp(Arc::new(read_look_up(op, servers)?)),
            _ => return Ok(None),
        }))
    }
}

/// Whether an op looks rows up in a table on servers.
pub fn is_remote_look_up(op: &OpDesc) -> Result<bool> {
    let is_named = |name: &str| op.attrs.strs(name).map(|names| !names.is_empty());
    Ok(op.traits().looks_up && is_named("epmap")? && is_named("table_names")?)
}

fn read_send(op: &OpDesc, servers: &Servers<'_>) -> Result<Send> {
    let (vars, names) = (op.input_names("X"), op.attrs.strs("send_varnames")?);
    if servers.job.is_some_and(|job| job.mode.exchanges_every().is_some()) {
        return Ok(match vars {
            [first, ..] if first == PARAM_INIT => Send::NoteParams,
            _ => Send::NoteRows(names.to_vec()),
        });
    }
    let to = servers.numbers(op.attrs.strs("epmap")?)?;
    let grads = |vars, may_queue| Ok(Send::Grads(Grads { vars, may_queue, for_good: false }));
    let apart = |names: &[String]| -> Result<Vec<Sent>> {
        let whole = |(name, &server): (&String, &ServerId)| {
            Ok(Sent::Pieces(Arc::new([servers.whole(name, server)?])))
        };
        names.iter().zip(&to).map(whole).collect()
    };
    if names.is_empty() {
        return grads(apart(vars)?, false);
    }
    let may_queue = servers.sends_in_background();
    if !op.attrs.bool("use_send_handler", true)? {
        let copies =
            |var: &String| Ok(Sent::Copies(servers.copies(names.first().unwrap_or(var), &to)?));
        return grads(vars.iter().map(copies).collect::<Result<_>>()?, may_queue);
    }
    let sections = op.attrs.ints("sections")?;
    // Without sections every variable is a piece by itself.
    if sections.is_empty() && names.len() == vars.len() {
        return grads(apart(names)?, may_queue);
    }
    let cut: Arc<[Piece]> = servers.pieces(names, &to, &sections)?.into();
    grads(vars.iter().map(|_| Sent::Pieces(cut.clone())).collect(), may_queue)
}

fn read_barrier(op: &OpDesc, servers: &Servers<'_>) -> Result<Route> {
    Ok(Route::Barrier(servers.numbers(op.attrs.strs("endpoints")?)?))
}

fn read_recv(op: &OpDesc, servers: &Servers<'_>) -> Result<Recv> {
    let from = servers.numbers(op.attrs.strs("epmap")?)?;
    let names = op.attrs.strs("recv_varnames")?;
    let vars = match names {
        [] => {
            let all = servers.pieces(op.output_names("Out"), &from, &[])?;
            all.into_iter().map(|piece| vec![piece]).collect()
        }
        names => vec![servers.pieces(names, &from, &[])?],
    };
    let may_skip = !names.is_empty() && servers.sends_in_background();
    Ok(Recv { vars, may_skip, is_off: op.attrs.int("do_not_run", 0)? != 0 })
}

fn read_look_up(op: &OpDesc, servers: &Servers<'_>) -> Result<LookUpRoute> {
    let endpoints = match op.attrs.strs("endpoints")? {
        [] => op.attrs.strs("epmap")?,
        endpoints => endpoints,
    };
    let (names, sections) = (op.attrs.strs("table_names")?, op.attrs.ints("height_sections")?);
    let from = servers.numbers(endpoints)?;
    let (partition, pieces) = match Spread::of(&op.attrs)? {
        // A part without rows is never asked.
        Spread::Range => {
            let names = &names[..names.len().min(sections.len())];
            (IdPartition::Range, servers.pieces(names, &from, &sections)?)
        }
        Spread::Hash => {
            let rows = 0..sections.iter().sum();
            let part = |(block, (name, &server)): (usize, (&String, _))| {
                servers.piece(name, server, block, rows.clone())
            };
            let all = names.iter().zip(&from).enumerate();
            (IdPartition::Hash, all.map(part).collect::<Result<_>>()?)
        }
    };
    let table = op.input_names("W").first();
    let placed = servers.job.zip(table).and_then(|(job, table)| job.pieces(table).next());
    let width = placed.and_then(|piece| piece.origin_dims.get(1).copied()).unwrap_or(0);
    Ok(LookUpRoute {
        pieces,
        partition,
        padding: Some(op.attrs.int("padding_idx", -1)?).filter(|&id| id != -1),
        peek: op.attrs.bool("is_test", false)?,
        width: usize::try_from(width).unwrap_or(0),
        plain_ids: op.kind == PLAIN || op.attrs.str("lookup_table_version", "")? == PLAIN,
        ids: op.input_names("Ids").to_vec(),
    })
}

fn read_shards(op: &OpDesc, servers: &Servers<'_>) -> Result<LookUpRoute> {
    let named = op.attrs.strs("table_names")?.first();
    let table = servers.job.and_then(|job| job.lookup_table.as_ref()).or(named);
    let table = table.map_or(names::EMPTY, String::as_str);
    let from = servers.numbers(op.attrs.strs("epmap")?)?;
    Ok(LookUpRoute {
        pieces: servers.copies(table, &from)?,
        partition: IdPartition::Done,
        padding: None,
        peek: false,
        width: 0,
        plain_ids: false,
        ids: op.input_names("X").to_vec(),
    })
}

fn read_save(op: &OpDesc, servers: &Servers<'_>) -> Result<SaveRoute> {
    Ok(SaveRoute {
        table: op.attrs.str("lookup_table", "")?.to_string(),
        servers: servers.numbers(op.attrs.strs("epmap")?)?,
        dir: op.attrs.str("dir", "")?.to_string(),
    })
}

/// The names in an op's attributes, for tests.
#[cfg(test)]
pub(crate) fn named(op: &OpDesc) -> Result<Vec<String>> {
    let lists = ["send_varnames", "recv_varnames", "table_names"].map(|attr| op.attrs.strs(attr));
    Ok(lists.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVERS: [&str; 2] = ["a:1", "b:1"];

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    const VARS: [&str; 8] = ["p", "q", "t.block0", "t.block1", "w.block0", "w.block1", "x", "y"];

    fn read(op: &OpDesc) -> Route {
        let (endpoints, vars) = (list(&SERVERS), [list(&VARS), list(&VARS)]);
        let servers = Servers { job: None, endpoints: &endpoints, vars: &vars };
        Route::read(op, &servers).unwrap().unwrap()
    }

    fn sent(op: &OpDesc) -> Vec<Sent> {
        match read(op) {
            Route::Send(Send::Grads(grads)) => grads.vars,
            other => panic!("{other:?}"),
        }
    }

    fn piece(name: &str, server: usize, rows: std::ops::Range<i64>) -> Piece {
        let var = VarId(VARS.iter().position(|known| *known == name).unwrap() as u32);
        let block = name.strip_suffix(".block1").map_or(0, |_| 1);
        Piece { name: name.to_string(), server: ServerId(server), var, block, rows }
    }

    #[test]
    fn a_variable_without_sections_is_a_piece_by_itself() {
        let op = OpDesc::new("send").input("X", list(&["x", "y"])).attr("epmap", list(&SERVERS));
        let named = op.clone().attr("send_varnames", list(&["p", "q"]));
        for (op, names) in [(op, ["x", "y"]), (named, ["p", "q"])] {
            let [Sent::Pieces(first), Sent::Pieces(second)] = &sent(&op)[..] else { panic!() };
            assert_eq!(first[..], [piece(names[0], 0, 0..i64::MAX)]);
            assert_eq!(second[..], [piece(names[1], 1, 0..i64::MAX)]);
        }
    }

    #[test]
    fn sections_say_which_rows_a_piece_has() {
        let op = OpDesc::new("send")
            .input("X", "w")
            .attr("epmap", list(&["b:1", "a:1"]))
            .attr("send_varnames", list(&["w.block0", "w.block1"]))
            .attr("sections", vec![3i64, 2]);
        let [Sent::Pieces(cut)] = &sent(&op)[..] else { panic!() };
        assert_eq!(cut[..], [piece("w.block0", 1, 0..3), piece("w.block1", 0, 3..5)]);
        assert_eq!((cut[1].n_rows(), cut[1].rows_of(4)), (2, 3..4));
        let counter = op.attr("use_send_handler", false);
        let [Sent::Copies(copies)] = &sent(&counter)[..] else { panic!() };
        assert_eq!(copies.len(), 2, "every server gets it");
        assert!(copies.iter().all(|copy| copy.name == "w.block0" && copy.is_whole()));
    }

    #[test]
    fn parts_of_a_table_are_known_before_it_is_asked() {
        let op = OpDesc::new("lookup_table_v2")
            .input("Ids", "C1")
            .attr("epmap", list(&SERVERS))
            .attr("table_names", list(&["t.block0", "t.block1"]))
            .attr("height_sections", vec![10i64, 5])
            .attr("padding_idx", 7i64);
        let Route::LookUp(found) = read(&op) else { panic!() };
        assert_eq!(found.pieces, [piece("t.block0", 0, 0..10), piece("t.block1", 1, 10..15)]);
        assert!(found.plain_ids && !found.peek);
        assert_eq!((found.padding, &found.ids[..]), (Some(7), &list(&["C1"])[..]));
    }

    #[test]
    fn servers_of_another_job_are_refused_and_other_ops_have_no_route() {
        let endpoints = list(&SERVERS);
        let servers = Servers { job: None, endpoints: &endpoints, vars: &[] };
        let op = OpDesc::new("send_barrier").attr("endpoints", list(&["c:1"]));
        let error = Route::read(&op, &servers).unwrap_err();
        assert!(matches!(error, Error::UnknownServer { .. }), "{error}");
        assert!(Route::read(&op, &Servers::default()).unwrap().is_none(), "there are no servers");
        let recv = OpDesc::new("recv").output("Out", "w").attr("epmap", list(&["a:1"]));
        let error = Route::read(&recv, &servers).unwrap_err();
        assert!(matches!(&error, Error::NotOnServer { var, .. } if var == "w"), "{error}");
        let local = OpDesc::new("lookup_table").input("Ids", "C1");
        assert!(Route::read(&local, &servers).unwrap().is_none());
    }
}
