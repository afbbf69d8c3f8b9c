//! The processes that have reported so far, and the places once all have.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use base::Endpoint;
use wire::ConnId;

use super::{Place, Report, Side};

/// The outcome of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportOutcome {
    /// Others are missing.
    Waits,
    /// The end point is another process's, and this one can take another port.
    Taken,
    /// All are there; every connection gets a place.
    Complete,
    /// All were there before: this one came back, or takes the place of one that left.
    Back(Place),
    /// The reports do not fit together: the job cannot start, for the reason given.
    Apart(String),
    /// This process alone cannot take part.
    Refused(String),
}

/// A process of a complete job.
#[derive(Clone, Debug)]
struct Enrolled {
    report: Report,
    /// Its connection, unless it is gone.
    conn: Option<ConnId>,
}

/// The processes that have reported so far.
#[derive(Debug, Default)]
pub struct Gathering {
    members: BTreeMap<ConnId, Report>,
    /// Servers and trainers in order, once all are there.
    seats: Option<[Vec<Enrolled>; 2]>,
}

impl Gathering {
    /// A process reports.
    pub fn report(&mut self, conn: ConnId, report: Report) -> ReportOutcome {
        if self.seats.is_some() {
            return self.comes_back(conn, report);
        }
        for other in self.members.values() {
            if report.endpoint.port > 0 && other.endpoint == report.endpoint {
                return if report.is_fixed {
                    ReportOutcome::Apart(twice(other, &report))
                } else {
                    ReportOutcome::Taken
                };
            }
            if let Some(why) = disagreement(other, &report) {
                return ReportOutcome::Apart(why);
            }
        }
        let n = report.n;
        self.members.insert(conn, report);
        if self.members.len() == n as usize { self.sit_down() } else { ReportOutcome::Waits }
    }

    /// A connection is gone.
    pub fn leave(&mut self, conn: ConnId) {
        self.members.remove(&conn);
        for seat in self.seats.iter_mut().flatten().flatten() {
            if seat.conn == Some(conn) {
                seat.conn = None;
            }
        }
    }

    /// Removes all reports: a failed job is dropped.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Those that wait, and where each process of a complete job is.
    pub fn places(&self) -> Vec<(ConnId, Place)> {
        let Some(seats) = &self.seats else { return Vec::new() };
        let (servers, trainers) = (endpoints(&seats[0]), endpoints(&seats[1]));
        let place = |id| Place { id, servers: servers.clone(), trainers: trainers.clone() };
        let numbered = |seats: &'_ [Enrolled]| -> Vec<(ConnId, Place)> {
            let taken = seats.iter().enumerate().filter_map(|(id, seat)| Some((seat.conn?, id)));
            taken.map(|(conn, id)| (conn, place(id as u32))).collect()
        };
        seats.iter().flat_map(|side| numbered(side)).collect()
    }

    /// The role of the process of a connection, if it has a place.
    pub fn side_of(&self, conn: ConnId) -> Option<Side> {
        let seats = self.seats.as_ref()?;
        let has = |side: &[Enrolled]| side.iter().any(|seat| seat.conn == Some(conn));
        let sides = [Side::Server, Side::Trainer].into_iter().zip(seats);
        sides.into_iter().find(|(_, seats)| has(seats)).map(|(side, _)| side)
    }

    /// Connections that wait for others.
    pub fn waiting(&self) -> impl Iterator<Item = ConnId> + '_ {
        let waits = self.seats.is_none();
        self.members.keys().copied().filter(move |_| waits)
    }

    /// The missing processes, in words.
    pub fn missing(&self) -> String {
        let Some(first) = self.members.values().next() else {
            return "no process has reported".to_string();
        };
        let here = self.members.len();
        let absent = match first.n_servers {
            Some(n_servers) => {
                let n_trainers = first.n.saturating_sub(n_servers);
                let sides = [(Side::Server, n_servers), (Side::Trainer, n_trainers)];
                let absent = sides.into_iter().flat_map(|(side, n)| self.absent(side, n));
                absent.collect::<Vec<_>>().join(", ")
            }
            None => format!("{} of {} processes", (first.n as usize).saturating_sub(here), first.n),
        };
        let known: Vec<String> = self.members.values().map(described).collect();
        format!("missing: {absent}; there are: {}", known.join(", "))
    }

    fn absent(&self, side: Side, n: u32) -> Vec<String> {
        let present: Vec<_> = self.members.values().filter(|one| one.side == side).collect();
        let left = (n as usize).saturating_sub(present.len());
        if left == 0 {
            return Vec::new();
        }
        if present.iter().any(|one| one.rank.is_none()) {
            return vec![format!("{left} of {n} {}s", side.word())];
        }
        let is_absent = |id: &u32| present.iter().all(|one| one.rank != Some(*id));
        (0..n).filter(is_absent).map(|id| format!("{} {id}", side.word())).collect()
    }

    /// All are there: gives each its place.
    fn sit_down(&mut self) -> ReportOutcome {
        let mut seats = [Vec::new(), Vec::new()];
        for (side, seats) in [Side::Server, Side::Trainer].into_iter().zip(&mut seats) {
            let members = self.members.iter().filter(|(_, one)| one.side == side);
            let members = members.map(|(conn, one)| (*conn, one.clone())).collect();
            match seated(members) {
                Ok(done) => *seats = done,
                Err(why) => return ReportOutcome::Apart(why),
            }
        }
        self.seats = Some(seats);
        self.members.clear();
        ReportOutcome::Complete
    }

    /// A process that was started again, or a new one instead of it.
    fn comes_back(&mut self, conn: ConnId, report: Report) -> ReportOutcome {
        let seats = self.seats.as_mut().expect("all are there");
        let n: usize = seats.iter().map(Vec::len).sum();
        let seats = &mut seats[report.side as usize];
        let first = seats.first().map(|seat| seat.report.job.clone());
        if n != report.n as usize || first.is_some_and(|job| job != report.job) {
            return ReportOutcome::Refused(format!("another job of {n} processes is here already"));
        }
        let same = |seat: &Enrolled| match report.rank {
            Some(rank) => seat.report.rank == Some(rank),
            None => seat.report.name == report.name,
        };
        let found = seats
            .iter()
            .position(|seat| {
                let is_free = seat.conn.is_none() || report.rank.is_some();
                seat.report.endpoint == report.endpoint && same(seat) && is_free
            })
            .or_else(|| seats.iter().position(|seat| seat.conn.is_none() && same(seat)))
            .or_else(|| seats.iter().position(|seat| seat.conn.is_none()));
        let Some(id) = found else {
            return ReportOutcome::Refused(format!(
                "all {n} processes of this job are there already"
            ));
        };
        let seat = &mut seats[id];
        if report.side == Side::Server && seat.report.endpoint.host != report.endpoint.host {
            let (old, new) = (&seat.report.endpoint, &report.endpoint);
            return ReportOutcome::Refused(format!(
                "server {id} was at {old} and came back at {new}: the others would not find it"
            ));
        }
        seat.conn = Some(conn);
        let places = self.places();
        let own = places.into_iter().find(|(other, _)| *other == conn);
        ReportOutcome::Back(own.expect("it has a seat").1)
    }
}

/// Members in the order of their numbers. Those without one take what is left, by name.
fn seated(mut members: Vec<(ConnId, Report)>) -> Result<Vec<Enrolled>, String> {
    members.sort_by(|(_, a), (_, b)| order(a, b));
    let n = members.len();
    let mut seats: Vec<Option<Enrolled>> = vec![None; n];
    let (ranked, others): (Vec<_>, Vec<_>) =
        members.into_iter().partition(|(_, one)| one.rank.is_some());
    for (conn, report) in ranked {
        let rank = report.rank.unwrap_or_default() as usize;
        let side = report.side.word();
        let Some(seat) = seats.get_mut(rank) else {
            return Err(format!("{} says it is {side} {rank}, and there are {n}", report.name));
        };
        if let Some(other) = seat {
            let (one, other) = (&report.endpoint, &other.report.endpoint);
            return Err(format!("{side} {rank} is there twice: {other} and {one}"));
        }
        *seat = Some(Enrolled { report, conn: Some(conn) });
    }
    let mut others = others.into_iter();
    for (rank, seat) in seats.iter_mut().enumerate().filter(|(_, seat)| seat.is_none()) {
        let (conn, report) = others.next().expect("as many as there are seats");
        let report = Report { rank: Some(rank as u32), ..report };
        *seat = Some(Enrolled { report, conn: Some(conn) });
    }
    Ok(seats.into_iter().flatten().collect())
}

/// `worker-2` comes before `worker-10`.
fn order(one: &Report, other: &Report) -> Ordering {
    let by_name = |report: &Report| (report.name.len(), report.name.clone());
    by_name(one).cmp(&by_name(other)).then_with(|| one.endpoint.cmp(&other.endpoint))
}

fn endpoints(seats: &[Enrolled]) -> Vec<Endpoint> {
    seats.iter().map(|seat| seat.report.endpoint.clone()).collect()
}

fn described(report: &Report) -> String {
    let rank = report.rank.map_or(String::new(), |rank| format!(" {rank}"));
    format!("{}{rank} ({})", report.side.word(), report.endpoint)
}

fn twice(one: &Report, other: &Report) -> String {
    let (one_is, other_is) = (described(one), described(other));
    format!("two processes have the end point {}: {one_is} and {other_is}", one.endpoint)
}

/// Why two processes are not of one job.
fn disagreement(one: &Report, other: &Report) -> Option<String> {
    let (a, b) = (described(one), described(other));
    if one.job != other.job {
        return Some(format!("{a} is of job `{}`, {b} of job `{}`", one.job, other.job));
    }
    if one.n != other.n {
        return Some(format!("{a} has {} processes in its job, {b} has {}", one.n, other.n));
    }
    if let (Some(ours), Some(theirs)) = (one.n_servers, other.n_servers)
        && ours != theirs
    {
        return Some(format!("{a} has {ours} servers in its job, {b} has {theirs}"));
    }
    let is_same = one.side == other.side && one.rank.is_some() && one.rank == other.rank;
    is_same.then(|| format!("{a} is there twice: also {}", other.endpoint))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn report(side: Side, endpoint: &str) -> Report {
        let endpoint: Endpoint = endpoint.parse().unwrap();
        Report {
            job: "job".into(),
            n: 2,
            n_servers: None,
            side,
            rank: None,
            name: endpoint.host.clone(),
            endpoint,
            is_fixed: false,
        }
    }

    fn of(n: u32, report: Report) -> Report {
        Report { n, ..report }
    }

    #[test]
    fn all_get_the_same_lists_whoever_comes_first() {
        let all = ["s-10:1", "s-2:1", "t-1:1", "t-0:1"];
        let side = |at| if at < 2 { Side::Server } else { Side::Trainer };
        for orders in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut gathering = Gathering::default();
            for (n_here, at) in orders.into_iter().enumerate() {
                let conn = ConnId(at as u64);
                let outcome = gathering.report(conn, of(4, report(side(at), all[at])));
                assert_eq!(
                    outcome,
                    if n_here == 3 { ReportOutcome::Complete } else { ReportOutcome::Waits }
                );
            }
            let places: BTreeMap<_, _> = gathering.places().into_iter().collect();
            let ids = [0, 1, 2, 3].map(|at| places[&ConnId(at)].id);
            assert_eq!(ids, [1, 0, 1, 0], "s-2 comes before s-10");
            let place = &places[&ConnId(0)];
            let texts = |list: &[Endpoint]| list.iter().map(|e| e.to_string()).collect::<Vec<_>>();
            assert_eq!(texts(&place.servers), ["s-2:1", "s-10:1"]);
            assert_eq!(texts(&place.trainers), ["t-0:1", "t-1:1"]);
        }
    }

    #[test]
    fn numbers_that_are_known_are_kept() {
        let mut gathering = Gathering::default();
        let second = Report { rank: Some(1), ..report(Side::Trainer, "a:1") };
        gathering.report(ConnId(1), second);
        gathering.report(ConnId(2), report(Side::Trainer, "b:1"));
        let places: BTreeMap<_, _> = gathering.places().into_iter().collect();
        assert_eq!((places[&ConnId(1)].id, places[&ConnId(2)].id), (1, 0));
    }

    #[test]
    fn one_port_is_given_once() {
        let mut gathering = Gathering::default();
        gathering.report(ConnId(1), report(Side::Server, "a:1"));
        let outcome = gathering.report(ConnId(2), report(Side::Server, "a:1"));
        assert_eq!(outcome, ReportOutcome::Taken);
        let fixed = Report { is_fixed: true, ..report(Side::Server, "a:1") };
        let ReportOutcome::Apart(why) = gathering.report(ConnId(2), fixed) else {
            panic!("refused")
        };
        assert!(why.contains("two processes have the end point a:1"), "{why}");
    }

    #[test]
    fn what_does_not_fit_is_told_with_both_sides() {
        let one = Report { rank: Some(0), n_servers: Some(1), ..report(Side::Server, "a:1") };
        let other = Report { rank: Some(0), n_servers: Some(1), ..report(Side::Trainer, "b:1") };
        for (change, text) in [
            (Report { job: "x".into(), ..other.clone() }, "of job `x`"),
            (Report { n: 3, ..other.clone() }, "has 3"),
            (Report { n_servers: Some(2), ..other.clone() }, "has 2"),
            (Report { side: Side::Server, ..other.clone() }, "there twice"),
        ] {
            let mut gathering = Gathering::default();
            gathering.report(ConnId(1), one.clone());
            let ReportOutcome::Apart(why) = gathering.report(ConnId(2), change) else {
                panic!("{text}")
            };
            assert!(why.contains(text) && why.contains("a:1") && why.contains("b:1"), "{why}");
        }
        let far = Report { rank: Some(7), ..other };
        let mut gathering = Gathering::default();
        gathering.report(ConnId(1), one);
        let ReportOutcome::Apart(why) = gathering.report(ConnId(2), far) else { panic!("refused") };
        assert!(why.contains("b says it is trainer 7, and there are 1"), "{why}");
    }

    #[test]
    fn who_is_missing_is_named() {
        let mut gathering = Gathering::default();
        assert_eq!(gathering.missing(), "no process has reported");
        let known = |side, rank, endpoint| {
            let n_servers = Some(2);
            of(4, Report { rank: Some(rank), n_servers, ..report(side, endpoint) })
        };
        gathering.report(ConnId(1), known(Side::Server, 1, "b:1"));
        gathering.report(ConnId(2), known(Side::Trainer, 0, "c:1"));
        let text = gathering.missing();
        assert!(text.starts_with("missing: server 0, trainer 1; there are: server 1 (b:1)"));
        let mut gathering = Gathering::default();
        gathering.report(ConnId(1), of(4, report(Side::Server, "b:1")));
        assert_eq!(gathering.missing(), "missing: 3 of 4 processes; there are: server (b:1)");
        gathering.leave(ConnId(1));
        assert_eq!(gathering.missing(), "no process has reported");
    }

    #[test]
    fn who_comes_back_has_its_old_place() {
        let mut gathering = Gathering::default();
        gathering.report(ConnId(1), report(Side::Server, "a:1"));
        gathering.report(ConnId(2), report(Side::Trainer, "b:1"));
        let back = |gathering: &mut Gathering, conn, report| match gathering.report(conn, report) {
            ReportOutcome::Back(place) => place.id,
            other => panic!("{other:?}"),
        };
        gathering.leave(ConnId(2));
        // Another machine may take the place of a trainer, not that of a server.
        assert_eq!(back(&mut gathering, ConnId(3), report(Side::Trainer, "c:1")), 0);
        gathering.leave(ConnId(1));
        let away = gathering.report(ConnId(4), report(Side::Server, "d:1"));
        assert!(
            matches!(away, ReportOutcome::Refused(ref why) if why.contains("was at a:1")),
            "{away:?}"
        );
        assert_eq!(back(&mut gathering, ConnId(4), report(Side::Server, "a:1")), 0);
        let full = gathering.report(ConnId(5), report(Side::Trainer, "e:1"));
        assert!(
            matches!(full, ReportOutcome::Refused(ref why) if why.contains("already")),
            "{full:?}"
        );
    }
}
