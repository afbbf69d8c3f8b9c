//! The rules of recovery after deaths: terms, cuts, and what to do next, as pure functions.
//!
//! A *cut* is a state of the whole job at a moment when nothing is in flight. Cuts are numbered
//! from 0. A *term* is the time between two rollbacks. Terms are numbered from 1. Each term begins
//! from a cut, its base: all servers load it, all trainers go back to it, and the job continues
//! from there.
//!
//! A new term has two phases. First it is *opened* on every server: the server stops serving, and
//! its list of cuts does not change any more. Only when it is open on all servers, its base is
//! chosen: the greatest cut that all of them have. So every process chooses the same base, and the
//! job never goes back behind a cut that all servers have kept.

use std::fmt;

/// A term, with the cut that it began from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// Its number, from 1; 0 in a greeting that only asks.
    pub number: u64,
    /// The cut that it began from; none while it is open and nothing is loaded.
    pub base: Option<u64>,
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.base {
            Some(base) => write!(f, "term {} from cut {base}", self.number),
            None => write!(f, "term {}, not loaded", self.number),
        }
    }
}

/// The state of a server, for a trainer that is not in its term.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TermState {
    /// The server's term.
    pub term: Term,
    /// Cuts that are durable there, ascending.
    pub cuts: Vec<u64>,
    /// Whether another process of the trainer's rank took part in this term: then its work since
    /// the base is lost.
    pub has_member: bool,
}

impl fmt::Display for TermState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, with cuts {:?}", self.term, self.cuts)
    }
}

/// The job cannot continue: the servers have no cut in common. The cuts of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCommonCut(pub Vec<Vec<u64>>);

/// The next step of a trainer once all servers have answered its greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is let in everywhere.
    Joined,
    /// It greets all of them again, with this term.
    Greet(Term),
    /// It gives up: this server keeps no cuts, and others do.
    KeepsNone(usize),
}

/// The next step of a trainer that has greeted all servers with a term, first with [`Term::default`]. A server that welcomed it
/// sends no state.
pub fn next(said: Term, answers: &[Option<TermState>]) -> Result<Next, NoCommonCut> {
    let welcome = answers.iter().position(Option::is_none);
    let states: Vec<TermState> = answers.iter().flatten().cloned().collect();
    match welcome {
        None => decide(&states).map(Next::Greet),
        Some(_) if states.is_empty() => Ok(Next::Joined),
        // A server that keeps cuts does not welcome a trainer that only asks.
        Some(at) if said.number == 0 => Ok(Next::KeepsNone(at)),
        // A welcome says less than the state of a server that refused.
        Some(_) => Ok(Next::Greet(Term::default())),
    }
}

/// The term with which a trainer greets all servers next, given their answers. It has joined when
/// all have welcomed it.
pub fn decide(states: &[TermState]) -> Result<Term, NoCommonCut> {
    let number = states.iter().map(|term_state| term_state.term.number).max().unwrap_or(0);
    let newest = || states.iter().filter(|term_state| term_state.term.number == number);
    let is_everywhere = newest().count() == states.len();
    let base = newest().find_map(|term_state| term_state.term.base);
    let Some(base) = base else {
        // It is being opened: where it is not open yet, it is now.
        return Ok(Term { number, base: is_everywhere.then_some(common_of(states)?) });
    };
    let fits = |term_state: &TermState| match term_state.term.base {
        Some(loaded) => loaded == base && !term_state.has_member,
        None => term_state.cuts.contains(&base),
    };
    if is_everywhere && newest().all(fits) {
        Ok(Term { number, base: Some(base) })
    } else {
        Ok(Term { number: number + 1, base: None })
    }
}

fn common_of(states: &[TermState]) -> Result<u64, NoCommonCut> {
    let cuts = || states.iter().map(|term_state| term_state.cuts.clone()).collect::<Vec<_>>();
    common(&cuts()).ok_or_else(|| NoCommonCut(cuts()))
}

/// The greatest cut that is in all lists: a cut that all servers have kept is *complete*. Older
/// cuts are not needed any more.
pub fn common(lists: &[impl AsRef<[u64]>]) -> Option<u64> {
    let (first, others) = lists.split_first()?;
    let is_everywhere = |cut: &&u64| others.iter().all(|list| list.as_ref().contains(cut));
    first.as_ref().iter().filter(is_everywhere).max().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term_state(number: u64, base: Option<u64>, cuts: &[u64]) -> TermState {
        TermState { term: Term { number, base }, cuts: cuts.to_vec(), has_member: false }
    }

    fn next(states: &[TermState]) -> (u64, Option<u64>) {
        let term = decide(states).unwrap();
        (term.number, term.base)
    }

    #[test]
    fn who_comes_joins_the_term_that_all_servers_are_in() {
        assert_eq!(
            next(&[term_state(1, Some(0), &[0]), term_state(1, Some(0), &[0])]),
            (1, Some(0))
        );
        // One has not loaded yet.
        assert_eq!(
            next(&[term_state(3, Some(4), &[4]), term_state(3, None, &[4, 5])]),
            (3, Some(4))
        );
    }

    #[test]
    fn a_trainer_greets_until_all_welcome_it() {
        let (asks, first) = (Term::default(), Term { number: 1, base: Some(0) });
        let stands = || Some(term_state(1, Some(0), &[0]));
        assert_eq!(super::next(asks, &[stands(), stands()]), Ok(Next::Greet(first)));
        assert_eq!(super::next(first, &[None, None]), Ok(Next::Joined));
        assert_eq!(super::next(first, &[None, stands()]), Ok(Next::Greet(asks)));
        assert_eq!(super::next(asks, &[None, None]), Ok(Next::Joined), "a job that keeps no cuts");
        assert_eq!(super::next(asks, &[stands(), None]), Ok(Next::KeepsNone(1)));
    }

    #[test]
    fn a_term_is_opened_everywhere_before_its_base_is_chosen() {
        let restarted = term_state(2, None, &[0, 1]);
        let loaded = term_state(1, Some(0), &[0, 1, 2]);
        assert_eq!(next(&[restarted.clone(), loaded]), (2, None));
        assert_eq!(next(&[restarted, term_state(2, None, &[0, 1, 2])]), (2, Some(1)));
    }

    #[test]
    fn what_is_lost_ends_a_term() {
        // A process of the asking rank took part.
        let has_member = |term_state: TermState| TermState { has_member: true, ..term_state };
        let a = term_state(1, Some(0), &[0, 1]);
        assert_eq!(next(&[a.clone(), has_member(a.clone())]), (2, None));
        // A server that has not heard of the term, or knows another base, or lacks it.
        assert_eq!(next(&[term_state(5, Some(3), &[3]), term_state(1, Some(0), &[0])]), (6, None));
        assert_eq!(
            next(&[term_state(5, Some(3), &[3]), term_state(5, Some(2), &[2, 3])]),
            (6, None)
        );
        assert_eq!(next(&[term_state(5, Some(3), &[3]), term_state(5, None, &[2])]), (6, None));
    }

    #[test]
    fn without_a_common_cut_the_job_cannot_go_on() {
        let error = decide(&[term_state(2, None, &[0]), term_state(2, None, &[3])]).unwrap_err();
        assert_eq!(error, NoCommonCut(vec![vec![0], vec![3]]));
        assert_eq!(common(&[vec![0, 2, 4], vec![2, 3, 4], vec![2, 4]]), Some(4));
        assert_eq!(common(&[] as &[Vec<u64>]), None);
    }
}
