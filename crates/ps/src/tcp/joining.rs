//! How a trainer comes to be in the same term on all servers.

use std::sync::Arc;

use super::Client;
use crate::error::{Error, Result};
use crate::recovery::{Standing, Term, decide};
use crate::refusal::Refusal;

/// Greets all servers of a job until all have welcomed this trainer in one term, which is returned with the
/// cut that the trainer must be at; `None` if the job does not recover. For a trainer that starts, and
/// whenever a call ends with [`Error::OtherTerm`]. Nothing else may be said to any server before this
/// returns, by any thread; a server that is away is waited for.
pub fn join(clients: &[Arc<Client>]) -> Result<Option<Term>> {
    let mut term = Term::default();
    loop {
        let answers = greet(clients, term)?;
        let welcome = answers.iter().position(Option::is_none);
        let standings: Vec<Standing> = answers.into_iter().flatten().collect();
        term = match welcome {
            Some(_) if standings.is_empty() => return Ok(Some(term).filter(|it| it.number > 0)),
            // Who keeps cuts welcomes nobody who only asks.
            Some(at) if term.number == 0 => return Err(keeps_none(&clients[at])),
            // Who welcomed us says less than who did not.
            Some(_) => Term::default(),
            None => decide(&standings).map_err(|cuts| {
                let endpoints = clients.iter().map(|client| client.endpoint().clone()).collect();
                Error::NoCommonCut { endpoints, cuts }
            })?,
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
fn greet(clients: &[Arc<Client>], term: Term) -> Result<Vec<Option<Standing>>> {
    clients.iter().for_each(|client| client.turn_to(term));
    // All at once: each may have much to load.
    clients.iter().for_each(|client| client.reach());
    let greet = |client: &Arc<Client>| match client.meet() {
        Ok(()) => Ok(None),
        Err(Error::OtherTerm { standing, .. }) => Ok(Some(standing)),
        Err(error) => Err(error),
    };
    clients.iter().map(greet).collect()
}
