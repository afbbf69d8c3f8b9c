//! The contents of the page, as JSON: numbers are worked out and put into words here, the page only
//! draws.

use metrics::words::{bytes, count, percent, time};
use serde_json::{Value, json};

use super::collector::Watched;
use super::judge::{Concern, Presence};
use super::member::WatchedMember;
use super::members::Condition;

/// The page.
pub(super) const HTML: &str = include_str!("page.html");

/// Lines of a dead process that are shown.
const LINES_MAX: usize = 20;

/// Everything that is drawn.
pub(super) fn view(watched: &Watched) -> Value {
    let judgement = &watched.judgement;
    json!({
        "title": watched.title,
        "elapsed": time(watched.seconds()),
        "judgement": {
            "cause": judgement.cause.name(),
            "concern": judgement.concern().name(), "who": judgement.who, "why": judgement.why,
        },
        "figures": figures(watched),
        "processes": processes(watched),
        "curves": curves(watched),
        "events": watched.events.iter().rev().map(|event| {
            json!({ "at": time(event.at), "text": event.text })
        }).collect::<Vec<_>>(),
    })
}

/// A number in large letters.
fn figure(label: &str, value: String, note: String) -> Value {
    json!({ "label": label, "value": value, "note": note })
}

fn figures(watched: &Watched) -> Vec<Value> {
    let value = |name: &str| watched.values.get(name).copied();
    let mut figures = Vec::new();
    let samples = format!("{} so far", count(watched.total("trainer_samples")));
    let speed = value("samples_per_second").map_or("–".to_string(), count);
    figures.push(figure("samples a second", speed, samples));
    figures.extend(progress(watched));
    for (name, value) in watched.values.iter().filter(|(name, _)| is_fetched(name)).take(4) {
        figures.push(figure(name, count(*value), "mean of the trainers".to_string()));
    }
    if watched.servers().next().is_some() {
        let new = value("new_rows_per_second").unwrap_or(0.0);
        let waiting = value("waiting_rows").unwrap_or(0.0);
        let mut note = format!("{} new a second", count(new));
        if waiting > 0.0 {
            note += &format!(", {} wait to be admitted", count(waiting));
        }
        figures.push(figure("rows", value("rows").map_or("–".to_string(), count), note));
        figures.push(staleness(watched));
        figures.extend(skew(watched));
        figures.extend(snapshot(watched));
    }
    let rate =
        value("bytes_per_second").map_or("–".to_string(), |rate| format!("{}/s", bytes(rate)));
    let sent = watched.total("network_sent_bytes") + watched.total("network_lent_bytes");
    figures.push(figure("sent", rate, format!("{} so far", bytes(sent))));
    let restarts: usize = watched.members.iter().map(|member| member.told.n_restarts).sum();
    if restarts > 0 {
        let events = watched.total("trainer_replayed_events");
        let note = format!("{} events of scripts done again", count(events));
        figures.push(figure("restarts", restarts.to_string(), note));
    }
    figures
}

/// How much of the pass is done, and how long the rest takes: of the trainer that is last.
fn progress(watched: &Watched) -> Option<Value> {
    let last = rest(watched)?;
    let note = match last.pass {
        0.0 => format!("{} of the pass is done", percent(last.done)),
        pass => format!("{} of pass {pass:.0} is done", percent(last.done)),
    };
    let left = if last.seconds > 0.0 { time(last.seconds) } else { "–".to_string() };
    Some(figure("time left", left, note))
}

/// The rest of the pass of the trainer that takes longest.
fn rest(watched: &Watched) -> Option<Rest> {
    let left = |member: &WatchedMember| {
        let done = member.states.number("trainer_pass_done");
        let seconds = member.states.number("trainer_pass_left_seconds");
        let pass = member.states.number("trainer_pass_number");
        (done > 0.0 && done < 1.0 && member.is_running()).then_some(Rest { pass, done, seconds })
    };
    let rests = watched.trainers().filter_map(left);
    // Of trainers in different passes, those in the earliest are last.
    rests.min_by(|a, b| a.pass.total_cmp(&b.pass).then(b.seconds.total_cmp(&a.seconds)))
}

/// The share that is done of the present pass.
pub(super) fn share(watched: &Watched) -> Option<f64> {
    rest(watched).map(|rest| rest.done)
}

/// The rest of a pass.
struct Rest {
    pass: f64,
    done: f64,
    seconds: f64,
}

fn staleness(watched: &Watched) -> Value {
    let now = watched.values.get("staleness");
    let most = watched.servers().map(|member| member.states.number("server_staleness_max"));
    let most = most.fold(0.0, f64::max);
    let value = now.map_or("0".to_string(), |mean| count(*mean));
    figure("staleness", value, format!("updates, {} at most", count(most)))
}

/// How unevenly rows are asked for, over servers and over keys.
fn skew(watched: &Watched) -> Option<Value> {
    let rates: Vec<f64> =
        watched.shares.iter().filter(|one| one.is_server).map(|one| one.rows_per_second).collect();
    let sum: f64 = rates.iter().sum();
    if sum <= 0.0 {
        return None;
    }
    let most = rates.iter().copied().fold(0.0, f64::max);
    let hot = watched.servers().map(|member| {
        let share = member.states.number("server_hottest_keys_share");
        share * member.states.rate("server_looked_up_rows") / sum
    });
    let note = format!("of look-ups, 16 keys a server; busiest server {}", percent(most / sum));
    Some(figure("hottest keys", percent(hot.sum()), note))
}

fn snapshot(watched: &Watched) -> Option<Value> {
    let most =
        |name: &str| watched.servers().map(|one| one.states.number(name)).fold(0.0, f64::max);
    if most("server_cuts") == 0.0 {
        return None;
    }
    let n_bytes: f64 =
        watched.servers().map(|one| one.states.number("server_last_cut_bytes")).sum();
    let note = format!("took {}, {}", time(most("server_last_cut_seconds")), bytes(n_bytes));
    let age = time(most("server_last_cut_age_seconds"));
    Some(figure("last snapshot", format!("{age} ago"), note))
}

/// Names of curves that are not fetched.
const OWN: [&str; 6] = [
    "samples_per_second",
    "bytes_per_second",
    "rows",
    "waiting_rows",
    "staleness",
    "new_rows_per_second",
];

fn is_fetched(name: &str) -> bool {
    !OWN.contains(&name)
}

/// The curves: speed, fetched values, then the others. A curve that was always 0 is not shown.
fn curves(watched: &Watched) -> Vec<Value> {
    let fetched: Vec<&str> = watched.history.names().filter(|name| is_fetched(name)).collect();
    let names = std::iter::once(OWN[0]).chain(fetched).chain(OWN[1..].iter().copied());
    names.filter_map(|name| curve(watched, name)).collect()
}

fn curve(watched: &Watched, name: &str) -> Option<Value> {
    let points = watched.history.points(name);
    let is_flat = points.iter().all(|point| point.value == 0.0);
    if points.is_empty() || is_flat && name != OWN[0] {
        return None;
    }
    let (label, unit) = match name {
        "samples_per_second" => ("samples a second", "count"),
        "bytes_per_second" => ("bytes sent a second", "bytes"),
        "rows" => ("rows of tables", "count"),
        "waiting_rows" => ("rows that wait to be admitted", "count"),
        "new_rows_per_second" => ("new rows a second", "count"),
        "staleness" => ("staleness, in updates", "count"),
        fetched => (fetched, "count"),
    };
    let shown = |value: f64| if unit == "bytes" { bytes(value) } else { count(value) };
    let values = || points.iter().map(|point| point.value);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    // Counts begin at 0; a loss has its own scale.
    let low = if is_fetched(name) { low } else { 0.0 };
    let last = points.last().map_or(0.0, |point| point.at);
    Some(json!({
        "name": name,
        "label": label,
        "now": watched.values.get(name).map(|value| shown(*value)),
        "low": low, "high": high, "low_text": shown(low), "high_text": shown(high),
        "end_text": time(last.max(1.0)),
        "points": points.iter().map(|point| json!([point.at, rounded(point.value)])).collect::<Vec<_>>(),
    }))
}

/// Enough digits to be drawn.
fn rounded(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

fn processes(watched: &Watched) -> Vec<Value> {
    let shares = watched.shares.iter();
    let mut all: Vec<(&WatchedMember, Value)> = watched
        .members
        .iter()
        .zip(shares)
        .map(|(member, shares)| (member, process(member, shares)))
        .collect();
    // Trainers first: a reader looks for the reason of their waits.
    all.sort_by_key(|(member, _)| member.is_server());
    all.into_iter().map(|(_, value)| value).collect()
}

fn process(member: &WatchedMember, shares: &super::ProcessShares) -> Value {
    let (condition, note) = condition(member, shares);
    let is_dead = matches!(member.told.condition, Condition::Failed | Condition::Restarting);
    let lines = if is_dead { member.told.lines.as_slice() } else { &[] };
    let parts = shares.parts.iter().map(|part| {
        json!({ "name": part.name, "kind": part.kind, "share": part.share, "text": percent(part.share) })
    });
    json!({
        "name": member.name(),
        "role": if member.is_server() { "server" } else { "trainer" },
        "condition": condition,
        "note": note,
        "restarts": member.told.n_restarts,
        "facts": facts(member),
        "obstacles": obstacles(shares),
        "parts": parts.collect::<Vec<_>>(),
        "end": is_dead.then(|| member.told.end.clone()),
        "lines": lines[lines.len().saturating_sub(LINES_MAX)..],
    })
}

/// How a process is, in one word for the page and in words for people.
fn condition(member: &WatchedMember, shares: &super::ProcessShares) -> (&'static str, String) {
    match (member.told.condition, &shares.presence) {
        (Condition::Failed, _) => ("dead", "dead".to_string()),
        (Condition::Restarting, _) => ("dead", "is started again".to_string()),
        (Condition::Ended, _) => ("ended", "through".to_string()),
        (Condition::Running, Presence::Begins) => {
            ("silent", member.problem.clone().unwrap_or_else(|| "begins".to_string()))
        }
        (Condition::Running, Presence::StartsAgain) => {
            ("silent", "started again, gets ready".to_string())
        }
        (Condition::Running, Presence::Stopped { pid }) => {
            ("silent", format!("stopped (pid {pid})"))
        }
        (Condition::Running, Presence::Silent { seconds, why }) => {
            ("silent", format!("silent for {}: {why}", time(*seconds)))
        }
        (Condition::Running, Presence::Heard) => {
            let uptime = member.states.state().map_or(0.0, |state| state.uptime);
            ("running", format!("up {}", time(uptime)))
        }
    }
}

/// The obstacles that a process reports.
fn obstacles(shares: &super::ProcessShares) -> Vec<String> {
    let words = |one: &super::SeenObstacle| {
        if one.remedy.is_empty() {
            format!("{} (for {})", one.text, time(one.seconds))
        } else {
            format!("{} (for {}); {}", one.text, time(one.seconds), one.remedy)
        }
    };
    shares.obstacles.iter().map(words).collect()
}

fn facts(member: &WatchedMember) -> String {
    let states = &member.states;
    if states.state().is_none() {
        return String::new();
    }
    let memory = bytes(states.number("process_resident_bytes"));
    let cpu = states.rate("process_cpu_seconds");
    let own = if member.is_server() {
        format!(
            "{} rows, {} looked up a second, {} trainers",
            count(states.number("server_table_rows")),
            count(states.rate("server_looked_up_rows")),
            count(states.number("server_trainers")),
        )
    } else {
        format!(
            "{} samples/s, {} batches, threads: {}",
            count(states.rate("trainer_samples")),
            count(states.total("trainer_batches")),
            count(states.number("trainer_threads").max(1.0)),
        )
    };
    format!("{own}, {cpu:.2} processors, {memory}")
}

/// How far the job is, in one line.
pub(super) fn line(watched: &Watched) -> Option<String> {
    let judgement = &watched.judgement;
    let Some(speed) = watched.values.get("samples_per_second") else {
        return (judgement.concern() == Concern::Bad).then(|| judgement.line());
    };
    let mut parts = vec![format!("{} samples", count(watched.total("trainer_samples")))];
    parts.push(format!("{} samples/s", count(*speed)));
    if let Some(progress) = progress(watched) {
        let (left, note) = (progress["value"].as_str()?, progress["note"].as_str()?);
        let left = if left == "–" { String::new() } else { format!(", {left} left") };
        parts.push(format!("{note}{left}"));
    }
    let fetched = watched.values.iter().filter(|(name, _)| is_fetched(name)).take(4);
    parts.extend(fetched.map(|(name, value)| format!("{name} {}", count(*value))));
    parts.push(judgement.line());
    Some(parts.join(" | "))
}

/// The work of each process from beginning to end.
pub(super) fn summary(watched: &Watched) -> Vec<String> {
    let mut lines = Vec::new();
    for member in watched.trainers().filter(|member| member.states.state().is_some()) {
        lines.push(trainer_summary(member));
    }
    for member in watched.servers().filter(|member| member.states.state().is_some()) {
        let total = |name: &str| member.states.total(name);
        let (rows, n_bytes) =
            (member.states.number("server_table_rows"), member.states.number("server_table_bytes"));
        let staleness = total("server_staleness_sum") / total("server_updates").max(1.0);
        lines.push(format!(
            "{:<10} {} rows, {:.0} bytes a row; {} pushes in {} rounds, staleness {staleness:.1}; finding rows {}, \
             applying {}, saving {}",
            member.name(),
            count(rows),
            n_bytes / rows.max(1.0),
            count(total("server_pushes")),
            count(total("server_rounds")),
            time(total("server_finding_seconds")),
            time(total("server_applying_seconds")),
            time(total("server_saving_seconds")),
        ));
    }
    if lines.is_empty() {
        return lines;
    }
    let sent = watched.total("network_sent_bytes") + watched.total("network_lent_bytes");
    let restarts: usize = watched.members.iter().map(|member| member.told.n_restarts).sum();
    let mut together = format!(
        "{:<10} {} samples, {} sent",
        "together",
        count(watched.total("trainer_samples")),
        bytes(sent)
    );
    for (name, value) in watched.values.iter().filter(|(name, _)| is_fetched(name)).take(4) {
        together += &format!(", {name} {}", count(*value));
    }
    if restarts > 0 {
        together += &format!(", {restarts} restarts");
    }
    lines.push(together);
    lines
}

fn trainer_summary(member: &WatchedMember) -> String {
    let total = |name: &str| member.states.total(name);
    let waited = member.states.total_labelled("trainer_waiting_seconds");
    // Not those of the last moment: some processes are between two passes then, others are not.
    let threads = member.states.number("trainer_threads_max").max(1.0);
    let of = |seconds: f64| time(seconds / threads);
    format!(
        "{:<10} {} batches, {} samples; reading {}, computing {}, waiting for servers {}",
        member.name(),
        count(total("trainer_batches")),
        count(total("trainer_samples")),
        of(total("trainer_reading_seconds")),
        of(total("trainer_computing_seconds")),
        of(waited),
    )
}
