use std::sync::Arc;
use std::thread;

use protocol::collective::ReduceOp;
use tensor::Tensor;

use super::*;

fn settings(connect_ms: u64) -> MeshSettings {
    let patience = Patience { connect_ms, answer_ms: 20_000, ..Patience::default() };
    MeshSettings {
        patience,
        stops: Arc::new(|| false),
        log: Arc::new(|_| {}),
        access: Access::default(),
        early_bytes_max: u64::MAX,
    }
}

/// End points that are free now.
fn endpoints(n: usize) -> Vec<Endpoint> {
    let free: Vec<_> =
        (0..n).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let port = |own: &std::net::TcpListener| own.local_addr().unwrap().port();
    free.iter().map(|own| Endpoint { host: "127.0.0.1".into(), port: port(own) }).collect()
}

fn member(me: u32, endpoints: &[Endpoint], mode: &str) -> Membership {
    Membership { me, endpoints: endpoints.to_vec(), mode: mode.to_string() }
}

/// Runs `act` for all trainers at the same time; returns their results.
fn together<T: Send>(
    members: Vec<Membership>,
    connect_ms: u64,
    act: impl Fn(Result<Mesh>, u32) -> T + Sync,
) -> Vec<T> {
    thread::scope(|scope| {
        let act = &act;
        let join = |member: Membership| {
            let me = member.me;
            scope.spawn(move || act(Mesh::join(member, settings(connect_ms)), me))
        };
        let handles: Vec<_> = members.into_iter().map(join).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

fn terms(var: &str) -> Terms {
    let collective = Collective::AllReduce(ReduceOp::Sum);
    Terms { collective, var: var.to_string(), ring: 0 }
}

fn sum(mesh: &Mesh, var: &str, value: Tensor) -> Result<Tensor> {
    let number = mesh.begin(&terms(var), Value::Tensor(value));
    match mesh.wait(number)? {
        Exchanged::One(Value::Tensor(tensor)) => Ok(tensor),
        other => panic!("{other:?}"),
    }
}

#[test]
fn trainers_add_up_over_sockets() {
    for n in [1, 2, 3] {
        let all = endpoints(n);
        let members = (0..n as u32).map(|me| member(me, &all, "test")).collect();
        let sums = together(members, 20_000, |mesh, me| {
            let mesh = mesh.unwrap();
            let values = |n: usize| -> Vec<f32> {
                (0..n).map(|at| (at as f32 + 0.1) * (me as f32 + 0.7)).collect()
            };
            // Begun one after another, waited for later.
            let numbers = [10usize, 300_000, 17].map(|n| {
                mesh.begin(&terms("g"), Value::Tensor(Tensor::new([n], &values(n)).unwrap()))
            });
            let outcomes = numbers.map(|number| match mesh.wait(number).unwrap() {
                Exchanged::One(Value::Tensor(tensor)) => tensor,
                other => panic!("{other:?}"),
            });
            mesh.leave();
            outcomes
        });
        for other in &sums {
            assert_eq!(other, &sums[0], "all have the same bits");
        }
        let expected: f32 = (0..n).map(|me| (16.0 + 0.1) * (me as f32 + 0.7)).sum();
        assert!((sums[0][2].get_f64(16) - f64::from(expected)).abs() < 1e-3);
    }
}

/// A peer that knows the secret, connects and sends nothing, or only a part of a greeting, delays no other. The patience of the
/// trainers is shorter than the time that this peer has.
#[test]
fn a_silent_guest_does_not_delay_the_others() {
    use crate::access::proof::Service;
    use crate::tcp::entrance::enter;
    use std::io::Write;

    let all = endpoints(3);
    thread::scope(|scope| {
        let join = |me: u32| {
            let member = member(me, &all, "test");
            scope.spawn(move || Mesh::join(member, settings(5_000)).map(|mesh| mesh.leave()))
        };
        let first = join(0);
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut guests = Vec::new();
        while guests.len() < 3 {
            assert!(Instant::now() < deadline, "no process listens at {}", all[0]);
            let Ok(stream) = std::net::TcpStream::connect(("127.0.0.1", all[0].port)) else {
                thread::park_timeout(Duration::from_millis(5));
                continue;
            };
            // Proved to the first trainer before any other comes.
            enter(&stream, &Access::default(), Service::Trainer).unwrap();
            (&stream).write_all(&b"PWL1\0\0"[..2 * guests.len()]).unwrap();
            guests.push(stream);
        }
        let others = [join(1), join(2)];
        first.join().unwrap().unwrap();
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
    });
}

/// The memory of a result becomes that of the next value, and there the others can read it.
#[test]
fn trainers_of_one_machine_read_in_each_others_memory() {
    for n in [2u32, 3] {
        let all = endpoints(n as usize);
        let members = (0..n).map(|me| member(me, &all, "test")).collect();
        let n_lent = together(members, 20_000, |mesh, me| {
            let mesh = mesh.unwrap();
            let (mut own, mut n_lent) = (Tensor::full([300_000], 0.0f32), 0);
            for round in 0..6 {
                let value = |rank: u32| 0.1 + rank as f32 * 0.7 + round as f32;
                own.data_mut::<f32>().unwrap().fill(value(me));
                n_lent += usize::from(own.lender().is_some());
                own = sum(&mesh, "g", own).unwrap();
                let expected = (1..n).fold(value(0), |sum, rank| sum + value(rank));
                assert!(own.data::<f32>().unwrap().iter().all(|&sum| sum == expected));
            }
            mesh.leave();
            n_lent
        });
        assert!(n_lent.iter().all(|&n_lent| n_lent >= 3), "{n_lent:?}");
    }
}

#[test]
fn a_trainer_that_ends_early_is_named_to_all() {
    let all = endpoints(3);
    let members = (0..3).map(|me| member(me, &all, "test")).collect();
    let errors = together(members, 20_000, |mesh, me| {
        let mesh = mesh.unwrap();
        // A trainer that learns it from another one may still be in the first sum.
        let first = sum(&mesh, "g", Tensor::full([10], 1.0f32));
        if me == 1 {
            return first.err();
        }
        Some(
            first.err().unwrap_or_else(|| sum(&mesh, "g", Tensor::full([10], 1.0f32)).unwrap_err()),
        )
    });
    assert!(errors[0].is_some() && errors[2].is_some());
    for error in errors.into_iter().flatten() {
        assert!(matches!(error, Error::Trainers(Failure::Left { trainer: 1, .. })), "{error}");
    }
}

#[test]
fn jobs_that_differ_are_refused_on_both_sides() {
    let all = endpoints(2);
    let members = vec![member(0, &all, "nccl2"), member(1, &all, "local_sgd")];
    let errors = together(members, 20_000, |mesh, _| mesh.expect_err("refused"));
    for error in errors {
        let Error::Trainers(Failure::Differ { left: 0, right: 1, left_says, right_says }) = error
        else {
            panic!("{error}")
        };
        assert!(left_says.contains("nccl2") && right_says.contains("local_sgd"));
    }
}

#[test]
fn one_that_never_comes_is_named_by_all() {
    let all = endpoints(3);
    let members = vec![member(0, &all, "test"), member(2, &all, "test")];
    let errors = together(members, 1_500, |mesh, _| mesh.expect_err("somebody is missing"));
    for error in errors {
        let Error::Trainers(Failure::Missing { missing, .. }) = &error else { panic!("{error}") };
        assert_eq!(missing, &format!("trainer 1 ({})", all[1]));
    }
}

#[test]
fn a_port_that_is_taken_is_told_to_all() {
    let mut all = endpoints(2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    all[1].port = taken.local_addr().unwrap().port();
    let members = vec![member(0, &all, "test"), member(1, &all, "test")];
    let errors = together(members, 5_000, |mesh, _| mesh.expect_err("no port"));
    assert!(matches!(errors[1], Error::Bind { .. }), "{}", errors[1]);
    // Trainer 0 learns it, unless it was not there yet: then it names the missing trainers.
    let named = match &errors[0] {
        Error::Trainers(Failure::NotBegun { trainer, .. }) => *trainer == 1,
        Error::Trainers(Failure::Missing { missing, .. }) => missing.starts_with("trainer 1"),
        _ => false,
    };
    assert!(named, "{}", errors[0]);
}
