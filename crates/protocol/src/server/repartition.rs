//! Divides the state that servers kept with a cut among another number of servers.

use wire::{Error, Result, TrainerId};

use super::cut_state::{CutState, add_entry, entries};
use crate::chunks::Chunks;

/// The state that one server kept with a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptBytes {
    /// The state that was given with the cut.
    pub state: Vec<u8>,
    /// The journals of all cuts up to that one.
    pub journal: Vec<u8>,
}

/// A server among those that continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerShare {
    /// Its number.
    pub server: usize,
    /// How many servers there are.
    pub n_servers: usize,
    /// Whether the state of trainers is kept: there are as many trainers as before.
    pub keeps_trainers: bool,
    /// How many trainers there are.
    pub n_trainers: usize,
}

/// Makes the first state of trainers that replace others, from the contributions of those.
pub type StateOfOthers<'a> = &'a dyn Fn(&[Vec<u8>]) -> Vec<u8>;

/// The share of one server in the state of all old servers, which comes in the order of their numbers.
/// The contribution of trainer t goes to server t modulo the number of servers.
pub fn repartition(
    all: &[KeptBytes],
    share: ServerShare,
    of_others: StateOfOthers<'_>,
) -> Result<KeptBytes> {
    let kept =
        all.iter().map(|bytes| CutState::from_bytes(&bytes.state)).collect::<Result<Vec<_>>>()?;
    let first = kept.first().ok_or(Error::Malformed("no server kept anything"))?;
    if kept.iter().any(|kept| kept.protocol.parts.iter().any(|(_, parts)| !parts.is_empty())) {
        // They are for variables as they were cut before.
        return Err(Error::Malformed("rounds were under way"));
    }
    let mut protocol = first.protocol.clone();
    let own = kept.get(share.server).map(|kept| kept.protocol.stats.clone());
    protocol.stats = own.unwrap_or_default();
    protocol.parts.clear();
    if !share.keeps_trainers {
        protocol.gone.clear();
    }
    let is_own = |trainer: TrainerId| trainer.0 as usize % share.n_servers.max(1) == share.server;
    let mut states: Vec<(TrainerId, Chunks)> =
        kept.into_iter().flat_map(|kept| kept.states).collect();
    states.sort_by_key(|(trainer, _)| *trainer);
    if !share.keeps_trainers {
        let given: Vec<Vec<u8>> = states.into_iter().map(|(_, state)| state.to_vec()).collect();
        let state = if given.is_empty() { Vec::new() } else { of_others(&given) };
        let trainers = (0..share.n_trainers as u32).map(TrainerId);
        let trainers = trainers.filter(|_| !state.is_empty());
        states = trainers.map(|trainer| (trainer, Chunks::from(state.clone()))).collect();
    }
    states.retain(|(trainer, _)| is_own(*trainer));
    let mut journal = Vec::new();
    for bytes in all {
        for (trainer, given) in entries(&bytes.journal)? {
            if share.keeps_trainers && is_own(trainer) {
                add_entry(&mut journal, trainer, given);
            }
        }
    }
    Ok(KeptBytes { state: CutState { protocol, states }.to_chunks().to_vec(), journal })
}

#[cfg(test)]
mod tests {
    use super::super::cut_state::{Gone, Protocol, journal_of};
    use super::*;

    /// Two servers and three trainers.
    fn all() -> Vec<KeptBytes> {
        let gone = vec![(TrainerId(1), Gone::Completed)];
        let protocol = Protocol { applied: 9, gone, ..Protocol::default() };
        let of_server = |server: u32| {
            let own = (0..3).filter(|trainer| trainer % 2 == server).map(TrainerId);
            let mut journal = Vec::new();
            for (trainer, part) in own.clone().flat_map(|trainer| [(trainer, 5), (trainer, 6)]) {
                add_entry(&mut journal, trainer, &[part, trainer.0 as u8]);
            }
            let states = own.map(|trainer| (trainer, vec![trainer.0 as u8; 2].into())).collect();
            let kept = CutState { protocol: protocol.clone(), states };
            KeptBytes { state: kept.to_chunks().to_vec(), journal }
        };
        (0..2).map(of_server).collect()
    }

    #[test]
    fn what_trainers_gave_is_with_their_new_servers() {
        let all = all();
        for n_servers in 1..5 {
            for trainer in 0..3u32 {
                let server = trainer as usize % n_servers;
                let n_trainers = 3;
                let share = ServerShare { server, n_servers, keeps_trainers: true, n_trainers };
                let own = repartition(&all, share, &|_| Vec::new()).unwrap();
                let kept = CutState::from_bytes(&own.state).unwrap();
                assert_eq!((kept.protocol.applied, kept.protocol.gone.len()), (9, 1));
                let given = Chunks::from(vec![trainer as u8; 2]);
                assert!(kept.states.contains(&(TrainerId(trainer), given)));
                let journal = journal_of(&own.journal, TrainerId(trainer)).unwrap();
                assert_eq!(journal, [5, trainer as u8, 6, trainer as u8]);
            }
        }
        let share = ServerShare { server: 0, n_servers: 2, keeps_trainers: false, n_trainers: 4 };
        let own = repartition(&all, share, &|given| given.concat()).unwrap();
        let kept = CutState::from_bytes(&own.state).unwrap();
        let state = || Chunks::from(vec![0, 0, 1, 1, 2, 2]);
        assert_eq!(kept.states, [(TrainerId(0), state()), (TrainerId(2), state())]);
        assert_eq!((own.journal.len(), kept.protocol.applied), (0, 9));
        assert!(kept.protocol.gone.is_empty());
        let own = repartition(&all, share, &|_| Vec::new()).unwrap();
        assert!(CutState::from_bytes(&own.state).unwrap().states.is_empty());
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let share = ServerShare { server: 0, n_servers: 1, keeps_trainers: true, n_trainers: 3 };
        let repartition = |all: &[KeptBytes]| super::repartition(all, share, &|_| Vec::new());
        assert!(repartition(&[]).is_err());
        assert!(repartition(&[KeptBytes::default()]).is_err());
        let mut all = all();
        all[1].journal.pop();
        assert!(repartition(&all).is_err());
    }
}
