//! Snapshots that a version of the format wrote, kept for ever: their jobs, the code that wrote them, and
//! the values that must come back.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use program::distributed::Mode;
use program::optimizer::{Adagrad, Optimizer, Sgd};
use protocol::server::{CutRecord, Store};
use server::SnapshotSettings;
use transpile::Config;

use crate::stores::{Model, Servers, TableKind};

/// A job of two servers and two trainers.
#[derive(Clone)]
pub struct Case {
    /// The folder of its snapshots.
    pub name: &'static str,
    model: Model,
    config: Config,
}

/// The last cut, and the state that was given with it.
pub const LAST: u64 = 3;

/// All cases.
pub fn cases() -> [Case; 2] {
    let touched = [TableKind::Touched, TableKind::Spread];
    let filtered = ["count_filter_entry:3", "probability_entry:0.5"].map(TableKind::Filtered);
    let (outputs, seed) = (5, 90);
    let rows = Model {
        optimizer: |rate| Optimizer::new(Adagrad::default(), rate),
        tables: touched.into_iter().chain(filtered).collect(),
        outputs,
        falls: true,
        seed,
    };
    let optimizer = |rate| Optimizer::new(Sgd, rate);
    let tables = vec![TableKind::Touched];
    let exchanged = Model { optimizer, tables, outputs, falls: false, seed };
    let geo = Config::of(Mode::Geo { push_every: 1 });
    [
        Case { name: "rows", model: rows, config: Config::default() },
        Case { name: "geo", model: exchanged, config: geo },
    ]
}

impl Case {
    /// Servers with cuts in a folder.
    pub fn open(&self, folder: &Path) -> Servers {
        let mut servers = Servers::start(&self.model, &self.config, 2, 2);
        for server in &mut servers.all {
            let kept = server.store.keep(&SnapshotSettings::new(folder), Arc::new(|_| ()));
            kept.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        }
        servers
    }

    /// Trains and makes cuts: a base, and increments.
    pub fn write(&self, folder: &Path) -> Servers {
        let servers = self.open(folder);
        for cut in 0..=LAST {
            for server in &servers.all {
                server.store.mark(cut).expect("a mark");
                let (state, journal) = (vec![cut as u8; 4].into(), vec![cut as u8; 2].into());
                let record = CutRecord { cut, term: 1, complete: 0, state, journal };
                server.store.write_cut(&record).expect("a cut");
            }
            if cut < LAST {
                (0..3).for_each(|step| drop(servers.step(10 * cut + step)));
            }
        }
        servers
    }
}

/// The contents of servers, a line for each variable.
pub fn described(servers: &Servers) -> String {
    let (vars, size) = servers.observe();
    let mut text = format!("{size:?}\n");
    for (name, bytes) in vars {
        writeln!(text, "{name} {} bytes {:016x}", bytes.len(), hash(&bytes)).expect("text");
    }
    text
}

/// 64 bits of FNV-1a.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
