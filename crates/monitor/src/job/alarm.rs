//! Lines that the console prints at once, and not with the next line about the job: a person must act.

use std::time::Instant;

use metrics::words::time;

use super::judge::{Cause, Judgement};

/// A process that is silent may only be busy; after so many seconds it is told.
const SILENT_SECONDS: f64 = 10.0;

/// The obstacle of the job that the console knows.
#[derive(Clone, Debug)]
pub(super) struct Alarm {
    cause: Cause,
    who: String,
    since: Instant,
    is_told: bool,
}

impl Alarm {
    /// Compares the obstacle with the present judgement; returns lines to print. The launcher
    /// reports deaths.
    pub(super) fn follow(own: &mut Option<Self>, now: &Judgement, at: Instant) -> Vec<String> {
        let is_alarm = matches!(now.cause, Cause::Problem | Cause::Stopped | Cause::Silent);
        let is_same = |alarm: &Self| alarm.cause == now.cause && alarm.who == now.who;
        let mut said = Vec::new();
        if let Some(over) = own.take_if(|alarm| !is_alarm || !is_same(alarm))
            && over.is_told
        {
            let seconds = at.saturating_duration_since(over.since).as_secs_f64();
            said.push(format!("over after {}: {}", time(seconds), over.who));
        }
        if !is_alarm {
            return said;
        }
        let Judgement { cause, who, .. } = now.clone();
        let alarm = own.get_or_insert(Self { cause, who, since: at, is_told: false });
        let seconds = at.saturating_duration_since(alarm.since).as_secs_f64();
        let is_due = cause != Cause::Silent || seconds >= SILENT_SECONDS;
        if is_due && !alarm.is_told {
            alarm.is_told = true;
            said.push(now.line());
        }
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_alarm_is_told_once_and_so_is_its_end() {
        let (mut own, start) = (None, Instant::now());
        let mut follow = |cause, who: &str, seconds| {
            let judged = Judgement::new(cause, who, "Do this.");
            Alarm::follow(&mut own, &judged, start + Duration::from_secs(seconds))
        };
        assert_eq!(follow(Cause::Script, "The script.", 0), [""; 0]);
        assert_eq!(
            follow(Cause::Stopped, "Trainer 1 is stopped.", 1),
            ["Trainer 1 is stopped. Do this."]
        );
        assert_eq!(follow(Cause::Stopped, "Trainer 1 is stopped.", 2), [""; 0]);
        assert_eq!(
            follow(Cause::Script, "The script.", 5),
            ["over after 4 s: Trainer 1 is stopped."]
        );
        assert_eq!(follow(Cause::Silent, "Server 0 is silent.", 6), [""; 0], "it may be busy");
        assert_eq!(follow(Cause::Nothing, "Nobody.", 7), [""; 0], "nobody was told");
        assert_eq!(follow(Cause::Silent, "Server 0 is silent.", 8), [""; 0]);
        assert_eq!(
            follow(Cause::Silent, "Server 0 is silent.", 18),
            ["Server 0 is silent. Do this."]
        );
        let both = follow(Cause::Problem, "Server 0: no space.", 20);
        assert_eq!(both, ["over after 12 s: Server 0 is silent.", "Server 0: no space. Do this."]);
    }
}
