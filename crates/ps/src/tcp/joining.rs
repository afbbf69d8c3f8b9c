//! How a trainer comes to be in the same term on all servers.

use std::sync::Arc;

use super::Client;
use crate::error::{Error, Result};
use crate::recovery::{Standing, Term, decide};

/// Greets all servers of a job until all have welcomed this trainer in one term, which is returned with the
/// cut that the trainer must be at; `None` if the job does not recover. For a trainer that starts, and
/// whenever a call ends with [`Error::OtherTerm`]. Nothing is said to any server before this returns; a
/// server that is away is waited for.
pub fn join(clients: &[Arc<Client>]) -> Result<Option<Term>> {
    let mut term = Term::default();
    loop {
        let Some(standings) = greet(clients, term)? else {
            return Ok(Some(term).filter(|term| term.number > 0));
        };
        term = match standings.len() == clients.len() {
            true => decide(&standings).map_err(|cuts| {
                let endpoints = clients.iter().map(|client| client.endpoint().clone()).collect();
                Error::NoCommonCut { endpoints, cuts }
            })?,
            // Some have welcomed us, and say less than those that have not.
            false => Term::default(),
        };
    }
}

/// Greets all servers; how those stand that refused, or none if nobody did.
fn greet(clients: &[Arc<Client>], term: Term) -> Result<Option<Vec<Standing>>> {
    clients.iter().for_each(|client| client.turn_to(term));
    let mut standings = Vec::new();
    for client in clients {
        match client.meet() {
            Ok(()) => {}
            Err(Error::OtherTerm { standing, .. }) => standings.push(standing),
            Err(error) => return Err(error),
        }
    }
    Ok((!standings.is_empty()).then_some(standings))
}
