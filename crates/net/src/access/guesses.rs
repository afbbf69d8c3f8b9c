//! Wrong proofs of a secret, by address: slows down guessing.
//!
//! Some wrong proofs are free: a user who gave one process another secret learns this at once. After
//! them, connections of that address are looked at one after the other, with a pause that grows to two
//! seconds; a few wait for their turn, the others are closed. A right proof ends that for its address,
//! so a member at the address of a guesser waits for its turn and no longer. This is a state machine: no
//! I/O, no clock.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::Millis;

/// Wrong proofs of an address that cost it nothing.
const FREE: u32 = 8;
/// The first pause, which doubles with each wrong proof.
const PAUSE_MS: u64 = 100;
/// The longest one.
const PAUSE_MS_MAX: u64 = 2_000;
/// Connections of an address that wait for their turn; others are closed.
const WAITING_MAX: u64 = 4;
/// A connection whose turn would be later than this is closed, too: the other side gives up soon after.
const WAIT_MS_MAX: u64 = 6_000;
/// Wrong proofs expire after this time without another one.
const FORGET_MS: u64 = 60_000;
/// Addresses that are remembered; the ones with the oldest wrong proofs go first.
const ADDRESSES_MAX: usize = 1_024;

#[derive(Clone, Copy, Debug, Default)]
struct Guesser {
    n_wrong: u32,
    /// When the last proof was wrong.
    last: Millis,
    /// When the next connection has its turn.
    next: Millis,
}

impl Guesser {
    fn pause_ms(&self) -> u64 {
        match self.n_wrong.checked_sub(FREE) {
            None | Some(0) => 0,
            Some(n) => (PAUSE_MS << (n - 1).min(16)).min(PAUSE_MS_MAX),
        }
    }
}

/// Addresses that sent wrong proofs, with their number.
#[derive(Debug, Default)]
pub(crate) struct Guesses(BTreeMap<IpAddr, Guesser>);

impl Guesses {
    /// Somebody has connected: when to look at its proof; never, if too many wait already.
    pub(crate) fn turn(&mut self, from: IpAddr, now: Millis) -> Option<Millis> {
        let Some(guesser) = self.0.get_mut(&network(from)) else { return Some(now) };
        if now.since(guesser.last) >= FORGET_MS {
            self.0.remove(&network(from));
            return Some(now);
        }
        let pause_ms = guesser.pause_ms();
        if pause_ms == 0 {
            return Some(now);
        }
        let turn = guesser.next.max(now);
        if turn.since(now) > (WAITING_MAX * pause_ms).min(WAIT_MS_MAX) {
            return None;
        }
        guesser.next = turn + pause_ms;
        Some(turn)
    }

    /// Whether connections of an address wait for their turn: those that came before it was so lose theirs.
    pub(crate) fn is_slowed(&self, from: IpAddr) -> bool {
        self.0.get(&network(from)).is_some_and(|guesser| guesser.pause_ms() > 0)
    }

    /// A proof from there was wrong; whether the address is slowed down from now on.
    pub(crate) fn wrong(&mut self, from: IpAddr, now: Millis) -> bool {
        let from = network(from);
        if self.0.len() >= ADDRESSES_MAX && !self.0.contains_key(&from) {
            let oldest = self.0.iter().min_by_key(|(_, guesser)| guesser.last);
            let oldest = oldest.map(|(&address, _)| address);
            oldest.map(|address| self.0.remove(&address));
        }
        let guesser = self.0.entry(from).or_default();
        let was_slowed = guesser.pause_ms() > 0;
        guesser.n_wrong = guesser.n_wrong.saturating_add(1);
        guesser.last = now;
        guesser.next = guesser.next.max(now + guesser.pause_ms());
        !was_slowed && guesser.pause_ms() > 0
    }

    /// A proof from there was right.
    pub(crate) fn right(&mut self, from: IpAddr) {
        self.0.remove(&network(from));
    }
}

/// The unit that counts as one address. For IPv6 this is the network, because one machine can have any number of addresses there.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::V6(segments.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn guesses_have_their_turns_one_after_the_other() {
        let (mut guesses, from) = (Guesses::default(), at("10.0.0.1"));
        for n in 0..FREE {
            assert_eq!(guesses.turn(from, Millis(0)), Some(Millis(0)), "{n} wrong proofs");
            assert!(!guesses.wrong(from, Millis(0)) && !guesses.is_slowed(from));
        }
        assert!(guesses.wrong(from, Millis(0)) && guesses.is_slowed(from));
        let turns: Vec<_> = (0..1000).filter_map(|_| guesses.turn(from, Millis(0))).collect();
        assert_eq!(turns, [100, 200, 300, 400].map(Millis));
        (0..20).for_each(|_| _ = guesses.wrong(from, Millis(0)));
        // At most one in two seconds, however many connect.
        let turns: Vec<_> = (0..1000).filter_map(|_| guesses.turn(from, Millis(0))).collect();
        assert_eq!(turns, [2000, 4000, 6000].map(Millis));
        let later: Vec<_> = (0..1000).filter_map(|_| guesses.turn(from, Millis(5000))).collect();
        assert_eq!(later, [8000, 10_000].map(Millis));
        // Others are not concerned.
        assert_eq!(guesses.turn(at("10.0.0.2"), Millis(0)), Some(Millis(0)));
    }

    #[test]
    fn it_has_an_end() {
        let (mut guesses, from) = (Guesses::default(), at("10.0.0.1"));
        (0..100).for_each(|_| _ = guesses.wrong(from, Millis(0)));
        assert!(guesses.turn(from, Millis(1)).unwrap() > Millis(1));
        guesses.right(from);
        assert_eq!(guesses.turn(from, Millis(1)), Some(Millis(1)), "a member has come");
        (0..100).for_each(|_| _ = guesses.wrong(from, Millis(1)));
        assert_eq!(guesses.turn(from, Millis(60_001)), Some(Millis(60_001)), "long ago");
        assert!(!guesses.is_slowed(from));
    }

    #[test]
    fn memory_is_bounded_and_a_machine_is_one_address() {
        let mut guesses = Guesses::default();
        for n in 0..5_000u32 {
            let from = IpAddr::V4((0x0a00_0000 + n).into());
            guesses.wrong(from, Millis(u64::from(n)));
        }
        assert_eq!(guesses.0.len(), ADDRESSES_MAX);
        let mut guesses = Guesses::default();
        (0..20).for_each(|n| _ = guesses.wrong(at(&format!("2001:db8::{n}")), Millis(0)));
        assert!(guesses.is_slowed(at("2001:db8::ffff")) && !guesses.is_slowed(at("2001:db8:1::1")));
        (0..20).for_each(|_| _ = guesses.wrong(at("::ffff:10.0.0.1"), Millis(0)));
        assert!(guesses.is_slowed(at("10.0.0.1")));
    }
}
