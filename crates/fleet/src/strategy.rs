//! How trainers and servers keep step, and the settings that go with it.

use base::DidYouMean;
use program::distributed::{Applies, Mode, Switches};
use train::remote::CommunicatorConfig;
use transpile::{Config, Threads};

use crate::env::EnvVars;
use crate::error::{Error, Result};
use crate::flags::{FlagValue, Flags};

/// The settings of a trainer's sender, in Fluid's order (`TrainerRuntimeConfig`).
const TRAINER: [&str; 9] = [
    "communicator_max_merge_var_num",
    "communicator_send_queue_size",
    "communicator_independent_recv_thread",
    "communicator_min_send_grad_num_before_recv",
    "communicator_thread_pool_size",
    "communicator_send_wait_times",
    "communicator_is_sgd_optimizer",
    "rpc_deadline",
    "rpc_retry_times",
];
/// Those that count in sync and half-async, in Fluid's order.
const KEEPING_STEP: [usize; 4] = [0, 5, 4, 1];
/// Those that count in GEO.
const GEO: [usize; 2] = [4, 5];
/// Those that are as many as there are threads when threads step together.
const AS_THREADS: [usize; 2] = [0, 1];
/// A longer queue is memory without use.
const QUEUE_MAX: usize = 10_000;
const TRAINER_CONFIG: &str = "TrainerRuntimeConfig";

/// How a trainer sends and receives in the background.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainerConfig {
    mode: Option<Mode>,
    n_threads: u32,
    values: [u64; 9],
}

impl TrainerConfig {
    /// The settings of flags and of the number of threads (`CPU_NUM`). `mode` is that of the
    /// strategy.
    pub fn new(mode: Option<Mode>, flags: &Flags, n_threads: u32) -> Self {
        let threads = u64::from(n_threads);
        let defaults = [threads, threads, 1, threads, 5, 5, 1, 180_000, 3];
        let mut values = defaults;
        for (value, name) in values.iter_mut().zip(TRAINER) {
            match flags.given(name) {
                Some(FlagValue::Count(given)) => *value = given,
                Some(FlagValue::Bool(given)) => *value = given.into(),
                _ => {}
            }
        }
        Self { mode, n_threads, values }
    }

    /// The settings of this process, from its environment.
    pub fn from_environment(
        mode: Option<Mode>,
        var: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self> {
        Ok(Self::new(mode, &Flags::from_environment(var)?, EnvVars(var).n_threads()?))
    }

    /// The mode whose settings these are.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Makes these the settings of another mode.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = Some(mode);
    }

    /// How many threads train.
    pub fn n_threads(&self) -> u32 {
        self.n_threads
    }

    /// A setting.
    pub fn get(&self, name: &str) -> Result<u64> {
        Ok(self.values[place(name)?])
    }

    /// Changes a setting.
    pub fn set(&mut self, name: &str, text: &str) -> Result<()> {
        let at = place(name)?;
        let expected = "a number, 0 or more";
        let bad = |_| Error::BadSetting {
            config: TRAINER_CONFIG,
            key: TRAINER[at],
            value: text.to_string(),
            expected,
        };
        self.values[at] = match text.trim() {
            "True" | "true" => 1,
            "False" | "false" => 0,
            number => number.parse().map_err(bad)?,
        };
        Ok(())
    }

    /// All settings with their values.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        (0..TRAINER.len()).map(|at| self.setting(at)).collect()
    }

    /// The settings as the background sender takes them.
    pub fn communicator(&self) -> CommunicatorConfig {
        let [merge, queue, _, fetch, _, _, sum, ..] = self.values;
        CommunicatorConfig {
            queue_max: usize::try_from(queue).unwrap_or(usize::MAX).min(QUEUE_MAX),
            merge_max: usize::try_from(merge).unwrap_or(usize::MAX),
            fetch_after: fetch,
            is_sum: sum != 0,
        }
    }

    fn setting(&self, at: usize) -> (&'static str, String) {
        (TRAINER[at], self.values[at].to_string())
    }

    /// The settings that matter in this mode. If threads step together, queues are as long as there
    /// are threads, and a line for the user names the change.
    pub fn communicator_flags(&mut self) -> (Vec<(&'static str, String)>, Vec<String>) {
        let keeps_step = self.mode.is_some_and(Mode::threads_synchronize);
        let mut lines = Vec::new();
        for at in AS_THREADS.into_iter().filter(|_| keeps_step) {
            let name = TRAINER[at];
            let value = self.values[at];
            let threads = self.n_threads;
            if value != u64::from(threads) {
                lines.push(format!(
                    "WARNING: In sync or half_async mode, {name} must be equal to CPU_NUM. But \
                     received, {name} = {value}, CPU_NUM = {threads}. {name} will be forced to \
                     {threads}."
                ));
                self.values[at] = threads.into();
            }
        }
        let counting = match self.mode.and_then(Mode::server_applies) {
            _ if keeps_step => KEEPING_STEP.as_slice(),
            Some(Applies::Difference) => &GEO,
            _ => return (self.settings(), lines),
        };
        (counting.iter().map(|&at| self.setting(at)).collect(), lines)
    }
}

fn place(name: &str) -> Result<usize> {
    let unknown = || {
        let (key, near) = (name.to_string(), DidYouMean::among(name, TRAINER.iter().copied()));
        Error::UnknownSetting { config: TRAINER_CONFIG, key, near }
    };
    TRAINER.iter().position(|known| *known == name).ok_or_else(unknown)
}

/// A mode and its settings: Fluid's `SyncStrategy` and its like.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    /// How programs are split.
    pub program: Config,
    /// How trainers send and receive.
    pub trainer: TrainerConfig,
    /// How servers answer.
    pub server: ServerConfig,
}

impl Strategy {
    /// The usual settings of a mode.
    pub fn new(mode: Mode, flags: &Flags, n_threads: u32) -> Self {
        let trainer = TrainerConfig::new(Some(mode), flags, n_threads);
        Self { program: Config::of(mode), trainer, server: ServerConfig::new(flags) }
    }

    /// The strategy for a transpiler's configuration: without `sync_mode`, gradients are sent in
    /// the background.
    pub fn plain(
        program: Config,
        mut switches: Switches,
        flags: &Flags,
        n_threads: u32,
    ) -> Result<Self> {
        switches.runtime_split_send_recv |= !switches.sync_mode;
        let program = program.switched(&switches, switches.sync_mode)?;
        let trainer = TrainerConfig::new(Some(program.mode), flags, n_threads);
        Ok(Self { program, trainer, server: ServerConfig::new(flags) })
    }
}

/// How a server answers (`ServerRuntimeConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// Threads that take gradients.
    pub rpc_send_thread_num: u64,
    /// Threads that give parameters.
    pub rpc_get_thread_num: u64,
    /// Threads that give rows of tables.
    pub rpc_prefetch_thread_num: u64,
    /// Whether the job continues without trainers that died.
    pub tolerate_lost_trainers: bool,
}

impl ServerConfig {
    /// The settings of flags.
    pub fn new(flags: &Flags) -> Self {
        let count = |name: &str| match flags.get(name) {
            Ok(FlagValue::Count(value)) => value,
            other => panic!("`{name}` is a count, not {other:?}"),
        };
        Self {
            rpc_send_thread_num: count("rpc_send_thread_num"),
            rpc_get_thread_num: count("rpc_get_thread_num"),
            rpc_prefetch_thread_num: count("rpc_prefetch_thread_num"),
            tolerate_lost_trainers: flags.tolerate_lost_trainers(),
        }
    }

    /// The thread counts as a server's program has them.
    pub fn threads(&self) -> Threads {
        let count = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
        Threads {
            send: count(self.rpc_send_thread_num),
            get: count(self.rpc_get_thread_num),
            prefetch: count(self.rpc_prefetch_thread_num),
        }
    }

    /// Changes a setting, named as Fluid does.
    pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
        *self.place(name)? = value;
        Ok(())
    }

    fn place(&mut self, name: &str) -> Result<&mut u64> {
        match name {
            "_rpc_send_thread_num" => Ok(&mut self.rpc_send_thread_num),
            "_rpc_get_thread_num" => Ok(&mut self.rpc_get_thread_num),
            "_rpc_prefetch_thread_num" => Ok(&mut self.rpc_prefetch_thread_num),
            _ => {
                let key = name.to_string();
                let known =
                    ["_rpc_send_thread_num", "_rpc_get_thread_num", "_rpc_prefetch_thread_num"];
                let near = DidYouMean::among(name, known);
                Err(Error::UnknownSetting { config: "ServerRuntimeConfig", key, near })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::tests::vars;

    const ALL: [Mode; 4] = [Mode::Sync, Mode::HalfAsync, Mode::Async, Mode::Geo { push_every: 7 }];

    #[test]
    fn a_strategy_means_its_mode() {
        for mode in ALL {
            let strategy = Strategy::new(mode, &Flags::default(), 1);
            assert_eq!((strategy.program.mode, strategy.program.via_communicator), (mode, true));
            strategy.program.check().unwrap();
        }
    }

    #[test]
    fn a_plain_configuration_without_sync_mode_is_async() {
        let mean =
            |switches| Strategy::plain(Config::default(), switches, &Flags::default(), 1).unwrap();
        let sync = mean(Switches::default()).program;
        assert_eq!((sync.mode, sync.via_communicator), (Mode::Sync, false));
        // Scripts set `sync_mode = False` alone, or the split too.
        for runtime_split_send_recv in [false, true] {
            let usual = Switches::default();
            let strategy = mean(Switches { sync_mode: false, runtime_split_send_recv, ..usual });
            assert_eq!(strategy.program.mode, Mode::Async);
            assert!(strategy.program.via_communicator);
            assert_eq!(strategy.trainer.mode(), Some(Mode::Async));
        }
    }

    #[test]
    fn settings_reach_the_sender() {
        let mut config = TrainerConfig::new(Some(Mode::Async), &Flags::default(), 2);
        config.set("communicator_is_sgd_optimizer", "0").unwrap();
        let found = config.communicator();
        let expected =
            CommunicatorConfig { queue_max: 2, merge_max: 2, fetch_after: 2, is_sum: false };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_trainer_has_fluids_settings() {
        let config = TrainerConfig::from_environment(Some(Mode::Async), &vars(&[])).unwrap();
        let values: Vec<_> = config.settings().into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["1", "1", "1", "1", "5", "5", "1", "180000", "3"]);
        let given = [
            ("CPU_NUM", "4"),
            ("FLAGS_rpc_deadline", "5"),
            ("FLAGS_communicator_send_queue_size", "9"),
        ];
        let config = TrainerConfig::from_environment(Some(Mode::Async), &vars(&given)).unwrap();
        let values: Vec<_> = config.settings().into_iter().map(|(_, value)| value).collect();
        assert_eq!(values, ["4", "9", "1", "4", "5", "5", "1", "5", "3"]);
        let none = TrainerConfig::from_environment(None, &vars(&[("CPU_NUM", "0")]));
        assert!(matches!(none, Err(Error::BadVariable { name: "CPU_NUM", .. })));
    }

    #[test]
    fn each_mode_lists_what_counts_for_it() {
        let names = |mode| {
            let mut config = TrainerConfig::new(Some(mode), &Flags::default(), 1);
            let (settings, lines) = config.communicator_flags();
            assert_eq!(lines, Vec::<String>::new());
            settings.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(Mode::Async), TRAINER);
        let step = [
            "communicator_max_merge_var_num",
            "communicator_send_wait_times",
            "communicator_thread_pool_size",
            "communicator_send_queue_size",
        ];
        assert_eq!(names(Mode::Sync), step);
        assert_eq!(names(Mode::HalfAsync), step);
        let geo = ["communicator_thread_pool_size", "communicator_send_wait_times"];
        assert_eq!(names(Mode::Geo { push_every: 1 }), geo);
    }

    #[test]
    fn queues_are_as_long_as_there_are_threads_that_step_together() {
        let mut config = TrainerConfig::new(Some(Mode::HalfAsync), &Flags::default(), 2);
        config.set("communicator_send_queue_size", "7").unwrap();
        let (settings, lines) = config.communicator_flags();
        assert_eq!(settings[3], ("communicator_send_queue_size", "2".to_string()));
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("communicator_send_queue_size = 7, CPU_NUM = 2."));
        assert_eq!(config.communicator_flags().1, Vec::<String>::new());
    }

    #[test]
    fn refuses_settings_there_are_not() {
        let mut config = TrainerConfig::new(None, &Flags::default(), 1);
        let text = config.set("send_queue_size", "7").unwrap_err().to_string();
        assert_eq!(text, "TrainerRuntimeConfig doesn't have key: send_queue_size");
        let bad = config.set("rpc_deadline", "soon");
        assert!(matches!(bad, Err(Error::BadSetting { key: "rpc_deadline", .. })));
        let mut server = ServerConfig::new(&Flags::default());
        server.set("_rpc_get_thread_num", 3).unwrap();
        assert_eq!((server.rpc_send_thread_num, server.rpc_get_thread_num), (12, 3));
        let text = server.set("zz", 1).unwrap_err().to_string();
        assert_eq!(text, "ServerRuntimeConfig doesn't have key: zz");
    }
}
