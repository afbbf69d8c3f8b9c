//! Runs the job of a plan.

use protocol::server::ServerConfig;

use super::survival::Survival;
use super::{DEADLINE_MS, Faults, GRACE_MS, LEASE_MS, Plan, Report, Size, World};

impl Plan {
    /// This job on a perfect network, without deaths.
    pub fn undisturbed(&self) -> Plan {
        let survival = self.survival.as_ref().map(|survival| Survival {
            cut_every_ms: DEADLINE_MS,
            disk_ms_max: 1,
            is_uniform: survival.is_uniform,
            ..Survival::default()
        });
        // A job whose size changes ends as one that had the last size from the start.
        let resize = self.survival.as_ref().and_then(|survival| survival.resize);
        let servers = resize.map_or(self.size.servers, |resize| resize.servers);
        let size = Size { servers, ..self.size };
        Plan { size, faults: Faults::default(), kill: None, survival, ..self.clone() }
    }

    pub(super) fn config(&self, server: usize) -> ServerConfig {
        let config = ServerConfig {
            job: "sim".to_string(),
            n_trainers: self.size.trainers,
            apply: self.apply,
            lease_ms: LEASE_MS,
            grace_ms: GRACE_MS,
            ..ServerConfig::default()
        };
        match &self.survival {
            None => config,
            Some(survival) => ServerConfig {
                recovers: true,
                is_lead: server == 0,
                cut_every_ms: survival.cut_every_ms,
                ready_ms: survival.ready_ms,
                piece_bytes: super::going_back::PIECE_BYTES,
                recover_ms: DEADLINE_MS,
                ..config
            },
        }
    }

    /// The time after the last fault.
    pub(super) fn calm_ms(&self) -> u64 {
        self.survival.as_ref().map_or(0, |survival| survival.calm_ms)
    }

    /// Runs the job. Panics if it hangs.
    pub fn run(&self) -> Report {
        let mut world = World::new(self.clone());
        while !world.is_over() {
            world.die_by_number();
            let ((at, _), event) = world.events.pop_first().expect("clocks tick");
            world.now = at;
            let is_late = at >= DEADLINE_MS + self.calm_ms();
            assert!(!is_late, "the job hangs: SEED={}, {}", self.seed, world.state());
            world.n_happened += 1;
            world.happen(event);
        }
        world.report()
    }
}
