//! Servers without a network: their stores, trained by random steps that are the same whatever number of
//! servers there is.

use std::collections::BTreeMap;

use program::backward::Limits;
use program::distributed::{PlacedKind, Placement, Spread, server_of};
use program::layers::{self, Data, Decay, Elementwise, Embedding, Fc, SparseEmbedding};
use program::optimizer::{LearningRate, Optimizer};
use program::{Distributed, Initializer, Net, ParamAttr, Program};
use protocol::server::{Size, Store};
use server::BlockStore;
use tensor::{DType, Rows, Tensor, Value, mix};
use train::{Executor, Feed, Scope};
use transpile::{Config, Job, RoundRobin, Threads, Transpiled, server_op, transpile};
use wire::message::{Grad, LookUp, Pull};
use wire::{TrainerId, VarId};

/// The program of a server, and its scope after the startup program ran.
pub fn started_server(split: &Transpiled, endpoint: &str) -> (Program, Scope) {
    let main = split.server_main(endpoint, Threads::default()).expect("a server's program");
    let startup = split.server_startup(endpoint, None).expect("a startup program");
    let scope = Scope::new();
    Executor::new().run(&startup, &scope, &mut Feed::new(), &[]).expect("the server starts");
    (main, scope)
}

/// Rows of each table: enough to be cut in two.
pub const HEIGHT: i64 = 6000;
const WIDTH: i64 = 3;
const FEATURES: i64 = 9;
/// Outputs of a dense layer whose weights are cut too.
pub const OUTPUTS: i64 = 2000;

/// How a table is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Rows exist once they are used; each server has some that follow one another.
    Touched,
    /// Rows exist once they are used; a hash of the id says which server has a row.
    Spread,
    /// All rows exist, since they start from normal numbers.
    Whole,
    /// Rows are taken in by a rule.
    Filtered(&'static str),
}

/// The model to train.
#[derive(Clone)]
pub struct Model {
    /// A new optimizer.
    pub optimizer: fn(LearningRate) -> Optimizer,
    /// Its tables, in addition to a dense layer.
    pub tables: Vec<TableKind>,
    /// Outputs of the dense layer.
    pub outputs: i64,
    /// The rate falls with every step.
    pub falls: bool,
    /// The seed of the programs; 0: another one in each process.
    pub seed: i32,
}

impl Model {
    fn build(&self) -> Net {
        self.try_build().unwrap_or_else(|error| panic!("a model: {error}"))
    }

    fn try_build(&self) -> program::Result<Net> {
        let mut net = Net::with_seed(self.seed);
        let b = &mut net.builder();
        let x = layers::data(b, "x", &[FEATURES], Data::default())?;
        let fc = Fc { param_attr: vec![ParamAttr::named("w")], ..Fc::default() };
        let product = layers::fc(b, &[x], self.outputs, fc)?;
        let mut loss = layers::mean(b, &product, None)?;
        for (at, kind) in self.tables.iter().enumerate() {
            let ids = Data { dtype: DType::I64, ..Data::default() };
            let ids = layers::data(b, &format!("ids{at}"), &[1], ids)?;
            let initializer = match kind {
                TableKind::Whole => Initializer::Normal { loc: 0.0, scale: 1.0, seed: 0 },
                _ => Initializer::Uniform { low: -1.0, high: 1.0, seed: 0 },
            };
            let name = format!("table{at}");
            let param_attr =
                ParamAttr { initializer: Some(initializer), ..ParamAttr::named(&name) };
            let rows = match kind {
                TableKind::Filtered(entry) => {
                    let entry = Some(entry.to_string());
                    let options = SparseEmbedding { entry, param_attr, ..Default::default() };
                    layers::sparse_embedding(b, &ids, [HEIGHT, WIDTH], options)?
                }
                _ => {
                    let is_distributed = *kind == TableKind::Spread;
                    let is_sparse = true;
                    let options =
                        Embedding { is_sparse, is_distributed, param_attr, ..Default::default() };
                    layers::embedding(b, &ids, [HEIGHT, WIDTH], options)?
                }
            };
            let mean = layers::mean(b, &rows, None)?;
            loss = layers::elementwise_add(b, &loss, &mean, Elementwise::default())?;
        }
        let mut rate: LearningRate = 0.1.into();
        if self.falls {
            let decay =
                Decay { learning_rate: 0.1, decay_steps: 3.0, decay_rate: 0.9, staircase: true };
            rate = layers::exponential_decay(b, decay)?.into();
        }
        (self.optimizer)(rate).minimize(b, &loss, &Limits::default())?;
        Ok(net)
    }
}

/// A piece of a parameter on a server.
#[derive(Debug)]
struct Piece {
    placed: Placement,
    /// Gradients of it that the server takes: one, or one for each trainer.
    grads: Vec<VarId>,
    is_sparse: bool,
}

/// A server that was started.
#[derive(Debug)]
pub struct Started {
    /// Its store.
    pub store: BlockStore,
    pieces: Vec<Piece>,
    /// Counters of steps that trainers send.
    counters: Vec<VarId>,
}

/// All servers of a job.
#[derive(Debug)]
pub struct Servers {
    /// The servers.
    pub all: Vec<Started>,
    job: Distributed,
    by_round: bool,
    is_geo: bool,
}

impl Servers {
    /// Servers as their startup programs leave them.
    pub fn start(model: &Model, config: &Config, n_servers: usize, n_trainers: usize) -> Self {
        let ports = (0..n_servers).map(|n| format!("127.0.0.1:{}", 7001 + n));
        let endpoints: Vec<String> = ports.collect();
        let names = Job::new(0, &endpoints.join(","), n_trainers);
        let mut net = model.build();
        let (main, startup) = (&mut net.main, &mut net.startup);
        let split = transpile(main, startup, config, &names, &mut RoundRobin::default());
        let split = split.unwrap_or_else(|error| panic!("transpile: {error}"));
        let start = |endpoint: &String| {
            let (program, scope) = started_server(&split, endpoint);
            Started::new(&program, endpoint, &scope)
        };
        let is_geo = config.mode.name() == "geo";
        Self {
            all: endpoints.iter().map(start).collect(),
            job: split.job().clone(),
            by_round: matches!(config.mode.name(), "sync" | "ssp"),
            is_geo,
        }
    }

    /// A random step of every trainer. The answer is what they were told.
    pub fn step(&self, number: u64) -> Vec<Value> {
        let mut told = Vec::new();
        for server in 0..self.all.len() {
            let mut rounds = Vec::new();
            for trainer in 0..self.job.n_trainers {
                let random = Random(mix(number ^ mix(trainer as u64 + 77)));
                told.extend(self.ask(server, trainer, random));
                let grads = self.grads(server, trainer, random);
                let trainer = TrainerId(trainer as u32);
                let store = &self.all[server].store;
                grads.iter().for_each(|grad| store.check(grad).expect("a gradient"));
                if self.by_round {
                    rounds.push((trainer, grads))
                } else {
                    let mut grads = grads.into_iter();
                    grads.try_for_each(|grad| store.apply(trainer, grad)).expect("it counts");
                }
            }
            if self.by_round {
                let store = &self.all[server].store;
                let units = store.begin_round(rounds).expect("a round");
                units.into_iter().for_each(|unit| store.apply_unit(unit).expect("a unit"));
            }
        }
        told
    }

    /// Looks rows up and pulls parameters.
    fn ask(&self, server: usize, trainer: usize, random: Random) -> Vec<Value> {
        let (own, mut told) = (&self.all[server], Vec::new());
        for piece in &own.pieces {
            let random = random.of(&piece.placed.origin);
            let table = id_of(&own.store, &piece.placed.piece.name);
            if piece.is_sparse && !self.is_geo {
                let keys = self.local(server, &piece.placed, &random.of("look").ids(9)).1;
                let look_up = LookUp { peek: random.one_in(4), ..LookUp::new(0, table, keys) };
                told.push(Value::Tensor(own.store.look_up(&look_up).expect("rows")));
            } else if random.one_in(2) {
                let changed = self.is_geo && piece.is_sparse;
                let pull = Pull { changed, ..Pull::new(0, vec![table]) };
                let values = own.store.read(TrainerId(trainer as u32), &pull).expect("values");
                told.extend(values.iter().map(|value| Value::clone(value)));
            }
        }
        told
    }

    /// A trainer's gradients for a server.
    fn grads(&self, server: usize, trainer: usize, random: Random) -> Vec<Grad> {
        let (own, mut grads) = (&self.all[server], Vec::new());
        for piece in &own.pieces {
            let random = random.of(&piece.placed.origin);
            let at = if piece.grads.len() > 1 { trainer } else { 0 };
            let var = piece.grads[at];
            if piece.is_sparse && random.one_in(7) {
                continue;
            }
            let value = if piece.is_sparse {
                let ids = random.of("ids").ids(12);
                let (kept, local) = self.local(server, &piece.placed, &ids);
                let width = piece.placed.dims()[1] as usize;
                let numbers = kept.iter().flat_map(|&at| random.floats(at as u64 * 100, width));
                let numbers: Vec<f32> = numbers.collect();
                let value = Tensor::new([local.len(), width], &numbers).expect("rows");
                Value::Rows(Rows { ids: local, height: piece.placed.dims()[0], value })
            } else {
                let dims: Vec<usize> =
                    piece.placed.dims().iter().map(|&dim| dim as usize).collect();
                let n = dims.iter().product();
                let numbers = random.floats(piece.placed.offset() as u64, n);
                Value::Tensor(Tensor::new(&dims[..], &numbers).expect("a tensor"))
            };
            grads.push(Grad { var, value });
        }
        if let Some(&var) = own.counters.get(trainer) {
            grads.push(Grad { var, value: Value::Tensor(Tensor::full([1], 1i64)) });
        }
        grads
    }

    /// Which of these rows a piece has: which they are in the list, and the server's numbers for them.
    fn local(&self, server: usize, placed: &Placement, ids: &[i64]) -> (Vec<usize>, Vec<i64>) {
        let first = placed.offset() / placed.dims()[1];
        let own = |(at, &id): (usize, &i64)| match placed.spread {
            Spread::Hash => (server_of(id, self.all.len()) == server).then_some((at, id)),
            Spread::Range => {
                let is_own = (first..first + placed.dims()[0]).contains(&id);
                is_own.then_some((at, id - first))
            }
        };
        ids.iter().enumerate().filter_map(own).unzip()
    }

    /// All variables by their names in the whole, and what is counted.
    pub fn observe(&self) -> (BTreeMap<String, Vec<u8>>, Size) {
        let mut all: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut sum = Size::default();
        for (server, own) in self.all.iter().enumerate() {
            let size = own.store.size();
            sum.table_rows += size.table_rows;
            sum.waiting += size.waiting;
            sum.dropped += size.dropped;
            for placed in self.job.on(&self.job.endpoints[server]) {
                let value = own.read(&placed.piece.name);
                let n_bytes = value.bytes().len() / value.dims()[0].max(1);
                let height = placed.origin_dims[0].max(1) as usize;
                let whole = all.entry(placed.origin.clone()).or_insert(vec![0; height * n_bytes]);
                let width: i64 = placed.dims().iter().skip(1).product();
                let first = (placed.offset() / width.max(1)) as usize;
                let numbers: Vec<usize> = match placed.spread {
                    Spread::Range => (first..first + value.dims()[0]).collect(),
                    Spread::Hash => (0..height)
                        .filter(|&row| server_of(row as i64, self.all.len()) == server)
                        .collect(),
                };
                for (number, row) in numbers.into_iter().zip(value.bytes().chunks(n_bytes)) {
                    whole[number * n_bytes..(number + 1) * n_bytes].copy_from_slice(row);
                }
            }
            for held in own.store.vars().iter().filter(|held| held.name.starts_with("@LR_")) {
                all.insert(held.name.clone(), own.read(&held.name).bytes().to_vec());
            }
        }
        (all, sum)
    }
}

impl Started {
    fn new(program: &Program, endpoint: &str, scope: &Scope) -> Self {
        let op = server_op(program).expect("a server's program");
        let store = BlockStore::new(program, op, scope).expect("a store");
        let job = program.distributed.as_deref().expect("a job");
        let is_grad = |name: &str| store.vars().iter().any(|held| held.name == name);
        let sparse = op.attrs.strs("sparse_grad_to_param").expect("a list");
        let mut pieces = Vec::new();
        for placed in job.on(endpoint).filter(|placed| placed.kind != PlacedKind::Optimizer) {
            let entry = op.attrs.strs("grad_to_block_id").expect("a list").iter();
            let names = entry.filter_map(|entry| Some(entry.rsplit_once(':')?.0));
            let suffix = placed.piece.name.strip_prefix(&placed.origin).unwrap_or("");
            let is_of = |name: &&str| {
                let grad = format!("{}@GRAD{suffix}", placed.origin);
                *name == grad || **name == format!("{}.delta", placed.piece.name)
            };
            let name = names.clone().find(is_of);
            let name = name.unwrap_or_else(|| panic!("no gradient of {}", placed.piece.name));
            let per_trainer = (0..job.n_trainers).map(|n| format!("{name}.trainer_{n}"));
            let per_trainer: Vec<String> = per_trainer.filter(|name| is_grad(name)).collect();
            let grads = if per_trainer.is_empty() { vec![name.to_string()] } else { per_trainer };
            let grads = grads.iter().map(|name| id_of(&store, name)).collect();
            let is_sparse = sparse.iter().any(|entry| entry.split(':').next() == Some(name));
            pieces.push(Piece { placed: placed.clone(), grads, is_sparse });
        }
        let counters = (0..job.n_trainers).map(|n| format!("@LR_DECAY_COUNTER@.trainer_{n}"));
        let counters = counters.filter(|name| is_grad(name));
        let counters = counters.map(|name| id_of(&store, &name)).collect();
        Self { store, pieces, counters }
    }

    fn read(&self, name: &str) -> Tensor {
        let vars = vec![id_of(&self.store, name)];
        let pull = Pull::new(0, vars);
        let values = self.store.read(TrainerId(0), &pull).unwrap_or_else(|e| panic!("{name}: {e}"));
        values[0].tensor().unwrap_or_else(|| panic!("{name} is no tensor")).clone()
    }
}

/// The number of a variable.
pub fn id_of(store: &BlockStore, name: &str) -> VarId {
    let at = store.vars().iter().position(|held| held.name == name);
    VarId(at.unwrap_or_else(|| panic!("no variable {name}")) as u32)
}

/// Random numbers that their names decide.
#[derive(Clone, Copy)]
struct Random(u64);

impl Random {
    fn of(self, name: &str) -> Self {
        Self(name.bytes().fold(self.0, |seed, byte| mix(seed ^ u64::from(byte))))
    }

    fn one_in(self, n: u64) -> bool {
        mix(self.0 ^ 5).is_multiple_of(n)
    }

    /// Rows, some of them often.
    fn ids(self, n: u64) -> Vec<i64> {
        let id = |at| {
            let id = mix(self.0 ^ mix(at)) % 300 * 19;
            (if at % 3 == 0 { id % 11 } else { id }) as i64
        };
        (0..n).map(id).collect()
    }

    /// Numbers of a stream, from one of them on.
    fn floats(self, first: u64, n: usize) -> Vec<f32> {
        let one = |at: u64| (mix(self.0 ^ mix(at + 1000)) % 2000) as f32 / 1000.0 - 1.0;
        (first..first + n as u64).map(one).collect()
    }
}
