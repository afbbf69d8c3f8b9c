//! Encrypted connections: jobs train over them, and no process without a good certificate takes part. A refused
//! one is told why, on both sides, and others are still served.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use base::Endpoint;
use net::access::tls::{CertificateFiles, Tls};
use net::tcp::{Client, ClientGroup, Listener, Patience, find_others};
use net::{Access, Secret};
use protocol::rendezvous::Side;
use protocol::server::{Apply, End, ServerConfig};
use tensor::{Rows, Tensor, Value};
use testing::cluster::{free_endpoints, take_local_name};
use testing::doors::{join, meeting};
use testing::served::Served;
use testing::sim::{GRAD, SHARED_VAR, TABLE, vars};
use wire::message::{Barrier, Complete, Grad, Hello, LookUp, Pull, Push, Reply};
use wire::{CertificateFault, Error, TlsFailure};

fn secret() -> Access {
    Access::with(Secret::new("the secret of this job").unwrap())
}

/// With keys that were made for the job.
fn made() -> Access {
    Access { tls: Some(Tls::for_job().unwrap()), ..secret() }
}

/// Files of `crates/testing/tls`, which `make.sh` there makes.
fn files(certificate: &str, authorities: &str) -> CertificateFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tls");
    CertificateFiles {
        certificate: folder.join(certificate),
        key: folder.join("process.key"),
        authorities: folder.join(authorities),
        name: None,
    }
}

/// With a certificate, and no secret.
fn with(certificate: &str, authorities: &str) -> Access {
    let tls = Tls::from_files(&files(certificate, authorities)).unwrap();
    Access { tls: Some(tls), ..Access::default() }
}

/// The same, if all certificates have to have a name.
fn named(certificate: &str, name: &str) -> Access {
    let files = CertificateFiles { name: Some(name.to_string()), ..files(certificate, "ours.pem") };
    Access { tls: Some(Tls::from_files(&files).unwrap()), ..Access::default() }
}

fn serve(access: Access, n_trainers: u32, apply: Apply) -> Served {
    Served::start(access, ServerConfig { n_trainers, apply, ..ServerConfig::default() })
}

/// A peer is refused, for a reason that both sides report; it is told, and another one is served.
#[track_caller]
fn refused(served: Served, bad: Access, here: &str, welcome: Access) -> TlsFailure {
    let error = client(&served.by_tcp(), bad, 0).ensure_connected().unwrap_err();
    let why = match error {
        Error::NotEncrypted { why, endpoint } => {
            assert_eq!(endpoint, served.by_tcp());
            why
        }
        other => panic!("{other}"),
    };
    served.wait_for("a connection of 127.0.0.1 was refused: ");
    served.wait_for(here);
    let welcome = client(&served.by_tcp(), welcome, 0);
    welcome.change(large(1, 10)).unwrap();
    welcome.settle().unwrap();
    welcome.close();
    assert_eq!(served.end().1.applied.len(), 1);
    why
}

fn client(endpoint: &Endpoint, access: Access, trainer: u32) -> Arc<Client> {
    let patience = Patience { connect_ms: 20_000, answer_ms: 60_000, ..Patience::default() };
    let group = ClientGroup { access, ..ClientGroup::default() };
    let hello = Hello::new("", trainer, u64::from(trainer) + 7, vars(0));
    Client::among(endpoint.clone(), hello, patience, group)
}

/// A gradient with many numbers.
fn large(tag: i64, n: usize) -> Push {
    let rows = Rows { ids: vec![tag], height: i64::MAX, value: Tensor::full([1, n], tag as f32) };
    Push::new(vec![Grad { var: GRAD, value: Value::Rows(rows) }])
}

#[test]
fn much_goes_both_ways_at_the_same_time() {
    for (server, trainer) in
        [(made(), made()), (with("good.pem", "ours.pem"), with("good.pem", "ours.pem"))]
    {
        let served = serve(server, 1, Apply::AtOnce);
        let client = client(&served.by_tcp(), trainer, 0);
        let keys = vec![0; 100_000];
        let look_up = || LookUp::new(0, TABLE, keys.clone());
        let tickets: Vec<_> = (0..20).map(|_| client.ask(look_up()).unwrap()).collect();
        for tag in 0..20 {
            client.change(large(tag, 250_000)).unwrap();
        }
        for tag in 0..500 {
            client.change(large(tag, 1)).unwrap();
        }
        for ticket in tickets {
            assert!(matches!(client.wait(ticket, "rows").unwrap(), Reply::Rows(_)));
        }
        client.settle().unwrap();
        client.close();
        assert_eq!(served.end().1.applied.len(), 520);
    }
}

#[test]
fn rounds_of_several_trainers() {
    let served = serve(made(), 4, Apply::ByRound { ahead: 0 });
    let trainers: Vec<_> = (0..4)
        .map(|id| {
            let client = client(&served.by_tcp(), made(), id);
            thread::spawn(move || {
                for round in 1..=20 {
                    client.change(large(i64::from(id) * 1000 + round, 3_000)).unwrap();
                    client.change(Barrier::new(client.round() + 1)).unwrap();
                    let ticket = client.ask(Pull::new(client.round(), vec![SHARED_VAR])).unwrap();
                    assert!(matches!(client.wait(ticket, "a round").unwrap(), Reply::Values(_)));
                }
                client.change(Complete).unwrap();
                client.settle().unwrap();
            })
        })
        .collect();
    trainers.into_iter().for_each(|thread| thread.join().unwrap());
    let (end, ledger) = served.thread.join().unwrap();
    assert_eq!((end, ledger.applied.len()), (Some(End::Completed), 80));
}

/// Bytes passed on as they are: that is a network. None of it can be read.
#[test]
fn a_listener_in_between_hears_nothing() {
    let served = serve(made(), 1, Apply::AtOnce);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let (kept, to) = (heard.clone(), served.endpoint.port);
    thread::spawn(move || {
        for near in listener.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(("127.0.0.1", to)).unwrap());
            let (mut back, mut front) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut back, &mut front));
            let mut buffer = [0; 4096];
            while let Ok(n) = (&near).read(&mut buffer) {
                if n == 0 || (&far).write_all(&buffer[..n]).is_err() {
                    break;
                }
                kept.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        }
    });
    let way = Endpoint { host: "127.0.0.1".to_string(), port };
    let through = client(&way, made(), 0);
    through.change(large(1, 1000)).unwrap();
    through.settle().unwrap();
    through.close();
    let bytes = heard.lock().unwrap().clone();
    assert!(bytes.len() > 4000);
    for plain in [b"PWHS".as_slice(), b"PWL1", b"grad"] {
        assert!(!bytes.windows(plain.len()).any(|window| window == plain), "{plain:?}");
    }
    assert_eq!(served.end().1.applied.len(), 1);
}

#[test]
fn both_sides_are_told_if_only_one_uses_tls() {
    let served = serve(made(), 1, Apply::AtOnce);
    assert_eq!(refused(served, secret(), "it does not use TLS", made()), TlsFailure::Wanted);
    let served = serve(secret(), 1, Apply::AtOnce);
    assert_eq!(refused(served, made(), "it uses TLS", secret()), TlsFailure::Plain);
}

#[test]
fn both_sides_are_told_if_only_one_has_certificates() {
    let good = || with("good.pem", "ours.pem");
    let served = serve(made(), 1, Apply::AtOnce);
    assert_eq!(refused(served, good(), "one side has", made()), TlsFailure::OtherKeys);
    let served = serve(good(), 1, Apply::AtOnce);
    assert_eq!(refused(served, made(), "one side has", good()), TlsFailure::OtherKeys);
}

/// The errors that a server finds in the certificate of a trainer.
#[test]
fn a_trainer_whose_certificate_is_not_good_is_refused() {
    let good = || with("good.pem", "ours.pem");
    let shown = |name: &str| files(name, "ours.pem").certificate.to_string_lossy().into_owned();
    let told = |name: &str, fault| TlsFailure::Refused { shown: shown(name), fault };
    let served = serve(good(), 1, Apply::AtOnce);
    let why = refused(served, with("foreign.pem", "ours.pem"), "authority", good());
    assert_eq!(why, told("foreign.pem", CertificateFault::UnknownAuthority));
    let job = || named("good.pem", "job.test");
    let served = serve(job(), 1, Apply::AtOnce);
    let why = refused(served, with("elsewhere.pem", "ours.pem"), "is not for `job.test`", job());
    assert!(matches!(&why, TlsFailure::Refused { fault: CertificateFault::Bad(_), .. }), "{why}");
}

/// The errors that a trainer finds in the certificate of a server.
#[test]
fn a_server_whose_certificate_is_not_good_is_refused() {
    let good = || with("good.pem", "ours.pem");
    let anybody = || with("good.pem", "both.pem");
    let certificate = |error: TlsFailure| match error {
        TlsFailure::Certificate(fault) => fault,
        other => panic!("{other}"),
    };
    let served = serve(with("foreign.pem", "ours.pem"), 1, Apply::AtOnce);
    let why = refused(served, good(), "foreign.pem), which is of an authority", anybody());
    assert_eq!(certificate(why), CertificateFault::UnknownAuthority);
    let served = serve(with("elsewhere.pem", "ours.pem"), 1, Apply::AtOnce);
    let why = refused(served, good(), "elsewhere.pem)", named("elsewhere.pem", "elsewhere.test"));
    let presented = "DnsName(\"elsewhere.test\")".to_string();
    let expected = "localhost".to_string();
    assert_eq!(certificate(why), CertificateFault::OtherName { expected, presented });
}

/// A process of `openssl` with files of ours, ended when it is dropped.
struct Openssl(Child);

impl Openssl {
    /// None, and a line that says so, where there is no `openssl`.
    fn start(words: &str) -> Option<Self> {
        let mut command = Command::new("openssl");
        command.args(words.split_whitespace()).current_dir(files("", "").authorities);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) => {
                #[allow(clippy::print_stderr)] // A test that cannot run says why.
                {
                    eprintln!("skipped: there is no openssl: {error}");
                }
                None
            }
        }
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process finds its own certificate out at its start; so the other side is another program, or one that lives
/// in another time.
#[test]
fn a_certificate_that_has_expired_is_refused() {
    let good = || with("good.pem", "ours.pem");
    let expired = "-cert expired.pem -key process.key -CAfile ours.pem";
    let served = serve(good(), 1, Apply::AtOnce);
    let words = format!("s_client -connect {} {expired}", served.by_tcp());
    let Some(_visitor) = Openssl::start(&words) else { return };
    served.wait_for("its certificate has expired");
    let welcome = client(&served.by_tcp(), good(), 0);
    welcome.ensure_connected().unwrap();
    welcome.close();
    served.end();
    let later = "-cert good.pem -key process.key -CAfile ours.pem -Verify 1 -verify_return_error \
                 -attime 5000000000";
    let shown = files("good.pem", "").certificate.to_string_lossy().into_owned();
    let cases = [
        (expired, TlsFailure::Certificate(CertificateFault::Expired)),
        (later, TlsFailure::Refused { shown, fault: CertificateFault::Expired }),
    ];
    for (words, expected) in cases {
        let endpoint = free();
        let _server = Openssl::start(&format!("s_server -accept {} {words}", endpoint.port));
        let error = client(&endpoint, good(), 0).ensure_connected().unwrap_err();
        assert!(matches!(&error, Error::NotEncrypted { why, .. } if *why == expected), "{error}");
    }
}

#[test]
fn files_that_are_of_no_use_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.pem");
    std::fs::write(&text, "nothing of use").unwrap();
    let missing = folder.path().join("missing.pem");
    let good = files("good.pem", "ours.pem");
    let other_key = good.key.with_file_name("other.key");
    let expired = files("expired.pem", "ours.pem");
    let cases: Vec<(CertificateFiles, PathBuf, &str)> = vec![
        (CertificateFiles { certificate: text.clone(), ..good.clone() }, text.clone(), "no certif"),
        (CertificateFiles { key: text.clone(), ..good.clone() }, text.clone(), ""),
        (CertificateFiles { authorities: text.clone(), ..good.clone() }, text, "no certificate"),
        (CertificateFiles { certificate: missing.clone(), ..good.clone() }, missing.clone(), "No "),
        (CertificateFiles { key: missing.clone(), ..good.clone() }, missing.clone(), "No such"),
        (CertificateFiles { authorities: missing.clone(), ..good.clone() }, missing, "No such"),
        (CertificateFiles { key: other_key.clone(), ..good }, other_key, "good.pem"),
        (expired.clone(), expired.certificate, "has expired"),
    ];
    for (files, named, words) in cases {
        match Tls::from_files(&files).unwrap_err() {
            Error::Tls(TlsFailure::File { path, why }) => {
                assert_eq!(path, named, "{why}");
                assert!(why.contains(words), "{why}");
            }
            other => panic!("{other}"),
        }
    }
}

/// Keys that were made prove nothing: without a secret, anybody in between could read along.
#[test]
fn keys_that_were_made_need_a_secret() {
    let access = Access { insecure: true, tls: made().tls, ..Access::default() };
    let error = Listener::bind_with(&"127.0.0.1:0".parse().unwrap(), access).unwrap_err();
    assert!(matches!(error, Error::Tls(TlsFailure::NoSecret)), "{error}");
}

/// An end point under a name for which there is no Unix socket.
fn free() -> Endpoint {
    Endpoint { host: "localhost".to_string(), ..free_endpoints(1).remove(0) }
}

#[test]
fn trainers_meet_over_tls() {
    use protocol::collective::{Collective, Exchanged, ReduceOp, Terms};
    let endpoints = [free(), free(), free()];
    // The names of Unix sockets are taken, so that they meet over TCP.
    let _names: Vec<_> = endpoints.iter().map(take_local_name).collect();
    let sum = |me: u32| {
        let mesh = join(me, &endpoints, made()).unwrap();
        let collective = Collective::AllReduce(ReduceOp::Sum);
        let terms = Terms { collective, var: "g".to_string(), ring: 0 };
        let value = Tensor::full([300_000], me as f32 + 1.0);
        let number = mesh.begin(&terms, Value::Tensor(value));
        match mesh.wait(number).unwrap() {
            Exchanged::One(Value::Tensor(tensor)) => tensor.get_f64(299_999),
            other => panic!("{other:?}"),
        }
    };
    let sum = &sum;
    let sums: Vec<f64> = thread::scope(|scope| {
        let all: Vec<_> = (0..3).map(|me| scope.spawn(move || sum(me))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(sums, [6.0; 3]);
}

#[test]
fn a_trainer_with_another_certificate_does_not_meet_the_others() {
    let endpoints = [free(), free()];
    let _names: Vec<_> = endpoints.iter().map(take_local_name).collect();
    let both = endpoints.clone();
    thread::spawn(move || join(0, &both, with("good.pem", "ours.pem")));
    let error = join(1, &endpoints, with("foreign.pem", "ours.pem")).unwrap_err();
    let fault = match error {
        Error::NotEncrypted { why: TlsFailure::Refused { fault, .. }, .. } => fault,
        other => panic!("{other}"),
    };
    assert_eq!(fault, CertificateFault::UnknownAuthority);
}

#[test]
fn processes_meet_at_a_rendezvous_over_tls() {
    let master = free_endpoints(1).remove(0);
    let meet = |side, access: Access| {
        find_others(&meeting(&master, side, access), &mut |_| {}, &mut || false)
    };
    let meet = &meet;
    thread::scope(|scope| {
        let server = scope.spawn(move || meet(Side::Server, made()));
        let trainer = scope.spawn(move || meet(Side::Trainer, made()));
        let (server, trainer) = (server.join().unwrap().unwrap(), trainer.join().unwrap().unwrap());
        assert_eq!(server.servers, trainer.servers);
    });
    // The one that listens is still there: a peer without TLS is told.
    let error = meet(Side::Trainer, secret()).unwrap_err();
    assert!(
        matches!(error, Error::Unproved { .. }) && error.to_string().contains("TLS"),
        "{error}"
    );
}
