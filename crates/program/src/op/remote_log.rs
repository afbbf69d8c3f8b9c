//! For tests of ops that talk to servers: a list that notes what it is asked.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tensor::{Shape, Tensor, Value};

use super::{Host, Run, Spare, Wiring, host_error};
use crate::block::OpDesc;
use crate::distributed::ServerId;
use crate::distributed::route::{
    self, LookUpRoute, Recv, Route, SaveRoute, Send, Servers as Known,
};
use crate::error::Result;
use crate::remote::Remote;

/// Notes each call; answers with sevens, and look-ups with the ids themselves in two columns.
#[derive(Default)]
pub(crate) struct RemoteLog {
    pub(crate) calls: Vec<String>,
    pub(crate) fails: bool,
}

impl RemoteLog {
    fn note(&mut self, call: String) -> Result<()> {
        self.calls.push(call);
        if self.fails {
            return Err(host_error(std::fmt::Error));
        }
        Ok(())
    }
}

impl Remote for RemoteLog {
    fn send(&mut self, _send: &Send, values: &[&Value]) -> Result<()> {
        self.note(format!("send {}", values.len()))
    }

    fn send_barrier(&mut self, _servers: &[ServerId]) -> Result<()> {
        self.note("send_barrier".to_string())
    }

    fn recv(&mut self, _recv: &Recv, out: &mut [Tensor]) -> Result<()> {
        self.note(format!("recv {}", out.len()))?;
        out.iter_mut().for_each(|out| *out = Tensor::full([1], 7.0f32));
        Ok(())
    }

    fn fetch_barrier(&mut self, _servers: &[ServerId]) -> Result<()> {
        self.note("fetch_barrier".to_string())
    }

    fn prefetch(
        &mut self,
        look_up: &Arc<LookUpRoute>,
        ids: &[&Tensor],
        out: &mut [Tensor],
    ) -> Result<()> {
        self.note(format!("prefetch {}", ids.len()))?;
        for (ids, out) in ids.iter().zip(out) {
            let ids = ids.data::<i64>()?;
            let rows = out.resize::<f32>(Shape::from([ids.len(), 2]));
            for (row, &id) in rows.chunks_mut(2).zip(ids) {
                let id = if look_up.padding == Some(id) { 0 } else { id };
                row.copy_from_slice(&[id as f32, -id as f32]);
            }
        }
        Ok(())
    }

    fn checkpoint_notify(&mut self, _save: &SaveRoute) -> Result<()> {
        self.note("checkpoint_notify".to_string())
    }
}

struct Servers<'a>(&'a mut RemoteLog);

impl Host for Servers<'_> {
    fn remote(&mut self) -> Result<&mut dyn Remote> {
        Ok(self.0)
    }
}

/// Runs one op on these variables; returns all of them.
pub(crate) fn run_op(
    op: &OpDesc,
    given: &[(&str, Value)],
    log: &mut RemoteLog,
) -> Result<HashMap<String, Value>> {
    let mut names: Vec<&str> = op.reads().chain(op.writes()).collect();
    names.sort_unstable();
    names.dedup();
    let value = |name: &&str| given.iter().find(|(given, _)| given == name).map(|(_, v)| v.clone());
    let mut vars: Vec<Value> = names.iter().map(|name| value(name).unwrap_or_default()).collect();
    run_on(op, &names, &mut vars, log)?;
    Ok(names.iter().map(|name| name.to_string()).zip(vars).collect())
}

/// Runs an op on variables that the caller can look at after an error, too.
pub(crate) fn run_on(
    op: &OpDesc,
    names: &[&str],
    vars: &mut [Value],
    log: &mut RemoteLog,
) -> Result<()> {
    let wiring = Wiring::new(op, |name| names.iter().position(|n| *n == name).expect("listed"));
    let endpoints = ["127.0.0.1:1".to_string()];
    // Whatever the op speaks of is there.
    let mut known: BTreeSet<String> = names.iter().map(|name| name.to_string()).collect();
    known.insert(crate::names::EMPTY.to_string());
    known.extend(route::named(op)?);
    let vars_of_server = [known.into_iter().collect()];
    let servers = Known { job: None, endpoints: &endpoints, vars: &vars_of_server };
    let wiring = wiring.with_route(Route::read(op, &servers)?);
    let (mut spare, mut host) = (Spare::default(), Servers(log));
    super::find(&op.kind)?.run(&mut Run::new(op, &wiring, vars, &mut spare, &mut host))
}
