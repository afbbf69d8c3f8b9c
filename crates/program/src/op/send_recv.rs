//! Ops through which a trainer talks to parameter servers; the host does the talking.
//!
//! `send` hands X over, `recv` fills Out (`do_not_run` = 1: something else does), `send_barrier` and
//! `fetch_barrier` end the two halves of a step, `checkpoint_notify` asks for a snapshot.
//! `listen_and_serv` is what a server's program consists of: the executor serves it, so that
//! running it as an op among others is a mistake.
//!
//! Control variables (`Out` of `send`, `X` of `recv`) hold nothing: they are the order of the ops.

use tensor::Value;

use super::{Infer, Op, Run, traits};
use crate::distributed::route::{PARAM_INIT, Route};
use crate::error::{Error, Result};
use crate::var::Meta;

pub(super) struct Send;
pub(super) struct Recv;
pub(super) struct SendBarrier;
pub(super) struct FetchBarrier;
pub(super) struct CheckpointNotify;
pub(super) struct ListenAndServ;

impl Op for Send {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer.set_output("Out", Meta::default())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        for index in 0..run.n_inputs("X") {
            let var = run.input_name_at("X", index);
            if run.value_at("X", index)?.is_empty() && var != PARAM_INIT {
                return Err(Error::NotInitialized { port: "X".to_string(), var: var.to_string() });
            }
        }
        match run.route() {
            Some(Route::Send(send)) => run.send("X", send),
            _ => Err(run.no_servers()),
        }
    }
}

impl Op for Recv {
    traits!(Never);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        let route = match run.route() {
            Some(Route::Recv(recv)) if recv.is_off => return Ok(()),
            Some(Route::Recv(recv)) => recv,
            _ => return Err(run.no_servers()),
        };
        let n = run.n_outputs("Out");
        let mut out: Vec<_> = (0..n).map(|index| run.take_at("Out", index)).collect();
        let received = run.remote_with("X").and_then(|(remote, _)| remote.recv(route, &mut out));
        // Variables that were not received keep their old contents: a failed step loses no
        // parameter.
        for (index, tensor) in out.into_iter().enumerate() {
            let value = if tensor.is_initialized() { Value::Tensor(tensor) } else { Value::Empty };
            run.put_value_at("Out", index, value);
        }
        received
    }
}

impl Op for SendBarrier {
    traits!(Never);

    fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
        infer.set_output("Out", Meta::default())
    }

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match run.route() {
            Some(Route::Barrier(servers)) => run.remote_with("X")?.0.send_barrier(servers),
            _ => Err(run.no_servers()),
        }
    }
}

impl Op for FetchBarrier {
    traits!(Never);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match run.route() {
            Some(Route::Barrier(servers)) => run.remote_with("X")?.0.fetch_barrier(servers),
            _ => Err(run.no_servers()),
        }
    }
}

impl Op for CheckpointNotify {
    traits!(Never; uses_files);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        match run.route() {
            Some(Route::Save(save)) => run.remote_with("X")?.0.checkpoint_notify(save),
            _ => Err(run.no_servers()),
        }
    }
}

impl Op for ListenAndServ {
    traits!(Never; uses_files);

    fn run(&self, run: &mut Run<'_>) -> Result<()> {
        Err(Error::ServesOnly { op: run.op().kind.clone() })
    }
}

#[cfg(test)]
mod tests {
    use tensor::{Tensor, Value};

    use crate::error::Error;
    use crate::op::check::{check, t};
    use crate::op::remote_log::{RemoteLog, run_op};
    use crate::{Attr, OpDesc};

    fn grad() -> Value {
        Value::Tensor(Tensor::new([2], &[1.0f32, 2.0]).unwrap())
    }

    #[test]
    fn sends_in_order_and_receives_into_the_outputs() {
        let mut log = RemoteLog::default();
        let send = OpDesc::new("send").input("X", vec!["a".to_string(), "b".to_string()]);
        run_op(&send, &[("a", grad()), ("b", grad())], &mut log).unwrap();
        let recv = OpDesc::new("recv").output("Out", vec!["p".to_string(), "q".to_string()]);
        let vars = run_op(&recv, &[("p", grad())], &mut log).unwrap();
        run_op(&OpDesc::new("send_barrier"), &[], &mut log).unwrap();
        run_op(&OpDesc::new("fetch_barrier"), &[], &mut log).unwrap();
        run_op(&OpDesc::new("checkpoint_notify"), &[], &mut log).unwrap();
        assert_eq!(
            log.calls,
            ["send 2", "recv 2", "send_barrier", "fetch_barrier", "checkpoint_notify"]
        );
        // The list answers with tensors of its own: 7 in each.
        assert_eq!(vars["q"], Value::Tensor(Tensor::new([1], &[7.0f32]).unwrap()));
    }

    #[test]
    fn a_recv_that_must_not_run_asks_nobody() {
        let recv = OpDesc::new("recv").output("Out", "p").attr("do_not_run", Attr::Int(1));
        let mut log = RemoteLog::default();
        let vars = run_op(&recv, &[("p", grad())], &mut log).unwrap();
        assert!(log.calls.is_empty());
        assert_eq!(vars["p"], grad());
    }

    #[test]
    fn a_failed_recv_keeps_the_parameters() {
        let recv = OpDesc::new("recv").output("Out", "p");
        let mut log = RemoteLog { fails: true, ..RemoteLog::default() };
        let mut vars = vec![grad()];
        let error = crate::op::remote_log::run_on(&recv, &["p"], &mut vars, &mut log).unwrap_err();
        assert!(matches!(error, Error::Host(_)), "{error}");
        assert_eq!(vars[0], grad());
    }

    #[test]
    fn an_empty_gradient_is_not_sent() {
        let send = OpDesc::new("send").input("X", "g");
        let error = run_op(&send, &[], &mut RemoteLog::default()).unwrap_err();
        assert!(matches!(error, Error::NotInitialized { .. }), "{error}");
        let note = OpDesc::new("send").input("X", "param_init");
        run_op(&note, &[], &mut RemoteLog::default()).unwrap();
    }

    #[test]
    fn without_servers_or_among_other_ops_they_refuse() {
        let error = check("send").input("X", t(&[1], &[1.0])).output("Out").fails();
        assert!(matches!(error.root(), Error::NoHost { op, .. } if op == "send"), "{error}");
        let error = check("listen_and_serv").fails();
        assert!(matches!(error.root(), Error::ServesOnly { .. }), "{error}");
    }
}
