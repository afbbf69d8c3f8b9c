//! Attacks on the doors of a job: nothing is read, written, ended or grown, and its trainers are served.
//! docs/reference/security.md names the tests.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.
#![allow(clippy::print_stderr)] // A test that cannot run says why.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use base::Endpoint;
use net::access::proof::{Service, Unproved};
use net::tcp::{Client, ClientGroup, Listener, Patience, enter, find_others};
use net::{Access, Secret};
use protocol::rendezvous::Side;
use protocol::server::{Apply, ServerConfig};
use tensor::{Tensor, Value};
use testing::cluster::free_endpoints;
use testing::crowd::Use;
use testing::doors::{join, meeting};
use testing::served::Served;
use testing::sim::{SHARED_VAR, grad, vars};
use wire::frame::{self, Frame};
use wire::message::{Grad, Hello, Ping, Pull, Push, Reply, Request, VarInfo};
use wire::{Error, Refusal, VarId};

/// Nothing that a stranger may hear.
const JOB: &str = "the-digest-of-this-job";
/// Another user than the one of the tests.
const NOBODY: u32 = 65_534;
const LIMIT: Duration = Duration::from_secs(60);

fn secret(text: &str) -> Access {
    Access::with(Secret::new(text).unwrap())
}

fn ours() -> Access {
    secret("the secret of this job")
}

fn config() -> ServerConfig {
    ServerConfig {
        job: JOB.to_string(),
        n_trainers: 2,
        apply: Apply::AtOnce,
        ..ServerConfig::default()
    }
}

fn serve(access: Access) -> Served {
    Served::start(access, config())
}

fn raw(served: &Served) -> TcpStream {
    let Endpoint { host, port } = &served.endpoint;
    let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Trains, ends, and checks that no other peer has changed anything.
#[track_caller]
fn check_unharmed(served: Served) {
    let client = client(&served.endpoint, ours(), 0);
    for tag in 0..20 {
        client.change(Push::new(vec![grad(tag, 0)])).unwrap();
    }
    client.settle().unwrap();
    let ticket = client.ask(Pull::new(0, vec![SHARED_VAR])).unwrap();
    assert!(matches!(client.wait(ticket, "parameters").unwrap(), Reply::Values(_)));
    assert!(!served.said("trainer 1 joined"), "{:#?}", served.log);
    let tags: Vec<i64> = served.end().1.applied.iter().map(|one| one.tag).collect();
    assert_eq!(tags, (0..20).collect::<Vec<_>>(), "nothing but what its trainer sent");
}

fn hello(trainer: u32) -> Hello {
    let mut vars = vars(0);
    vars.push(VarInfo::other("nope"));
    Hello::new(JOB, trainer, u64::from(trainer) + 7, vars)
}

fn client(endpoint: &Endpoint, access: Access, trainer: u32) -> Arc<Client> {
    let patience = Patience { connect_ms: 30_000, answer_ms: 30_000, ..Patience::default() };
    let group = ClientGroup { access, ..ClientGroup::default() };
    Client::among(endpoint.clone(), hello(trainer), patience, group)
}

fn framed(request: impl Into<Request>) -> Vec<u8> {
    frame::to_bytes(&Frame { id: 0, body: &request.into() })
}

/// Everything that comes until the other side closes.
fn rest_of(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut rest);
    rest
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_stranger_learns_and_changes_nothing() {
    let served = serve(ours());
    let push =
        Push::new(vec![Grad { var: VarId(0), value: Value::Tensor(Tensor::full([1], 1f32)) }]);
    let mut opening = b"PWHS".to_vec();
    opening.extend(wire::message::VERSION.to_le_bytes());
    opening.extend((Service::Server as u32).to_le_bytes());
    opening.extend([5; 32]);
    let mut guessed = opening.clone();
    guessed.extend([0; 128]);
    let mut then_a_frame = guessed.clone();
    then_a_frame.extend(framed(hello(1)));
    let attempts = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        [framed(hello(1)), framed(push)].concat(),
        [framed(Ping), framed(Ping)].concat(),
        opening,
        guessed,
        then_a_frame,
    ];
    for attempt in &attempts {
        let mut stranger = raw(&served);
        let _ = stranger.write_all(attempt);
        let _ = stranger.shutdown(Shutdown::Write);
        let heard = rest_of(&mut stranger);
        assert!(heard.len() < 192 && !contains(&heard, JOB), "{heard:?}");
    }
    served.wait_for("was refused: secret");
    check_unharmed(served);
}

#[test]
fn a_wrong_secret_is_refused_on_both_sides() {
    let served = serve(ours());
    for wrong in [secret("the secret of another job"), Access::default()] {
        let error = client(&served.endpoint, wrong, 1).ensure_connected().unwrap_err();
        let is_secret = matches!(&error, Error::Refused { refusal: Refusal::Secret, .. });
        assert!(is_secret && error.to_string().contains("PADDLEWHEEL_SECRET_FILE"), "{error}");
    }
    check_unharmed(served);
    // A server without a secret is not a server of a job that has one.
    let open = serve(Access::default());
    let error = client(&open.endpoint, ours(), 1).ensure_connected().unwrap_err();
    assert!(matches!(&error, Error::Refused { refusal: Refusal::Secret, .. }), "{error}");
    assert!(open.end().1.applied.is_empty());
}

/// How a guess ended: whether the guesser was told that it was wrong.
fn guess(served: &Served, at: usize) -> bool {
    let guesser = raw(served);
    let wrong = secret(&format!("a guess of some length {at}"));
    match enter(&guesser, &wrong, Service::Server).unwrap_err() {
        Error::Unproved { why: Unproved::Secret, .. } => true,
        Error::Socket(_) => false,
        other => panic!("{other}"),
    }
}

#[test]
fn guesses_of_a_secret_are_slowed_and_members_are_not_kept_out() {
    let served = serve(ours());
    // All at once: guesses under way when the flood is noticed are cut off without an answer, others wait or are
    // closed.
    let n_told: usize = thread::scope(|scope| {
        let served = &served;
        let all: Vec<_> = (0..100).map(|at| scope.spawn(move || guess(served, at))).collect();
        all.into_iter().map(|one| usize::from(one.join().unwrap())).sum()
    });
    assert!((8..50).contains(&n_told), "{n_told} of 100 guesses were answered");
    served.wait_for("many wrong proofs of the secret came from 127.0.0.1");
    // A member at the same address comes over TCP, too: it has its turn, and others after it have nothing to wait for.
    let member = raw(&served);
    enter(&member, &ours(), Service::Server).unwrap();
    assert!(guess(&served, 0) && guess(&served, 1));
    check_unharmed(served);
}

/// Passes bytes on, and keeps those of the client.
fn recorder(to: &Endpoint) -> (Endpoint, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, to) = (Arc::<Mutex<Vec<u8>>>::default(), (to.host.clone(), to.port));
    let kept = heard.clone();
    thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            let far = TcpStream::connect(&to).unwrap();
            let (mut back, mut front) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut back, &mut front));
            let kept = kept.clone();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(n) = (&near).read(&mut buffer) {
                    if n == 0 || (&far).write_all(&buffer[..n]).is_err() {
                        break;
                    }
                    kept.lock().unwrap().extend_from_slice(&buffer[..n]);
                }
                let _ = (near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both));
            });
        }
    });
    (Endpoint { host: "127.0.0.1".to_string(), port }, heard)
}

#[test]
fn a_recorded_conversation_is_useless() {
    let served = serve(ours());
    let (way, heard) = recorder(&served.endpoint);
    let recorded = client(&way, ours(), 1);
    recorded.ensure_connected().unwrap();
    recorded.close();
    drop(recorded);
    let bytes = heard.lock().unwrap().clone();
    assert!(contains(&bytes, JOB), "the greeting was heard");
    assert!(!contains(&bytes, "the secret of this job"), "the secret was not");
    let mut replay = raw(&served);
    let _ = replay.write_all(&bytes);
    let heard = rest_of(&mut replay);
    assert!(heard.len() < 192 && !contains(&heard, JOB));
    served.wait_for("was refused: secret");
    let n_joined = served.log.lock().unwrap().iter().filter(|line| line.contains("joined")).count();
    assert_eq!(n_joined, 1, "{:#?}", served.log);
    assert!(served.end().1.applied.is_empty());
}

fn abstract_name(endpoint: &Endpoint) -> String {
    format!("paddlewheel/{endpoint}")
}

fn free_endpoint() -> Endpoint {
    free_endpoints(1).remove(0)
}

/// A process of the same user takes the name first and passes on what it hears to the real port.
#[test]
fn a_relay_between_the_local_name_and_the_port_is_found_out() {
    let endpoint = free_endpoint();
    let name = SocketAddr::from_abstract_name(abstract_name(&endpoint)).unwrap();
    let squatter = UnixListener::bind_addr(&name).unwrap();
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let (kept, to) = (heard.clone(), (endpoint.host.clone(), endpoint.port));
    thread::spawn(move || {
        for near in squatter.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
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
    let served = Served::at(&endpoint, ours(), config());
    served.wait_for("is taken by another process");
    let trainer = client(&endpoint, ours(), 0);
    trainer.ensure_connected().unwrap();
    assert!(!trainer.is_near());
    trainer.close();
    let heard = heard.lock().unwrap().clone();
    assert!(heard.len() <= 172 && !contains(&heard, JOB), "only a proof that is good for nothing");
    drop(trainer);
    served.end();
}

/// The helper process as another user; none if this is not root.
fn as_nobody(what: &str, name: &str) -> Option<(Stranger, BufReader<ChildStdout>)> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start processes of other users");
        return None;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_stranger"));
    command.args([what, name]).uid(NOBODY).gid(NOBODY).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    Some((Stranger(child), said))
}

/// Ends with the test.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn line(said: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    line.trim().to_string()
}

#[test]
fn another_user_cannot_pass_for_a_server() {
    let endpoint = free_endpoint();
    let Some((_child, mut said)) = as_nobody("squat", &abstract_name(&endpoint)) else { return };
    assert_eq!(line(&mut said), "ready");
    let served = Served::at(&endpoint, ours(), config());
    served.wait_for("is taken by another process");
    check_unharmed(served);
    assert_eq!(line(&mut said), "heard 0", "not a byte");
}

#[test]
fn another_user_is_not_let_in_by_the_local_name() {
    let served = serve(ours());
    let Some((_child, mut said)) = as_nobody("visit", &abstract_name(&served.endpoint)) else {
        return;
    };
    assert_eq!(line(&mut said), "heard 0");
    served.wait_for("another user (65534) was refused");
    check_unharmed(served);
}

fn allow_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// A server in a process of its own, so that what it uses can be counted.
fn crowd_server() -> (Child, Endpoint) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crowd_server"));
    let mut child = command.args(["1", "async"]).stdout(Stdio::piped()).spawn().unwrap();
    let endpoint = line(&mut BufReader::new(child.stdout.take().unwrap()));
    (child, endpoint.parse().unwrap())
}

#[test]
fn a_flood_of_silent_connections_costs_little_and_keeps_nobody_out() {
    allow_descriptors();
    let (mut child, endpoint) = crowd_server();
    let process = child.id().to_string();
    // Once it answers, it serves; its last threads may still be on their way.
    let first = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).unwrap();
    enter(&first, &Access::default(), Service::Server).unwrap();
    let before = Use::of(&process);
    let connect = |_| TcpStream::connect((endpoint.host.as_str(), endpoint.port)).ok();
    let flood: Vec<TcpStream> = (0..4_300).filter_map(connect).collect();
    assert!(flood.len() > 2_000, "{}", flood.len());
    let hello = Hello::new("", 0, 1, testing::crowd::vars());
    let trainer = Client::new(endpoint.clone(), hello, Patience::default());
    trainer.ensure_connected().unwrap();
    let during = Use::of(&process);
    let n_workers = (2 * thread::available_parallelism().unwrap().get()).clamp(4, 64);
    assert!(during.n_threads <= 3 + n_workers, "{} threads", during.n_threads);
    assert!(during.n_files < before.n_files + 1_100, "{} files", during.n_files);
    let n_bytes = during.n_bytes.saturating_sub(before.n_bytes);
    assert!(n_bytes < 32 << 20, "{n_bytes} bytes more");
    trainer.change(wire::message::Complete).unwrap();
    trainer.settle().unwrap();
    assert!(child.wait().unwrap().success(), "it served to the end");
    drop(flood);
}

#[test]
fn slow_strangers_lose_their_connection() {
    let served = serve(ours());
    let mut slow: Vec<TcpStream> = (0..50).map(|_| raw(&served)).collect();
    for (at, stranger) in slow.iter_mut().enumerate() {
        stranger.write_all(&b"PWHS"[..at % 4]).unwrap();
    }
    let start = Instant::now();
    for stranger in &mut slow {
        assert!(rest_of(stranger).is_empty());
    }
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    check_unharmed(served);
}

#[test]
fn a_rendezvous_tells_strangers_nothing_and_gives_them_no_thread() {
    allow_descriptors();
    let master = free_endpoint();
    let first = meeting(&master, Side::Server, ours());
    let waiting = thread::spawn(move || find_others(&first, &mut |_| {}, &mut || false));
    let until = Instant::now() + LIMIT;
    let connect = || TcpStream::connect((master.host.as_str(), master.port));
    while connect().is_err() {
        assert!(Instant::now() < until);
        thread::yield_now();
    }
    let before = Use::of("self").n_threads;
    let flood: Vec<_> = (0..500).filter_map(|_| connect().ok()).collect();
    // A peer that does not know the secret is told so at once.
    let wrong = meeting(&master, Side::Trainer, secret("the secret of another job"));
    let error = find_others(&wrong, &mut |_| {}, &mut || false).unwrap_err();
    assert!(matches!(error, Error::Unproved { why: Unproved::Secret, .. }), "{error}");
    let mut stranger = connect().unwrap();
    stranger.set_read_timeout(Some(LIMIT)).unwrap();
    stranger.write_all(b"report\tof\tsomebody\nelse, longer than an opening is\n").unwrap();
    assert!(rest_of(&mut stranger).is_empty());
    let more = Use::of("self").n_threads.saturating_sub(before);
    assert!(more < 200, "{more} threads more, for {} strangers", flood.len());
    let second = meeting(&master, Side::Trainer, ours());
    let place = find_others(&second, &mut |_| {}, &mut || false).unwrap();
    assert_eq!((place.id, waiting.join().unwrap().unwrap().id), (0, 0));
}

#[test]
fn trainers_do_not_meet_strangers() {
    let endpoints = [free_endpoint(), free_endpoint()];
    let list = endpoints.clone();
    let first = thread::spawn(move || join(0, &list, ours()).map(drop));
    let until = Instant::now() + LIMIT;
    let mut stranger = loop {
        match TcpStream::connect((endpoints[0].host.as_str(), endpoints[0].port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    // It says nothing and is not waited for; nor is one without the secret.
    let error = join(1, &endpoints, secret("the secret of another job")).unwrap_err();
    assert!(matches!(error, Error::Unproved { why: Unproved::Secret, .. }), "{error}");
    join(1, &endpoints, ours()).unwrap();
    first.join().unwrap().unwrap();
    stranger.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(rest_of(&mut stranger).is_empty());
}

#[test]
fn other_machines_are_not_spoken_to_without_a_secret() {
    let anywhere: Endpoint = "0.0.0.0:0".parse().unwrap();
    let error = Listener::bind(&anywhere).unwrap_err();
    assert!(matches!(error, Error::NoSecret { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("PADDLEWHEEL_SECRET_FILE") && text.contains("PADDLEWHEEL_INSECURE"),
        "{text}"
    );
    Listener::bind_with(&anywhere, ours()).unwrap();
    Listener::bind_with(&anywhere, Access { insecure: true, ..Access::default() }).unwrap();
    let far: Endpoint = "192.0.2.1:6174".parse().unwrap();
    let error = join(1, &[far.clone(), free_endpoint()], Access::default()).unwrap_err();
    assert!(matches!(&error, Error::NoSecret { endpoint } if *endpoint == far), "{error}");
    let master = Endpoint { port: 1, ..far };
    let error =
        find_others(&meeting(&master, Side::Server, Access::default()), &mut |_| {}, &mut || false);
    assert!(matches!(error, Err(Error::NoSecret { .. })), "{error:?}");
}

#[test]
fn who_knows_the_secret_and_says_nothing_more_costs_little() {
    let served = serve(ours());
    let known: Vec<TcpStream> = (0..200)
        .map(|_| {
            let known = raw(&served);
            enter(&known, &ours(), Service::Server).unwrap();
            known
        })
        .collect();
    // And one that claims more than a greeting may have.
    let mut claims = raw(&served);
    enter(&claims, &ours(), Service::Server).unwrap();
    let mut head = framed(Ping);
    head[8..12].copy_from_slice(&(1u32 << 29).to_le_bytes());
    claims.write_all(&head).unwrap();
    let heard = rest_of(&mut claims);
    assert!(!contains(&heard, JOB) && contains(&heard, "bytes"), "{heard:?}");
    drop(known);
    check_unharmed(served);
}
