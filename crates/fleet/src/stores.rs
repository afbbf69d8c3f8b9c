//! Settings of remote files from the environment: the variables and files that users of S3 and Hadoop
//! have already.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use data::{
    AzureAccess, AzureClient, AzureKeySource, ClientProof, ContainerAgent, GoogleAccess,
    GoogleKeySource, HdfsAccess, S3Access, S3Key, S3KeySource, Stores, WebIdentity,
};

use crate::env::{self, EnvVars};

/// How this process reaches files elsewhere. Variables go before the user's files.
pub fn stores(var: &dyn Fn(&str) -> Option<String>) -> Stores {
    let vars = EnvVars(var);
    let first = |names| vars.first(names).map(|found| found.value);
    let profile = Profile::read(vars);
    let endpoint = first(env::S3_ENDPOINT).or_else(|| profile.get("endpoint_url"));
    let key = key_source(vars, &profile, endpoint.is_none());
    let region = first(env::S3_REGION).or_else(|| profile.get("region"));
    let s3 = S3Access { endpoint, region, key };
    let hdfs = HdfsAccess {
        user: first(env::HADOOP_USER),
        has_command: has_command(&first(env::SEARCH_PATH).unwrap_or_default()),
        ..HdfsAccess::default()
    };
    let certificates = first(env::CERTIFICATES).map(PathBuf::from);
    let (google, azure) = (google(vars), azure(vars));
    Stores { s3, google, azure, hdfs, certificates, ..Stores::default() }
}

/// The agents of containers and machines.
const CONTAINER_AGENT: &str = "http://169.254.170.2";
const INSTANCE_AGENT: &str = "http://169.254.169.254";
/// Hosts that may be asked for a key without TLS: those of agents, and this machine.
const AGENT_HOSTS: [&str; 6] =
    ["169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "127.0.0.1", "localhost", "[::1]"];

/// The source of the key of requests: variables, a token file, a profile, the agent of a container, and for Amazon's own store
/// the agent of the machine.
fn key_source(vars: EnvVars<'_>, profile: &Profile, is_amazon: bool) -> S3KeySource {
    let first = |names| vars.first(names).map(|found| found.value);
    if let (Some(id), Some(secret)) = (first(env::S3_KEY), first(env::S3_SECRET)) {
        return S3KeySource::Fixed(S3Key { id, secret, token: first(env::S3_TOKEN) });
    }
    let identity = |role: Option<String>, file: Option<String>| {
        let session = first(env::S3_SESSION).unwrap_or_else(|| "paddlewheel".to_string());
        let endpoint = first(env::S3_TOKEN_SERVICE);
        let identity =
            WebIdentity { endpoint, role: role?, session, token_file: PathBuf::from(file?) };
        Some(S3KeySource::WebIdentity(identity))
    };
    let from_variables = || identity(first(env::S3_ROLE), first(env::S3_TOKEN_FILE));
    let from_profile = || {
        let token_file = profile.get("web_identity_token_file");
        profile
            .key()
            .map(S3KeySource::Fixed)
            .or_else(|| identity(profile.get("role_arn"), token_file))
    };
    let from_machine = || {
        let said = first(env::S3_INSTANCE);
        let is_off = first(env::S3_NO_INSTANCE).is_some_and(|off| off.eq_ignore_ascii_case("true"));
        let host = said.or_else(|| is_amazon.then(|| INSTANCE_AGENT.to_string()));
        let host = host.filter(|_| !is_off)?;
        Some(S3KeySource::Instance(host.trim_end_matches('/').to_string()))
    };
    from_variables()
        .or_else(from_profile)
        .or_else(|| container_agent(vars).map(S3KeySource::Container))
        .or_else(from_machine)
        .unwrap_or_default()
}

/// The agent of the container, if there is one. One that is neither near nor asked with TLS is ignored: it would learn the token.
fn container_agent(vars: EnvVars<'_>) -> Option<ContainerAgent> {
    let first = |names| vars.first(names).map(|found| found.value);
    let path = first(env::S3_CONTAINER_PATH).map(|path| format!("{CONTAINER_AGENT}{path}"));
    let url = path.or_else(|| first(env::S3_CONTAINER_URL))?;
    let rest = url.strip_prefix("http://").unwrap_or_default();
    let host = rest.split('/').next().unwrap_or_default();
    let name = if host.ends_with(']') {
        host
    } else {
        host.rsplit_once(':').map_or(host, |(name, _)| name)
    };
    if !url.starts_with("https://") && !AGENT_HOSTS.contains(&name) {
        return None;
    }
    let token_file = first(env::S3_CONTAINER_TOKEN_FILE).map(PathBuf::from);
    Some(ContainerAgent { url, token: first(env::S3_CONTAINER_TOKEN), token_file })
}

/// The agent of Google's machines.
const GOOGLE_AGENT: &str = "http://metadata.google.internal";

/// Google's files: the key file of the environment, the login of gcloud, or the agent of the machine. An emulator asks for
/// no token.
fn google(vars: EnvVars<'_>) -> GoogleAccess {
    let first = |names| vars.first(names).map(|found| found.value);
    let endpoint = first(env::GOOGLE_ENDPOINT);
    if endpoint.is_some() && first(env::GOOGLE_KEY).is_none() {
        return GoogleAccess { endpoint, key: GoogleKeySource::Unsigned };
    }
    let settings = first(env::GOOGLE_SETTINGS).map(PathBuf::from);
    let settings =
        settings.or_else(|| first(env::HOME).map(|home| Path::new(&home).join(".config/gcloud")));
    let login = settings.map(|folder| folder.join("application_default_credentials.json"));
    let file = first(env::GOOGLE_KEY).map(PathBuf::from).or(login.filter(|path| path.is_file()));
    let host = first(env::GOOGLE_INSTANCE).map(|host| format!("http://{host}"));
    let key = file.map_or_else(
        || GoogleKeySource::Instance(host.unwrap_or_else(|| GOOGLE_AGENT.to_string())),
        GoogleKeySource::File,
    );
    GoogleAccess { endpoint, key }
}

/// Azure's files: a key or signature of the account, an application, or the agent of the machine.
fn azure(vars: EnvVars<'_>) -> AzureAccess {
    let first = |names| vars.first(names).map(|found| found.value);
    let connection = first(env::AZURE_CONNECTION).unwrap_or_default();
    let part = |name: &str| {
        let mut parts = connection.split(';').filter_map(|part| part.split_once('='));
        parts.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim().to_string())
    };
    let client = || {
        let secret = first(env::AZURE_SECRET).map(ClientProof::Secret);
        let file = || Some(ClientProof::TokenFile(PathBuf::from(first(env::AZURE_TOKEN_FILE)?)));
        let proof = secret.or_else(file)?;
        let authority = first(env::AZURE_AUTHORITY);
        let (tenant, client) = (first(env::AZURE_TENANT)?, first(env::AZURE_CLIENT)?);
        Some(AzureKeySource::Client(AzureClient { authority, tenant, client, proof }))
    };
    let account_key = first(env::AZURE_KEY).or_else(|| part("AccountKey"));
    let signature = first(env::AZURE_SIGNATURE).or_else(|| part("SharedAccessSignature"));
    let host = first(env::AZURE_INSTANCE).unwrap_or_else(|| INSTANCE_AGENT.to_string());
    let key = account_key
        .map(AzureKeySource::Account)
        .or_else(|| signature.map(AzureKeySource::Signature))
        .or_else(client)
        .unwrap_or_else(|| AzureKeySource::Instance(host.trim_end_matches('/').to_string()));
    let account = first(env::AZURE_ACCOUNT).or_else(|| part("AccountName"));
    AzureAccess { account, endpoint: part("BlobEndpoint"), key }
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
        assert_eq!(found.s3.key, S3KeySource::Fixed(key));
        assert_eq!(found.s3.endpoint.as_deref(), Some("http://s3"));
        assert_eq!(found.s3.region.as_deref(), Some("eu"));
        assert_eq!(found.hdfs.user.as_deref(), Some("me"));
        assert_eq!(found.certificates, Some(PathBuf::from("/ca.pem")));
        assert!(!found.hdfs.has_command);
        // Half of a key is none: the machine is asked.
        let half = of(&[("AWS_ACCESS_KEY_ID", "id")]).s3.key;
        assert_eq!(half, S3KeySource::Instance("http://169.254.169.254".to_string()));
    }

    #[test]
    fn containers_machines_and_token_files_stand_for_keys() {
        let role = ("AWS_ROLE_ARN", "arn:r");
        let token = ("AWS_WEB_IDENTITY_TOKEN_FILE", "/t");
        let path = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/x");
        let found = of(&[role, token, path]).s3.key;
        let S3KeySource::WebIdentity(identity) = found else { panic!("{found:?}") };
        assert_eq!((identity.role.as_str(), identity.session.as_str()), ("arn:r", "paddlewheel"));
        let container = |found: S3KeySource| match found {
            S3KeySource::Container(agent) => Some(agent.url),
            _ => None,
        };
        let url = container(of(&[role, path]).s3.key);
        assert_eq!(url.as_deref(), Some("http://169.254.170.2/v2/x"));
        let full = |url| container(of(&[("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)]).s3.key);
        for near in
            ["http://127.0.0.1:80/k", "http://[::1]:80/k", "http://[fd00:ec2::23]/k", "https://h/k"]
        {
            assert_eq!(full(near).as_deref(), Some(near));
        }
        for far in ["http://example.org/k", "http://127.0.0.1.example.org/k", "ftp://127.0.0.1/k"] {
            assert_eq!(full(far), None, "{far}");
        }
        // Another store does not know the keys of Amazon's machines.
        let other = ("AWS_ENDPOINT_URL", "http://minio:9000");
        assert_eq!(of(&[other]).s3.key, S3KeySource::Unsigned);
        assert_eq!(of(&[("AWS_EC2_METADATA_DISABLED", "TRUE")]).s3.key, S3KeySource::Unsigned);
        let said = of(&[other, ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://[::1]:1/")]).s3.key;
        assert_eq!(said, S3KeySource::Instance("http://[::1]:1".to_string()));
    }

    #[test]
    fn files_of_google_and_azure_have_their_own_keys() {
        let google = of(&[("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")]).google;
        assert_eq!(google.key, GoogleKeySource::File(PathBuf::from("/key.json")));
        let google = of(&[("STORAGE_EMULATOR_HOST", "h:1")]).google;
        assert_eq!(
            (google.endpoint.as_deref(), google.key),
            (Some("h:1"), GoogleKeySource::Unsigned)
        );
        let google = of(&[("GCE_METADATA_HOST", "h")]).google.key;
        assert_eq!(google, GoogleKeySource::Instance("http://h".to_string()));
        let text = "AccountName=a;AccountKey=k==;BlobEndpoint=http://127.0.0.1:1/a;";
        let azure = of(&[("AZURE_STORAGE_CONNECTION_STRING", text)]).azure;
        assert_eq!(azure.key, AzureKeySource::Account("k==".to_string()));
        assert_eq!(azure.account.as_deref(), Some("a"));
        assert_eq!(azure.endpoint.as_deref(), Some("http://127.0.0.1:1/a"));
        let client = [
            ("AZURE_TENANT_ID", "t"),
            ("AZURE_CLIENT_ID", "c"),
            ("AZURE_FEDERATED_TOKEN_FILE", "/f"),
        ];
        let AzureKeySource::Client(client) = of(&client).azure.key else { panic!("no client") };
        assert!(client.proof == ClientProof::TokenFile(PathBuf::from("/f")));
        // Half of an application is none.
        let half = of(&[("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_SECRET", "s")]).azure.key;
        assert_eq!(half, AzureKeySource::Instance("http://169.254.169.254".to_string()));
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
        let id = |access: &S3Access| match &access.key {
            S3KeySource::Fixed(key) => Some(key.id.clone()),
            _ => None,
        };
        assert_eq!(id(&of(&[("HOME", path)]).s3).as_deref(), Some("a"));
        let other = of(&[("HOME", path), ("AWS_PROFILE", "other")]).s3;
        let key = S3Key { id: "c".into(), secret: "d=".into(), token: Some("t".into()) };
        assert_eq!(
            (other.key, other.region.as_deref()),
            (S3KeySource::Fixed(key), Some("us-west-2"))
        );
        assert_eq!(id(&of(&[("HOME", path), ("AWS_PROFILE", "none")]).s3), None);
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
