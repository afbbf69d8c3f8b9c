//! A trainer's side of one conversation with one server, as a state machine: no I/O, no clock.
//!
//! Changes are numbered and kept until the server says it has served them; a new connection begins
//! with a greeting, learns how far the server got, and sends the rest again. Questions are kept
//! until they are answered. Each change is therefore served once, even if the network loses or repeats data.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use wire::message::{Hello, Notice, Ping, Pong, Reply, Request};
use wire::recovery::{Term, TermState};
use wire::unproved::Unproved;
use wire::{Millis, Refusal, TlsFailure};

/// Ids of questions have this bit, numbers of changes do not.
const QUESTION: u64 = 1 << 63;

/// How much later than the first refusal another one may come.
const RIVAL_MS: u64 = 500;

/// How a link behaves.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// A message that is not answered for this long is sent again.
    pub resend_ms: u64,
    /// After this long without a message, a sign of life is sent.
    pub ping_ms: u64,
    /// The most changes in flight.
    pub window: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self { resend_ms: 5_000, ping_ms: 1_000, window: 1024 }
    }
}

/// Why a link cannot be used any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The server refused the greeting or a change.
    Refused(Refusal),
    /// No encrypted connection came about.
    NotEncrypted(TlsFailure),
    /// The server does not prove to be the one it was.
    Unproved(Unproved),
    /// The server forgot changes it had served: it was started again.
    Restarted,
    /// The server is of another term.
    OtherTerm(TermState),
}

/// One conversation; see the module.
#[derive(Debug)]
pub struct Link {
    hello: Hello,
    config: LinkConfig,
    is_up: bool,
    next_seq: u64,
    unacked: VecDeque<(u64, Arc<Request>)>,
    next_id: u64,
    questions: BTreeMap<u64, (Millis, Arc<Request>)>,
    answers: BTreeMap<u64, Result<Reply, Refusal>>,
    broken: Option<Broken>,
    /// Whether a server ever took us in.
    was_up: bool,
    /// Since when we know of another process with our name.
    rival: Option<Millis>,
    /// The last round of which the server has our part, or will have.
    round: u64,
    heard: Millis,
    spoke: Millis,
    /// When the oldest unacknowledged change was last sent or progress was made.
    progress: Millis,
    pong: Pong,
    notice: Notice,
    out: Vec<(u64, Arc<Request>)>,
    /// Changes that were served: their memory can be used again.
    done: Vec<Arc<Request>>,
}

/// Served changes kept for their memory.
const DONE_MAX: usize = 64;

impl Link {
    /// A conversation that has not begun.
    pub fn new(hello: Hello, config: LinkConfig) -> Self {
        Self {
            hello,
            config,
            is_up: false,
            next_seq: 0,
            unacked: VecDeque::new(),
            next_id: QUESTION,
            questions: BTreeMap::new(),
            answers: BTreeMap::new(),
            broken: None,
            was_up: false,
            rival: None,
            round: 0,
            heard: Millis(0),
            spoke: Millis(0),
            progress: Millis(0),
            pong: Pong::default(),
            notice: Notice::default(),
            out: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Changes that were applied, so that their memory can be used again.
    pub fn take_done(&mut self) -> Vec<Arc<Request>> {
        std::mem::take(&mut self.done)
    }

    /// The frames to send now, in order.
    pub fn take_out(&mut self) -> Vec<(u64, Arc<Request>)> {
        std::mem::take(&mut self.out)
    }

    /// Whether the greeting was answered on this connection.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Why the link cannot be used any more, if so.
    pub fn broken(&self) -> Option<&Broken> {
        self.broken.as_ref()
    }

    /// When the server was last heard.
    pub fn heard(&self) -> Millis {
        self.heard
    }

    /// The last sign of life of the server.
    pub fn pong(&self) -> &Pong {
        &self.pong
    }

    /// The last news about cuts.
    pub fn notice(&self) -> &Notice {
        &self.notice
    }

    /// The term that it takes part in, or wants to take part in.
    pub fn term(&self) -> Term {
        self.hello.term
    }

    /// A conversation that has not begun, in another term.
    pub fn of_term(&self, term: Term) -> Self {
        Self::new(Hello { term, ..self.hello.clone() }, self.config)
    }

    /// The last round whose part the server has from us, or will have when it has applied
    /// everything we sent. A part of an earlier process of this rank counts.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Whether no more changes may be in flight.
    pub fn is_full(&self) -> bool {
        self.unacked.len() >= self.config.window
    }

    /// Whether every change has been served.
    pub fn is_settled(&self) -> bool {
        self.unacked.is_empty()
    }

    /// A connection was made: greets.
    pub fn connected(&mut self, now: Millis) {
        self.is_up = false;
        self.out.clear();
        self.heard = now;
        self.greet(now);
    }

    /// No connection was made, because one of the two sides does not let the other in.
    pub fn turned_away(&mut self, why: Broken) {
        self.broken.get_or_insert(why);
    }

    /// The connection broke.
    pub fn closed(&mut self) {
        self.is_up = false;
        self.out.clear();
    }

    fn greet(&mut self, now: Millis) {
        (self.spoke, self.progress) = (now, now);
        self.out.push((0, Arc::new(Request::Hello(self.hello.clone()))));
    }

    /// Numbers a change and sends it.
    pub fn change(&mut self, now: Millis, request: impl Into<Request>) -> u64 {
        let request = Arc::new(request.into());
        debug_assert!(request.is_change(), "questions are asked");
        self.round = self.round.max(closes(&request));
        self.next_seq += 1;
        if self.unacked.is_empty() {
            self.progress = now;
        }
        self.unacked.push_back((self.next_seq, request.clone()));
        self.send(now, self.next_seq, request);
        self.next_seq
    }

    /// Asks a question; its answer is fetched with [`Link::answer`].
    pub fn ask(&mut self, now: Millis, request: impl Into<Request>) -> u64 {
        let request = Arc::new(request.into());
        debug_assert!(!request.is_change(), "changes are numbered");
        self.next_id += 1;
        self.questions.insert(self.next_id, (now, request.clone()));
        self.send(now, self.next_id, request);
        self.next_id
    }

    fn send(&mut self, now: Millis, id: u64, request: Arc<Request>) {
        if self.is_up {
            self.spoke = now;
            self.out.push((id, request));
        }
    }

    /// Sends a message to the other end of this connection that the server's protocol does not see.
    pub fn tell(&mut self, request: impl Into<Request>) {
        if self.is_up {
            self.out.push((QUESTION, Arc::new(request.into())));
        }
    }

    /// The answer to a question, once it is there.
    pub fn answer(&mut self, id: u64) -> Option<Result<Reply, Refusal>> {
        self.answers.remove(&id)
    }

    /// No thread waits for this answer any more.
    pub fn forget(&mut self, id: u64) {
        self.questions.remove(&id);
        self.answers.remove(&id);
    }

    /// A message arrived.
    pub fn received(&mut self, now: Millis, id: u64, reply: Reply) {
        self.heard = now;
        match reply {
            Reply::Welcome(welcome) => self.welcomed(now, welcome.accepted, welcome.round),
            Reply::Ack(_) => self.acknowledged(now, id),
            Reply::Pong(pong) => {
                self.notice = pong.notice.clone();
                self.pong = pong;
            }
            Reply::Notice(notice) => self.notice = notice,
            Reply::Refused(refusal) => self.refused(now, id, refusal),
            answer => self.answered(id, Ok(answer)),
        }
    }

    fn welcomed(&mut self, now: Millis, accepted: u64, round: u64) {
        if self.is_up {
            return; // The greeting was sent twice.
        }
        if accepted > self.next_seq {
            // It served changes that we did not make: another process uses our id.
            let refusal = Refusal::DuplicateTrainer { trainer: self.hello.trainer, heard_ms: 0 };
            self.broken.get_or_insert(Broken::Refused(refusal));
            return;
        }
        if self.unacked.front().map_or(self.next_seq, |(first, _)| first - 1) > accepted {
            self.broken.get_or_insert(Broken::Restarted);
            return;
        }
        (self.is_up, self.was_up) = (true, true);
        self.acknowledged(now, accepted);
        let closed = self.unacked.iter().map(|(_, change)| closes(change)).max();
        self.round = round.max(closed.unwrap_or(0));
        self.resend(now);
    }

    fn acknowledged(&mut self, now: Millis, accepted: u64) {
        while self.unacked.front().is_some_and(|&(seq, _)| seq <= accepted) {
            let served = self.unacked.pop_front();
            if self.done.len() < DONE_MAX {
                self.done.extend(served.map(|(_, request)| request));
            }
            self.progress = now;
        }
    }

    fn refused(&mut self, now: Millis, id: u64, refusal: Refusal) {
        if refusal == Refusal::HelloFirst {
            // The server does not know this connection: the greeting was lost.
            if self.is_up || id != 0 {
                self.is_up = false;
                self.greet(now);
            }
        } else if let Refusal::OtherTerm(term_state) = refusal {
            self.broken.get_or_insert(Broken::OtherTerm(term_state));
        } else if id & QUESTION != 0 {
            self.answered(id, Err(refusal));
        } else if !self.may_inherit(now, &refusal) {
            self.acknowledged(now, id);
            self.broken.get_or_insert(Broken::Refused(refusal));
        }
    }

    /// Whether the process that has our name may be the one we were started in place of: it has not
    /// said a word since we came. The server has closed this connection; the next one asks again.
    fn may_inherit(&mut self, now: Millis, refusal: &Refusal) -> bool {
        let Refusal::DuplicateTrainer { heard_ms, .. } = refusal else { return false };
        let since = *self.rival.get_or_insert(now);
        !self.was_up && now.since(since) <= heard_ms + RIVAL_MS
    }

    fn answered(&mut self, id: u64, answer: Result<Reply, Refusal>) {
        if self.questions.remove(&id).is_some() {
            self.answers.insert(id, answer);
        }
    }

    /// Sends everything again that was not answered.
    fn resend(&mut self, now: Millis) {
        (self.progress, self.spoke) = (now, now);
        self.out.extend(self.unacked.iter().cloned());
        for (&id, (asked, request)) in &mut self.questions {
            *asked = now;
            self.out.push((id, request.clone()));
        }
    }

    /// Time passed: sends again what was not answered, or sends a sign of life.
    pub fn tick(&mut self, now: Millis) {
        let resend_ms = self.config.resend_ms;
        if !self.is_up {
            if now.since(self.progress) >= resend_ms && self.broken.is_none() {
                self.greet(now);
            }
            return;
        }
        if !self.unacked.is_empty() && now.since(self.progress) >= resend_ms {
            self.progress = now;
            self.spoke = now;
            self.out.extend(self.unacked.iter().cloned());
        }
        for (&id, (asked, request)) in &mut self.questions {
            if now.since(*asked) >= resend_ms {
                (*asked, self.spoke) = (now, now);
                self.out.push((id, request.clone()));
            }
        }
        if now.since(self.spoke) >= self.config.ping_ms {
            self.spoke = now;
            self.out.push((QUESTION, Arc::new(Request::Ping(Ping))));
        }
    }
}

/// The round whose part a change closes; 0 for others.
fn closes(change: &Request) -> u64 {
    match change {
        Request::Barrier(barrier) => barrier.round,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::{Ack, Barrier, Pull, Push, Values, Welcome};

    fn link() -> Link {
        Link::new(Hello::new("", 0, 5, Vec::new()), LinkConfig::default())
    }

    fn up() -> Link {
        let mut link = link();
        link.connected(Millis(0));
        link.received(Millis(0), 0, Welcome { accepted: 0, round: 0 }.into());
        link.take_out();
        link
    }

    fn push() -> Request {
        Push::new(Vec::new()).into()
    }

    fn pull() -> Request {
        Pull::new(0, Vec::new()).into()
    }

    fn sent(link: &mut Link) -> Vec<(u64, &'static str)> {
        link.take_out().into_iter().map(|(id, request)| (id, request.name())).collect()
    }

    #[test]
    fn nothing_is_said_before_the_greeting_is_answered() {
        let mut link = link();
        link.change(Millis(0), push());
        assert_eq!(sent(&mut link), []);
        link.connected(Millis(1));
        assert_eq!(sent(&mut link), [(0, "Hello")]);
        link.received(Millis(2), 0, Welcome { accepted: 0, round: 0 }.into());
        assert_eq!(sent(&mut link), [(1, "Push")]);
    }

    #[test]
    fn a_new_connection_sends_what_was_not_served() {
        let mut link = up();
        for _ in 0..3 {
            link.change(Millis(0), push());
        }
        let id = link.ask(Millis(0), pull());
        link.closed();
        link.connected(Millis(9));
        link.take_out();
        link.received(Millis(9), 0, Welcome { accepted: 2, round: 0 }.into());
        assert_eq!(sent(&mut link), [(3, "Push"), (id, "Pull")]);
        link.received(Millis(9), 3, Ack.into());
        assert!(link.is_settled());
    }

    #[test]
    fn a_server_that_forgot_is_found_out() {
        let mut link = up();
        link.change(Millis(0), push());
        link.received(Millis(0), 1, Ack.into());
        link.closed();
        link.connected(Millis(1));
        link.received(Millis(1), 0, Welcome { accepted: 0, round: 0 }.into());
        assert_eq!(link.broken(), Some(&Broken::Restarted));
    }

    #[test]
    fn silence_is_broken() {
        let mut link = up();
        link.tick(Millis(999));
        assert_eq!(sent(&mut link), []);
        link.tick(Millis(1000));
        assert_eq!(sent(&mut link), [(QUESTION, "Ping")]);
        let id = link.ask(Millis(1000), pull());
        link.take_out();
        link.tick(Millis(6000));
        assert_eq!(sent(&mut link), [(id, "Pull")]);
        link.received(Millis(6001), id, Values(Vec::new()).into());
        assert_eq!(link.answer(id), Some(Ok(Values(Vec::new()).into())));
        assert_eq!(link.answer(id), None);
    }

    #[test]
    fn a_refused_change_is_remembered() {
        let mut link = up();
        link.change(Millis(0), push());
        link.received(Millis(0), 1, Refusal::UnknownVar("x".into()).into());
        let broken = Broken::Refused(Refusal::UnknownVar("x".into()));
        assert_eq!(link.broken(), Some(&broken));
        assert!(link.is_settled());
    }

    #[test]
    fn a_name_is_inherited_from_the_silent_only() {
        let duplicate = |heard_ms| Refusal::DuplicateTrainer { trainer: 0, heard_ms };
        let mut link = link();
        for (now, heard_ms) in [(0, 30), (2_000, 2_030), (9_000, 9_030)] {
            link.connected(Millis(now));
            link.received(Millis(now), 0, duplicate(heard_ms).into());
            assert_eq!(link.broken(), None, "it has been silent since");
            link.closed();
        }
        link.connected(Millis(9_900));
        link.received(Millis(9_900), 0, duplicate(200).into());
        assert_eq!(link.broken(), Some(&Broken::Refused(duplicate(200))), "it spoke");
        let mut link = up();
        link.closed();
        link.connected(Millis(10));
        link.received(Millis(10), 0, duplicate(10).into());
        assert!(link.broken().is_some(), "another one has inherited our name");
    }

    #[test]
    fn a_server_of_another_term_ends_the_conversation_of_this_one() {
        let mut link = up();
        link.change(Millis(0), push());
        let term = Term { number: 2, base: None };
        let term_state = TermState { term, cuts: vec![0], has_member: false };
        link.received(Millis(1), 0, Refusal::OtherTerm(term_state.clone()).into());
        assert_eq!(link.broken(), Some(&Broken::OtherTerm(term_state)));
        let mut next = link.of_term(Term { number: 2, base: Some(0) });
        next.connected(Millis(2));
        assert_eq!(sent(&mut next), [(0, "Hello")]);
        assert_eq!((next.term().base, next.is_settled()), (Some(0), true));
        let notice = Notice { next_cut: None, kept: vec![0, 1], cut_requests: 2 };
        next.received(Millis(3), QUESTION, notice.clone().into());
        assert_eq!(*next.notice(), notice);
    }

    #[test]
    fn rounds_count_from_where_the_server_was() {
        let mut link = link();
        link.connected(Millis(0));
        link.received(Millis(0), 0, Welcome { accepted: 0, round: 7 }.into());
        assert_eq!(link.round(), 7);
        link.change(Millis(0), Barrier::new(7));
        assert_eq!(link.round(), 7, "an earlier process closed that part");
        link.change(Millis(0), Barrier::new(8));
        assert_eq!(link.round(), 8);
        link.closed();
        link.connected(Millis(1));
        link.received(Millis(1), 0, Welcome { accepted: 1, round: 7 }.into());
        assert_eq!(link.round(), 8, "it will be sent again");
    }
}
