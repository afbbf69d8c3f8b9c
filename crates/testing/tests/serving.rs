//! The contents of a server, with direct requests: the messages that peers may send, and the state
//! that saving in the middle of a job leaves as it was.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::sync::{Arc, Mutex};
use std::thread;

use net::tcp::{Listener, Stop};
use program::backward::Limits;
use program::distributed::Mode;
use program::layers::{self, Data, Decay, Embedding, Fc};
use program::optimizer::{Adam, Optimizer};
use program::{Net, ParamAttr, Program, Var};
use protocol::server::{Server, ServerConfig, Size, Store, Unit};
use server::BlockStore;
use tensor::{DType, Rows, Tensor, Value};
use testing::id_of;
use testing::linear::{LR, Linear, N_ROWS, grad};
use train::Scope;
use train::io::JobScope;
use transpile::{Config, Job, RoundRobin, server_op, transpile};
use wire::message::{Grad, LookUp, Phase, Pull, Save, VarInfo};
use wire::{Refusal, TrainerId, VarId};

const SERVER: &str = "127.0.0.1:7001";
const HALVING: Linear = Linear { table: true, is_distributed: false, halving: true };

/// The program of the only server of a job with one trainer, and its scope after the start.
fn server(mut net: Net, config: &Config) -> (Program, Scope) {
    let job = Job::new(0, SERVER, 1);
    let (main, startup) = (&mut net.main, &mut net.startup);
    let split = transpile(main, startup, config, &job, &mut RoundRobin::default()).unwrap();
    testing::stores::started_server(&split, SERVER)
}

fn store(linear: Linear, config: &Config) -> BlockStore {
    let (main, scope) = server(linear.build().0, config);
    BlockStore::new(&main, server_op(&main).unwrap(), &scope).unwrap()
}

fn named(store: &BlockStore, name: &str, value: impl Into<Value>) -> Grad {
    Grad { var: id_of(store, name), value: value.into() }
}

fn look_up(store: &BlockStore, table: &str, keys: Vec<i64>) -> LookUp {
    LookUp::new(0, id_of(store, table), keys)
}

fn read(store: &BlockStore, name: &str) -> Vec<f64> {
    let vars = vec![id_of(store, name)];
    let pull = Pull::new(0, vars);
    let values = store.read(TrainerId(0), &pull).unwrap();
    let tensor = values[0].tensor().unwrap();
    (0..tensor.len()).map(|at| tensor.get_f64(at)).collect()
}

fn round(store: &BlockStore, step: usize) {
    let w = named(store, "w@GRAD", Tensor::new([4, 1], &grad(0, step)).unwrap());
    store.check(&w).unwrap();
    run_round(store, vec![(TrainerId(0), vec![w])], |_| {});
}

/// Applies a round, its units in some order.
fn run_round(
    store: &BlockStore,
    grads: Vec<(TrainerId, Vec<Grad>)>,
    arrange: impl FnOnce(&mut Vec<Unit>),
) -> usize {
    let mut units = store.begin_round(grads).unwrap();
    arrange(&mut units);
    let n_units = units.len();
    units.into_iter().for_each(|unit| store.apply_unit(unit).unwrap());
    n_units
}

#[test]
fn rates_go_on_falling_after_everything_was_asked_for() {
    let store = store(HALVING, &Config::default());
    round(&store, 0);
    for name in ["w", "@LR_DECAY_COUNTER@", "table"] {
        read(&store, name);
    }
    assert_eq!(read(&store, "@LR_DECAY_COUNTER@"), [0.0]);
    let before = read(&store, "w");
    round(&store, 1);
    assert_eq!(read(&store, "@LR_DECAY_COUNTER@"), [1.0]);
    let rate = f64::from(LR) / 2.0;
    for ((after, before), grad) in read(&store, "w").iter().zip(before).zip(grad(0, 1)) {
        assert_eq!(*after, before - rate * f64::from(grad));
    }
}

#[test]
fn what_is_no_counter_is_refused() {
    let config = Config { mode: Mode::Async, ..Config::default() };
    let asynchronous = store(HALVING, &config);
    let name = "@LR_DECAY_COUNTER@.trainer_0";
    let empty = Tensor::new([0], &[0i64; 0]).unwrap();
    let rows = Rows { ids: vec![0], height: 1, value: Tensor::full([1, 1], 1.0f32) };
    let wrong: [Value; 6] = [
        empty.into(),
        Tensor::full([2], 1i64).into(),
        Tensor::full([1], f32::NAN).into(),
        Tensor::full([1], -1i64).into(),
        Value::Rows(rows),
        Value::Empty,
    ];
    for value in wrong {
        let refused = asynchronous.check(&named(&asynchronous, name, value)).unwrap_err();
        assert!(matches!(refused, Refusal::BadValue { .. }), "{refused}");
    }
    let one = named(&asynchronous, name, Tensor::full([1], 1i64));
    asynchronous.check(&one).unwrap();
    read(&asynchronous, name);
    asynchronous.apply(TrainerId(0), one.clone()).unwrap();
    assert_eq!(read(&asynchronous, name), [1.0]);
    // Servers of a synchronous job count for themselves.
    let synchronous = store(HALVING, &Config::default());
    let counter = named(&synchronous, "@LR_DECAY_COUNTER@", Tensor::full([1], 1i64));
    let refused = synchronous.check(&counter).unwrap_err();
    assert!(matches!(refused, Refusal::UnknownVar(_)), "{refused}");
}

#[test]
fn no_question_takes_more_memory_than_an_answer_holds() {
    let tables = [
        Linear { table: true, ..Linear::default() },
        Linear { table: true, is_distributed: true, halving: false },
    ];
    for linear in tables {
        let store = store(linear, &Config::default());
        let keys = vec![1; 1 << 27];
        let refused = store.look_up(&look_up(&store, "table", keys)).unwrap_err();
        assert!(refused.to_string().contains("ask for fewer"), "{refused}");
        for table in [id_of(&store, "w"), VarId(store.vars().len() as u32), VarId(u32::MAX)] {
            let keys = vec![-1, i64::MAX, N_ROWS];
            let ask = LookUp { peek: true, ..LookUp::new(0, table, keys) };
            store.look_up(&ask).unwrap_err();
        }
        let rows = store.size().table_rows;
        let ask = look_up(&store, "table", vec![3]);
        assert_eq!(store.look_up(&ask).unwrap(), Tensor::full([1, 4], 0.5f32));
        assert!(rows <= 1, "what was refused made no rows");
    }
}

#[test]
fn numbers_that_nobody_knows_are_refused() {
    let (main, scope) = server(HALVING.build().0, &Config::default());
    let store = BlockStore::new(&main, server_op(&main).unwrap(), &scope).unwrap();
    let n_vars = scope.names().len();
    let vars = vec![id_of(&store, "w"), VarId(store.vars().len() as u32)];
    for changed in [false, true] {
        let pull = Pull { changed, ..Pull::new(0, vars.clone()) };
        let refused = store.read(TrainerId(0), &pull).unwrap_err();
        assert!(matches!(refused, Refusal::UnknownVar(_)), "{refused}");
    }
    assert_eq!(scope.names().len(), n_vars);
}

#[test]
fn a_row_table_has_no_rows_before_it_is_used() {
    let (_, scope) = server(HALVING.build().0, &Config::default());
    let dims = scope.read("table", |value| value.tensor().unwrap().dims().to_vec());
    assert_eq!(dims.unwrap(), [0, 4]);
}

/// A table with an unknown rule for new rows is not a table.
#[test]
fn rules_for_rows_that_cannot_be_read_are_refused() {
    for (attr, words) in [
        ("row_init", "table=odd 1 2 3 4"),
        ("row_init", "table"),
        ("row_entry", "table=show_click_entry:a:b"),
    ] {
        let (mut main, scope) = server(HALVING.build().0, &Config::default());
        let ops = &mut main.block_mut(0).ops;
        ops.last_mut().unwrap().attrs.set(attr, vec![words.to_string()]);
        let error = BlockStore::new(&main, server_op(&main).unwrap(), &scope).unwrap_err();
        let is_named = |named: &str, said: &str| (named, said) == (attr, words);
        assert!(
            matches!(&error, server::Error::RowRule { attr, words } if is_named(attr, words)),
            "{error}"
        );
    }
}

/// A server that only notes what is asked of it when a table is saved.
struct Notes {
    number: usize,
    fails: bool,
    asked: Arc<Mutex<Vec<(usize, Phase)>>>,
}

impl Store for Notes {
    fn vars(&self) -> &[VarInfo] {
        &[]
    }

    fn check(&self, grad: &Grad) -> Result<(), Refusal> {
        Err(Refusal::UnknownVar(self.name(grad.var)))
    }

    fn apply(&self, _trainer: TrainerId, _grad: Grad) -> Result<(), Refusal> {
        Ok(())
    }

    fn begin_round(&self, _grads: Vec<(TrainerId, Vec<Grad>)>) -> Result<Vec<Unit>, Refusal> {
        Ok(Vec::new())
    }

    fn read(&self, _trainer: TrainerId, _pull: &Pull) -> Result<Vec<Arc<Value>>, Refusal> {
        Ok(Vec::new())
    }

    fn look_up(&self, look_up: &LookUp) -> Result<Tensor, Refusal> {
        Err(Refusal::UnknownVar(self.name(look_up.table)))
    }

    fn save(&self, save: &Save) -> Result<(), Refusal> {
        self.asked.lock().unwrap().push((self.number, save.phase));
        if self.fails && save.phase == Phase::Write {
            Err(Refusal::Failed("no space left".to_string()))
        } else {
            Ok(())
        }
    }

    fn size(&self) -> Size {
        Size::default()
    }
}

/// The requests to two servers when trainer 0 saves; the second may fail to write.
fn phases(fails: bool) -> (train::Result<()>, Vec<(usize, Phase)>) {
    let asked = Arc::default();
    let listeners = [0, 1].map(|_| Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap());
    let list = listeners.each_ref().map(|l| l.endpoint().to_string()).join(",");
    let spread = Linear { table: true, is_distributed: true, halving: false };
    let (mut net, _) = spread.build();
    let job = Job::new(0, &list, 1);
    let (main, startup) = (&mut net.main, &mut net.startup);
    transpile(main, startup, &Config::default(), &job, &mut RoundRobin::default()).unwrap();
    let job = net.main.distributed.clone().unwrap();
    let stop = Stop::default();
    let threads = listeners.into_iter().enumerate().map(|(number, listener)| {
        let store = Notes { number, fails: fails && number == 1, asked: Arc::clone(&asked) };
        let config = ServerConfig { job: job.job.clone(), ..ServerConfig::default() };
        let (server, stop) = (Server::new(config, Vec::new()), stop.clone());
        thread::spawn(move || drop(listener.serve(server, Arc::new(store), &stop, |_, _| ())))
    });
    let threads: Vec<_> = threads.collect();
    let cluster = train::TrainerJob::new(Default::default(), Arc::new(|_| {}));
    let dir = tempfile::tempdir().unwrap();
    let vars: Vec<_> = net.main.find_var(0, "table").cloned().into_iter().collect();
    let of = JobScope { trainer: &cluster, scope: &Scope::new(), job: &job };
    let saved = of.save_vars(dir.path(), &vars, None);
    stop.set();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Servers are asked at the same time.
    let mut asked: Vec<(usize, Phase)> = std::mem::take(&mut *asked.lock().unwrap());
    asked.chunks_mut(2).for_each(|phase| phase.sort_by_key(|&(server, _)| server));
    (saved, asked)
}

#[test]
fn all_servers_replace_what_they_saved_or_none_does() {
    use Phase::{GiveUp, Place, Write};
    let (saved, asked) = phases(false);
    saved.unwrap();
    assert_eq!(asked, [(0, Write), (1, Write), (0, Place), (1, Place)]);
    let (saved, asked) = phases(true);
    assert!(saved.unwrap_err().to_string().contains("no space left"));
    assert_eq!(asked, [(0, Write), (1, Write), (0, GiveUp), (1, GiveUp)]);
}

/// Three tables that are worth a thread each, and short parameters; the rates fall.
fn three_tables() -> BlockStore {
    let mut net = Net::with_seed(7);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, ..Data::default() };
    let ids = layers::data(b, "ids", &[1], ids).unwrap();
    let rows: Vec<Var> = (0..3)
        .map(|at| {
            let param_attr = ParamAttr::named(&format!("table{at}"));
            let options = Embedding { is_sparse: true, param_attr, ..Embedding::default() };
            layers::embedding(b, &ids, [HEIGHT, WIDTH as i64], options).unwrap()
        })
        .collect();
    let all = layers::concat(b, &rows, 1, None).unwrap();
    let guess = layers::fc(b, &[all], 1, Fc::default()).unwrap();
    let loss = layers::mean(b, &guess, None).unwrap();
    let decay = Decay { learning_rate: 0.1, decay_steps: 1.0, decay_rate: 0.5, staircase: false };
    let rate = layers::exponential_decay(b, decay).unwrap();
    Optimizer::new(Adam::default(), rate).minimize(b, &loss, &Limits::default()).unwrap();
    let (main, scope) = server(net, &Config::default());
    BlockStore::new(&main, server_op(&main).unwrap(), &scope).unwrap()
}

const HEIGHT: i64 = 2000;
const WIDTH: usize = 64;

/// Gradients of a trainer for [`three_tables`], each of some 200 kB.
fn table_grads(store: &BlockStore, step: i64) -> Vec<(TrainerId, Vec<Grad>)> {
    let of_table = |at: i64| {
        let ids: Vec<i64> = (0..800).map(|row| (row * (at + 3) + step) % HEIGHT).collect();
        let value = Tensor::full([ids.len(), WIDTH], 0.01 * (at + step + 1) as f32);
        named(store, &format!("table{at}@GRAD"), Value::Rows(Rows { ids, height: HEIGHT, value }))
    };
    vec![(TrainerId(0), (0..3).map(of_table).collect())]
}

/// The tables of a round are changed in any order or at the same time; the bits are the same.
#[test]
fn units_of_a_round_do_not_depend_on_each_other() {
    let stores: Vec<BlockStore> = (0..3).map(|_| three_tables()).collect();
    for step in 0..4 {
        let n_units = run_round(&stores[0], table_grads(&stores[0], step), |_| {});
        assert_eq!(n_units, 3);
        run_round(&stores[1], table_grads(&stores[1], step), |units| {
            units.rotate_left(step as usize)
        });
        let units = stores[2].begin_round(table_grads(&stores[2], step)).unwrap();
        let store = &stores[2];
        thread::scope(|scope| {
            for unit in units {
                scope.spawn(move || store.apply_unit(unit).unwrap());
            }
        });
        for name in ["table0", "table1", "table2", "fc_0.w_0", "fc_0.b_0"] {
            let bits = |store| read(store, name).into_iter().map(f64::to_bits).collect::<Vec<_>>();
            let expected = bits(&stores[0]);
            assert_eq!(bits(&stores[1]), expected, "{name}, step {step}");
            assert_eq!(bits(&stores[2]), expected, "{name}, step {step}");
        }
    }
}
