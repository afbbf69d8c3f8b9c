//! The view of a job: that every name is documented, that a process answers and a job of threads
//! counts.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeSet;
use std::time::Duration;

use metrics::{NumberKind, NumberSource, Sample};
use monitor::http::ask_all;
use monitor::{ProcessName, ProcessServer};
use protocol::counters::{SERVER, WAITING};
use testing::tree::read;
use train::counters::TRAINER;
use wire::counters::NETWORK;

/// All numbers without a label; those with labels exist when a process has one.
fn declared() -> Vec<Sample> {
    [TRAINER.samples(), NETWORK.samples(), SERVER.samples()].concat()
}

/// The table of the document: `` | `name` | kind | meaning | ``.
fn documented() -> Vec<[String; 3]> {
    let text = read("docs/guides/watching.md");
    let rows = text.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `/"));
    let cells = rows.map(|line| {
        let mut cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string());
        [(); 3].map(|()| cells.next().unwrap_or_default())
    });
    cells.collect()
}

#[test]
fn every_name_is_documented_with_its_meaning() {
    let documented = documented();
    for sample in declared() {
        let name = format!("`{}`", sample.name);
        let row = documented.iter().find(|row| row[0] == name);
        let row = row.unwrap_or_else(|| panic!("docs/guides/watching.md has no row for {name}"));
        let kind = if sample.kind == NumberKind::Counter { "counter" } else { "gauge" };
        assert_eq!((row[1].as_str(), row[2].as_str()), (kind, sample.help), "{name}");
    }
    let known: BTreeSet<String> =
        declared().iter().map(|sample| format!("`{}`", sample.name)).collect();
    let others = documented.iter().map(|row| row[0].clone()).filter(|name| !known.contains(name));
    let expected = [
        "`trainer_waiting_seconds{server}`",
        "`trainer_fetched{name}`",
        "`server_busy_seconds`",
        "`process_cpu_seconds`",
        "`process_run_delay_seconds`",
        "`process_available_processors`",
        "`process_resident_bytes`",
        "`process_held_up_seconds{by}`",
    ];
    assert_eq!(others.collect::<Vec<_>>(), expected, "rows without a number");
}

#[test]
fn names_have_units_and_stand_alone() {
    let mut seen = BTreeSet::new();
    for Sample { name, help, .. } in declared() {
        assert!(seen.insert(name), "{name} is there twice");
        let plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        assert!(plain && help.ends_with('.'), "{name}: {help}");
        let is_time = help.contains("Time ") || help.starts_with("How long");
        assert!(!is_time || name.ends_with("_seconds"), "{name} is a time");
        assert!(!help.starts_with("Bytes") || name.ends_with("_bytes"), "{name} counts bytes");
    }
}

#[test]
fn a_process_answers_with_its_numbers() {
    let name = ProcessName { role: "trainer", id: 1, n_restarts: 2, endpoint: None };
    let server = ProcessServer::start("127.0.0.1:0", name, fleet::watching::sources()).unwrap();
    WAITING.of("127.0.0.1:6170").add(Duration::from_millis(250));
    let address = [server.address().to_string()];
    let get = |path: &str| ask_all(&address, path, Duration::from_secs(20)).remove(0).unwrap();
    assert_eq!(get("/healthz").status, 200);
    let text = String::from_utf8(get("/metrics").body).unwrap();
    assert!(text.contains("# TYPE paddlewheel_trainer_samples counter\n"), "{text}");
    assert!(
        text.contains("paddlewheel_trainer_waiting_seconds_total{server=\"127.0.0.1:6170\"} "),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"));
    let state: serde_json::Value = serde_json::from_slice(&get("/state").body).unwrap();
    assert_eq!(
        (&state["role"], &state["id"], &state["restarts"]),
        (&"trainer".into(), &1.into(), &2.into())
    );
    assert!(state["numbers"]["process_resident_bytes"].as_f64().unwrap() > 1e6);
    assert!(
        state["labelled"]["trainer_waiting_seconds"]["127.0.0.1:6170"].as_f64().unwrap() >= 0.25
    );
}
