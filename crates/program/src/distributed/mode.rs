//! How trainers and servers keep step: one enum, and all that depends on it.
//!
//! No other code compares modes. Code that depends on the mode calls a method here; a new mode is one
//! more case, and the compiler lists the questions it must answer. Fluid expresses a mode with five
//! booleans, a number for programs and another number for strategies: they are read and written here
//! only.

use crate::block::OpDesc;
use crate::error::Result;

/// Attribute and switch: how many rounds trainers may be ahead. Ours; programs of other modes have none.
const STALENESS: &str = "staleness";

/// How trainers and servers keep step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A step ends when every trainer's gradients were applied, averaged, as one update.
    #[default]
    Sync,
    /// Rounds as in `Sync`, but a trainer may be some rounds ahead of the slowest one (SSP).
    Ssp {
        /// How many.
        staleness: u32,
    },
    /// A server applies each gradient when it arrives; the threads of one trainer wait for each other.
    HalfAsync,
    /// A server applies each gradient when it arrives, and no trainer waits.
    Async,
    /// Trainers train alone and exchange differences now and then.
    Geo {
        /// After how many batches.
        push_every: u32,
    },
    /// There are no servers: trainers add up gradients, or average parameters, among themselves.
    Collective,
}

/// How a trainer exchanges what it learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeKind {
    /// In step with the program, with servers.
    Rounds,
    /// With servers that apply what arrives; a sender in the background may do it.
    Background,
    /// Differences, every few steps, with servers.
    Differences,
    /// With the other trainers.
    Collective,
}

/// The treatment of trainers' messages by servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// The gradients of all trainers are one update, when every trainer has closed its part of a round.
    Round {
        /// A trainer gets an answer for round `r` when round `r - ahead` was applied.
        ahead: u32,
    },
    /// Each gradient is one update, when it arrives.
    Arrival,
    /// Differences are added to parameters when they arrive; trainers ask for what others changed.
    Difference,
}

impl Mode {
    /// The default number of batches between two exchanges of GEO; Fluid's.
    pub const PUSH_EVERY: u32 = 100;

    /// Servers hold the gradients of so many rounds at most.
    pub const STALENESS_MAX: u32 = 1000;

    /// The names of all modes with servers.
    pub const NAMES: [&'static str; 5] = ["sync", "ssp", "half_async", "async", "geo"];

    /// The mode with servers of a name, with settings that are usual.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "sync" => Some(Mode::Sync),
            "ssp" => Some(Mode::Ssp { staleness: 2 }),
            "half_async" => Some(Mode::HalfAsync),
            "async" => Some(Mode::Async),
            "geo" => Some(Mode::Geo { push_every: 100 }),
            _ => None,
        }
    }

    /// Short name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Sync => "sync",
            Mode::Ssp { .. } => "ssp",
            Mode::HalfAsync => "half_async",
            Mode::Async => "async",
            Mode::Geo { .. } => "geo",
            Mode::Collective => "collective",
        }
    }

    /// How its trainers exchange.
    pub fn exchange(self) -> ExchangeKind {
        match self {
            Mode::Sync | Mode::Ssp { .. } => ExchangeKind::Rounds,
            Mode::HalfAsync | Mode::Async => ExchangeKind::Background,
            Mode::Geo { .. } => ExchangeKind::Differences,
            Mode::Collective => ExchangeKind::Collective,
        }
    }

    /// The facts that servers and trainers of one job must agree on, in words.
    pub fn terms(self) -> String {
        match self {
            // Servers do the same for both.
            Mode::HalfAsync => Mode::Async.name().to_string(),
            Mode::Ssp { staleness } => format!("ssp (staleness {staleness})"),
            Mode::Sync | Mode::Async | Mode::Geo { .. } | Mode::Collective => {
                self.name().to_string()
            }
        }
    }

    /// The treatment of trainers' messages by servers; none if there are no servers.
    pub fn server_applies(self) -> Option<Applies> {
        match self {
            Mode::Sync => Some(Applies::Round { ahead: 0 }),
            Mode::Ssp { staleness } => Some(Applies::Round { ahead: staleness }),
            Mode::HalfAsync | Mode::Async => Some(Applies::Arrival),
            Mode::Geo { .. } => Some(Applies::Difference),
            Mode::Collective => None,
        }
    }

    /// The mode of trainers that exchange with each other.
    pub fn without_servers() -> Self {
        Mode::Collective
    }

    /// Whether there are servers.
    pub fn has_servers(self) -> bool {
        self.server_applies().is_some()
    }

    /// Whether trainers wait for each other at servers, round by round.
    pub fn waits_for_all(self) -> bool {
        matches!(self.server_applies(), Some(Applies::Round { .. }))
    }

    /// Whether each gradient is an update by itself, of which the trainer is known.
    pub fn updates_on_arrival(self) -> bool {
        self.server_applies() == Some(Applies::Arrival)
    }

    /// Whether the threads of a trainer step together and send once.
    pub fn threads_synchronize(self) -> bool {
        match self {
            Mode::Sync | Mode::Ssp { .. } | Mode::HalfAsync | Mode::Collective => true,
            Mode::Async | Mode::Geo { .. } => false,
        }
    }

    /// Whether a sender in the background merges gradients and fetches parameters.
    pub fn sends_in_background(self) -> bool {
        match self {
            Mode::Async => true,
            Mode::Sync
            | Mode::Ssp { .. }
            | Mode::HalfAsync
            | Mode::Geo { .. }
            | Mode::Collective => false,
        }
    }

    /// Whether rows of the next batch may be asked for before this step's gradients are applied.
    pub fn looks_ahead(self) -> bool {
        self.sends_in_background()
    }

    /// For trainers that train alone: after how many batches they exchange differences.
    pub fn exchanges_every(self) -> Option<u32> {
        match self {
            Mode::Geo { push_every } => Some(push_every.max(1)),
            Mode::Sync | Mode::Ssp { .. } | Mode::HalfAsync | Mode::Async | Mode::Collective => {
                None
            }
        }
    }

    /// Fluid's senders of this mode, in the order in which they say that they are ready.
    pub fn communicators(self) -> &'static [&'static str] {
        match self {
            Mode::Sync => &["HalfAsyncCommunicator", "SyncCommunicator"],
            Mode::Ssp { .. } => &["SspCommunicator"],
            Mode::HalfAsync => &["HalfAsyncCommunicator"],
            Mode::Async => &["AsyncCommunicator"],
            Mode::Geo { .. } => &["GeoSgdCommunicator"],
            Mode::Collective => &[],
        }
    }

    /// The number of the mode in strategies (Fluid's `DistributedMode`; 4 and 5 are ours).
    pub fn number(self) -> u8 {
        match self {
            Mode::Sync => 0,
            Mode::Async => 1,
            Mode::HalfAsync => 2,
            Mode::Geo { .. } => 3,
            Mode::Ssp { .. } => 4,
            Mode::Collective => 5,
        }
    }

    /// The mode with servers of a number; `amount` is what the mode counts, if it counts something.
    pub fn from_number(number: u8, amount: u32) -> Option<Self> {
        match number {
            0 => Some(Mode::Sync),
            1 => Some(Mode::Async),
            2 => Some(Mode::HalfAsync),
            3 => Some(Mode::Geo { push_every: amount }),
            4 => Some(Mode::Ssp { staleness: amount }),
            _ => None,
        }
    }

    /// The user's name of its amount; none if it counts nothing.
    pub fn counts(self) -> Option<&'static str> {
        match self {
            Mode::Geo { .. } => Some("update_frequency"),
            Mode::Ssp { .. } => Some("staleness"),
            Mode::Sync | Mode::HalfAsync | Mode::Async | Mode::Collective => None,
        }
    }

    /// The mode that Fluid's switches mean; `argument` is `sync_mode` as given to `transpile`.
    pub fn from_fluid(
        switches: &Switches,
        argument: bool,
    ) -> std::result::Result<Split, BadSwitch> {
        switches.check()?;
        let waits = switches.sync_mode && argument || switches.completely_not_async;
        let mode = match () {
            () if switches.geo_sgd_mode => {
                Mode::Geo { push_every: switches.geo_sgd_need_push_nums }
            }
            () if waits && switches.staleness > 0 => Mode::Ssp { staleness: switches.staleness },
            () if waits => Mode::Sync,
            () if switches.half_async => Mode::HalfAsync,
            () => Mode::Async,
        };
        Ok(Split {
            mode,
            via_communicator: switches.runtime_split_send_recv || switches.geo_sgd_mode,
        })
    }

    /// The switches that Fluid's strategy of this mode sets.
    pub fn to_fluid(self) -> Switches {
        Switches {
            sync_mode: false,
            runtime_split_send_recv: true,
            half_async: self.threads_synchronize(),
            completely_not_async: self.threads_synchronize() && self.waits_for_all(),
            geo_sgd_mode: self.exchanges_every().is_some(),
            geo_sgd_need_push_nums: self.exchanges_every().unwrap_or(Mode::PUSH_EVERY),
            staleness: match self.server_applies() {
                Some(Applies::Round { ahead }) => ahead,
                Some(Applies::Arrival | Applies::Difference) | None => 0,
            },
        }
    }

    /// Writes the mode into the op that a server's program ends in, as Fluid does.
    pub fn tell_server(self, op: OpDesc, via_communicator: bool) -> OpDesc {
        let number = match self.server_applies() {
            Some(Applies::Round { .. }) | None => 0,
            Some(Applies::Arrival) if via_communicator => 1,
            Some(Applies::Arrival) => 2,
            Some(Applies::Difference) => 3,
        };
        let op = op.attr("sync_mode", self.waits_for_all()).attr("distributed_mode", number);
        match self.to_fluid().staleness {
            0 => op,
            staleness => op.attr(STALENESS, i64::from(staleness)),
        }
    }
}

impl Applies {
    /// Reads the last op of a server's program; Fluid's before 1.7 have no number.
    pub fn told(op: &OpDesc) -> Result<Self> {
        let number = match op.attrs.get("distributed_mode") {
            Some(_) => op.attrs.int("distributed_mode", 0)?,
            None => i64::from(!op.attrs.bool("sync_mode", true)?),
        };
        Ok(match number {
            0 => Applies::Round { ahead: u32::try_from(op.attrs.int(STALENESS, 0)?).unwrap_or(0) },
            3 => Applies::Difference,
            _ => Applies::Arrival,
        })
    }
}

/// The settings that determine how a program is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// How trainers and servers keep step.
    pub mode: Mode,
    /// Gradients leave the program whole, and are cut and queued outside of it.
    pub via_communicator: bool,
}

/// Fluid's switches that together say a mode (fields of `DistributeTranspilerConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// Trainers wait for each other.
    pub sync_mode: bool,
    /// Gradients pass through queues in the background.
    pub runtime_split_send_recv: bool,
    /// The threads of a trainer wait for each other.
    pub half_async: bool,
    /// With `half_async`: trainers wait for each other as well.
    pub completely_not_async: bool,
    /// Trainers train alone and exchange differences.
    pub geo_sgd_mode: bool,
    /// Batches between two exchanges.
    pub geo_sgd_need_push_nums: u32,
    /// Rounds that trainers which wait for each other may be ahead of the slowest; ours.
    pub staleness: u32,
}

impl Default for Switches {
    fn default() -> Self {
        Self {
            sync_mode: true,
            runtime_split_send_recv: false,
            half_async: false,
            completely_not_async: false,
            geo_sgd_mode: false,
            geo_sgd_need_push_nums: Mode::PUSH_EVERY,
            staleness: 0,
        }
    }
}

/// A switch by name.
#[derive(Debug)]
pub enum Switch<'a> {
    /// On or off.
    Flag(&'a mut bool),
    /// How many.
    Count(&'a mut u32),
}

impl Switches {
    /// All of them with their names, in the order in which Fluid sets them.
    pub fn each(&mut self) -> [(&'static str, Switch<'_>); 7] {
        use Switch::{Count, Flag};
        [
            ("sync_mode", Flag(&mut self.sync_mode)),
            ("runtime_split_send_recv", Flag(&mut self.runtime_split_send_recv)),
            ("half_async", Flag(&mut self.half_async)),
            ("completely_not_async", Flag(&mut self.completely_not_async)),
            ("geo_sgd_mode", Flag(&mut self.geo_sgd_mode)),
            ("geo_sgd_need_push_nums", Count(&mut self.geo_sgd_need_push_nums)),
            (STALENESS, Count(&mut self.staleness)),
        ]
    }

    /// Refuses what cannot be.
    fn check(&self) -> std::result::Result<(), BadSwitch> {
        let bad = |switch, rule, actual| Err(BadSwitch { switch, rule, actual });
        if self.geo_sgd_mode && self.geo_sgd_need_push_nums == 0 {
            return bad("geo_sgd_need_push_nums", "must be 1 or more", "0");
        }
        let waits = self.sync_mode || self.completely_not_async;
        if self.staleness > 0 && (!waits || self.geo_sgd_mode) {
            let rule = "needs trainers that wait for each other (sync_mode or a sync strategy)";
            return bad(STALENESS, rule, "more than 0");
        }
        if self.staleness > Mode::STALENESS_MAX {
            return bad(STALENESS, "must be 1000 or less", "more");
        }
        if self.runtime_split_send_recv && self.sync_mode {
            let rule = "needs sync_mode to be False; set that first";
            return bad("runtime_split_send_recv", rule, "True");
        }
        if self.completely_not_async && !self.half_async {
            return bad("completely_not_async", "is a kind of half_async; set that too", "True");
        }
        Ok(())
    }
}

/// Switches that do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSwitch {
    /// The one that does not fit.
    pub switch: &'static str,
    /// The value that it must have.
    pub rule: &'static str,
    /// Its value.
    pub actual: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Mode; 5] = [
        Mode::Sync,
        Mode::HalfAsync,
        Mode::Async,
        Mode::Geo { push_every: 7 },
        Mode::Ssp { staleness: 7 },
    ];

    #[test]
    fn what_is_written_is_read_back() {
        for mode in ALL {
            let split = Mode::from_fluid(&mode.to_fluid(), false).unwrap();
            assert_eq!(split, Split { mode, via_communicator: true });
            assert_eq!(Mode::from_number(mode.number(), 7), Some(mode));
            for via in [false, true] {
                let op = mode.tell_server(OpDesc::new("listen_and_serv"), via);
                assert_eq!(Some(Applies::told(&op).unwrap()), mode.server_applies());
            }
        }
        assert_eq!(ALL.map(Mode::number), [0, 2, 1, 3, 4]);
        assert_eq!(Mode::from_number(9, 0), None);
        let counts = [None, None, None, Some("update_frequency"), Some("staleness")];
        assert_eq!(ALL.map(Mode::counts), counts);
    }

    #[test]
    fn a_mode_says_how_its_trainers_exchange() {
        use ExchangeKind::{Background, Collective, Differences, Rounds};
        let all = ALL.map(Mode::exchange);
        assert_eq!(all, [Rounds, Background, Background, Differences, Rounds]);
        assert!(ALL.into_iter().all(Mode::has_servers));
        let collective = Mode::without_servers();
        assert_eq!((collective.exchange(), collective.has_servers()), (Collective, false));
        assert!(collective.threads_synchronize() && !collective.waits_for_all());
    }

    #[test]
    fn either_switch_or_argument_makes_a_job_asynchronous() {
        let usual = Switches::default();
        let read =
            |switches: &Switches, argument| Mode::from_fluid(switches, argument).unwrap().mode;
        assert_eq!(read(&usual, true), Mode::Sync);
        assert_eq!(read(&usual, false), Mode::Async);
        assert_eq!(read(&Switches { sync_mode: false, ..usual }, true), Mode::Async);
        let half = Switches { sync_mode: false, half_async: true, ..usual };
        assert_eq!(read(&half, true), Mode::HalfAsync);
        assert_eq!(read(&Switches { completely_not_async: true, ..half }, true), Mode::Sync);
        // Programs of old have no number.
        let op = OpDesc::new("listen_and_serv");
        assert_eq!(Applies::told(&op).unwrap(), Applies::Round { ahead: 0 });
        assert_eq!(Applies::told(&op.attr("sync_mode", false)).unwrap(), Applies::Arrival);
    }

    #[test]
    fn switches_that_do_not_go_together_are_refused() {
        let refused = |switches| Mode::from_fluid(&switches, true).unwrap_err().switch;
        let usual = Switches::default();
        let split = Switches { runtime_split_send_recv: true, ..usual };
        assert_eq!(refused(split), "runtime_split_send_recv");
        let half = Switches { sync_mode: false, completely_not_async: true, ..usual };
        assert_eq!(refused(half), "completely_not_async");
        let geo = Switches { geo_sgd_mode: true, geo_sgd_need_push_nums: 0, ..usual };
        assert_eq!(refused(geo), "geo_sgd_need_push_nums");
        let stale = Switches { sync_mode: false, staleness: 1, ..usual };
        assert_eq!(refused(stale), "staleness");
        assert_eq!(refused(Switches { staleness: 1001, ..usual }), "staleness");
    }

    #[test]
    fn rounds_without_staleness_are_sync() {
        let none = Mode::Ssp { staleness: 0 };
        assert_eq!(none.server_applies(), Mode::Sync.server_applies());
        let op = || OpDesc::new("listen_and_serv");
        assert_eq!(none.tell_server(op(), true), Mode::Sync.tell_server(op(), true));
        assert_eq!(Mode::from_fluid(&none.to_fluid(), true).unwrap().mode, Mode::Sync);
        let plain = Switches { staleness: 3, ..Switches::default() };
        assert_eq!(Mode::from_fluid(&plain, true).unwrap().mode, Mode::Ssp { staleness: 3 });
    }
}
