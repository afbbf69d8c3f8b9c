//! The fleet of a process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use base::EvenIfPoisoned;
use fleet::lifecycle::Served;
use fleet::metrics::ClickVars;
use fleet::ready::{self, Watch};
use fleet::strategy::ServerConfig;
use fleet::{Fleet, Role, RoleKind, Strategy, env, flags};
use program::Program;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;
use train::io::SaveInference;
use train::metrics::Clicks;
use train::remote::Peers;

use super::role::PyRole;
use super::strategy::PyTrainerConfig;
use crate::error::from_fleet;
use crate::fit;
use crate::framework::program::PyProgram;
use crate::io::{feed_names, target_names};
use crate::pruning::warn_of_unfed;
use crate::quality::PyScoredSamples;
use crate::signals::{Raised, signalled, taken};
use crate::tensor::PyScope;
use crate::trainer_job::{raised_in_wait, tell, trainer_job};
use crate::transpile::{dispatched, read_config};

/// A process of a job with parameter servers.
#[pyclass(name = "Fleet", module = "paddlewheel._core", frozen)]
pub(crate) struct PyFleet {
    role: Role,
    fleet: Mutex<Fleet>,
}

impl PyFleet {
    fn lock(&self, py: Python<'_>) -> MutexGuard<'_, Fleet> {
        self.fleet.lock_py_attached(py).even_if_poisoned()
    }

    /// Calls an operation that waits; an exception of a signal handler takes precedence.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&mut Fleet) -> fleet::Result<T> + Send,
    ) -> PyResult<T> {
        let mut fleet = self.lock(py);
        let fleet = &mut *fleet;
        let done = py.detach(|| call(fleet));
        let raised = raised_in_wait().filter(|_| done.is_err());
        done.map_err(|error| raised.unwrap_or_else(|| from_fleet(error)))
    }
}

impl PyFleet {
    /// The other trainers, for a dataset to exchange samples with.
    pub(crate) fn peers(&self, py: Python<'_>) -> PyResult<Option<Peers>> {
        self.lock(py).peers().map_err(from_fleet)
    }
}

#[pymethods]
impl PyFleet {
    #[new]
    fn new(role: &PyRole) -> PyResult<Self> {
        let flags = flags::current().map_err(from_fleet)?;
        if role.0.kind == RoleKind::Trainer {
            ready::warn_of_proxies(&env::process, &mut tell);
        }
        let fleet = Mutex::new(Fleet::init(role.0.clone(), flags, trainer_job()?.clone()));
        Ok(Self { role: role.0.clone(), fleet })
    }

    /// The role of this process.
    #[getter]
    fn role(&self) -> PyRole {
        PyRole(self.role.clone())
    }

    /// Splits programs for this process; a trainer's are rewritten in place. `trainer` is None when
    /// a transpiler's configuration was given instead of a strategy.
    fn distribute(
        &self,
        py: Python<'_>,
        main: &Bound<'_, PyProgram>,
        startup: &Bound<'_, PyProgram>,
        config: &Bound<'_, PyDict>,
        trainer: Option<&PyTrainerConfig>,
        server: (u64, u64, u64, bool),
        choose: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let flags = flags::current().map_err(from_fleet)?;
        let n_threads = PyTrainerConfig::usual()?.n_threads();
        let (config, switches) = read_config(config)?;
        let strategy = Strategy::plain(config, switches, &flags, n_threads);
        let mut strategy = strategy.map_err(from_fleet)?;
        if let Some(trainer) = trainer {
            strategy.trainer = trainer.lock().clone();
        }
        let (send, get, prefetch, tolerate_lost_trainers) = server;
        strategy.server = ServerConfig {
            rpc_send_thread_num: send,
            rpc_get_thread_num: get,
            rpc_prefetch_thread_num: prefetch,
            tolerate_lost_trainers,
        };
        // Work on copies: `choose` may look at the programs.
        let mut new_main = Program::clone(&main.get().lock());
        let mut new_startup = Program::clone(&startup.get().lock());
        let warnings = dispatched(choose, |dispatch| {
            let mut fleet = self.lock(py);
            let split = fleet.distribute(&mut new_main, &mut new_startup, strategy, dispatch);
            split.map_err(from_fleet)
        })?;
        if self.role.is_trainer() {
            main.get().lock().replace(new_main);
            startup.get().lock().replace(new_startup);
        }
        warnings.iter().for_each(|line| tell(line));
        Ok(())
    }

    /// A trainer waits until all servers listen.
    fn wait_for_servers(&self, py: Python<'_>) -> PyResult<()> {
        let raised = Raised::default();
        let waited = self.wait(py, |fleet| {
            let mut stops = || signalled(&raised);
            fleet.wait_for_servers(&mut Watch { on_line: &mut tell, stops: &mut stops })
        });
        match taken(&raised) {
            Some(error) => Err(error),
            None => waited,
        }
    }

    /// A server's main and startup program.
    fn server_programs(&self, py: Python<'_>) -> Option<(PyProgram, PyProgram)> {
        let fleet = self.lock(py);
        let programs = fleet.server_programs()?;
        let (main, startup) = (programs.main.clone(), programs.startup.clone());
        Some((PyProgram::new_from(main), PyProgram::new_from(startup)))
    }

    /// The main program as it was before it was split.
    fn origin(&self, py: Python<'_>) -> Option<PyProgram> {
        self.lock(py).origin().map(|origin| PyProgram::new_from(origin.clone()))
    }

    /// Fills this server's parameters, with `missing="init"` from the part of a model that fits; that
    /// part is printed.
    #[pyo3(signature = (scope, model_dir = None, missing = None))]
    fn init_server(
        &self,
        py: Python<'_>,
        scope: &PyScope,
        model_dir: Option<PathBuf>,
        missing: Option<&str>,
    ) -> PyResult<()> {
        if !fit::is_wanted(missing)? {
            return self.wait(py, |fleet| fleet.init_server(&scope.0, model_dir.as_deref()));
        }
        let fitted = self.wait(py, |fleet| fleet.fit_server(&scope.0, model_dir.as_deref()))?;
        fitted.lines().iter().for_each(|line| tell(line));
        Ok(())
    }

    /// Serves to the end. Otherwise a signal came, and the process should end with this exit code.
    fn run_server(&self, py: Python<'_>, scope: &PyScope) -> PyResult<Option<i32>> {
        let served = self.wait(py, |fleet| fleet.run_server(&scope.0))?;
        // The signal has been heeded.
        let _ = py.check_signals();
        Ok(match served {
            Served::Completed => None,
            Served::Signalled { code } => Some(code),
        })
    }

    /// Gets a trainer ready to send.
    fn init_worker(&self, py: Python<'_>) -> PyResult<()> {
        let mut lines = Vec::new();
        let mut print = |line: &str| lines.push(line.to_string());
        let is_new = self.lock(py).init_worker(&mut print).map_err(from_fleet)?;
        let out = py.import("builtins")?.getattr("print")?;
        for line in lines {
            out.call1((line,))?;
        }
        if is_new {
            return Ok(());
        }
        let text = std::ffi::CString::new(fleet::lines::COMMUNICATOR_INITIALIZED)?;
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)
    }

    /// Reports that this trainer has finished.
    fn stop_worker(&self, py: Python<'_>, scope: &PyScope) -> PyResult<()> {
        self.wait(py, |fleet| fleet.stop_worker(&scope.0))
    }

    /// Counters of every server, a dict each: rounds, pushes and updates (steps) applied, how stale
    /// these were (updates since the pull they were computed with), rows and bytes held, in all and
    /// in sparse tables, rows that entry rules keep waiting, rows of gradients that they dropped.
    fn server_stats(&self, py: Python<'_>) -> PyResult<Vec<BTreeMap<&'static str, f64>>> {
        let all = self.wait(py, |fleet| fleet.server_stats())?;
        let counters = all.into_iter().map(|stats| {
            BTreeMap::from([
                ("rounds", stats.rounds as f64),
                ("pushes", stats.pushes as f64),
                ("repeated", stats.repeated as f64),
                ("updates", stats.updates as f64),
                ("staleness_mean", stats.staleness_mean()),
                ("staleness_max", stats.staleness_max as f64),
                ("rows", stats.rows as f64),
                ("bytes", stats.bytes as f64),
                ("table_rows", stats.table_rows as f64),
                ("table_bytes", stats.table_bytes as f64),
                ("waiting", stats.waiting as f64),
                ("dropped", stats.dropped as f64),
            ])
        });
        Ok(counters.collect())
    }

    /// Waits for all trainers.
    fn barrier_worker(&self, py: Python<'_>) -> PyResult<()> {
        self.wait(py, |fleet| fleet.barrier_worker())
    }

    /// Numbers of all trainers put together, place by place.
    fn all_reduce_worker(
        &self,
        py: Python<'_>,
        numbers: Vec<f64>,
        how: &str,
    ) -> PyResult<Vec<f64>> {
        self.wait(py, |fleet| fleet.all_reduce_worker(&numbers, how))
    }

    /// The samples of all trainers, in the order of their ranks.
    fn global_samples(&self, py: Python<'_>, own: &PyScoredSamples) -> PyResult<PyScoredSamples> {
        let own = own.0.lock().even_if_poisoned().clone();
        let all = self.wait(py, |fleet| fleet.global_samples(&own))?;
        Ok(PyScoredSamples(Mutex::new(all)))
    }

    /// The area under the ROC curve over the samples of all trainers, and how many there are; of
    /// two variables that hold histograms.
    fn global_auc(
        &self,
        py: Python<'_>,
        scope: &PyScope,
        stat_pos: &str,
        stat_neg: &str,
    ) -> PyResult<(f64, u64)> {
        let auc = self.wait(py, |fleet| fleet.global_auc(&scope.0, [stat_pos, stat_neg]))?;
        Ok((auc.area_or_half(), auc.n_samples()))
    }

    /// Figures of a click-through model over the samples of all trainers, of two histograms and the
    /// six sums of `ctr_metric_bundle`: auc, bucket error, mae, rmse, actual and predicted ctr, copc,
    /// mean q value, number of samples.
    fn global_metrics(
        &self,
        py: Python<'_>,
        scope: &PyScope,
        histograms: [String; 2],
        sums: [String; 6],
    ) -> PyResult<[f64; 9]> {
        let (histograms, sums) = (histograms.each_ref(), sums.each_ref());
        let histograms = histograms.map(String::as_str);
        let vars = ClickVars { histograms, sums: sums.map(String::as_str) };
        let found = self.wait(py, |fleet| fleet.global_clicks(&scope.0, &vars))?;
        let Clicks { auc, bucket_error, mae, rmse, actual_ctr, predicted_ctr, .. } = found;
        let Clicks { copc, mean_q, n, .. } = found;
        Ok([auc, bucket_error, mae, rmse, actual_ctr, predicted_ctr, copc, mean_q, n])
    }

    /// Saves a trainer's program as it is on the servers now.
    fn save_persistables(
        &self,
        py: Python<'_>,
        scope: &PyScope,
        dirname: PathBuf,
        program: &PyProgram,
    ) -> PyResult<()> {
        let program = program.shared();
        self.wait(py, |fleet| fleet.save_persistables(&scope.0, &dirname, &program))
    }

    /// Saves a model to infer with, with parameters as they are on the servers now.
    fn save_inference_model(
        &self,
        py: Python<'_>,
        scope: &PyScope,
        dirname: PathBuf,
        feeds: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
        export_for_deployment: bool,
    ) -> PyResult<Vec<String>> {
        let (feeds, targets) = (feed_names(feeds)?, target_names(targets)?);
        let feeds: Vec<&str> = feeds.iter().map(String::as_str).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let origin = self.lock(py).origin().cloned();
        if let Some(origin) = origin {
            warn_of_unfed(py, &origin, &feeds, &targets)?;
        }
        let options = SaveInference {
            feeds: &feeds,
            targets: &targets,
            export_for_deployment,
            ..SaveInference::default()
        };
        self.wait(py, |fleet| fleet.save_inference_model(&scope.0, &dirname, &options))
    }
}
