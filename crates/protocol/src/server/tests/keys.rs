//! Jobs without a secret: the first key of a rank keeps it.

use super::*;
use crate::{KnownKeys, PublicKey, ShownKey};

fn shown(byte: u8) -> ShownKey {
    ShownKey { key: PublicKey([byte; 32]), from: format!("10.0.0.{byte}") }
}

/// A server that asks for keys; connections 0 to 9 have shown theirs.
fn keyed(known: KnownKeys) -> Bench {
    let mut bench = Bench::new(2, true);
    bench.server.ask_for_keys(known);
    (0..10).for_each(|conn| bench.server.show_key(ConnId(conn), shown(conn as u8)));
    bench
}

fn taken(bench: &mut Bench, conn: u64, trainer: u32) -> Option<(String, u64)> {
    let incarnation = conn + 100;
    match bench.say(conn, 0, hello(trainer, incarnation)).remove(0).2 {
        Reply::Refused(Refusal::OtherKey { from, since_ms, .. }) => Some((from, since_ms)),
        Reply::Welcome(_) => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_rank_belongs_to_the_first_key() {
    let mut bench = keyed(KnownKeys::default());
    assert_eq!(taken(&mut bench, 1, 0), None);
    bench.now = 700;
    // Another key, while the first one is here and after it has gone.
    assert_eq!(taken(&mut bench, 2, 0), Some(("10.0.0.1".to_string(), 700)));
    bench.server.closed(Millis(700), ConnId(1));
    assert_eq!(taken(&mut bench, 3, 0), Some(("10.0.0.1".to_string(), 700)));
    // The same key comes back.
    bench.server.show_key(ConnId(11), shown(1));
    assert_eq!(taken(&mut bench, 11, 0), None);
    // The other rank is free, once.
    assert_eq!(taken(&mut bench, 4, 1), None);
    for stranger in 5..9 {
        for trainer in 0..2 {
            assert!(taken(&mut bench, stranger, trainer).is_some(), "{stranger} as {trainer}");
        }
    }
}

#[test]
fn nothing_is_said_of_a_job_to_a_stranger() {
    let mut bench = keyed(KnownKeys::default());
    bench.hello(0, 0);
    let other = Hello { job: "other".to_string(), ..hello(0, 9) };
    let refused = bench.say(5, 0, other);
    assert!(matches!(&refused[0].2, Reply::Refused(Refusal::OtherKey { .. })), "{refused:?}");
    // Nor to one with an unused number.
    let other = Hello { job: "other".to_string(), ..hello(2, 9) };
    let out = Refusal::TrainerOutOfRange { trainer: 2, n_trainers: 2 };
    assert_eq!(bench.say(6, 0, other), [(6, 0, out.into())]);
    // A process without a key is a stranger.
    assert_eq!(bench.say(77, 0, hello(1, 9)), [(77, 0, Refusal::Secret.into())]);
}

#[test]
fn a_process_of_another_job_takes_no_rank() {
    let mut bench = keyed(KnownKeys::default());
    let refused = bench.say(5, 0, Hello { job: "other".to_string(), ..hello(0, 9) });
    assert!(matches!(&refused[0].2, Reply::Refused(Refusal::OtherJob { .. })), "{refused:?}");
    assert!(!bench.server.is_let_in(ConnId(5)) && bench.server.take_new_keys().is_none());
    assert_eq!(taken(&mut bench, 1, 0), None);
    assert!(bench.server.is_let_in(ConnId(1)));
}

#[test]
fn keys_outlive_a_server_that_keeps_them() {
    let mut bench = keyed(KnownKeys::default());
    assert_eq!(taken(&mut bench, 1, 0), None);
    let known = bench.server.take_new_keys().unwrap();
    assert!(bench.server.take_new_keys().is_none(), "nothing new");
    let mut again = keyed(KnownKeys::from_text(&known.to_text()));
    assert!(taken(&mut again, 2, 0).is_some());
    assert_eq!(taken(&mut again, 1, 0), None);
}
