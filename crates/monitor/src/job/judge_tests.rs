//! Each cause, from the time use and the state of processes.

use super::judge::{Cause, Concern, Presence, judge};
use super::members::Condition;
use super::processors::ProcessorUse;
use super::shares::{ProcessShares, TimePart};
use super::state::SeenObstacle;

/// `trainer 0: reading 0.5, computing 0.5`; a server is named so.
fn process(text: &str) -> ProcessShares {
    let (name, parts) = text.split_once(": ").unwrap_or((text, ""));
    let is_server = name.starts_with("server");
    let (mut rows_per_second, mut all) = (0.0, Vec::new());
    for part in parts.split(", ").filter(|part| !part.is_empty()) {
        let (what, share) = part.rsplit_once(' ').unwrap();
        let share: f64 = share.parse().unwrap();
        let kind = match what {
            "rows" => {
                rows_per_second = share;
                continue;
            }
            what if what.starts_with("waiting for") => "waiting",
            "reading" => "reading",
            "computing" => "computing",
            "threads" => "threads",
            "other" => "other",
            "finding rows" => "finding",
            "applying" => "applying",
            "saving" => "saving",
            _ => "idle",
        };
        all.push(TimePart { name: what.to_string(), kind, share });
    }
    let (name, parts) = (name.to_string(), all);
    ProcessShares { name, is_server, parts, rows_per_second, ..ProcessShares::default() }
}

#[track_caller]
fn check(processes: &[&str], concern: Concern, who: &str, words: &[&str]) {
    let all: Vec<_> = processes.iter().map(|text| process(text)).collect();
    let found = judge(&all);
    assert_eq!((found.concern(), found.who.as_str()), (concern, who), "{found:?}");
    for word in words {
        assert!(found.why.contains(word), "{word} in {}", found.why);
    }
}

#[test]
fn a_job_that_begins() {
    check(&[], Concern::Unknown, "The job begins.", &[]);
    check(&["server 0: idle 1", "trainer 0"], Concern::Unknown, "The job begins.", &[]);
}

#[test]
fn all_is_well() {
    check(
        &["server 0: applying 0.1, idle 0.9", "trainer 0: computing 0.9, waiting for server 0 0.1"],
        Concern::Good,
        "No process slows the job.",
        &["compute 90 %", "wait 10 %"],
    );
}

#[test]
fn data_that_come_late() {
    check(
        &["trainer 0: reading 0.5, computing 0.5", "trainer 1: reading 0.7, computing 0.3"],
        Concern::Slow,
        "Reading slows the job.",
        &["60 %", "trainer 1 most of all"],
    );
}

#[test]
fn a_script_between_steps() {
    check(
        &["trainer 0: computing 0.4, other 0.6"],
        Concern::Slow,
        "The script slows the job.",
        &["60 %"],
    );
}

#[test]
fn threads_of_one_trainer() {
    let one = "trainer 0: computing 0.5, threads 0.4, other 0.1";
    check(&[one], Concern::Slow, "Threads slow the job.", &["40 %"]);
}

#[test]
fn a_busy_server() {
    check(
        &[
            "server 0: applying 0.1, idle 0.9, rows 100",
            "server 1: applying 0.6, finding rows 0.2, idle 0.2, rows 100",
            "trainer 0: computing 0.5, waiting for server 0 0.1, waiting for server 1 0.4",
        ],
        Concern::Slow,
        "Server 1 slows the job.",
        &["40 %", "busy 80 %", "mostly applying", "More servers"],
    );
}

#[test]
fn a_server_with_too_many_rows() {
    check(
        &[
            "server 0: finding rows 0.1, idle 0.9, rows 100",
            "server 1: finding rows 0.6, idle 0.4, rows 250",
            "trainer 0: computing 0.6, waiting for server 1 0.4",
        ],
        Concern::Slow,
        "Server 1 slows the job.",
        &["2.5 times as many rows", "mostly finding rows"],
    );
}

#[test]
fn a_slow_trainer_holds_up_the_others() {
    let server = "server 0: applying 0.05, idle 0.95";
    let waits = "trainer 0: computing 0.3, waiting for server 0 0.7";
    let who = "Trainer 1 slows the job.";
    let computes = "trainer 1: computing 0.95, waiting for server 0 0.05";
    check(&[server, waits, computes], Concern::Slow, who, &["wait 70 %", "computes 95 %"]);
    let reads = "trainer 1: reading 0.8, computing 0.15, waiting for server 0 0.05";
    check(&[server, waits, reads], Concern::Slow, who, &["80 % for its data"]);
    let script = "trainer 1: computing 0.2, other 0.75, waiting for server 0 0.05";
    check(&[server, waits, script], Concern::Slow, who, &["outside of training"]);
}

#[test]
fn nobody_is_busy_and_all_wait() {
    check(
        &[
            "server 0: applying 0.05, idle 0.95",
            "trainer 0: computing 0.4, waiting for server 0 0.6",
            "trainer 1: computing 0.5, waiting for server 0 0.5",
        ],
        Concern::Slow,
        "Messages slow the job.",
        &["55 %", "idle 95 %"],
    );
    check(
        &["trainer 0: computing 0.4, waiting for other trainers 0.6"],
        Concern::Slow,
        "Exchanges between trainers slow the job.",
        &["60 %"],
    );
}

#[test]
fn the_dead_come_first() {
    let mut all = [process("server 0: idle 1"), process("trainer 0: reading 1")];
    all[0].condition = Condition::Restarting;
    all[0].end = Some("it was killed by SIGKILL".to_string());
    let found = judge(&all);
    assert_eq!((found.concern(), found.why.as_str()), (Concern::Bad, "it was killed by SIGKILL"));
    assert!(found.who.contains("started again"), "{found:?}");
    all[1].condition = Condition::Failed;
    assert_eq!(judge(&all).who, "Trainer 0 has died.");
    (all[0].condition, all[1].condition) = (Condition::Running, Condition::Ended);
    assert_eq!(judge(&all).who, "The trainers have finished.");
}

/// One that waits while another is stopped, silent, held up or starved.
fn held_up() -> [ProcessShares; 2] {
    [process("trainer 0: computing 0.1, other 0.9"), process("trainer 1")]
}

#[track_caller]
fn check_second(set: impl FnOnce(&mut ProcessShares), cause: Cause, words: &[&str]) {
    let mut all = held_up();
    assert_eq!(judge(&all).cause, Cause::Script);
    set(&mut all[1]);
    let found = judge(&all);
    assert_eq!(found.cause, cause, "{found:?}");
    let text = format!("{} {}", found.who, found.why);
    words.iter().for_each(|word| assert!(text.contains(word), "{word} in {text}"));
}

fn obstacle(is_passing: bool) -> SeenObstacle {
    let (text, remedy) = ("cannot write to /snapshots".to_string(), "free space there".to_string());
    SeenObstacle { name: "disk".to_string(), text, remedy, is_passing, seconds: 5.0 }
}

#[test]
fn who_is_held_up_comes_before_speed() {
    let stopped = |one: &mut ProcessShares| one.presence = Presence::Stopped { pid: 77 };
    check_second(stopped, Cause::Stopped, &["Trainer 1 is stopped.", "kill -CONT 77"]);
    let why = "it did not answer in time".to_string();
    let silent = |one: &mut ProcessShares| one.presence = Presence::Silent { seconds: 4.0, why };
    check_second(silent, Cause::Silent, &["Trainer 1 is silent.", "for 4 s", "in time"]);
    let again = |one: &mut ProcessShares| one.presence = Presence::StartsAgain;
    check_second(again, Cause::Restarting, &["Trainer 1 was started again and gets ready"]);
    let full = |one: &mut ProcessShares| one.obstacles.push(obstacle(false));
    let words = ["Trainer 1: cannot write to /snapshots.", "Free space there. For 5 s now."];
    check_second(full, Cause::Problem, &words);
    let passing = |one: &mut ProcessShares| one.obstacles.push(obstacle(true));
    check_second(passing, Cause::Passing, &["Trainer 1: cannot", "continues by itself"]);
    let short = |one: &mut ProcessShares| {
        one.obstacles.push(SeenObstacle { seconds: 0.2, ..obstacle(true) });
    };
    check_second(short, Cause::Script, &[]);
    let often = |share| TimePart { name: "waits for a cut".to_string(), kind: "held up", share };
    check_second(|one| one.held_up.push(often(0.1)), Cause::Script, &[]);
    let words = ["Trainer 1: waits for a cut.", "took 45 % of its last seconds"];
    check_second(|one| one.held_up.push(often(0.45)), Cause::Passing, &words);
}

#[test]
fn a_problem_comes_before_what_it_causes() {
    let mut all = held_up();
    all[0].presence = Presence::Stopped { pid: 1 };
    all[1].obstacles.push(obstacle(false));
    assert_eq!(judge(&all).cause, Cause::Problem);
    all[1].condition = Condition::Failed;
    assert_eq!(judge(&all).cause, Cause::Dead);
}

#[test]
fn a_machine_with_too_few_processors() {
    let uses = |used, delayed| {
        Some(ProcessorUse { host: "node7".to_string(), used, delayed, available: 1.0 })
    };
    let mut all = [
        process("server 0: applying 0.05, idle 0.95"),
        process("trainer 0: computing 0.2, waiting for server 0 0.8"),
    ];
    assert_eq!(judge(&all).cause, Cause::Messages);
    (all[0].processors, all[1].processors) = (uses(0.05, 0.6), uses(0.05, 0.4));
    let found = judge(&all);
    assert_eq!(found.cause, Cause::Processors, "{found:?}");
    assert_eq!(found.who, "This machine has too few processors for its processes.");
    for word in ["node7", "2 processes", "0.10 processors", "may use 1", "10.0 s", "server 0 most"]
    {
        assert!(found.why.contains(word), "{word} in {}", found.why);
    }
    // One that is silent because it waits for a processor is not blamed for that.
    all[0].presence = Presence::Silent { seconds: 4.0, why: String::new() };
    assert_eq!(judge(&all).cause, Cause::Processors);
    (all[0].processors, all[1].processors) = (uses(0.9, 0.2), uses(0.9, 0.4));
    all[0].presence = Presence::Heard;
    assert_eq!(judge(&all).cause, Cause::Messages, "they have what they need");
}
