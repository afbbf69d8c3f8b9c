//! The numbers of all processes of a job in one text for Prometheus, so that one target is enough.

use std::collections::BTreeMap;

use metrics::NumberKind;
use serde_json::Value;

use super::collector::Watched;
use super::judge::Presence;
use super::member::WatchedMember;
use super::state::State;
use crate::http::{HttpAnswer, HttpRequest};
use crate::text::{Family, FamilyRow, TextForm};

/// Names that are remembered.
const NAMES_MAX: usize = 2000;

/// The meaning of a number.
#[derive(Clone, Debug, PartialEq)]
struct About {
    help: String,
    kind: NumberKind,
    /// The name of its label, if it has one.
    label: Option<String>,
}

/// The meaning of the numbers of processes, as these describe them.
#[derive(Clone, Debug, Default)]
pub(super) struct Dictionary(BTreeMap<String, About>);

impl Dictionary {
    /// Whether it knows all numbers of a process.
    pub(super) fn has_all(&self, state: &State) -> bool {
        let mut names = state.numbers.keys().chain(state.labelled.keys());
        names.all(|name| self.0.contains_key(name) || !is_name(name))
    }

    /// Adds the descriptions of a process. Invalid names are left out: Prometheus would refuse the
    /// text.
    pub(super) fn read(&mut self, about: &Value) {
        for (name, about) in about.as_object().into_iter().flatten() {
            let label = about["label"].as_str();
            if !is_name(name) || label.is_some_and(|label| !is_name(label)) {
                continue;
            }
            let is_counter = about["is_counter"].as_bool().unwrap_or(false);
            let kind = if is_counter { NumberKind::Counter } else { NumberKind::Gauge };
            let help = about["help"].as_str().unwrap_or("").to_string();
            if self.0.len() < NAMES_MAX || self.0.contains_key(name) {
                let label = label.map(str::to_string);
                self.0.insert(name.clone(), About { help, kind, label });
            }
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(is_letter)
}

/// The labels that tell a process from the others.
struct ProcessLabels {
    role: &'static str,
    index: String,
    host: String,
    address: String,
}

impl ProcessLabels {
    fn of(member: &WatchedMember) -> Self {
        let state = member.states.state();
        let named = member.told.name.as_deref().and_then(|name| name.rsplit(' ').next());
        let index = state.map(|state| state.id.to_string()).or(named.map(str::to_string));
        let address = member.told.address.clone();
        let host = state.map(|state| state.host.clone()).filter(|host| !host.is_empty());
        let host = host
            .unwrap_or_else(|| address.rsplit_once(':').map_or("", |(host, _)| host).to_string());
        let role = if member.is_server() { "server" } else { "trainer" };
        Self { role, index: index.unwrap_or_default(), host, address }
    }

    fn labels(&self) -> Vec<(&str, &str)> {
        let Self { role, index, host, address } = self;
        vec![("role", role), ("index", index), ("host", host), ("address", address)]
    }
}

/// The answer with the numbers of all processes that answer.
pub(super) fn answer(request: &HttpRequest, watched: &Watched) -> HttpAnswer {
    let members: Vec<(ProcessLabels, &WatchedMember, bool)> = watched
        .members
        .iter()
        .zip(&watched.shares)
        .map(|(member, shares)| {
            let is_there = !shares.parts.is_empty() || shares.presence == Presence::Heard;
            let is_up = member.is_running() && is_there && member.states.state().is_some();
            (ProcessLabels::of(member), member, is_up)
        })
        .collect();
    let up = members.iter().map(|(identity, _, is_up)| FamilyRow {
        labels: identity.labels(),
        value: f64::from(u8::from(*is_up)),
    });
    let mut families = vec![Family {
        name: "process_up",
        help: "1 if the process answers, 0 if not.",
        kind: NumberKind::Gauge,
        rows: up.collect(),
    }];
    for (name, About { help, kind, label }) in &watched.dictionary.0 {
        let mut rows = Vec::new();
        for (identity, member, _) in members.iter().filter(|(_, _, is_up)| *is_up) {
            let Some(state) = member.states.state() else { continue };
            match label {
                None => rows.extend(
                    state
                        .numbers
                        .get(name)
                        .map(|value| FamilyRow { labels: identity.labels(), value: *value }),
                ),
                Some(label) => {
                    let all = state.labelled.get(name).into_iter().flatten();
                    rows.extend(all.map(|(who, value)| {
                        let mut labels = identity.labels();
                        labels.push((label, who));
                        FamilyRow { labels, value: *value }
                    }));
                }
            }
        }
        if !rows.is_empty() {
            families.push(Family { name, help, kind: *kind, rows });
        }
    }
    TextForm::wanted(request).answer(&families)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_left_out() {
        let mut dictionary = Dictionary::default();
        let about = serde_json::json!({
            "trainer_samples": { "help": "Samples.", "is_counter": true, "label": null },
            "bad name\n": { "help": "", "is_counter": true, "label": null },
            "labelled": { "help": "", "is_counter": false, "label": "a b" },
        });
        dictionary.read(&about);
        assert_eq!(dictionary.0.keys().collect::<Vec<_>>(), ["trainer_samples"]);
        let mut state = State::default();
        state.numbers.insert("trainer_samples".to_string(), 1.0);
        state.numbers.insert("bad name".to_string(), 1.0);
        assert!(dictionary.has_all(&state), "nobody asks again for what is no name");
        state.numbers.insert("trainer_batches".to_string(), 1.0);
        assert!(!dictionary.has_all(&state));
    }
}
