//! Files elsewhere, over real sockets: connections that break, servers that are busy or gone, files that
//! change, and passes that resume where they were.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

mod support;

use std::io::Write;
use std::time::Duration;

use data::{
    AzureClient, AzureKeySource, ClientProof, ContainerAgent, Dataset, DatasetKind, Error,
    GoogleKeySource, Positions, Reader, S3KeySource, Slot, WebIdentity,
};
use support::{Fault, FileServer};

/// Lines of one slot with their numbers.
fn text(n: usize) -> Vec<u8> {
    (0..n).flat_map(|line| format!("1 {line}\n").into_bytes()).collect()
}

fn dataset(files: &[String], batch_size: usize) -> Dataset {
    let mut dataset = Dataset::new(DatasetKind::Queue);
    let settings = dataset.settings_mut();
    settings.slots = vec![Slot::ids("c")];
    settings.files = files.to_vec();
    settings.batch_size = batch_size;
    settings.stores.patience = Duration::from_secs(20);
    dataset
}

/// The ids of the rest of a reader.
fn ids(reader: &mut Reader) -> Result<Vec<i64>, Error> {
    let mut all = Vec::new();
    while let Some(batch) = reader.next()? {
        all.extend(batch.get("c").unwrap().data::<i64>().unwrap());
    }
    Ok(all)
}

fn read(dataset: &mut Dataset) -> Result<Vec<i64>, Error> {
    ids(&mut dataset.start(1)?.remove(0))
}

fn numbers(n: usize) -> Vec<i64> {
    (0..n as i64).collect()
}

/// Three megabytes: more than one piece.
const N: usize = 300_000;

#[test]
fn a_broken_connection_goes_on_where_it_broke() {
    let server = FileServer::start();
    server.put("a", &text(N), "\"1\"");
    let cuts = [Fault::Cut(2_000_000), Fault::Status(503), Fault::Silence, Fault::Cut(500_000)];
    server.fail(&cuts);
    assert_eq!(read(&mut dataset(&[server.url("a")], 1000)).unwrap(), numbers(N));
    let asked = server.requests();
    assert_eq!(asked.len(), 5, "{asked:?}");
    assert_eq!((asked[0].as_str(), asked[1].as_str()), ("/a", "/a 2000000-"));
    assert_eq!(asked[4], "/a 2500000-");
}

#[test]
fn a_server_without_ranges_is_read_again_and_passed_over() {
    let server = FileServer::start();
    server.state.lock().unwrap().has_ranges = false;
    server.put("a", &text(N), "\"1\"");
    server.fail(&[Fault::Cut(2_000_000)]);
    assert_eq!(read(&mut dataset(&[server.url("a")], 1000)).unwrap(), numbers(N));
}

#[test]
fn an_empty_file_has_no_lines() {
    let server = FileServer::start();
    server.put("empty", b"", "\"1\"");
    server.put("a", &text(3), "\"1\"");
    let files = [server.url("empty"), server.url("a")];
    assert_eq!(read(&mut dataset(&files, 2)).unwrap(), numbers(3));
}

#[test]
fn a_file_that_changes_meanwhile_is_an_error() {
    let server = FileServer::start();
    server.put("a", &text(N), "\"1\"");
    server.fail(&[&[Fault::Cut(2_000_000)][..], &[Fault::Status(503); 1000]].concat());
    let mut dataset = dataset(&[server.url("a")], 10);
    let mut reader = dataset.start(1).unwrap().remove(0);
    reader.next().unwrap().unwrap();
    server.put("a", &text(N), "\"2\"");
    server.fail(&[]);
    let error = ids(&mut reader).unwrap_err();
    assert!(matches!(&error, Error::FileChanged { .. }), "{error}");
}

#[test]
fn what_is_refused_is_said_at_once_and_what_is_gone_after_a_while() {
    let server = FileServer::start();
    let error = read(&mut dataset(&[server.url("no")], 1)).unwrap_err();
    assert!(matches!(&error, Error::NotInStore { .. }), "{error}");
    server.put("a", &text(1), "\"1\"");
    server.fail(&[Fault::Status(403)]);
    let error = read(&mut dataset(&[server.url("a")], 1)).unwrap_err();
    assert!(matches!(&error, Error::StoreRefused { .. }), "{error}");
    // A port where no process listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for name in [format!("http://{free}/a"), format!("webhdfs://{free}/a")] {
        let mut gone = dataset(std::slice::from_ref(&name), 1);
        gone.settings_mut().stores.patience = Duration::from_millis(500);
        // An outage is not a bad file: it is not skipped.
        gone.settings_mut().skips_max = 10;
        let error = read(&mut gone).unwrap_err();
        let Error::Unreachable { file, n_tries, offset, .. } = &error else { panic!("{error}") };
        assert_eq!((file, *offset), (&name, 0));
        assert!(*n_tries > 1, "{error}");
    }
    let mut gone = dataset(&["s3://bucket/key".to_string()], 1);
    let stores = &mut gone.settings_mut().stores;
    stores.patience = Duration::from_millis(500);
    stores.s3.endpoint = Some(format!("http://{free}"));
    let error = read(&mut gone).unwrap_err();
    assert!(matches!(&error, Error::Unreachable { .. }), "{error}");
}

#[test]
fn a_reader_that_leaves_ends_its_waits() {
    let server = FileServer::start();
    server.put("a", &text(N), "\"1\"");
    let mut dataset = dataset(&[server.url("a")], 10);
    let mut reader = dataset.start(1).unwrap().remove(0);
    reader.next().unwrap().unwrap();
    server.fail(&[Fault::Status(503); 100]);
    reader.stopper().stop();
    drop(reader);
}

/// Takes `n` batches, forgets the reader, and lets a new dataset resume.
fn interrupted(files: &[String], n: usize, set: fn(&mut Dataset)) -> (Vec<i64>, Positions) {
    let mut dataset = dataset(files, 10);
    set(&mut dataset);
    let (mut readers, mut positions) = dataset.start_at(1, None).unwrap();
    let mut before = Vec::new();
    for _ in 0..n {
        let batch = readers[0].next().unwrap().unwrap();
        before.extend(batch.get("c").unwrap().data::<i64>().unwrap());
    }
    positions.set(0, readers[0].position().unwrap().clone());
    (before, Positions::from_bytes(&positions.to_bytes()).unwrap())
}

fn go_on(files: &[String], from: &Positions, set: fn(&mut Dataset)) -> Result<Vec<i64>, Error> {
    let mut dataset = dataset(files, 10);
    set(&mut dataset);
    let (mut readers, _) = dataset.start_at(1, Some(from))?;
    ids(&mut readers[0])
}

#[test]
fn a_pass_goes_on_at_its_byte() {
    let server = FileServer::start();
    // The last line of a file has no end.
    let mut first = text(100);
    first.pop();
    server.put("a", &first, "\"1\"");
    server.put("b", &text(100), "\"2\"");
    let files = [server.url("a"), server.url("b")];
    for n in [1, 5, 10, 14] {
        let (mut all, positions) = interrupted(&files, n, |_| {});
        server.requests();
        all.extend(go_on(&files, &positions, |_| {}).unwrap());
        assert_eq!(all, [numbers(100), numbers(100)].concat(), "{n}");
        let asked = server.requests();
        let begins = asked[0].split(' ').nth(1).unwrap_or_default().trim_end_matches('-');
        let begins: usize = begins.parse().unwrap();
        assert!(begins > 0 && begins < 600, "{asked:?}");
    }
}

#[test]
fn a_header_is_read_again_and_nothing_else() {
    let server = FileServer::start();
    let table = ["c\n".to_string()].into_iter().chain((0..50).map(|n| format!("{n}\n")));
    server.put("t", table.collect::<String>().as_bytes(), "\"1\"");
    let files = [server.url("t")];
    let csv = |dataset: &mut Dataset| {
        let settings = dataset.settings_mut();
        settings.pipe_command = "paddlewheel csv-reader c=c:id".to_string();
        settings.slots = vec![Slot::ids("c").dense(&[-1, 1])];
    };
    let (mut all, positions) = interrupted(&files, 3, csv);
    server.requests();
    all.extend(go_on(&files, &positions, csv).unwrap());
    assert_eq!(all, numbers(50));
    let asked = server.requests();
    assert_eq!(asked.len(), 2, "{asked:?}");
}

#[test]
fn a_pass_does_not_go_on_in_a_file_that_has_changed() {
    let server = FileServer::start();
    server.put("a", &text(100), "\"1\"");
    let files = [server.url("a")];
    let (_, positions) = interrupted(&files, 3, |_| {});
    server.put("a", &text(100), "\"2\"");
    let error = go_on(&files, &positions, |_| {}).unwrap_err();
    assert!(matches!(&error, Error::FileChanged { .. }), "{error}");
}

#[test]
fn packed_files_and_commands_work_the_same() {
    let server = FileServer::start();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text(100)).unwrap();
    server.put("a.gz", &gzip.finish().unwrap(), "\"1\"");
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    server.put("b", &ruzstd::encoding::compress_to_vec(&text(100)[..], level), "\"1\"");
    let files = [server.url("a.gz"), server.url("b")];
    let expected = [numbers(100), numbers(100)].concat();
    let piped = |dataset: &mut Dataset| dataset.settings_mut().pipe_command = "sed p -n".into();
    let ways: [fn(&mut Dataset); 2] = [|_| {}, piped];
    for way in ways {
        server.fail(&[Fault::Status(503), Fault::Cut(20)]);
        let (mut all, positions) = interrupted(&files, 17, way);
        all.extend(go_on(&files, &positions, way).unwrap());
        assert_eq!(all, expected);
    }
}

/// A command that gets half of a file must not pass for one that read it all.
#[test]
fn a_command_whose_file_breaks_off_is_an_error() {
    let server = FileServer::start();
    server.put("a", &text(N), "\"1\"");
    let faults = [&[Fault::Cut(2_000_000)][..], &[Fault::Status(403)]].concat();
    server.fail(&faults);
    let mut dataset = dataset(&[server.url("a")], 1000);
    dataset.settings_mut().pipe_command = "sed p -n".to_string();
    let error = read(&mut dataset).unwrap_err();
    assert!(matches!(&error, Error::StoreRefused { .. }), "{error}");
}

/// The same file of this machine resumes at its byte, too, and reports a change.
#[test]
fn a_local_pass_goes_on_at_its_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, text(100)).unwrap();
    let files = [path.to_string_lossy().into_owned()];
    let (mut all, positions) = interrupted(&files, 5, |_| {});
    all.extend(go_on(&files, &positions, |_| {}).unwrap());
    assert_eq!(all, numbers(100));
    std::fs::write(&path, [b"1 1111111111\n".to_vec(), text(100)].concat()).unwrap();
    let error = go_on(&files, &positions, |_| {}).unwrap_err();
    assert!(matches!(&error, Error::FileChanged { .. }), "{error}");
    std::fs::write(&path, text(10)).unwrap();
    let error = go_on(&files, &positions, |_| {}).unwrap_err();
    assert!(matches!(&error, Error::FileShorter { found: 10, .. }), "{error}");
}

/// A key of an agent; it expires so many seconds from now.
fn key_json(id: &str, seconds: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let until = data::time_text(((now.as_secs() + seconds) * 1_000_000 + 1) as i64);
    format!(r#"{{"AccessKeyId":"{id}","SecretAccessKey":"s","Token":"t","Expiration":"{until}Z"}}"#)
}

fn in_bucket(server: &FileServer, keys: S3KeySource) -> Dataset {
    let mut dataset = dataset(&["s3://bucket/a".to_string(), "s3://bucket/b".to_string()], 10);
    let stores = &mut dataset.settings_mut().stores;
    stores.s3.endpoint = Some(format!("http://{}", server.address));
    stores.s3.key = keys;
    stores.patience = Duration::from_secs(2);
    dataset
}

fn store() -> FileServer {
    let server = FileServer::start();
    server.put("bucket/a", &text(10), "\"1\"");
    server.put("bucket/b", &text(10), "\"1\"");
    server
}

/// The requests for files of the bucket, and those for keys.
fn told(server: &FileServer) -> (Vec<String>, Vec<String>) {
    server.texts().into_iter().partition(|text| text.contains(" /bucket/"))
}

#[test]
fn the_agent_of_a_container_gives_the_key_once_a_pass() {
    let server = store();
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "let me in\n").unwrap();
    let agent = ContainerAgent {
        url: server.url("agent"),
        token: Some("not this one".to_string()),
        token_file: Some(token_file.clone()),
    };
    server.put("agent", key_json("container", 3600).as_bytes(), "\"1\"");
    let keys = S3KeySource::Container(agent);
    assert_eq!(read(&mut in_bucket(&server, keys.clone())).unwrap().len(), 20);
    let (files, agents) = told(&server);
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert!(agents[0].contains("authorization: let me in\r\n"), "{agents:?}");
    assert_eq!(files.len(), 2, "{files:?}");
    for file in &files {
        assert!(file.contains("credential=container/"), "{file}");
        assert!(file.contains("x-amz-security-token: t\r\n"), "{file}");
    }
    // A key that is about to expire is fetched again for the next file.
    server.put("agent", key_json("short", 60).as_bytes(), "\"1\"");
    assert_eq!(read(&mut in_bucket(&server, keys.clone())).unwrap().len(), 20);
    assert_eq!(told(&server).1.len(), 2);
    std::fs::remove_file(&token_file).unwrap();
    let error = read(&mut in_bucket(&server, keys)).unwrap_err();
    assert!(error.to_string().contains("cannot read the token file"), "{error}");
}

#[test]
fn the_agent_of_a_machine_gives_the_key_of_its_role() {
    let server = store();
    let host = format!("http://{}", server.address);
    let keys = S3KeySource::Instance(host);
    // Without an agent, requests are not signed.
    assert_eq!(read(&mut in_bucket(&server, keys.clone())).unwrap().len(), 20);
    assert!(told(&server).0.iter().all(|file| !file.contains("authorization")));
    let roles = "latest/meta-data/iam/security-credentials/";
    server.put("latest/api/token", b"agent token", "\"1\"");
    server.put(roles, b"trainer\n", "\"1\"");
    server.put(&format!("{roles}trainer"), key_json("machine", 3600).as_bytes(), "\"1\"");
    assert_eq!(read(&mut in_bucket(&server, keys.clone())).unwrap().len(), 20);
    let (files, agents) = told(&server);
    assert!(agents[0].starts_with("PUT /latest/api/token"), "{agents:?}");
    assert!(agents[0].contains("x-aws-ec2-metadata-token-ttl-seconds: "), "{agents:?}");
    assert!(agents[1..].iter().all(|text| text.contains("x-aws-ec2-metadata-token: agent token")));
    assert!(files.iter().all(|file| file.contains("credential=machine/")), "{files:?}");
    // A refusal says that no key was found.
    server.state.lock().unwrap().files.remove("/latest/api/token");
    server.fail(&[Fault::Status(404), Fault::Status(403)]);
    let error = read(&mut in_bucket(&server, keys)).unwrap_err();
    assert!(error.to_string().contains("the agent of this machine gave no key"), "{error}");
}

#[test]
fn a_token_file_is_exchanged_for_a_key() {
    let server = store();
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "a.b+c").unwrap();
    let identity = WebIdentity {
        endpoint: Some(format!("http://{}/", server.address)),
        role: "arn:aws:iam::1:role/r".to_string(),
        session: "me".to_string(),
        token_file,
    };
    let keys = S3KeySource::WebIdentity(identity);
    server.fail(&[Fault::Status(403)]);
    let error = read(&mut in_bucket(&server, keys.clone())).unwrap_err();
    assert!(error.to_string().contains("the token service at http://"), "{error}");
    server.texts();
    let answer = "<r><Credentials><SessionToken>t</SessionToken><SecretAccessKey>s</SecretAccessKey>\
        <Expiration>2999-01-01T00:00:00Z</Expiration><AccessKeyId>web</AccessKeyId></Credentials></r>";
    server.put("", answer.as_bytes(), "\"1\"");
    assert_eq!(read(&mut in_bucket(&server, keys)).unwrap().len(), 20);
    let (files, services) = told(&server);
    assert_eq!(services.len(), 1, "{services:?}");
    let form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr\
        &RoleSessionName=me&WebIdentityToken=a.b%2Bc";
    assert!(services[0].starts_with("POST / ") && services[0].ends_with(form), "{services:?}");
    assert!(files.iter().all(|file| file.contains("credential=web/")), "{files:?}");
}

/// Google's bucket `train` with one file.
fn google(server: &FileServer, key: GoogleKeySource) -> Dataset {
    server.put("storage/v1/b/train/o/d%2Fa?alt=media", &text(10), "\"1\"");
    let mut dataset = dataset(&["gs://train/d/a".to_string()], 10);
    let stores = &mut dataset.settings_mut().stores;
    stores.google.endpoint = Some(server.address.to_string());
    stores.google.key = key;
    stores.patience = Duration::from_secs(2);
    dataset
}

#[test]
fn a_service_account_of_google_signs_its_request_for_a_token() {
    let server = FileServer::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.json");
    let key = |private_key: &str| {
        let escaped = private_key.replace('\n', "\\n");
        let service = server.url("token");
        let parts =
            format!(r#""client_email":"me@p","private_key":"{escaped}","token_uri":"{service}""#);
        std::fs::write(&path, format!(r#"{{"type":"service_account",{parts}}}"#)).unwrap();
    };
    key(include_str!("../../testing/tls/service_account.pem"));
    let source = GoogleKeySource::File(path.clone());
    server.put("token", br#"{"access_token":"tok","expires_in":3599}"#, "\"1\"");
    assert_eq!(read(&mut google(&server, source.clone())).unwrap(), numbers(10));
    let texts = server.texts();
    assert_eq!(texts.len(), 2, "{texts:?}");
    let (_, assertion) = texts[0].split_once("&assertion=").unwrap();
    assert_eq!(assertion.split('.').count(), 3, "{assertion}");
    assert!(texts[1].contains("authorization: bearer tok\r\n"), "{texts:?}");
    for (bad, words) in [("none", "is not a PEM text"), ("", "has no `private_key`")] {
        key(bad);
        let error = read(&mut google(&server, source.clone())).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    std::fs::write(&path, r#"{"type":"external_account"}"#).unwrap();
    let error = read(&mut google(&server, source)).unwrap_err().to_string();
    assert!(error.contains("`external_account` are not supported"), "{error}");
}

#[test]
fn agents_of_google_and_azure_give_tokens() {
    let server = FileServer::start();
    let host = format!("http://{}", server.address);
    // Without an agent, requests have no token.
    assert_eq!(
        read(&mut google(&server, GoogleKeySource::Instance(host.clone()))).unwrap().len(),
        10
    );
    let token = br#"{"access_token":"tok","expires_in":"3599"}"#;
    let path = "computeMetadata/v1/instance/service-accounts/default/token";
    server.put(path, token, "\"1\"");
    server.texts();
    assert_eq!(
        read(&mut google(&server, GoogleKeySource::Instance(host.clone()))).unwrap().len(),
        10
    );
    let texts = server.texts();
    assert!(texts[0].contains("metadata-flavor: google"), "{texts:?}");
    assert!(texts[1].contains("authorization: bearer tok\r\n"), "{texts:?}");
    let resource = "metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F";
    server.put(resource, token, "\"1\"");
    server.put("tenant/oauth2/v2.0/token", token, "\"1\"");
    server.put("account/train/a", &text(10), "\"1\"");
    let client = AzureClient {
        authority: Some(host.clone()),
        tenant: "tenant".to_string(),
        client: "app".to_string(),
        proof: ClientProof::Secret("s+s".to_string()),
    };
    for key in [AzureKeySource::Instance(host.clone()), AzureKeySource::Client(client)] {
        let mut dataset = dataset(&["az://train/a".to_string()], 10);
        let stores = &mut dataset.settings_mut().stores;
        stores.azure.account = Some("account".to_string());
        stores.azure.endpoint = Some(format!("{host}/account"));
        stores.azure.key = key;
        assert_eq!(read(&mut dataset).unwrap(), numbers(10));
        let texts = server.texts();
        assert!(
            texts[0].contains("metadata: true") || texts[0].ends_with("client_secret=s%2Bs"),
            "{texts:?}"
        );
        assert!(texts[1].contains("authorization: bearer tok\r\n"), "{texts:?}");
        assert!(texts[1].contains("x-ms-version: "), "{texts:?}");
    }
}
