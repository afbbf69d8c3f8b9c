//! A server with one large table, for measurements.

use program::backward::Limits;
use program::layers::{self, Data, SparseEmbedding};
use program::optimizer::{Optimizer, Sgd};
use program::{Initializer, Net, ParamAttr};
use protocol::server::Store;
use server::BlockStore;
use tensor::{DType, mix};
use transpile::{Config, Job, RoundRobin, server_op, transpile};
use wire::message::LookUp;

use crate::stores::{id_of, started_server};

/// Rows that the table could have.
pub const HEIGHT: i64 = 1 << 40;
const SERVER: &str = "127.0.0.1:7001";

/// The store of the only server of a job with one trainer. Rows of the table `table` have this width and
/// come to be when they are looked up.
pub fn store(width: usize) -> BlockStore {
    let mut net = Net::with_seed(90);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, ..Data::default() };
    let ids = layers::data(b, "ids", &[1], ids).expect("ids");
    let initializer = Some(Initializer::Constant { value: 0.5 });
    let param_attr = ParamAttr { initializer, ..ParamAttr::named("table") };
    let options = SparseEmbedding { param_attr, ..SparseEmbedding::default() };
    let rows = layers::sparse_embedding(b, &ids, [HEIGHT, width as i64], options).expect("rows");
    let loss = layers::mean(b, &rows, None).expect("a loss");
    Optimizer::new(Sgd, 0.1).minimize(b, &loss, &Limits::default()).expect("an optimizer");
    let (job, config) = (Job::new(0, SERVER, 1), Config::default());
    let (main, startup) = (&mut net.main, &mut net.startup);
    let split = transpile(main, startup, &config, &job, &mut RoundRobin::default());
    let split = split.expect("a split");
    let (main, scope) = started_server(&split, SERVER);
    BlockStore::new(&main, server_op(&main).expect("a server"), &scope).expect("a store")
}

/// The n-th row of the table.
pub fn row(n: u64) -> i64 {
    (mix(n) >> 24) as i64
}

/// Makes so many rows.
pub fn fill(store: &BlockStore, n_rows: u64) {
    let table = id_of(store, "table");
    for first in (0..n_rows).step_by(1 << 16) {
        let keys = (first..n_rows.min(first + (1 << 16))).map(row).collect();
        store.look_up(&LookUp { after: 0, table, keys, peek: false }).expect("rows");
    }
}
