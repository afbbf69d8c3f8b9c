//! The reaction of a trainer to the death of a process of its job: all go back to the last cut.
//!
//! There is one way, for every cause, and also for a trainer that was started again: leave all servers,
//! wait until all are there, join them in one term, get the state that they have kept of this trainer,
//! and continue from there. After any failure meanwhile the trainer does the same again.

use std::time::{Duration, Instant};

use metrics::Obstacle;
use program::distributed::{PlacedKind, Placement};
use wire::Failure;

use super::cuts::TrainerCuts;
use super::fetch::WholeFetch;
use super::links::{Arrival, Turns};
use super::recovery::REPLAY;
use super::{TrainerJob, install, recovery_lines};
use crate::counters::TRAINER;
use crate::error::{Error, Result};
use crate::recover::{LocalState, Redoing, ScriptPosition, Sender};

/// Brings a trainer back to a cut.
pub(super) struct Rollback<'a>(pub(super) &'a TrainerJob);

impl Rollback<'_> {
    /// Whether an error means that the job goes back, and not that it fails.
    pub(super) fn may_go_back(&self, error: &Error) -> bool {
        let goes_back = match error {
            Error::PeerLost(_) | Error::GoesBack => true,
            Error::WaitEnded(_) => self.0.links().must_follow(),
            _ => false,
        };
        self.0.recovers() && goes_back
    }

    /// Goes back to the last cut that all servers have, and does again what came after it. Returns
    /// when this trainer is where it was.
    pub(super) fn go_back(&self, why: &Error) -> Result<()> {
        let (links, start) = (self.0.links(), Instant::now());
        let log = links.log();
        let _span = tracing::debug_span!(target: "paddlewheel::recovery", "going_back").entered();
        let limit = Duration::from_millis(links.settings().patience.recover_ms);
        // One that turns to other servers says that.
        let held_up = if links.must_follow() {
            "turns to the new servers of the job".to_string()
        } else {
            log(&recovery_lines::goes_back(&told(why)));
            format!("goes back to the last cut with the others, because {}", told(why))
        };
        let _held_up = Obstacle::passing("recovery", held_up).for_now();
        loop {
            self.0.abandon();
            match self.arrive().and_then(|()| self.do_again(start)) {
                Err(error) if self.may_go_back(&error) && start.elapsed() < limit => {
                    log(&recovery_lines::goes_back(&told(&error)));
                }
                // Nothing is lost: when the job is started again, it continues from the last cut.
                Err(_) if links.ends() => {
                    log(&recovery_lines::ends(None));
                    return Err(Error::Ended);
                }
                done => return done,
            }
        }
    }

    /// Joins the others, and takes note of what they have kept of this trainer.
    pub(super) fn arrive(&self) -> Result<()> {
        let arrival = self.0.with_cuts(|cuts| cuts.arrive())?;
        self.take_in(arrival)
    }

    /// Takes note of what the others have kept; a process that was started again catches up with it.
    pub(super) fn take_in(&self, Arrival { base, state, journal }: Arrival) -> Result<()> {
        let recovery = self.0.recovery();
        *recovery.cuts() = TrainerCuts::since(base);
        recovery.set_former(state.former.clone());
        let log = self.0.links().log();
        let mut timeline = recovery.timeline();
        let is_new = timeline.is_fresh();
        if is_new && state.position.event == 0 && !state.position.is_at_start {
            return Ok(());
        }
        if is_new || timeline.is_replaying() {
            let n_events = state.position.event;
            timeline.begin_at(state, &journal)?;
            if is_new && n_events > 0 {
                log(&recovery_lines::repeats(n_events, base));
                let text = "was started again, and repeats its script up to where it was";
                metrics::report_obstacle(Obstacle::passing(REPLAY, text));
            }
            return Ok(());
        }
        timeline.go_back_to(state);
        Ok(())
    }

    /// Restores the state at the cut, if this process was there, and does again what came after.
    fn do_again(&self, start: Instant) -> Result<()> {
        let recovery = self.0.recovery();
        let Some(state) = recovery.timeline().gone_back_to() else { return Ok(()) };
        self.restore(&state)?;
        let mut undone = recovery.timeline().redo();
        let mut n_events = 0;
        let done = undone.repeat(self.0, &state.position, &mut |redoing| {
            match redoing {
                Redoing::Begins(event) => recovery.timeline().redo_event(event),
                Redoing::Ended(event) => {
                    n_events += 1;
                    recovery.timeline().redid_event(event);
                    self.0.with_cuts(|cuts| cuts.boundary(&mut || Ok(None)))?;
                }
            }
            Ok(())
        });
        recovery.timeline().redone(undone);
        done?;
        TRAINER.rollbacks.add(1);
        TRAINER.replayed_events.add(n_events);
        TRAINER.last_rollback_seconds.set(start.elapsed().as_secs_f64());
        let base = recovery.cuts().base;
        (self.0.links().log())(&recovery_lines::went_back(base, n_events, start.elapsed()));
        Ok(())
    }

    /// Makes everything of this trainer what it was at a cut.
    pub(super) fn restore(&self, state: &LocalState) -> Result<()> {
        let (links, recovery) = (self.0.links(), self.0.recovery());
        let of_job = {
            let mut timeline = recovery.timeline();
            timeline.restore(state)?;
            timeline.of_job()
        };
        let LocalState { n_all_gathers, n_exchanges, .. } = *state;
        links.state().turns = Turns { n_all_gathers, n_exchanges };
        recovery.cuts().has_completed = state.is_over;
        recovery.restore_passes(state);
        let ScriptPosition { event, is_at_start, .. } = state.position;
        if let Some((job, scopes)) = of_job.filter(|_| event > 0 || is_at_start) {
            let job = links.moves.followed(&job)?;
            let wanted = |placed: &Placement| placed.kind == PlacedKind::Param;
            let fetch = WholeFetch::new(&job, wanted);
            let params = fetch.run(links, Vec::new())?;
            if let (Some(geo), Some(scope)) = (&state.geo, scopes.first()) {
                let params = fetch.names().iter().cloned().zip(params);
                let differences = &self.0.exchanges().differences;
                differences.restore(&job, scope, params, geo);
                differences.restore_held(links, scope, geo)?;
            } else {
                for scope in &scopes {
                    install(fetch.names(), params.clone(), scope);
                }
            }
        }
        if state.sender != Sender::Stopped {
            self.restart_sender()?;
        }
        Ok(())
    }

    fn restart_sender(&self) -> Result<()> {
        let Some(started) = self.0.exchanges().background.started() else { return Ok(()) };
        let job = self.0.links().moves.followed(&started.job)?;
        self.0.start_communicator(&job, started.config);
        Ok(())
    }
}

/// The reason why the job goes back, without the advice for jobs that do not recover.
fn told(error: &Error) -> String {
    match error {
        Error::PeerLost(wire::Error::Trainers(Failure::Lost { trainer, endpoint, why })) => {
            format!("trainer {trainer} ({endpoint}) is gone: {why}")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> wire::Error {
        let endpoint = "127.0.0.1:6174".parse().expect("an end point");
        wire::Error::ServerLost { endpoint, silent_ms: 1, last: String::new() }
    }

    /// The fact is made where the protocol reports it, and nobody searches for it.
    #[test]
    fn a_lost_process_is_told_apart_from_other_errors() {
        assert!(matches!(Error::from(lost()), Error::PeerLost(_)));
        let gone = |why: &str| {
            let (endpoint, why) = ("127.0.0.1:7000".to_string(), why.to_string());
            wire::Error::Trainers(Failure::Lost { trainer: 1, endpoint, why })
        };
        let error = Error::from(gone("closed"));
        assert!(matches!(error, Error::PeerLost(_)));
        assert_eq!(told(&error), "trainer 1 (127.0.0.1:7000) is gone: closed");
        let endpoint = "127.0.0.1:6174".parse().expect("an end point");
        assert!(matches!(Error::from(wire::Error::Interrupted { endpoint }), Error::WaitEnded(_)));
        assert!(matches!(Error::from(wire::Error::Stopped), Error::Ps(_)));
    }

    #[test]
    fn only_a_job_that_recovers_goes_back() {
        let job = TrainerJob::default();
        let (error, other) = (Error::from(lost()), Error::NoJob);
        assert!(!Rollback(&job).may_go_back(&error), "nobody was asked yet");
        job.links().recovers().set_off();
        assert!(!Rollback(&job).may_go_back(&error));
        job.links().recovers().set_on();
        assert!(Rollback(&job).may_go_back(&error) && Rollback(&job).may_go_back(&Error::GoesBack));
        assert!(!Rollback(&job).may_go_back(&other));
        let endpoint = "127.0.0.1:6174".parse().expect("an end point");
        let ended = Error::from(wire::Error::Interrupted { endpoint });
        assert!(!Rollback(&job).may_go_back(&ended), "the servers are where they were");
        job.configure(|settings| {
            settings.locate = Some(std::sync::Arc::new(|| Some(vec!["127.0.0.1:1".to_string()])));
        });
        assert!(Rollback(&job).may_go_back(&ended), "there are others");
    }
}
