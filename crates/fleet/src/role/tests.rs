//! Every role maker, by its right and its wrong environments.

use super::*;
use crate::env::tests::vars;

const CLOUD: [(&str, &str); 2] = [
    ("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:36011,127.0.0.1:36012"),
    ("PADDLE_TRAINERS_NUM", "3"),
];

fn cloud(more: &[(&str, &str)]) -> Result<Role> {
    from_environment(&vars(&[&CLOUD[..], more].concat()))
}

#[test]
fn a_trainer_by_its_variables() {
    let role = cloud(&[("TRAINING_ROLE", "TRAINER"), ("PADDLE_TRAINER_ID", "1")]).unwrap();
    assert!(role.is_trainer() && !role.is_server() && !role.is_first_trainer());
    assert_eq!((role.id, role.n_trainers, role.servers.len()), (1, 3, 2));
    assert_eq!(role.endpoint(), None);
    assert_eq!(
        role.to_string(),
        "role: 1, current_id: 1, worker_endpoints: [], \
         server_endpoints: ['127.0.0.1:36011', '127.0.0.1:36012']"
    );
}

#[test]
fn a_server_by_its_variables() {
    let own = [("TRAINING_ROLE", "PSERVER"), ("POD_IP", "127.0.0.1"), ("PADDLE_PORT", "36012")];
    let role = cloud(&own).unwrap();
    assert!(role.is_server() && !role.is_first_trainer());
    assert_eq!(role.id, 1);
    assert_eq!(role.endpoint().unwrap().to_string(), "127.0.0.1:36012");
    // A trainer's number on a server does no harm.
    assert_eq!(cloud(&[&own[..], &[("PADDLE_TRAINER_ID", "99")]].concat()).unwrap(), role);
}

#[test]
fn a_script_that_does_not_say_which_trainer_it_is() {
    let id = |value| unsaid_trainer_id(&vars(&[("PADDLE_TRAINER_ID", value)]), 2);
    assert_eq!(unsaid_trainer_id(&vars(&[]), 2).unwrap(), 0);
    assert_eq!((id("1").unwrap(), id("7").unwrap()), (1, 0));
    assert!(matches!(id("x"), Err(Error::BadVariable { .. })));
}

#[test]
fn a_list_of_trainers_means_no_servers() {
    let ips = [("PADDLE_TRAINER_IPS", "10.0.0.1,10.0.0.2"), ("PADDLE_TRAINER_ID", "1")];
    let role = in_a_job(&vars(&ips)).unwrap().unwrap();
    assert!(role.is_trainer() && role.servers.is_empty());
    assert_eq!((role.id, role.n_trainers), (1, 2));
    assert_eq!(repr(&role.trainers), "['10.0.0.1:6174', '10.0.0.2:6174']");
    let port = [&ips[..], &[("PADDLE_PSERVER_PORT", "7000")]].concat();
    let role = in_a_job(&vars(&port)).unwrap().unwrap();
    assert_eq!(role.trainers[1].to_string(), "10.0.0.2:7000");
    let refused =
        |ips: &[(&'static str, &'static str)]| in_a_job(&vars(ips)).unwrap_err().to_string();
    assert!(
        refused(&[("PADDLE_TRAINER_IPS", "a,a"), ("PADDLE_TRAINER_ID", "0")]).contains("a:6174")
    );
    assert!(refused(&[("PADDLE_TRAINER_IPS", "a,b")]).contains("PADDLE_TRAINER_ID"));
    assert!(refused(&[("PADDLE_TRAINER_IPS", "a"), ("PADDLE_TRAINER_ID", "1")]).contains("0 to 0"));
}

#[test]
fn the_names_before_fleet() {
    let all = [
        ("PADDLE_PSERVER_PORT", "6174"),
        ("PADDLE_PSERVER_IPS", "192.168.1.2"),
        ("PADDLE_TRAINERS", "2"),
        ("PADDLE_CURRENT_IP", "192.168.1.2"),
        ("PADDLE_TRAINER_ID", "1"),
    ];
    let server = [&all[..], &[("PADDLE_TRAINING_ROLE", "PSERVER")]].concat();
    let server = from_environment(&vars(&server)).unwrap();
    assert_eq!(server.endpoint().unwrap().to_string(), "192.168.1.2:6174");
    let trainer = [&all[..], &[("PADDLE_TRAINING_ROLE", "TRAINER")]].concat();
    let trainer = from_environment(&vars(&trainer)).unwrap();
    assert_eq!((trainer.kind, trainer.id, trainer.n_trainers), (RoleKind::Trainer, 1, 2));
}

#[test]
fn the_newest_name_of_the_role_wins() {
    let both = [("TRAINING_ROLE", "TRAINER"), ("PADDLE_TRAINING_ROLE", "PSERVER")];
    let role = cloud(&[&both[..], &[("PADDLE_TRAINER_ID", "0")]].concat()).unwrap();
    assert!(role.is_first_trainer());
}

#[test]
fn a_server_finds_itself_with_what_there_is() {
    let server = ("TRAINING_ROLE", "PSERVER");
    let by_number = cloud(&[server, ("PADDLE_PSERVER_ID", "1")]).unwrap();
    assert_eq!(by_number.id, 1);
    let other = [("PADDLE_PSERVERS_IP_PORT_LIST", "a:1,b:2"), ("PADDLE_TRAINERS_NUM", "1"), server];
    let alone = from_environment(&vars(&[&other[..], &[("POD_IP", "b")]].concat())).unwrap();
    assert_eq!(alone.id, 1);
    let ports = [("PADDLE_PSERVERS", "a,b"), ("PADDLE_PORT", "7,8"), ("TRAINERS", "1"), server];
    let listed = from_environment(&vars(&[&ports[..], &[("POD_IP", "b")]].concat())).unwrap();
    assert_eq!(listed.endpoint().unwrap().to_string(), "b:8");
}

#[test]
fn what_is_missing_is_named() {
    for (given, name) in [
        (&[][..], "TRAINING_ROLE"),
        (&[("TRAINING_ROLE", "TRAINER")], "PADDLE_TRAINER_ID"),
        (&[("TRAINING_ROLE", "PSERVER")], "POD_IP"),
        (&[("TRAINING_ROLE", "PSERVER"), ("POD_IP", "127.0.0.1")], "PADDLE_PORT"),
    ] {
        let error = cloud(given).unwrap_err();
        assert!(matches!(error, Error::MissingVariable { name: n, .. } if n == name), "{error}");
    }
    let text = from_environment(&vars(&CLOUD[..1])).unwrap_err().to_string();
    assert_eq!(
        text,
        "environment variable PADDLE_TRAINERS_NUM is not set \
         (nor is PADDLE_TRAINERS, TRAINERS, which would do as well)"
    );
}

fn cause(error: Error) -> Error {
    let text = error.to_string();
    assert!(text.starts_with("something wrong with PaddleCloud, please check environment: "));
    match error {
        Error::Cloud(inner) => *inner,
        other => other,
    }
}

#[test]
fn what_does_not_fit_together_is_told() {
    let error = cause(cloud(&[("TRAINING_ROLE", "BOSS")]).unwrap_err());
    assert!(matches!(error, Error::UnknownRole { ref value, .. } if value == "BOSS"), "{error}");
    let away = [("TRAINING_ROLE", "PSERVER"), ("POD_IP", "127.0.0.1"), ("PADDLE_PORT", "1")];
    let error = cause(cloud(&away).unwrap_err());
    assert!(matches!(error, Error::NotAServer { ref servers, .. } if servers.len() == 2));
    assert!(error.to_string().contains("127.0.0.1:1,") && error.to_string().contains(":36012"));
    let error = cloud(&[("TRAINING_ROLE", "TRAINER"), ("PADDLE_TRAINER_ID", "3")]).unwrap_err();
    assert!(matches!(cause(error), Error::IdTooLarge { id: 3, n: 3, .. }));
    let error = cloud(&[("TRAINING_ROLE", "TRAINER"), ("PADDLE_TRAINER_ID", "one")]).unwrap_err();
    assert!(matches!(cause(error), Error::BadVariable { name: "PADDLE_TRAINER_ID", .. }));
}

#[test]
fn trainers_among_themselves() {
    let list = ("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2");
    let role = collective_from_environment(&vars(&[list, ("PADDLE_TRAINER_ID", "1")])).unwrap();
    assert!(role.is_trainer());
    assert_eq!((role.id, role.n_trainers, role.trainers.len()), (1, 2, 2));
    let own = collective_from_environment(&vars(&[list, ("PADDLE_CURRENT_ENDPOINT", "b:2")]));
    assert_eq!(own.unwrap().id, 1);
    let error = collective_from_environment(&vars(&[])).unwrap_err();
    assert!(matches!(error, Error::NoTrainerEndpoints));
}

#[test]
fn general_roles() {
    let all = [
        ("PADDLE_TRAINER_ENDPOINTS", "a:1,b:2"),
        ("PADDLE_PSERVERS_IP_PORT_LIST", "a:3"),
        ("TRAINING_ROLE", "PSERVER"),
    ];
    let by_number = [&all[..], &[("PADDLE_PSERVER_ID", "0")]].concat();
    let server = general_from_environment(&vars(&by_number)).unwrap();
    assert_eq!((server.kind, server.id, server.n_trainers), (RoleKind::Server, 0, 2));
    let error = general_from_environment(&vars(&all)).unwrap_err();
    assert!(matches!(error, Error::MissingVariable { name: "POD_IP", .. }), "{error}");
}

#[test]
fn what_users_say() {
    let good = UserDefined {
        current_id: 5,
        kind: RoleKind::Trainer,
        n_trainers: 2,
        servers: vec!["a:1".into(), "b:1".into()],
    };
    // A trainer's number is not compared with how many there are.
    assert_eq!(user_defined(&good).unwrap().id, 5);
    let check = |wanted: UserDefined, text: &str| {
        assert_eq!(user_defined(&wanted).unwrap_err().to_string(), text);
    };
    let none = UserDefined { servers: Vec::new(), ..good.clone() };
    check(none, "the length of server_endpoints list must be greater than 0");
    let twice = UserDefined { servers: vec!["a:1".into(); 2], ..good.clone() };
    check(twice, "server_endpoints can't have duplicate elements: a:1 is there twice");
    let negative = UserDefined { current_id: -1, ..good.clone() };
    check(negative, "current_id must be greater than or equal to 0");
    let nobody = UserDefined { n_trainers: 0, ..good.clone() };
    check(nobody, "worker_num must be greater than 0");
    let far = UserDefined { kind: RoleKind::Server, ..good };
    check(
        far,
        "if role is Role.SERVER, current_id must be less than or equal to len(server_endpoints) - 1",
    );
    assert!(matches!(user_defined_collective(1, &["a:1".into()]), Err(Error::NoSuchTrainer)));
    assert_eq!(user_defined_collective(0, &["a:1".into()]).unwrap().n_trainers, 1);
}

#[test]
fn files_are_split_in_neighbours() {
    let split = |n_files: usize, n_trainers: u32| {
        let files: Vec<usize> = (0..n_files).collect();
        let mut parts = Vec::new();
        for id in 0..n_trainers {
            let servers = vec!["a:1".to_string()];
            let wanted = UserDefined {
                current_id: id.into(),
                kind: RoleKind::Trainer,
                n_trainers: n_trainers.into(),
                servers,
            };
            parts.push(user_defined(&wanted).unwrap().split(&files).to_vec());
        }
        assert_eq!(parts.concat(), files);
        parts
    };
    assert_eq!(split(5, 2), [vec![0, 1, 2], vec![3, 4]]);
    assert_eq!(split(2, 3), [vec![0], vec![1], vec![]]);
    assert_eq!(split(0, 2), [Vec::<usize>::new(), vec![]]);
    split(17, 5);
}
