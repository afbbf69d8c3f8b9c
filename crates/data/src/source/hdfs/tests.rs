use std::os::unix::fs::PermissionsExt;

use super::*;

/// A `hadoop` that keeps its files in a folder beside it.
const HADOOP: &str = include_str!("../../../../../python/tests/programs/hadoop.sh");

fn client() -> (HdfsClient, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let program = home.path().join("bin").join("hadoop");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    std::fs::create_dir_all(home.path().join("root")).unwrap();
    std::fs::write(&program, HADOOP).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let configs = BTreeMap::from([("fs.default.name".to_string(), "hdfs://n:1".to_string())]);
    (HdfsClient::new(home.path(), &configs, &Stores::default()).unwrap(), home)
}

#[test]
fn a_hadoop_command_is_used_where_there_is_one() {
    let (client, home) = client();
    assert!(client.uses_command());
    assert!(!client.exists("/a").unwrap() && client.list("/a").unwrap().is_empty());
    client.make_dirs("/a/b").unwrap();
    assert!(client.is_dir("/a").unwrap() && !client.is_file("/a").unwrap());
    let local = home.path().join("local");
    std::fs::create_dir_all(local.join("sub")).unwrap();
    std::fs::write(local.join("x"), "one").unwrap();
    std::fs::write(local.join("sub").join("y z"), "two").unwrap();
    client.upload(&local, "/a", false, 2).unwrap();
    assert_eq!(client.read("/a/sub/y z").unwrap(), b"two");
    let paths: Vec<String> =
        client.files_below("/a").unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, ["/a/sub/y z", "/a/x"]);
    assert!(client.rename("/a/x", "/a/w", false).unwrap());
    assert!(!client.rename("/a/x", "/a/w", false).unwrap());
    let back = home.path().join("back");
    let options = CopyOptions { n_threads: 3, overwrite: false };
    let files = ["/a/w".to_string(), "/a/sub/y z".to_string()];
    let places = client.download(&files, "/a", &back, options).unwrap();
    assert_eq!(places, [back.join("w"), back.join("sub").join("y z")]);
    assert_eq!(std::fs::read(&places[1]).unwrap(), b"two");
    let again = client.put(&local.join("x"), "/a/w", false);
    assert!(matches!(again, Err(Error::StoreRefused { .. })));
    client.delete("/a").unwrap();
    assert!(!client.exists("/a").unwrap());
    assert!(matches!(client.read("/a/w"), Err(Error::NotInStore { .. })));
}

#[test]
fn without_a_command_a_name_node_is_needed() {
    let nowhere = Path::new("/nowhere");
    let refused = HdfsClient::new(nowhere, &BTreeMap::new(), &Stores::default());
    assert!(matches!(refused, Err(Error::BadAddress { .. })));
    let ugi = BTreeMap::from([
        ("fs.default.name".to_string(), "hdfs://n:9000".to_string()),
        ("hadoop.job.ugi".to_string(), "me,secret".to_string()),
    ]);
    let client = HdfsClient::new(nowhere, &ugi, &Stores::default()).unwrap();
    assert!(!client.uses_command());
    assert_eq!(client.path("x"), "/user/me/x");
    assert_eq!(client.path("hdfs://n:9000/a/b"), "/a/b");
}
