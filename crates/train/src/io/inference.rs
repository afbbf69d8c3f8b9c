//! A model to infer with: a pruned program with its feeds and fetches, and its parameters.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use program::{Meta, OpDesc, Program, VarDesc, VarKind, role};

use super::distributed::{JobSave, JobScope};
use super::other_model::{of_inference, without_program};
use super::vars::{
    FileLayout, by_name, check_savable, check_shape, is_persistable, read_combined, read_vars,
    write_vars,
};
use crate::error::{Error, Result};
use crate::folder::{About, Folder, Transaction};
use crate::scope::Scope;

/// File of the program unless another is named.
const MODEL: &str = "__model__";
/// The kind of its save.
const KIND: &str = "model";
/// Variables that Fluid's feed and fetch ops go through.
const FEED: &str = "feed";
const FETCH: &str = "fetch";

/// A file that is saved together with a model.
#[derive(Clone, Copy, Debug)]
pub struct ExtraFile<'a> {
    /// Its name in the folder.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The parts of a program to save.
#[derive(Clone, Debug)]
pub struct SaveInference<'a> {
    /// Variables that users of the model will feed, in this order.
    pub feeds: &'a [&'a str],
    /// Variables they will get, in this order.
    pub targets: &'a [&'a str],
    /// File of the program instead of `__model__`.
    pub model_filename: Option<&'a str>,
    /// One file for all parameters instead of one each.
    pub params_filename: Option<&'a str>,
    /// Prunes to the targets; otherwise the program is kept as it is, to be trained on.
    pub export_for_deployment: bool,
    /// Leaves the parameters out.
    pub program_only: bool,
    /// Files of the caller's own: they are of the same save, or not there.
    pub extra: &'a [ExtraFile<'a>],
}

impl Default for SaveInference<'_> {
    fn default() -> Self {
        Self {
            feeds: &[],
            targets: &[],
            model_filename: None,
            params_filename: None,
            export_for_deployment: true,
            program_only: false,
            extra: &[],
        }
    }
}

/// A model that was loaded.
#[derive(Clone, Debug)]
pub struct InferenceModel {
    /// The program, feed and fetch ops included.
    pub program: Program,
    /// The feeds, in the order of the save.
    pub feeds: Vec<String>,
    /// The fetches.
    pub fetches: Vec<String>,
}

/// Saves what computes the targets from the feeds; returns the names to fetch.
///
/// `program` stays as it is: the ops that give targets their lasting names go to a copy.
///
/// ```
/// use program::Net;
/// use program::layers::{self, Data, Fc};
/// use tensor::Tensor;
/// use train::io::{SaveInference, load_inference_model, save_inference_model};
/// use train::{Executor, Feed, Scope};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut net = Net::with_seed(1);
/// let b = &mut net.builder();
/// let x = layers::data(b, "x", &[2], Data::default())?;
/// let out = layers::fc(b, &[x], 1, Fc::default())?;
/// let (mut executor, scope) = (Executor::new(), Scope::new());
/// executor.run(&net.startup, &scope, &mut Feed::new(), &[])?;
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let (feeds, targets) = (["x"], [out.name()]);
/// let what = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
/// save_inference_model(&scope, dir, &net.main, &what)?;
///
/// let elsewhere = Scope::new();
/// let model = load_inference_model(&elsewhere, dir, None, None)?;
/// let mut feed = Feed::new().with("x", Tensor::new([1, 2], &[0.5f32, 1.0])?);
/// let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
/// let predicted = executor.run(&model.program, &elsewhere, &mut feed, &fetches)?;
/// assert_eq!(predicted[0].dims(), [1, 1]);
/// # Ok(()) }
/// ```
pub fn save_inference_model(
    scope: &Scope,
    dir: &Path,
    program: &Program,
    options: &SaveInference<'_>,
) -> Result<Vec<String>> {
    save_inference(dir, program, options, |saved, params, transaction| {
        let vars = persistables(saved);
        let layout = FileLayout::new(params);
        check_savable(scope, &vars, layout)?;
        write_vars(transaction.stage(), scope, &vars, layout)?;
        transaction.commit(About::new(KIND))
    })
}

impl JobScope<'_> {
    /// Saves a model for inference like [`save_inference_model`], with the parameters that the servers have
    /// now.
    pub fn save_inference_model(
        self,
        dir: &Path,
        program: &Program,
        options: &SaveInference<'_>,
    ) -> Result<Vec<String>> {
        save_inference(dir, program, options, |saved, params, transaction| {
            let mut job = Arc::unwrap_or_clone(self.trainer.links().moves.followed_copy(self.job)?);
            job.placement.retain(|placed| saved.find_var(0, &placed.origin).is_some());
            job.lookup_table = job.lookup_table.filter(|table| saved.find_var(0, table).is_some());
            let of = JobScope { job: &job, ..self };
            let (layout, is_pruned) = (FileLayout::new(params), options.export_for_deployment);
            JobSave { of, layout, kind: KIND, weights_only: is_pruned }
                .persistables(saved, transaction)
        })
    }
}

/// The program is written first; `commit` adds the variables and commits.
fn save_inference(
    dir: &Path,
    program: &Program,
    options: &SaveInference<'_>,
    commit: impl FnOnce(&Program, Option<&str>, Transaction) -> Result<()>,
) -> Result<Vec<String>> {
    let (whole, fetches) = with_scaled_targets(program, options.targets)?;
    let mut model = model_name(options.model_filename).to_string();
    let saved = if options.export_for_deployment {
        deployable(whole, options.feeds, &fetches)?
    } else {
        model.push_str(".main_program");
        whole
    };
    let transaction = Transaction::begin(dir)?;
    transaction.write(&model, &saved.to_bytes())?;
    options.extra.iter().try_for_each(|file| transaction.write(file.name, file.bytes))?;
    if options.program_only {
        transaction.commit(About::new(KIND))?
    } else {
        commit(&saved, options.params_filename.map(base_name), transaction)?
    }
    Ok(fetches)
}

fn model_name(filename: Option<&str>) -> &str {
    filename.map_or(MODEL, base_name)
}

/// Fluid takes the last part of a path given as a file name.
fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A copy in which each target passes a `scale` op by 1 to a name of its own.
fn with_scaled_targets(program: &Program, targets: &[&str]) -> Result<(Program, Vec<String>)> {
    let mut copy = program.clone();
    let mut fetches = Vec::new();
    for (i, target) in targets.iter().enumerate() {
        let meta = copy.need_var(0, target)?.meta.clone();
        // A model that was loaded and is saved again has the first of these names already.
        let is_free = |name: &String| copy.block(0).var(name).is_none();
        let mut names = (0..).map(|k| format!("save_infer_model/scale_{i}.tmp_{k}"));
        let name = names.find(is_free).expect("there are more names than variables");
        let op = OpDesc::new("scale")
            .input("X", *target)
            .output("Out", &name)
            .attr("scale", 1.0f32)
            .attr("bias", 0.0f32)
            .attr("bias_after_scale", true);
        let block = copy.block_mut(0);
        block.put_var(VarDesc::new(&name, meta));
        block.ops.push(with_common_attrs(op));
        fetches.push(name);
    }
    Ok((copy, fetches))
}

fn with_common_attrs(op: OpDesc) -> OpDesc {
    op.attr(role::ROLE, role::FORWARD).attr(role::NAMESCOPE, "/")
}

/// Only what the fetches need, between feed and fetch ops.
fn deployable(mut program: Program, feeds: &[&str], fetches: &[String]) -> Result<Program> {
    let block = program.block_mut(0);
    block.ops.retain(|op| op.kind != FEED && op.kind != FETCH);
    block.ops.iter_mut().for_each(|op| op.is_target = false);
    let targets: Vec<&str> = fetches.iter().map(String::as_str).collect();
    // The model is used without the servers of its job.
    program.look_up_locally();
    let mut pruned = program.prune(&targets, feeds)?.inference_optimize(true);
    let block = pruned.block_mut(0);
    let holder =
        |name: &str, kind| VarDesc::new(name, Meta { kind, ..Meta::default() }).persistable();
    block.put_var(holder(FEED, VarKind::FeedMinibatch));
    for (i, feed) in feeds.iter().enumerate() {
        if block.var(feed).is_none() {
            return Err(Error::FeedNotUsed { index: i, var: feed.to_string() });
        }
        let op = OpDesc::new(FEED).input("X", FEED).output("Out", *feed).attr("col", i as i32);
        // The last name's op comes first: each is put before the others.
        block.ops.insert(0, with_common_attrs(op));
    }
    block.put_var(holder(FETCH, VarKind::FetchList));
    for (i, fetch) in fetches.iter().enumerate() {
        let op = OpDesc::new(FETCH).input("X", fetch).output("Out", FETCH).attr("col", i as i32);
        block.ops.push(with_common_attrs(op));
    }
    Ok(pruned)
}

/// Loads a model: its parameters go to the scope, the program is returned.
pub fn load_inference_model(
    scope: &Scope,
    dir: &Path,
    model_filename: Option<&str>,
    params_filename: Option<&str>,
) -> Result<InferenceModel> {
    if !dir.is_dir() {
        return Err(Error::NoDirectory { path: dir.to_path_buf() });
    }
    let (name, params) = (model_name(model_filename), params_filename.map(base_name));
    // The program and its variables are of one save.
    let (model, values) = Folder::consistently(dir, |folder| {
        let model = read_model(folder, name).map_err(|error| without_program(folder, error))?;
        let vars = persistables(&model.program);
        let values = match params {
            Some(_) if vars.is_empty() => Ok(Vec::new()),
            Some(params) => read_combined(folder, params, &vars),
            None => read_vars(folder, "", &vars),
        };
        let values = values.map_err(|error| of_inference(folder, name, &vars, error))?;
        Ok((model, values))
    })?;
    let vars = persistables(&model.program);
    for (var, value) in vars.values().zip(&values) {
        check_shape(var, value)?;
    }
    for (name, value) in vars.keys().zip(values) {
        scope.set(name, value);
    }
    Ok(model)
}

fn persistables(program: &Program) -> BTreeMap<&str, &VarDesc> {
    by_name(program.list_vars().filter(|var| is_persistable(var)))
}

fn read_model(folder: &Folder, name: &str) -> Result<InferenceModel> {
    let path = folder.dir().join(name);
    let program = Program::from_bytes(&folder.read(name)?);
    let mut program = program.map_err(|source| Error::in_file(&path, source))?;
    // A job's model from an older release asks for rows at servers that are gone.
    program.look_up_locally();
    let version = program.format_version;
    if version != 0 && version < VERSION_MIN {
        return Err(Error::ProgramVersion { path, version });
    }
    check_ops(&program, &path)?;
    let feeds = by_column(&program, FEED, |op| op.output_names("Out"), &path)?;
    let fetches = by_column(&program, FETCH, |op| op.input_names("X"), &path)?;
    Ok(InferenceModel { program, feeds, fetches })
}

/// A model comes from somebody else, perhaps: it computes, and leaves files alone.
fn check_ops(program: &Program, path: &Path) -> Result<()> {
    for (block, ops) in program.blocks().iter().map(|block| &block.ops).enumerate() {
        if let Some(index) = ops.iter().position(|op| op.traits().uses_files) {
            let (path, op) = (path.to_path_buf(), ops[index].kind.clone());
            return Err(Error::FileOp { path, op, block, index });
        }
    }
    Ok(())
}

/// Versions are 0 (before they were counted) or at least 1.0.0.
const VERSION_MIN: i64 = 1_000_000;

/// The variables of the feed or fetch ops, in order of their columns.
fn by_column(
    program: &Program,
    kind: &str,
    vars: impl Fn(&OpDesc) -> &[String],
    path: &Path,
) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    for op in program.block(0).ops.iter().filter(|op| op.kind == kind) {
        let column = op.attrs.int("col", 0).map_err(|source| Error::in_file(path, source))?;
        columns.extend(vars(op).iter().map(|var| (column, var.clone())));
    }
    columns.sort_by_key(|&(column, _)| column);
    Ok(columns.into_iter().map(|(_, var)| var).collect())
}
