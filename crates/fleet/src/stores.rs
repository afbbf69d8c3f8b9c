//! What the environment says about files elsewhere: the variables and files that users of S3 and Hadoop
//! have already.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use data::{HdfsAccess, S3Access, S3Key, Stores};

use crate::env::{self, EnvVars};

/// How this process reaches files elsewhere. Variables go before the user's files.
pub fn stores(var: &dyn Fn(&str) -> Option<String>) -> Stores {
    let vars = EnvVars(var);
    let first = |names| vars.first(names).map(|found| found.value);
    let profile = Profile::read(vars);
    let own_key = match (first(env::S3_KEY), first(env::S3_SECRET)) {
        (Some(id), Some(secret)) => Some(S3Key { id, secret, token: first(env::S3_TOKEN) }),
        _ => None,
    };
    let s3 = S3Access {
        endpoint: first(env::S3_ENDPOINT).or_else(|| profile.get("endpoint_url")),
        region: first(env::S3_REGION).or_else(|| profile.get("region")),
        key: own_key.or_else(|| profile.key()),
    };
    let hdfs = HdfsAccess {
        user: first(env::HADOOP_USER),
        has_command: has_command(&first(env::SEARCH_PATH).unwrap_or_default()),
        ..HdfsAccess::default()
    };
    let certificates = first(env::CERTIFICATES).map(PathBuf::from);
    Stores { s3, hdfs, certificates, ..Stores::default() }
}

/// Whether `hadoop` would be found.
fn has_command(path: &str) -> bool {
    path.split(':').any(|folder| !folder.is_empty() && Path::new(folder).join("hadoop").is_file())
}

/// The settings of one of the user's profiles, from two files in the folder `.aws`.
struct Profile(BTreeMap<String, String>);

impl Profile {
    fn read(vars: EnvVars<'_>) -> Self {
        let name = vars.first(env::S3_PROFILE).map_or("default".to_string(), |found| found.value);
        let home = vars.first(env::HOME).map(|home| PathBuf::from(home.value).join(".aws"));
        let file = |names, usual: &str| {
            let said = vars.first(names).map(|found| PathBuf::from(found.value));
            said.or_else(|| home.as_ref().map(|home| home.join(usual)))
        };
        let mut settings = BTreeMap::new();
        for path in [file(env::S3_CONFIG, "config"), file(env::S3_CREDENTIALS, "credentials")] {
            let text = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
            settings.extend(section(&text, &name));
        }
        Self(settings)
    }

    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned()
    }

    fn key(&self) -> Option<S3Key> {
        let (id, secret) = (self.get("aws_access_key_id")?, self.get("aws_secret_access_key")?);
        Some(S3Key { id, secret, token: self.get("aws_session_token") })
    }
}

/// The settings below `[name]` or `[profile name]`. Lines that are set back belong to the one above.
fn section(text: &str, name: &str) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(head) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let head = head.trim();
            is_inside = head.strip_prefix("profile ").map_or(head, str::trim) == name;
            continue;
        }
        let is_setting = is_inside && !line.starts_with([' ', '\t', '#', ';']);
        if let Some((key, value)) = line.split_once('=').filter(|_| is_setting) {
            settings.insert(key.trim().to_string(), value.trim().to_string());
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &[(&str, &str)]) -> Stores {
        let found = |name: &str| list.iter().find(|(known, _)| *known == name);
        stores(&|name| found(name).map(|(_, value)| value.to_string()))
    }

    #[test]
    fn variables_say_who_asks_and_whom() {
        let found = of(&[
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_ENDPOINT_URL", "http://all"),
            ("AWS_ENDPOINT_URL_S3", "http://s3"),
            ("AWS_DEFAULT_REGION", "eu"),
            ("HADOOP_USER_NAME", "me"),
            ("USER", "root"),
            ("SSL_CERT_FILE", "/ca.pem"),
        ]);
        let key = S3Key { id: "id".into(), secret: "secret".into(), token: None };
        assert_eq!(found.s3.key, Some(key));
        assert_eq!(found.s3.endpoint.as_deref(), Some("http://s3"));
        assert_eq!(found.s3.region.as_deref(), Some("eu"));
        assert_eq!(found.hdfs.user.as_deref(), Some("me"));
        assert_eq!(found.certificates, Some(PathBuf::from("/ca.pem")));
        assert!(!found.hdfs.has_command);
        // Half of a key is none.
        assert_eq!(of(&[("AWS_ACCESS_KEY_ID", "id")]).s3.key, None);
    }

    #[test]
    fn profiles_are_read_from_the_users_files() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".aws");
        std::fs::create_dir(&folder).unwrap();
        let credentials = "[default]\naws_access_key_id = a\naws_secret_access_key=b\n\
            [other]\naws_access_key_id=c\naws_secret_access_key=d=\naws_session_token = t\n";
        std::fs::write(folder.join("credentials"), credentials).unwrap();
        let config = "# notes\n[profile other]\nregion = us-west-2\ns3 =\n  region = nested\n";
        std::fs::write(folder.join("config"), config).unwrap();
        let path = home.path().to_str().unwrap();
        assert_eq!(of(&[("HOME", path)]).s3.key.unwrap().id, "a");
        let other = of(&[("HOME", path), ("AWS_PROFILE", "other")]).s3;
        let key = S3Key { id: "c".into(), secret: "d=".into(), token: Some("t".into()) };
        assert_eq!((other.key, other.region.as_deref()), (Some(key), Some("us-west-2")));
        assert_eq!(of(&[("HOME", path), ("AWS_PROFILE", "none")]).s3.key, None);
    }

    #[test]
    fn a_hadoop_on_the_path_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("/nowhere::{}", folder.path().display());
        assert!(!of(&[("PATH", &path)]).hdfs.has_command);
        std::fs::write(folder.path().join("hadoop"), "").unwrap();
        assert!(of(&[("PATH", &path)]).hdfs.has_command);
    }
}
