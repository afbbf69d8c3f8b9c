//! Agreements between processes, and waiting trainers.

use super::*;

#[test]
fn trainers_that_wait_for_each_other_are_told() {
    let mut bench = Bench::new(2, true);
    bench.hello(0, 0);
    bench.hello(1, 1);
    // Trainer 1 was started again and does its script anew: a round more than trainer 0.
    bench.say(1, 1, push(1.0));
    bench.say(1, 2, Barrier::new(1));
    assert_eq!(bench.say(1, 9, pull(1)), []);
    let told = bench.say(0, 9, AllGather { purpose: "end".into(), turn: 1, bytes: Vec::new() });
    let stuck = Refusal::Stuck { gathering: vec![0], round_of: vec![1], round: 1 };
    assert_eq!(told, [(1, 9, stuck.clone().into()), (0, 9, stuck.into())]);
}

#[test]
fn trainers_with_other_parameters_are_refused_and_others_are_let_in() {
    let held = VarInfo::param;
    let greet = |vars: Vec<VarInfo>| {
        let hello = Hello { job: String::new(), vars, ..hello(0, 1) };
        let ours = vec![held("w", &[4, 1]), held("bias", &[1]), held("table", &[])];
        let mut server = Server::new(ServerConfig::default(), ours);
        server.handle(Millis(0), ConnId(1), 0, hello.into())
    };
    for (name, dims) in [("w", vec![5, 1]), ("w2", vec![4, 1])] {
        let said = replies(greet(vec![held("bias", &[1]), held(name, &dims)]));
        let [(_, _, Reply::Refused(Refusal::OtherModel { var, .. }))] = &said[..] else {
            panic!("{said:?}");
        };
        assert_eq!(var, name);
    }
    let stray = VarInfo::other("a state of an optimizer that the server does not have");
    let actions = greet(vec![held("w", &[4, 1]), held("table", &[9, 9]), stray]);
    let warned = actions.iter().any(|action| match action {
        Action::Log(Severity::Warning, line) => line.contains("has no parameter bias"),
        _ => false,
    });
    assert!(warned, "{actions:?}");
    assert!(matches!(replies(actions)[..], [(1, 0, Reply::Welcome(_))]));
}

#[test]
fn processes_that_begin_from_different_checkpoints_end_the_job() {
    let ours = vec![VarInfo::start(Some(4), "one:/points")];
    let greeted = |theirs: Option<VarInfo>, recovers: bool| {
        let config = ServerConfig { n_trainers: 2, recovers, ..ServerConfig::default() };
        let mut server = Server::new(config, ours.clone());
        let vars = theirs.into_iter().collect();
        let hello = Hello { job: String::new(), vars, ..hello(1, 1) };
        replies(server.handle(Millis(0), ConnId(1), 0, hello.into()))
    };
    let said = greeted(Some(VarInfo::start(None, "two:/points")), false);
    let [(_, _, Reply::Refused(Refusal::Failed(why)))] = &said[..] else { panic!("{said:?}") };
    for word in ["checkpoint 4 of one:/points", "trainer 1", "two:/points", "merge"] {
        assert!(why.contains(word), "{word}: {why}");
    }
    let is_refused = |said: &[(u64, u64, Reply)]| {
        said.iter().any(|(_, _, reply)| matches!(reply, Reply::Refused(Refusal::Failed(_))))
    };
    assert!(is_refused(&greeted(Some(VarInfo::start(Some(3), "two:/points")), false)));
    assert!(!is_refused(&greeted(Some(VarInfo::start(Some(4), "two:/points")), false)));
    assert!(!is_refused(&greeted(None, false)));
    // It begins from its cuts.
    assert!(!is_refused(&greeted(Some(VarInfo::start(Some(3), "two:/points")), true)));
}

/// A server that agrees with all its trainers ends too, when another one does not.
#[test]
fn what_another_server_refused_ends_the_job_here() {
    let greeted = |recovers: bool| {
        let config = ServerConfig { n_trainers: 1, recovers, ..ServerConfig::default() };
        let mut server = Server::new(config, vec![VarInfo::start(Some(4), "one:/points")]);
        let vars = vec![VarInfo::start(Some(4), "one:/points")];
        let joins = Hello { job: String::new(), vars, ..hello(0, 1) };
        server.handle(Millis(0), ConnId(1), 0, joins.into());
        let vars = vec![VarInfo::no_start("merge one:/points and two:/points")];
        let tells = Hello { job: String::new(), vars, ..hello(0, 1) };
        let said = replies(server.handle(Millis(5), ConnId(2), 0, tells.into()));
        server.closed(Millis(6), ConnId(1));
        server.closed(Millis(6), ConnId(2));
        (said, server.end())
    };
    let why = Refusal::Failed("merge one:/points and two:/points".to_string());
    assert_eq!(greeted(false), (vec![(2, 0, why.clone().into())], Some(End::Failed(why))));
    // It begins from its cuts.
    assert_eq!(greeted(true).1, None);
}

#[test]
fn a_server_that_cannot_begin_stays_until_all_trainers_know_it() {
    let start = |serial, place| vec![VarInfo::start(serial, place)];
    let config = ServerConfig { n_trainers: 3, ..ServerConfig::default() };
    let mut server = Server::new(config, start(Some(4), "one:/points"));
    let greets = |server: &mut Server, rank: u32, serial| {
        let vars = start(serial, "two:/points");
        let hello = Hello { job: String::new(), vars, ..hello(rank, 1) };
        let conn = ConnId(u64::from(rank) + 1);
        let said = replies(server.handle(Millis(5), conn, 0, hello.into()));
        server.closed(Millis(5), conn);
        matches!(said[..], [(_, _, Reply::Refused(Refusal::Failed(_)))])
    };
    assert!(greets(&mut server, 1, None));
    assert_eq!(server.end(), None, "others come later");
    assert!(greets(&mut server, 0, Some(4)), "one that agrees hears it too");
    assert_eq!(server.end(), None);
    server.tick(Millis(59_000));
    assert_eq!(server.end(), None);
    server.tick(Millis(60_005));
    assert!(matches!(server.end(), Some(End::Failed(_))), "no wait is without an end");
}
