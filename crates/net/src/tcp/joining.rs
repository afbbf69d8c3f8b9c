//! How a trainer comes to be in the same term on all servers.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use wire::recovery::{Next, Term, TermState, next};
use wire::{Error, Refusal, Result};

use super::Client;

/// For so long a trainer that cannot take part waits until all servers know of it.
const TELLING: Duration = Duration::from_secs(5);

/// Greets all servers of a job until all have welcomed this trainer in one term, which is returned with the
/// cut that the trainer must be at; `None` if the job does not recover. For a trainer that starts, and
/// whenever a call ends with [`Error::OtherTerm`]. Nothing else may be said to any server before this
/// returns, by any thread; a server that is away is waited for.
pub fn join(clients: &[Arc<Client>]) -> Result<Option<Term>> {
    let mut term = Term::default();
    loop {
        let answers = greet(clients, term)?;
        let next = next(term, &answers).map_err(|cuts| {
            let endpoints = clients.iter().map(|client| client.endpoint().clone()).collect();
            Error::NoCommonCut { endpoints, cuts }
        })?;
        term = match next {
            Next::Joined => return Ok(Some(term).filter(|term| term.number > 0)),
            Next::Greet(term) => term,
            Next::KeepsNone(server) => return Err(keeps_none(&clients[server])),
        };
    }
}

fn keeps_none(client: &Client) -> Error {
    let what =
        "it keeps no cuts, and others of its job do: give all of them the same folder of snapshots";
    let endpoint = client.endpoint().clone();
    Error::Refused { endpoint, refusal: Refusal::Failed(what.to_string()) }
}

/// Greets all servers; how those stand that refused.
fn greet(clients: &[Arc<Client>], term: Term) -> Result<Vec<Option<TermState>>> {
    clients.iter().for_each(|client| client.turn_to(term));
    // All at once: each may have much to load.
    clients.iter().for_each(|client| client.reach());
    let greet = |client: &Arc<Client>| match client.ensure_connected() {
        Ok(()) => Ok(None),
        Err(Error::OtherTerm { term_state, .. }) => Ok(Some(term_state)),
        Err(error) => Err(error),
    };
    let mut answers = Vec::with_capacity(clients.len());
    for (at, client) in clients.iter().enumerate() {
        let answer = greet(client).inspect_err(|error| {
            if matches!(error, Error::Refused { refusal: Refusal::Failed(_), .. }) {
                tell_others(&clients[at + 1..]);
            }
        });
        answers.push(answer?);
    }
    Ok(answers)
}

/// Greets the servers behind one that said that the job cannot go on: they would wait for this trainer.
fn tell_others(clients: &[Arc<Client>]) {
    let (tell, told) = mpsc::channel();
    for client in clients {
        let (client, tell) = (client.clone(), tell.clone());
        thread::spawn(move || {
            // It ends with the error that it has; this one may not wait any more.
            let _ = client.ensure_connected();
            let _ = tell.send(());
        });
    }
    let deadline = Instant::now() + TELLING;
    let left = || deadline.saturating_duration_since(Instant::now());
    let _ = clients.iter().try_for_each(|_| told.recv_timeout(left()));
}
