"""The extension module. Written by python/tests/tools/make_stubs.py; not by hand."""

from typing import Any

class AnalysisConfig:
    """Where a model is."""
    def __init__(self, model: Any = None, params: Any = None) -> None: ...
    def cpu_math_library_num_threads(self) -> Any:
        """The setting of `set_cpu_math_library_num_threads`."""
    def disable_glog_info(self) -> Any:
        """Nothing to do: little is logged."""
    def disable_gpu(self) -> Any:
        """Nothing to do: there is no GPU here."""
    def enable_memory_optim(self, x: bool = True) -> Any:
        """Nothing to do: memory is always used again."""
    def enable_mkldnn(self) -> Any:
        """Nothing to do: products are always vectorized."""
    def enable_profile(self) -> Any:
        """Nothing to do."""
    def enable_tensorrt_engine(self, *_given: Any, **_named: Any) -> Any:
        """Nothing to do: models run on the processor."""
    def enable_use_gpu(self, memory_pool_init_size_mb: int = 100, device_id: int = 0) -> Any:
        """Nothing to do: models run on the processor."""
    def glog_info_disabled(self) -> Any:
        """Always True."""
    def gpu_device_id(self) -> Any:
        """The number that Fluid has for no GPU."""
    def ir_optim(self) -> Any:
        """The setting of `switch_ir_optim`."""
    def mkldnn_enabled(self) -> Any:
        """Always False."""
    def model_dir(self) -> Any:
        """The folder."""
    def params_file(self) -> Any:
        """The file of all parameters."""
    def pass_builder(self) -> Any:
        """The passes, to be changed by name."""
    def prog_file(self) -> Any:
        """The file of the program."""
    def set_cpu_math_library_num_threads(self, threads: Any) -> Any:
        """Taken and told; a prediction runs on the thread that asks for it."""
    def set_mkldnn_cache_capacity(self, *_given: Any) -> Any:
        """Nothing to do."""
    def set_mkldnn_op(self, ops: Any) -> Any:
        """Nothing to do."""
    def set_model(self, model: Any, params: Any = None) -> Any:
        """A folder, or a file of a program and a file of parameters."""
    def set_optim_cache_dir(self, folder: Any) -> Any:
        """Nothing to do: nothing is kept between processes."""
    def set_params_file(self, path: Any) -> Any:
        """Names the file of all parameters."""
    def set_prog_file(self, path: Any) -> Any:
        """Names the file of the program."""
    def specify_input_name(self) -> Any:
        """The setting of `switch_specify_input_names`."""
    def switch_ir_debug(self, x: int = 1) -> Any:
        """Nothing to do: passes are not dumped."""
    def switch_ir_optim(self, x: int = 1) -> Any:
        """Programs are always optimized."""
    def switch_specify_input_names(self, x: bool = True) -> Any:
        """Whether inputs are found by their names."""
    def switch_use_feed_fetch_ops(self, x: int = 1) -> Any:
        """Whether `run` is used, and not `zero_copy_run`."""
    def tensorrt_engine_enabled(self) -> Any:
        """Always False."""
    def use_feed_fetch_ops_enabled(self) -> Any:
        """The setting of `switch_use_feed_fetch_ops`."""
    def use_gpu(self) -> Any:
        """Always False."""

class AttrType:
    """The type of an attribute, numbered as in Fluid."""
    BLOCK: AttrType
    BLOCKS: AttrType
    BOOL: AttrType
    BOOLS: AttrType
    FLOAT: AttrType
    FLOATS: AttrType
    INT: AttrType
    INTS: AttrType
    LONG: AttrType
    LONGS: AttrType
    STRING: AttrType
    STRINGS: AttrType
    def __int__(self) -> int: ...
    name: str

class Batches:
    """The batches of a pass, reader by reader in turns."""
    def __iter__(self) -> Any: ...
    def __next__(self) -> Any: ...

class Block:
    """A block of a program."""
    def _find_var_recursive(self, name: str) -> Any:
        """A variable of this block or one around it; None if there is none."""
    def _insert_op(
        self,
        index: Any,
        type: Any,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
    ) -> Any:
        """Puts an operator at a place."""
    def _prepend_op(
        self,
        type: Any,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
    ) -> Any:
        """Puts an operator before all others."""
    def _remove_op(self, index: Any) -> Any:
        """Takes an operator out."""
    def _remove_var(self, name: str) -> Any:
        """Takes a variable out."""
    def _rename_var(self, name: str, new_name: Any) -> Any:
        """Renames a variable here and in the operators of this block."""
    def _var_recursive(self, name: str) -> Any:
        """A variable of this block or one around it; ValueError if there is none."""
    def all_parameters(self) -> list[Variable]:
        """The parameters of this block."""
    def append_op(
        self,
        type: Any = None,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
        stop_gradient: bool = False,
    ) -> Operator:
        """Appends an operator."""
    def create_parameter(
        self,
        shape: Any,
        dtype: Any,
        name: str | None = None,
        trainable: bool = True,
        is_distributed: bool = False,
        **more: Any,
    ) -> Variable:
        """Declares a parameter; the startup program is not told of it."""
    def create_var(
        self,
        name: str | None = None,
        shape: Any = None,
        dtype: Any = None,
        lod_level: Any = None,
        persistable: Any = None,
        stop_gradient: bool = False,
        is_data: bool = False,
        type: Any = None,
        **more: Any,
    ) -> Variable:
        """Declares a variable."""
    desc: Any
    def has_var(self, name: str) -> bool:
        """Whether this block has the variable."""
    idx: int
    ops: Any
    parent_idx: int
    program: Any
    def var(self, name: str) -> Variable:
        """A variable of this block; ValueError if there is none."""
    vars: Any

class BlockDesc:
    """A description of a block."""
    def _insert_op(self, index: Any) -> Any:
        """A new operator at a place."""
    def _prepend_op(self) -> Any:
        """A new operator before all others."""
    def _remove_op(self, start: Any, end: Any) -> Any:
        """Takes the operators from one place to before another out."""
    def _remove_var(self, name: str) -> Any:
        """Takes a variable out."""
    def _rename_var(self, name: str, new_name: Any) -> Any:
        """Renames a variable here and in the operators of this block."""
    def _set_forward_block_idx(self, index: Any) -> Any:
        """Says of which block this computes the gradient."""
    def all_vars(self) -> Any:
        """The variables of this block."""
    def append_op(self) -> Any:
        """Appends a new operator, without a type, inputs or outputs yet."""
    def find_var(self, name: str) -> Any:
        """A variable of this block; None if there is none."""
    def find_var_recursive(self, name: str) -> Any:
        """A variable of this block or one around it; None if there is none."""
    def get_forward_block_idx(self) -> Any:
        """The number of the block whose gradient this computes; -1 if it computes none."""
    def has_var(self, name: str) -> Any:
        """Whether this block has the variable."""
    def has_var_recursive(self, name: str) -> Any:
        """Whether this block or one around it has the variable."""
    id: Any
    def op(self, index: Any) -> Any:
        """An operator by its place."""
    def op_size(self) -> Any:
        """How many operators there are."""
    parent: Any
    def serialize_to_string(self) -> Any:
        """Its bytes, readable by Fluid."""
    def var(self, name: str) -> Any:
        """A variable of this block, made if it is not there."""

class CPUPlace:
    """The processor as a place to compute."""
    def __init__(self) -> None: ...
    def _equals(self, other: Any) -> Any:
        """Whether another is the same place."""
    def _type(self) -> Any:
        """A number for this kind of place."""

class CTR:
    """A click-through model that is trained from a table: fit, predict, auc, save, load."""
    def __init__(
        self,
        target: Any,
        model: str = 'deepfm',
        *,
        loss: str = 'log',
        positive: Any = None,
        epochs: Any = None,
        batch_size: Any = None,
        learning_rate: Any = None,
        dim: Any = None,
        hidden: Any = None,
        l2: Any = None,
        ids: Any = None,
        validation: Any = None,
        patience: Any = None,
        seed: Any = None,
        columns: Any = None,
        mode: str = 'sync',
        verbose: bool = True,
        **others: Any,
    ) -> None: ...
    def auc(self, data: Any) -> Any:
        """The area under the curve on rows with a target."""
    columns: Any
    def fit(self, data: Any, validation: Any = None) -> Any:
        """Trains on a DataFrame, a dict of columns or a file; `validation` may be another one."""
    @staticmethod
    def load(dirname: Any) -> CTR:
        """A model that was saved."""
    main_program: Any
    def predict(self, data: Any) -> Any:
        """A prediction for each row."""
    def rmse(self, data: Any) -> Any:
        """The root of the mean squared error on rows with a target."""
    def save(self, dirname: Any) -> Any:
        """Saves the model and its encoding."""
    scope: Any
    startup_program: Any

class CUDAPinnedPlace:
    """Pinned memory as a place; the same as any other here."""
    def __init__(self) -> None: ...
    def _equals(self, other: Any) -> Any:
        ...
    def _type(self) -> Any:
        ...

class CUDAPlace:
    """A graphics card as a place to compute; there is none here, so the processor stands in for it."""
    def __init__(self, id: Any) -> None: ...
    def _equals(self, other: Any) -> Any:
        """Whether another is the same place."""
    def _type(self) -> Any:
        """A number for this kind of place."""

class CoreOperator:
    """An operator that runs on the variables of a scope."""
    @staticmethod
    def create(protobin: Any) -> CoreOperator:
        """The operator of a description's bytes."""
    def input_vars(self) -> Any:
        """The variables it reads."""
    def inputs(self) -> Any:
        """The variables it reads, by port."""
    def no_intermediate_outputs(self) -> Any:
        """The variables it writes, without those that only its gradient reads."""
    def output_vars(self) -> Any:
        """The variables it writes."""
    def outputs(self) -> Any:
        """The variables it writes, by port."""
    def run(self, scope: Scope, place: Any = None) -> Any:
        """Runs it on variables of a scope, by their names."""
    def support_gpu(self) -> Any:
        """Whether it can run on a graphics card: never."""
    def type(self) -> Any:
        """The operator's name in the table of operators."""

class DataFeedDesc:
    """The description of a dataset in a file of protobuf text: the class of its reader, batch size, slots."""
    def __init__(self, proto_file: Any) -> None: ...
    def desc(self) -> Any:
        """The description as protobuf text."""
    def set_batch_size(self, batch_size: Any) -> Any:
        """How many samples a batch has."""
    def set_dense_slots(self, dense_slots_name: Any) -> Any:
        """Slots that have a shape instead of sequences."""
    def set_use_slots(self, use_slots_name: Any) -> Any:
        """Slots that are fed to the program."""

class DataFeeder:
    """Turns samples into a feed: one tensor for each data variable."""
    def __init__(self, feed_list: Any, place: Any = None, program: Any = None) -> None: ...
    def feed(self, iterable: Any) -> Any:
        """The feed of a mini-batch, given as an iterable of samples."""
    feed_names: Any
    place: Any

class DataParallel:
    """The devices of a compiled program: gradients are added up over them, parameters change once."""
    def __init__(
        self,
        n_places: Any,
        scale: Any = None,
        share: Any = None,
        reduces: bool = False,
        async_mode: bool = False,
    ) -> None: ...
    def among_trainers(self, trainer_id: Any, num_trainers: Any) -> Any:
        """Adds up gradients with other trainers, without servers: this is trainer `trainer_id` of `num_trainers`."""
    n_places: Any

class Dataset:
    """Files and slots: text in, batches out."""
    def __init__(self, kind: Any, python: Any) -> None: ...
    def batches(self) -> Any:
        """The batches of one pass as feeds, to look at."""
    def desc(self) -> Any:
        """The description in the words of Fluid's files."""
    filelist: Any
    def load_into_memory(self) -> Any:
        """Reads all files into memory."""
    def local_shuffle(self) -> Any:
        """Puts the samples of this trainer in random order."""
    def n_rows(self, fleet: Any = None) -> Any:
        """Samples in memory: of this trainer, or with a fleet of all."""
    def n_shuffled(self, fleet: Any = None) -> Any:
        """Samples in memory after the last shuffle: of this trainer, or with a fleet of all."""
    def preload_into_memory(self, thread_num: Any = None) -> Any:
        """Begins to read all files into memory."""
    def release_memory(self) -> Any:
        """Forgets the samples."""
    def set_batch_size(self, batch_size: Any) -> Any:
        """How many samples a batch has."""
    def set_download_cmd(self, download_cmd: Any) -> Any:
        """A command that prints the file named behind it; files are not opened then."""
    def set_fea_eval(self, record_candidate_size: Any, fea_eval: bool = True) -> Any:
        """Allows `slots_shuffle`, with values drawn from that many samples."""
    def set_filelist(self, filelist: Any) -> Any:
        """The files that are read: paths, `s3://`, `hdfs://`, `webhdfs://` and `http(s)://` addresses, and patterns, which stand for the files that they match now, sorted."""
    def set_hdfs_config(self, fs_name: Any, fs_ugi: Any) -> Any:
        """The name node of `hdfs:` and `afs:` files, and the user."""
    def set_merge(self, merge_size: Any) -> Any:
        """Samples of one name become one if there are so many of them (0: any number)."""
    def set_n_per_exchange(self, n_per_exchange: Any) -> Any:
        """How many samples trainers exchange at once."""
    def set_parse_content(self, parse_content: Any) -> Any:
        """Whether the contents of samples follow."""
    def set_parse_ins_id(self, parse_ins_id: Any) -> Any:
        """Whether lines begin with the names of their samples."""
    def set_pipe_command(self, pipe_command: Any) -> Any:
        """The shell text that each file goes through; `cat` changes nothing."""
    def set_pipe_timeout(self, seconds: Any) -> Any:
        """For how many seconds a pipe command may print nothing before it is given up, 600 unless said otherwise."""
    def set_pv_batch_size(self, pv_batch_size: Any) -> Any:
        """The page views of a batch; it is written into the description."""
    def set_rank_offset(self, rank_offset: Any) -> Any:
        """A variable that ranking models name; it is written into the description."""
    def set_remote_timeout(self, seconds: Any) -> Any:
        """For how many seconds a store that cannot be reached is tried again, 60 unless said otherwise."""
    def set_shuffle_seed(self, seed: Any) -> Any:
        """Where the random orders of shuffles begin."""
    def set_skip_max(self, skip_max: Any) -> Any:
        """How many bad lines and files may be skipped; they are counted in `skipped`."""
    def set_thread(self, thread_num: Any) -> Any:
        """How many threads read and train."""
    def set_use_var(self, var_list: Any) -> Any:
        """The variables that are fed, in the order of the slots in a line."""
    def shuffle_among(self, fleet: Any = None) -> Any:
        """Puts the samples of all trainers in random order; without a fleet, of this one."""
    skipped: Any
    def slots_shuffle(self, slots: Any) -> Any:
        """Gives slots the values of other samples: the loss of quality shows their worth."""
    thread_num: Any
    unmerged: Any
    def wait_preload_done(self) -> Any:
        """Waits until all files are in memory."""

class EOFException(Exception):
    """A reader is at the end of its pass."""

class EnforceNotMet(RuntimeError):
    """An operator, its shape rule or a native object refused what it was given."""

class ErrorClip:
    """Bounds of a gradient between two operators; made by `fluid.clip.ErrorClipByValue`."""
    def __init__(self, max: Any, min: Any = None) -> None: ...
    max: Any
    min: Any

class Executor:
    """Runs programs in a scope."""
    def __init__(self, place: Any = None) -> None: ...
    def _run_dataset(
        self,
        program: Any,
        dataset: Any,
        scope: Scope,
        fetch_list: Any,
        fetch_info: Any,
        print_period: Any,
        debug: Any,
        fetch_handler: Any,
        infers: Any,
    ) -> Any:
        """Runs a program on all batches of a dataset; returns how many batches and samples there were, the seconds it took, those that each thread waited for data, and what a pass that infers has fetched, as of the whole pass."""
    def close(self) -> None:
        """Ends this executor: it does not run anything after that."""
    def run(
        self,
        program: Any = None,
        feed: Any = None,
        fetch_list: Any = None,
        feed_var_name: str = 'feed',
        fetch_var_name: str = 'fetch',
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        return_merged: bool = True,
        use_prune: bool = False,
    ) -> list[Any]:
        """Runs all operators of a program and returns the variables asked for."""

class GradientClip:
    """How a gradient is bounded; made by the classes of `fluid.clip`."""
    bounds: Any
    @staticmethod
    def by_global_norm(max_norm: Any, group: Any) -> GradientClip:
        """Scales the gradients of a group by the norm of all of them."""
    @staticmethod
    def by_norm(max_norm: Any) -> GradientClip:
        """Scales a gradient to a norm."""
    @staticmethod
    def by_value(max: Any, min: Any = None) -> GradientClip:
        """Cuts off what is out of bounds."""

class HdfsClient:
    """A client of one file system: with `hadoop_home/bin/hadoop` if that is there, with WebHDFS otherwise."""
    def __init__(self, hadoop_home: Any, configs: Any) -> None: ...
    def cat(self, hdfs_path: Any) -> Any:
        """The text of a file without space around it; empty if there is no file."""
    def delete(self, hdfs_path: Any) -> Any:
        """Removes a file, or a folder with all that is in it."""
    def files_below(self, hdfs_path: Any) -> Any:
        """The paths of all files below a folder, sorted."""
    def get(self, files: Any, hdfs_path: Any, local_path: Any, overwrite: Any, threads: Any) -> Any:
        """Copies files below a folder from there, under the same names; where they are then."""
    def is_dir(self, hdfs_path: Any) -> Any:
        """Whether a folder is there."""
    def is_exist(self, hdfs_path: Any) -> Any:
        """Whether something is there."""
    def is_file(self, hdfs_path: Any) -> Any:
        """Whether a file is there."""
    def ls(self, hdfs_path: Any) -> Any:
        """The paths in a folder, sorted."""
    def makedirs(self, hdfs_path: Any) -> Any:
        """Makes a folder and those it is in; `None` if something is there already."""
    def put(self, local_path: Any, hdfs_path: Any, overwrite: Any, threads: Any) -> Any:
        """Copies a file or what is in a folder to there."""
    def rename(self, hdfs_src_path: Any, hdfs_dst_path: Any, overwrite: bool = False) -> Any:
        """Renames; false if there is nothing to rename, or something that may not be overwritten."""
    uses_command: Any

class Initializer:
    """How a parameter starts; made by the functions of `fluid.initializer`."""
    @staticmethod
    def array(value: Any) -> Initializer:
        """These numbers."""
    @staticmethod
    def bilinear() -> Initializer:
        """Weights that interpolate, for transposed convolutions."""
    @staticmethod
    def constant(value: Any) -> Initializer:
        """One number everywhere."""
    def fill(self, var: Any, block: Any) -> Any:
        """Puts the operator that fills a variable before all others of a block."""
    @staticmethod
    def msra(uniform: Any, fan_in: Any, seed: Any) -> Initializer:
        """He's scheme, by the number of inputs."""
    @staticmethod
    def normal(loc: Any, scale: Any, seed: Any) -> Initializer:
        """A normal distribution."""
    @staticmethod
    def truncated_normal(loc: Any, scale: Any, seed: Any) -> Initializer:
        """A normal distribution within two standard deviations."""
    @staticmethod
    def uniform(low: Any, high: Any, seed: Any) -> Initializer:
        """A uniform distribution."""
    @staticmethod
    def xavier(uniform: Any, fan_in: Any, fan_out: Any, seed: Any) -> Initializer:
        """Glorot's scheme, by the numbers of inputs and outputs."""

class KeyedTable:
    """A table of which only some rows exist, to be read."""
    def __getitem__(self, key: Any, /) -> Any: ...
    def __len__(self) -> int: ...
    ids: Any
    rows: Any
    shape: tuple[int, ...]

class LoDTensor:
    """A dense tensor, with ragged offsets if it holds sequences."""
    def __init__(self, recursive_sequence_lengths: Any = None) -> None: ...
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __len__(self) -> int: ...
    def _alloc_double(self, place: Any = None) -> Any:
        ...
    def _alloc_float(self, place: Any = None) -> Any:
        ...
    def _alloc_int(self, place: Any = None) -> Any:
        ...
    def _clear(self) -> Any:
        ...
    def _dtype(self) -> Any:
        ...
    def _get_dims(self) -> Any:
        ...
    def _get_float_element(self, offset: Any) -> Any:
        """One number of a tensor of 32-bit floats, counted in the order of its memory."""
    def _is_initialized(self) -> Any:
        ...
    def _mutable_data(self, place: Any = None, dtype: Any = None) -> Any:
        """Memory for the numbers, in another type if one is given; returns its address."""
    def _place(self) -> Any:
        """Where its numbers are: in the memory of this machine."""
    def _set_dims(self, dims: Any) -> Any:
        ...
    def _set_float_element(self, offset: Any, value: Any) -> Any:
        """Changes one number of a tensor of 32-bit floats."""
    def get_dims(self) -> Any:
        """The sizes of the dimensions."""
    def has_valid_recursive_sequence_lengths(self) -> bool:
        """Whether the offsets describe this tensor."""
    def lod(self) -> list[list[int]]:
        """The ragged offsets, outermost level first."""
    def recursive_sequence_lengths(self) -> list[list[int]]:
        """The lengths of the sequences, outermost level first."""
    def set(self, array: Any, place: Any = None) -> None:
        """Copies an array (or a list) in, with its type and shape."""
    def set_lod(self, lod: Any) -> None:
        """Sets the ragged offsets."""
    def set_recursive_sequence_lengths(self, recursive_sequence_lengths: Any) -> None:
        """Sets the lengths of the sequences."""
    def shape(self) -> list[int]:
        """The sizes of the dimensions."""

class LoDTensorArray:
    """A list of tensors."""
    def __init__(self) -> None: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __len__(self) -> int: ...
    def append(self, tensor: Any) -> Any:
        """Puts a tensor at the end."""

class OpAttr:
    """An attribute that an operator knows."""
    comment: Any
    generated: Any
    name: str
    type: Any

class OpDesc:
    """A description of an operator; it need not be one that can run."""
    def __init__(self) -> None: ...
    def _block_attr_id(self, name: str) -> Any:
        """The number of the block at an attribute."""
    def _blocks_attr_ids(self, name: str) -> Any:
        """The numbers of the blocks at an attribute."""
    def _rename_input(self, old_name: Any, new_name: Any) -> Any:
        """Replaces the name of a variable that it reads."""
    def _rename_output(self, old_name: Any, new_name: Any) -> Any:
        """Replaces the name of a variable that it writes."""
    def _set_attr(self, name: str, value: Any) -> Any:
        """Sets an attribute."""
    def attr(self, name: str) -> Any:
        """An attribute by name."""
    def attr_names(self) -> Any:
        """The names of the attributes that are set."""
    def attr_type(self, name: str) -> Any:
        """The type of an attribute (`core.AttrType.INT`, …)."""
    def block(self) -> Any:
        """The block it is in; None if it is in no program."""
    def check_attrs(self) -> Any:
        """Sets the defaults of missing attributes, and checks the others."""
    def copy_from(self, other: Any) -> Any:
        """Takes over all that another description says."""
    def get_attr_map(self) -> Any:
        """All attributes by name."""
    def has_attr(self, name: str) -> Any:
        """Whether it has the attribute."""
    def infer_shape(self, block: Any) -> Any:
        """Says the shapes of what it writes, in a block."""
    def infer_var_type(self, block: Any) -> Any:
        """Nothing to do: the outputs are known with their shapes."""
    def input(self, name: str) -> Any:
        """Names of the variables at an input port."""
    def input_arg_names(self) -> Any:
        """The variables it reads."""
    def input_names(self) -> Any:
        """The input ports."""
    def inputs(self) -> Any:
        """The variables it reads, by port."""
    def is_target(self) -> Any:
        """Whether a pruned program keeps it."""
    def output(self, name: str) -> Any:
        """Names of the variables at an output port."""
    def output_arg_names(self) -> Any:
        """The variables it writes."""
    def output_names(self) -> Any:
        """The output ports."""
    def outputs(self) -> Any:
        """The variables it writes, by port."""
    def remove_attr(self, name: str) -> Any:
        """Takes an attribute out."""
    def serialize_to_string(self) -> Any:
        """Its bytes, readable by Fluid."""
    def set_block_attr(self, name: str, block: Any) -> Any:
        """Makes an attribute name a block."""
    def set_blocks_attr(self, name: str, blocks: Any) -> Any:
        """Makes an attribute name several blocks."""
    def set_input(self, name: str, vars: Any) -> Any:
        """Attaches variables to an input port."""
    def set_is_target(self, is_target: Any) -> Any:
        """Makes a pruned program keep it."""
    def set_output(self, name: str, vars: Any) -> Any:
        """Attaches variables to an output port."""
    def set_type(self, type: Any) -> Any:
        """Makes it another operator."""
    def type(self) -> Any:
        """The operator's name in the table of operators."""

class OpPort:
    """A place of an operator for variables."""
    comment: Any
    dispensable: Any
    duplicable: Any
    intermediate: Any
    name: str

class OpProto:
    """The inputs, outputs and attributes of an operator."""
    attrs: Any
    comment: Any
    inputs: Any
    outputs: Any
    type: Any

class Operator:
    """An operator of a block."""
    def _block_attr(self, name: str) -> Any:
        """The block at an attribute."""
    def _block_attr_id(self, name: str) -> Any:
        """The number of the block at an attribute."""
    def _blocks_attr_ids(self, name: str) -> Any:
        """The numbers of the blocks at an attribute."""
    def _rename_input(self, old_name: Any, new_name: Any) -> Any:
        """Replaces the name of a variable that it reads."""
    def _rename_output(self, old_name: Any, new_name: Any) -> Any:
        """Replaces the name of a variable that it writes."""
    def _set_attr(self, name: str, value: Any) -> Any:
        """Changes an attribute."""
    def all_attrs(self) -> Any:
        """All attributes by name."""
    def attr(self, name: str) -> Any:
        """An attribute by name."""
    attr_names: Any
    def attr_type(self, name: str) -> Any:
        """The type of an attribute (`core.AttrType.INT`, …)."""
    block: Any
    desc: Any
    def has_attr(self, name: str) -> bool:
        """Whether it has the attribute."""
    idx: int
    def input(self, name: str) -> list[str]:
        """Names of the variables at an input port."""
    input_arg_names: list[str]
    input_names: list[str]
    def output(self, name: str) -> list[str]:
        """Names of the variables at an output port."""
    output_arg_names: list[str]
    output_names: list[str]
    def to_string(self, throw_on_error: bool = True) -> Any:
        """The operator as text."""
    type: Any

class PaddleBuf:
    """The numbers of a tensor."""
    def __init__(self, data: Any) -> None: ...
    def empty(self) -> Any:
        """Whether there is none."""
    def float_data(self) -> Any:
        """As a list of real numbers."""
    def int32_data(self) -> Any:
        """As a list of small integers."""
    def int64_data(self) -> Any:
        """As a list of integers."""
    def length(self) -> Any:
        """Bytes."""
    def reset(self, data: Any) -> Any:
        """Takes other numbers."""
    def resize(self, length: Any) -> Any:
        """Changes the number of bytes."""
    def tolist(self, dtype: Any = None) -> Any:
        """As a flat list; of this type, if one is named."""

class PaddleDType:
    """The types of tensors that predictors take."""
    FLOAT32: PaddleDType
    INT32: PaddleDType
    INT64: PaddleDType
    def __int__(self) -> int: ...

class PaddlePassBuilder:
    """Fluid's list of passes over a program, which is empty here."""
    def all_passes(self) -> Any:
        """An empty list."""
    def append_pass(self, name: str) -> Any:
        """Nothing to do."""
    def delete_pass(self, name: str) -> Any:
        """Nothing to do."""
    def insert_pass(self, at: Any, name: str) -> Any:
        """Nothing to do."""
    def turn_on_debug(self) -> Any:
        """Nothing to do."""

class PaddlePredictor:
    """Predicts as Fluid's inference API does."""
    def clone(self) -> Any:
        """Another predictor with the same model, for another thread."""
    def get_input_names(self) -> Any:
        """The names of the inputs."""
    def get_input_tensor(self, name: str) -> Any:
        """An input, to be filled."""
    def get_input_tensor_shape(self) -> Any:
        """The shapes of the inputs, by name."""
    def get_output_names(self) -> Any:
        """The names of the outputs."""
    def get_output_tensor(self, name: str) -> Any:
        """An output, to be read."""
    def run(self, inputs: Any) -> Any:
        """Runs on a list of tensors; returns a list of tensors."""
    def zero_copy_run(self) -> Any:
        """Runs on what was filled in; results are read from the output tensors."""

class PaddleTensor:
    """A tensor for a predictor, or from one."""
    def __init__(
        self,
        data: Any = None,
        name: str | None = '',
        lod: Any = ...,
        copy: bool = True,
    ) -> None: ...
    def as_ndarray(self) -> Any:
        """The numbers as an array."""
    data: Any
    dtype: Any
    lod: Any
    name: str
    shape: tuple[int, ...]

class Predictor:
    """Predicts with a saved model, from any number of threads."""
    def __init__(
        self,
        dirname: Any,
        model_filename: Any = None,
        params_filename: Any = None,
        *,
        threads: Any = None,
    ) -> None: ...
    columns: Any
    def follow(self, every: float = 1.0) -> Any:
        """From now on newer models in the folder are taken over; it is looked at once in `every` seconds."""
    loads: Any
    nbytes: Any
    outputs: Any
    def predict(self, data: Any) -> Any:
        """Predicts for all samples: an array, or a list of them if the model has several outputs."""
    def reload(self) -> Any:
        """Takes over the model that is in the folder now."""
    slots: Any

class Program:
    """A program: blocks of operators as data."""
    def __init__(self) -> None: ...
    def _attach_reader(self, reader: Any) -> Any:
        """From now on each run takes a batch of this reader."""
    def _backward_role_guard(self) -> Any:
        """Operators made inside the `with` compute gradients."""
    def _copy_data_info_from(self, other: Any) -> Any:
        """Takes over which variables are inputs, and which stop gradients, from a program like this."""
    def _create_block(self, parent_idx: Any = None) -> Any:
        """Opens a block inside the current one (or another), and makes it current."""
    _distributed_lookup_table: Any
    _endpoints: Any
    def _enter_scope(self, prefix: Any) -> Any:
        """Opens a scope of names inside the current one; returns that, to be put back."""
    _fleet_opt: Any
    def _has_backward(self) -> Any:
        """Whether operators compute gradients."""
    def _inference_optimize(self, prune_read_op: bool = True) -> Any:
        """A copy for testing."""
    _is_chief: Any
    _is_distributed: Any
    _is_mem_optimized: Any
    def _lr_schedule_guard(self, is_with_opt: bool = False) -> Any:
        """Operators made inside the `with` compute the learning rate."""
    _namescope: Any
    _op_role: Any
    _op_role_var: Any
    def _optimized_guard(self, param_and_grads: Any) -> Any:
        """Operators made inside the `with` change parameters."""
    _parameters_on_pservers: Any
    _pipeline_opt: Any
    def _prune(self, targets: Any) -> Any:
        """Only the operators that the targets need: variables, names or operators, or one of them."""
    def _prune_with_input(self, feeded_var_names: Any, targets: Any) -> Any:
        """Only the operators that the targets need besides what is fed."""
    _ps_endpoint: Any
    def _rollback(self) -> Any:
        """Goes back to the block around the current one."""
    def _sync_with_cpp(self) -> Any:
        """Nothing waits to be taken over: descriptions are views."""
    _trainers_endpoints: Any
    def all_parameters(self) -> list[Variable]:
        """The parameters in order of creation."""
    def block(self, index: Any) -> Block:
        """A block by its index."""
    blocks: Any
    def clone(self, for_test: bool = False) -> Program:
        """A deep copy; for testing, without what only training needs."""
    def current_block(self) -> Block:
        """The block that layers write to."""
    current_block_idx: Any
    desc: Any
    def global_block(self) -> Block:
        """The outermost block."""
    def list_vars(self) -> list[Variable]:
        """Every variable of every block."""
    num_blocks: int
    @staticmethod
    def parse_from_string(binary: Any) -> Program:
        """The program from the bytes that `serialize_to_string` gives."""
    random_seed: int
    def serialize_to_string(self) -> bytes:
        """The program as bytes, readable by Fluid."""
    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> str:
        """The program as text."""

class ProgramDesc:
    """A description of a program."""
    def __init__(self, other: Any = None) -> None: ...
    def _set_version(self, version: Any) -> Any:
        """Says the version of its format."""
    def append_block(self, parent: Any) -> Any:
        """A new block inside another."""
    def block(self, index: Any) -> Any:
        """A block by its number."""
    def flush(self) -> Any:
        """Nothing waits to be written: changes take effect at once."""
    def get_version(self) -> Any:
        """The version of its format."""
    def num_blocks(self) -> Any:
        """How many blocks there are."""
    def serialize_to_string(self) -> Any:
        """Its bytes, readable by Fluid."""

class Regularizer:
    """A term added to a gradient; made by `fluid.regularizer.L1Decay` and `L2Decay`."""
    @staticmethod
    def l1(coeff: Any) -> Regularizer:
        """A penalty on absolute values."""
    @staticmethod
    def l2(coeff: Any) -> Regularizer:
        """A penalty on squares."""

class Scope:
    """Named variables, with the scope around them."""
    def __init__(self) -> None: ...
    def drop_kids(self) -> None:
        """Forgets the scopes inside."""
    def erase(self, names: Any) -> None:
        """Removes variables of this scope itself."""
    def find_var(self, name: str) -> ScopeVariable | None:
        """A variable here or around; None if there is none."""
    def local_var_names(self) -> list[str]:
        """The names of the variables of this scope itself."""
    def new_scope(self) -> Scope:
        """A scope inside this one."""
    def var(self, name: str) -> ScopeVariable:
        """A variable of this scope itself, made if it is not there."""

class ScopeVariable:
    """A variable of a scope."""
    def get_int(self) -> Any:
        """The first number it holds, as an integer."""
    def get_selected_rows(self) -> SelectedRows:
        """The keyed rows it holds."""
    def get_tensor(self) -> LoDTensor:
        """The tensor it holds; an empty variable becomes one when it is set."""
    name: str
    def set_int(self, value: Any) -> Any:
        """Makes it hold one integer."""

class SelectedRows:
    """Keyed rows of a variable."""
    def __init__(self, rows: Any = ..., height: int = 0) -> None: ...
    def get_tensor(self) -> LoDTensor:
        """The rows as a tensor."""
    def height(self) -> int:
        """How many rows the whole table has."""
    def rows(self) -> list[int]:
        """The keys of the rows."""
    def set_height(self, height: Any) -> Any:
        """Says how many rows the whole table has."""
    def set_rows(self, rows: Any) -> Any:
        """Sets the keys of the rows."""

class Transpiled:
    """The programs of a job, once a program has been split."""
    def is_idle(self, endpoint: Any) -> Any:
        """Whether a server has nothing to do."""
    lines: Any
    def server_main(
        self,
        endpoint: Any,
        send_threads: int = 12,
        get_threads: int = 12,
        prefetch_threads: int = 12,
    ) -> Any:
        """A server's program."""
    def server_startup(self, endpoint: Any, original: Any = None) -> Any:
        """A server's startup program; `original` says how variables start."""
    warnings: Any

class UniqueNameGenerator:
    """A generator of unique names, held by `unique_name.guard`."""
    def __init__(self, prefix: Any = None) -> None: ...

class VarDesc:
    """A description of a variable."""
    class VarType:
        """A type of elements or of variables, numbered as in Fluid."""
        BOOL: VarType
        FEED_MINIBATCH: VarType
        FETCH_LIST: VarType
        FP16: VarType
        FP32: VarType
        FP64: VarType
        INT16: VarType
        INT32: VarType
        INT64: VarType
        INT8: VarType
        LOD_RANK_TABLE: VarType
        LOD_TENSOR: VarType
        LOD_TENSOR_ARRAY: VarType
        PLACE_LIST: VarType
        RAW: VarType
        READER: VarType
        SELECTED_ROWS: VarType
        STEP_SCOPES: VarType
        TUPLE: VarType
        UINT8: VarType
        def __index__(self) -> int: ...
        def __int__(self) -> int: ...
        name: str
        value: Any
    def dtype(self) -> Any:
        """The type of the elements."""
    def dtypes(self) -> Any:
        """The element types of what a reader gives."""
    def lod_level(self) -> Any:
        """Levels of ragged offsets."""
    def lod_levels(self) -> Any:
        """The levels of ragged offsets of what a reader gives."""
    def name(self) -> Any:
        """Its name."""
    def need_check_feed(self) -> Any:
        """Whether its shape is checked when it is fed."""
    def persistable(self) -> Any:
        """Whether it lives in the scope between runs, and is saved."""
    def serialize_to_string(self) -> Any:
        """Its bytes, readable by Fluid."""
    def set_dtype(self, dtype: Any) -> Any:
        """Says the type of the elements."""
    def set_dtypes(self, dtypes: Any) -> Any:
        """Says the element types of what a reader gives."""
    def set_lod_level(self, lod_level: Any) -> Any:
        """Says the levels of ragged offsets."""
    def set_lod_levels(self, lod_levels: Any) -> Any:
        """Says the levels of ragged offsets of what a reader gives."""
    def set_need_check_feed(self, need_check_feed: Any) -> Any:
        """Says whether its shape is checked when it is fed."""
    def set_persistable(self, persistable: Any) -> Any:
        """Says whether it lives in the scope between runs."""
    def set_shape(self, shape: Any) -> Any:
        """Says the sizes of the dimensions."""
    def set_shapes(self, shapes: Any) -> Any:
        """Says the shapes of what a reader gives."""
    def set_type(self, type: Any) -> Any:
        """Says what it holds."""
    def shape(self) -> Any:
        """Sizes of the dimensions; -1 where it is known only at run time."""
    def shapes(self) -> Any:
        """The shapes of what a reader gives."""
    def type(self) -> Any:
        """Its kind (`core.VarDesc.VarType.LOD_TENSOR`, …)."""

class VarType:
    """A type of elements or of variables, numbered as in Fluid."""
    BOOL: VarType
    FEED_MINIBATCH: VarType
    FETCH_LIST: VarType
    FP16: VarType
    FP32: VarType
    FP64: VarType
    INT16: VarType
    INT32: VarType
    INT64: VarType
    INT8: VarType
    LOD_RANK_TABLE: VarType
    LOD_TENSOR: VarType
    LOD_TENSOR_ARRAY: VarType
    PLACE_LIST: VarType
    RAW: VarType
    READER: VarType
    SELECTED_ROWS: VarType
    STEP_SCOPES: VarType
    TUPLE: VarType
    UINT8: VarType
    def __index__(self) -> int: ...
    def __int__(self) -> int: ...
    name: str
    value: Any

class Variable:
    """A variable of a program."""
    T: Any
    def __abs__(self) -> Variable: ...
    def __add__(self, value: Any, /) -> Variable: ...
    def __and__(self, other: Any) -> Variable: ...
    def __floordiv__(self, value: Any, /) -> Variable: ...
    def __ge__(self, value: Any, /) -> Variable: ...
    def __getitem__(self, key: Any, /) -> Variable: ...
    def __gt__(self, value: Any, /) -> Variable: ...
    def __invert__(self) -> Variable: ...
    def __iter__(self) -> Any: ...
    def __le__(self, value: Any, /) -> Variable: ...
    def __lt__(self, value: Any, /) -> Variable: ...
    def __matmul__(self, other: Any) -> Variable: ...
    def __mod__(self, value: Any, /) -> Variable: ...
    def __mul__(self, value: Any, /) -> Variable: ...
    def __neg__(self) -> Variable: ...
    def __or__(self, other: Any) -> Variable: ...
    def __pow__(self, value: Any, mod: Any = None, /) -> Variable: ...
    def __radd__(self, value: Any, /) -> Variable: ...
    def __rfloordiv__(self, value: Any, /) -> Variable: ...
    def __rmod__(self, value: Any, /) -> Variable: ...
    def __rmul__(self, value: Any, /) -> Variable: ...
    def __rpow__(self, value: Any, mod: Any = None, /) -> Variable: ...
    def __rsub__(self, value: Any, /) -> Variable: ...
    def __rtruediv__(self, value: Any, /) -> Variable: ...
    def __sub__(self, value: Any, /) -> Variable: ...
    def __truediv__(self, value: Any, /) -> Variable: ...
    def _set_error_clip(self, error_clip: Any) -> Any:
        """Bounds its gradient between two operators of the backward pass."""
    def abs(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `abs`, element by element."""
    def acos(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `acos`, element by element."""
    def add(self, *args: Any, **kwargs: Any) -> Any:
        """x + y, with the broadcasting of numpy."""
    def add_(self, *args: Any, **kwargs: Any) -> Any:
        """x + y, with the broadcasting of numpy."""
    def all(self, *args: Any, **kwargs: Any) -> Any:
        """Whether all are true."""
    def amax(self, *args: Any, **kwargs: Any) -> Any:
        """The largest along axes, or of all."""
    def amin(self, *args: Any, **kwargs: Any) -> Any:
        """The smallest along axes, or of all."""
    def any(self, *args: Any, **kwargs: Any) -> Any:
        """Whether one is true."""
    def argmax(self, *args: Any, **kwargs: Any) -> Any:
        """The place of the largest along an axis, or of all."""
    def argmin(self, *args: Any, **kwargs: Any) -> Any:
        """The place of the smallest along an axis, or of all."""
    def argsort(self, *args: Any, **kwargs: Any) -> Any:
        """The places of the sorted numbers along an axis."""
    def asin(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `asin`, element by element."""
    def astype(self, dtype: Any) -> Any:
        """The variable in another element type."""
    def atan(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `atan`, element by element."""
    def bitwise_and(self, *args: Any, **kwargs: Any) -> Any:
        """The bits that both have."""
    def bitwise_or(self, *args: Any, **kwargs: Any) -> Any:
        """The bits that one has."""
    def bitwise_xor(self, *args: Any, **kwargs: Any) -> Any:
        """The bits that exactly one has."""
    block: Any
    def bmm(self, *args: Any, **kwargs: Any) -> Any:
        """The products of the matrices of two batches."""
    def broadcast_to(self, *args: Any, **kwargs: Any) -> Any:
        """x repeated along axes of size 1 until it has this shape; -1 keeps a size."""
    def cast(self, *args: Any, **kwargs: Any) -> Any:
        """The same numbers in another type."""
    def ceil(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `ceil`, element by element."""
    def chunk(self, *args: Any, **kwargs: Any) -> Any:
        """So many equal parts along an axis."""
    def clip(self, *args: Any, **kwargs: Any) -> Any:
        """Numbers outside of [min, max] become its ends."""
    def clip_(self, *args: Any, **kwargs: Any) -> Any:
        """Numbers outside of [min, max] become its ends."""
    def clone(self, *args: Any, **kwargs: Any) -> Any:
        """A copy of a variable, through which gradients pass."""
    def cos(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `cos`, element by element."""
    def cumsum(self, *args: Any, **kwargs: Any) -> Any:
        """Sums up to each place; of all numbers in a row without an axis."""
    desc: Any
    def dim(self) -> Any:
        """How many axes there are."""
    def divide(self, *args: Any, **kwargs: Any) -> Any:
        """x / y; whole numbers are divided as fractions."""
    do_model_average: Any
    def dot(self, *args: Any, **kwargs: Any) -> Any:
        """The sum of products along the last axis."""
    dtype: Any
    def equal(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `equal`, element by element."""
    def erf(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `erf`, element by element."""
    error_clip: Any
    def exp(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `exp`, element by element."""
    def exp_(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `exp`, element by element."""
    def expand(self, *args: Any, **kwargs: Any) -> Any:
        """x repeated along axes of size 1 until it has this shape; -1 keeps a size."""
    def expand_as(self, *args: Any, **kwargs: Any) -> Any:
        """x repeated until it has the shape of y."""
    def expm1(self, *args: Any, **kwargs: Any) -> Any:
        """e^x - 1."""
    def flatten(self, *args: Any, **kwargs: Any) -> Any:
        """The axes from `start_axis` to `stop_axis` become one."""
    def flip(self, *args: Any, **kwargs: Any) -> Any:
        """The order turned around along axes."""
    def floor(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `floor`, element by element."""
    def floor_divide(self, *args: Any, **kwargs: Any) -> Any:
        """The whole part of x / y."""
    def floor_mod(self, *args: Any, **kwargs: Any) -> Any:
        """What x / y leaves."""
    def full_like(self, *args: Any, **kwargs: Any) -> Any:
        """The same number everywhere in the shape of x."""
    def gather(self, *args: Any, **kwargs: Any) -> Any:
        """The parts at `index` along an axis."""
    def gather_nd(self, *args: Any, **kwargs: Any) -> Any:
        """The parts at the places that the last axis of `index` names."""
    grad_name: Any
    gradient_clip_attr: Any
    def greater_equal(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `greater_equal`, element by element."""
    def greater_than(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `greater_than`, element by element."""
    def increment(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a number in place."""
    def index_select(self, *args: Any, **kwargs: Any) -> Any:
        """The parts at `index` along an axis."""
    is_data: bool
    is_distributed: Any
    is_parameter: bool
    def isfinite(self, *args: Any, **kwargs: Any) -> Any:
        """Where numbers are finite: x - x is 0 there alone."""
    def isnan(self, *args: Any, **kwargs: Any) -> Any:
        """Where something is not a number: only that differs from itself."""
    def less_equal(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `less_equal`, element by element."""
    def less_than(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `less_than`, element by element."""
    lod_level: int
    def log(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `log`, element by element."""
    def log10(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm to base 10."""
    def log1p(self, *args: Any, **kwargs: Any) -> Any:
        """log(1 + x)."""
    def log2(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm to base 2."""
    def logical_and(self, *args: Any, **kwargs: Any) -> Any:
        """Where both are true."""
    def logical_not(self, *args: Any, **kwargs: Any) -> Any:
        """Where it is false."""
    def logical_or(self, *args: Any, **kwargs: Any) -> Any:
        """Where one is true."""
    def logical_xor(self, *args: Any, **kwargs: Any) -> Any:
        """Where exactly one is true."""
    def logsumexp(self, *args: Any, **kwargs: Any) -> Any:
        """The logarithm of the sum of exponentials, computed around the largest."""
    def masked_select(self, *args: Any, **kwargs: Any) -> Any:
        """The numbers where `mask` is true, in a row."""
    def matmul(self, *args: Any, **kwargs: Any) -> Any:
        """Products of the last two axes; a vector is a row on the left and a column on the right."""
    def max(self, *args: Any, **kwargs: Any) -> Any:
        """The largest along axes, or of all."""
    def maximum(self, *args: Any, **kwargs: Any) -> Any:
        """The larger of both."""
    def mean(self, *args: Any, **kwargs: Any) -> Any:
        """The mean along axes, or of all."""
    def min(self, *args: Any, **kwargs: Any) -> Any:
        """The smallest along axes, or of all."""
    def minimum(self, *args: Any, **kwargs: Any) -> Any:
        """The smaller of both."""
    def mm(self, *args: Any, **kwargs: Any) -> Any:
        """The product of two matrices."""
    def mod(self, *args: Any, **kwargs: Any) -> Any:
        """What x / y leaves."""
    def multinomial(self, *args: Any, **kwargs: Any) -> Any:
        """The numbers of rows drawn with these probabilities."""
    def multiply(self, *args: Any, **kwargs: Any) -> Any:
        """x · y, element by element."""
    def mv(self, *args: Any, **kwargs: Any) -> Any:
        """A matrix times a vector."""
    name: str
    ndim: Any
    def neg(self, *args: Any, **kwargs: Any) -> Any:
        """-x."""
    def nonzero(self, *args: Any, **kwargs: Any) -> Any:
        """The places that are not zero: a row each, or an axis each."""
    def norm(self, *args: Any, **kwargs: Any) -> Any:
        """The root of the sum of squares (2 or "fro"), the sum of sizes (1), or the largest size (inf)."""
    def not_equal(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `not_equal`, element by element."""
    def numel(self, *args: Any, **kwargs: Any) -> Any:
        """How many numbers there are."""
    def ones_like(self, *args: Any, **kwargs: Any) -> Any:
        """Ones in the shape of x."""
    op: Any
    optimize_attr: Any
    persistable: bool
    def pow(self, *args: Any, **kwargs: Any) -> Any:
        """x to the power of y, a number or a variable."""
    def prod(self, *args: Any, **kwargs: Any) -> Any:
        """The product along axes, or of all."""
    def rank(self, *args: Any, **kwargs: Any) -> Any:
        """How many axes there are."""
    def reciprocal(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `reciprocal`, element by element."""
    regularizer: Any
    def remainder(self, *args: Any, **kwargs: Any) -> Any:
        """What x / y leaves."""
    def reshape(self, *args: Any, **kwargs: Any) -> Any:
        """The same numbers in another shape: 0 copies a size, one -1 stands for what is left over."""
    def reshape_(self, *args: Any, **kwargs: Any) -> Any:
        """The same numbers in another shape: 0 copies a size, one -1 stands for what is left over."""
    def reverse(self, *args: Any, **kwargs: Any) -> Any:
        """The order turned around along axes."""
    def round(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `round`, element by element."""
    def rsqrt(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `rsqrt`, element by element."""
    def scale(self, *args: Any, **kwargs: Any) -> Any:
        """scale · x + bias, or scale · (x + bias)."""
    def scale_(self, *args: Any, **kwargs: Any) -> Any:
        """scale · x + bias, or scale · (x + bias)."""
    def scatter(self, *args: Any, **kwargs: Any) -> Any:
        """x with the rows at `index` replaced, or the sum of all updates there."""
    def scatter_nd_add(self, *args: Any, **kwargs: Any) -> Any:
        """x with updates added at the places that `index` names."""
    shape: tuple[int, ...]
    def sigmoid(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `sigmoid`, element by element."""
    def sign(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `sign`, element by element."""
    def sin(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `sin`, element by element."""
    def slice(self, *args: Any, **kwargs: Any) -> Any:
        """From `starts` to `ends` along each of `axes`."""
    def sort(self, *args: Any, **kwargs: Any) -> Any:
        """The numbers sorted along an axis."""
    def split(self, *args: Any, **kwargs: Any) -> Any:
        """Parts along an axis: so many equal ones, or of these sizes."""
    def sqrt(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `sqrt`, element by element."""
    def sqrt_(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `sqrt`, element by element."""
    def square(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `square`, element by element."""
    def squeeze(self, *args: Any, **kwargs: Any) -> Any:
        """Without axes of size 1: those named, or all."""
    def squeeze_(self, *args: Any, **kwargs: Any) -> Any:
        """Without axes of size 1: those named, or all."""
    def stanh(self, *args: Any, **kwargs: Any) -> Any:
        """scale_b · tanh(scale_a · x)."""
    def std(self, *args: Any, **kwargs: Any) -> Any:
        """The standard deviation along axes, or of all."""
    stop_gradient: bool
    def strided_slice(self, *args: Any, **kwargs: Any) -> Any:
        """Every n-th part from `starts` to `ends` along axes."""
    def subtract(self, *args: Any, **kwargs: Any) -> Any:
        """x - y."""
    def subtract_(self, *args: Any, **kwargs: Any) -> Any:
        """x - y."""
    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """The sum along axes, or of all; truth values are counted."""
    def t(self, *args: Any, **kwargs: Any) -> Any:
        """A matrix turned around; a row stays."""
    def take_along_axis(self, *args: Any, **kwargs: Any) -> Any:
        """Not there; says what is."""
    def tanh(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `tanh`, element by element."""
    def tanh_(self, *args: Any, **kwargs: Any) -> Any:
        """The operator `tanh`, element by element."""
    def tile(self, *args: Any, **kwargs: Any) -> Any:
        """x repeated along each axis; missing axes are put in front."""
    def to_string(self, throw_on_error: bool = True, with_details: bool = False) -> Any:
        """The variable as text."""
    def topk(self, *args: Any, **kwargs: Any) -> Any:
        """The k largest (or smallest) along an axis, and their places."""
    trainable: bool
    def transpose(self, *args: Any, **kwargs: Any) -> Any:
        """The axes in another order."""
    def tril(self, *args: Any, **kwargs: Any) -> Any:
        """The part on and below a diagonal; zeros above it."""
    def triu(self, *args: Any, **kwargs: Any) -> Any:
        """The part on and above a diagonal; zeros below it."""
    type: Any
    def unbind(self, *args: Any, **kwargs: Any) -> Any:
        """The parts along an axis, without it."""
    def unique(self, *args: Any, **kwargs: Any) -> Any:
        """Different numbers in the order of their first places; with the place of each."""
    def unsqueeze(self, *args: Any, **kwargs: Any) -> Any:
        """With axes of size 1 at these places."""
    def unsqueeze_(self, *args: Any, **kwargs: Any) -> Any:
        """With axes of size 1 at these places."""
    def unstack(self, *args: Any, **kwargs: Any) -> Any:
        """The parts along an axis, without it."""
    def var(self, *args: Any, **kwargs: Any) -> Any:
        """The variance along axes, or of all; over n - 1 if `unbiased`."""
    def where(self, *args: Any, **kwargs: Any) -> Any:
        """x where the condition holds, else y; without both, the places where it holds."""
    def zeros_like(self, *args: Any, **kwargs: Any) -> Any:
        """Zeros in the shape of x."""

class ZeroCopyTensor:
    """An input or output of a predictor, filled and read in place."""
    def copy_from_cpu(self, data: Any) -> Any:
        """Takes the numbers of an array."""
    def copy_to_cpu(self) -> Any:
        """The numbers as an array."""
    def lod(self) -> Any:
        """Sequence offsets."""
    def reshape(self, shape: Any) -> Any:
        """Sets the sizes of the dimensions; numbers are given afterwards."""
    def set_lod(self, lod: Any) -> Any:
        """Sets sequence offsets."""
    def shape(self) -> Any:
        """The sizes of the dimensions."""
    def type(self) -> Any:
        """The type of the elements."""

def _append_python_callable_object_and_return_id(callable: Any) -> Any:
    """Lets programs call a function of LoDTensors that returns a tuple of them, or of None; gives its number."""

def as_lodtensor(data: Any, place: Any = None, dtype: Any = None) -> Any:
    """A feed as a tensor: an array, or a number in the type it is wanted in."""

class backward:
    @staticmethod
    def append_backward(
        loss: Any,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
        checkpoints: Any = None,
    ) -> list[tuple[Variable, Variable]]:
        """Adds the operators that compute the gradient of `loss` for each parameter; returns pairs of parameter and gradient."""
    @staticmethod
    def gradients(
        targets: Any,
        inputs: Any,
        target_gradients: Any = None,
        no_grad_set: Any = None,
    ) -> list[Variable | None]:
        """The gradients of the sum of `targets` for each of `inputs`; None where there is no way."""

def check_param_attr(attr: Any) -> None:
    """Refuses a Python `ParamAttr` with fields that layers could not use."""

def check_slot_names(names: Any) -> Any:
    """ValueError if a generator makes slots of these names in another order than the dataset has them for which this process works."""

def choose_servers(method: Any, names: Any, endpoints: Any, step: Any) -> Any:
    """The servers that "RoundRobin" or "HashName" chooses after `step` blocks."""

def clip_gradients(clip: Any, params_grads: Any, skipped: Any) -> Any:
    """The pairs with clipped gradients: as `clip` says except those in `skipped`, or as each parameter says for itself."""

def command(words: Any, python: Any, alias: Any, search: Any) -> Any:
    """Does what the words behind `paddlewheel` ask for; returns the exit code."""

def create_lod_tensor(data: Any, recursive_seq_lens: Any, place: Any = None) -> LoDTensor:
    """A tensor of sequences from an array, another tensor, or a list of lists."""

def create_paddle_predictor(config: Any) -> Any:
    """A predictor for the model that a configuration names."""

def create_random_int_lodtensor(
    recursive_seq_lens: Any,
    base_shape: Any,
    place: Any,
    low: Any,
    high: Any,
) -> LoDTensor:
    """A tensor of sequences of random whole numbers, `low` and `high` included."""

def default_main_program() -> Program:
    """The program that layers write into."""

def default_startup_program() -> Program:
    """The program that fills parameters."""

def did_you_mean(name: str, known: Any) -> Any:
    """` Did you mean …?` with the nearest of the known names; empty if none is near."""

def export(
    dirname: Any,
    to: Any,
    out: Any = None,
    force: bool = False,
    table: Any = None,
    one_id: bool = False,
    table_bytes_max: Any = ...,
) -> Any:
    """Writes what a saved folder holds as `onnx`, `safetensors` or `parquet`; returns where it is."""

class fleet:
    class Fleet:
        """A process of a job with parameter servers."""
        def __init__(self, role: Any) -> None: ...
        def all_reduce_worker(self, numbers: Any, how: Any) -> Any:
            """Numbers of all trainers put together, place by place."""
        def barrier_worker(self) -> Any:
            """Waits for all trainers."""
        def distribute(
            self,
            main: Any,
            startup: Any,
            config: Any,
            trainer: Any,
            server: Any,
            choose: Any,
        ) -> Any:
            """Splits programs for this process; a trainer's are rewritten in place."""
        def global_auc(self, scope: Scope, stat_pos: Any, stat_neg: Any) -> Any:
            """The area under the ROC curve over the samples of all trainers, and how many there are; of two variables that hold histograms."""
        def global_metrics(self, scope: Scope, histograms: Any, sums: Any) -> Any:
            """Figures of a click-through model over the samples of all trainers, of two histograms and the six sums of `ctr_metric_bundle`: auc, bucket error, mae, rmse, actual and predicted ctr, copc, mean q value, number of samples."""
        def global_samples(self, own: Any) -> Any:
            """The samples of all trainers, in the order of their ranks."""
        def init_server(self, scope: Scope, model_dir: Any = None, missing: Any = None) -> Any:
            """Fills this server's parameters, with `missing="init"` from the part of a model that fits; that part is printed."""
        def init_worker(self) -> Any:
            """Gets a trainer ready to send."""
        def origin(self) -> Any:
            """The main program as it was before it was split."""
        role: Any
        def run_server(self, scope: Scope) -> Any:
            """Serves to the end."""
        def save_inference_model(
            self,
            scope: Scope,
            dirname: Any,
            feeds: Any,
            targets: Any,
            export_for_deployment: Any,
        ) -> Any:
            """Saves a model to infer with, with parameters as they are on the servers now."""
        def save_persistables(self, scope: Scope, dirname: Any, program: Any) -> Any:
            """Saves a trainer's program as it is on the servers now."""
        def server_programs(self) -> Any:
            """A server's main and startup program."""
        def server_stats(self) -> Any:
            """Counters of every server, a dict each: rounds, pushes and updates (steps) applied, how stale these were (updates since the pull they were computed with), rows and bytes held, in all and in sparse tables, rows that entry rules keep waiting, rows of gradients that they dropped."""
        def stop_worker(self, scope: Scope) -> Any:
            """Reports that this trainer has finished."""
        def wait_for_servers(self) -> Any:
            """A trainer waits until all servers listen."""
    class Role:
        """The role of a process, and the addresses of the others."""
        def index(self) -> Any:
            """Which of the trainers or servers it is."""
        def is_first_worker(self) -> Any:
            """Whether it is the trainer that does what only one may do."""
        def is_server(self) -> Any:
            """Whether it keeps parameters."""
        def is_worker(self) -> Any:
            """Whether it trains."""
        def server_endpoints(self) -> Any:
            """Where servers are."""
        def split_files(self, files: Any) -> Any:
            """The files that are this trainer's."""
        def to_string(self) -> Any:
            """Everything in a line."""
        def worker_endpoints(self) -> Any:
            """Where trainers are, when they speak to one another."""
        def worker_num(self) -> Any:
            """How many trainers there are."""
    class TrainerRuntimeConfig:
        """How a trainer sends and receives in the background."""
        def __init__(self) -> None: ...
        def display(self, configs: Any) -> Any:
            """A table of settings."""
        def get_communicator_flags(self) -> Any:
            """The settings that count in this mode."""
        mode: Any
        num_threads: Any
        runtime_configs: Any
        def set(self, name: str, value: Any) -> Any:
            """Changes a setting."""
    @staticmethod
    def flag_names() -> Any:
        """The names of all flags."""
    @staticmethod
    def general_role() -> Any:
        """The role that the variables give when trainers have end points too."""
    @staticmethod
    def get_flag(name: str) -> Any:
        """The value of a flag, named with or without `FLAGS_`."""
    @staticmethod
    def mode_switches(number: Any, amount: Any = None) -> Any:
        """The settings of a transpiler's configuration by the strategy of a mode, in the order to set them; `amount` is the count of the mode, if it has one."""
    @staticmethod
    def mpi_role() -> Any:
        """The role that `mpirun` gives this process."""
    @staticmethod
    def role_from_environment(is_collective: bool = False) -> Any:
        """The role that a PaddleCloud job's variables give this process."""
    @staticmethod
    def role_in_a_job() -> Any:
        """The role that the variables give this process, or None if it runs alone."""
    @staticmethod
    def server_settings() -> Any:
        """The settings of a server by flags: threads that send, get and prefetch; whether the job continues without trainers that died."""
    @staticmethod
    def set_flag(name: str, value: Any) -> Any:
        """Changes a flag."""
    @staticmethod
    def unsaid_trainer_id(n_trainers: Any) -> Any:
        """Which trainer this is when its script does not say so."""
    @staticmethod
    def user_defined_collective_role(current_id: Any, worker_endpoints: Any) -> Any:
        """The role of a trainer among trainers that a user describes."""
    @staticmethod
    def user_defined_role(
        current_id: Any,
        role: Any,
        worker_num: Any,
        server_endpoints: Any,
    ) -> Any:
        """The role that a user describes."""

def get_grad_op_desc(op_desc: Any, no_grad_set: Any = None, grad_sub_block: Any = None) -> Any:
    """The operators that compute the gradient of one, and which variable each gradient is of."""

def get_op_attrs_default_value(kind: Any) -> Any:
    """The defaults of the attributes of an operator."""

def global_scope() -> Scope:
    """The scope that programs run in unless another is given."""

def hash_id(text: Any, n: Any, slot: Any = None) -> Any:
    """The id below n of a text, as the readers make it; of a slot, if one is named."""

def import_rows(target: Any, table: Any, file: Any) -> Any:
    """Puts the rows of a Parquet or safetensors file into a table of a saved folder or of a scope; returns how many rows were replaced, and how many were added."""

class io:
    class Checkpoints:
        """The checkpoints of a folder."""
        def __init__(self, dir: Any) -> None: ...
        def arguments(self, serial: Any, trainer_id: Any) -> Any:
            """The arguments that a trainer saved with a checkpoint, by name."""
        def begin(self) -> Any:
            """Looks for the newest that is whole, and tells the other processes of the job: all must begin from the same."""
        def clean(self, trainer_id: Any, delete_dir: Any) -> Any:
            """Removes all, and the folder if asked to and empty."""
        def latest(self) -> Any:
            """The number of the newest complete one; -1 if there is none."""
        def load(self, executor: Executor, program: Any, serial: Any = None) -> Any:
            """Loads one, or the newest that is whole; returns its number."""
        def resume(self, executor: Executor, program: Any, trainer_id: Any, progress: Any) -> Any:
            """Loads the newest that is whole, if there is one; returns its number."""
        def save(
            self,
            executor: Executor,
            program: Any,
            trainer_id: Any,
            arguments: Any,
            n_kept: Any,
            time: Any,
        ) -> Any:
            """Writes the next one and removes old ones; returns its number."""
        def serials(self) -> Any:
            """The numbers of all, ascending."""
    class StepsDone:
        """How far a trainer is in its data, and after which steps it writes a checkpoint."""
        def __init__(self, epochs: Any, steps: Any) -> None: ...
        def arguments(self, epoch: Any, step: Any) -> Any:
            """The arguments that are written with a checkpoint after this step."""
        def done(self) -> Any:
            """The pass and the step up to which a checkpoint has seen the data, or None."""
        def first_epoch(self) -> Any:
            """The pass to continue with."""
        def is_due(self, epoch: Any, step: Any) -> Any:
            """Whether a checkpoint is written after this step."""
        def takes(self, epoch: Any, step: Any) -> Any:
            """Whether the next step is to be trained; the checkpoint has seen the others."""
    @staticmethod
    def get_parameter_value(para: Any, executor: Executor) -> Any:
        """The value of a parameter."""
    @staticmethod
    def get_parameter_value_by_name(name: str, executor: Executor, program: Any = None) -> Any:
        """The value of the parameter of this name."""
    @staticmethod
    def get_program_parameter(program: Any) -> list[Variable]:
        """The parameters of a program."""
    @staticmethod
    def get_program_persistable_vars(program: Any) -> list[Variable]:
        """The variables of a program that live between runs."""
    @staticmethod
    def is_checkpoint_var(var: Any) -> Any:
        """Whether a checkpoint holds a variable."""
    @staticmethod
    def is_parameter(var: Any) -> bool:
        """Whether a variable is a parameter."""
    @staticmethod
    def is_persistable(var: Any) -> bool:
        """Whether a variable belongs to a saved model."""
    @staticmethod
    def load(
        program: Any,
        model_path: Any,
        executor: Executor = None,
        var_list: Any = None,
        missing: Any = None,
    ) -> None:
        """Loads what `save` wrote, or what the other save functions wrote into a directory or a file; `missing` as in `load_vars`."""
    @staticmethod
    def load_inference_model(
        dirname: Any,
        executor: Executor,
        model_filename: Any = None,
        params_filename: Any = None,
        pserver_endpoints: Any = None,
    ) -> list[Any]:
        """Loads a model: parameters go to the scope; returns `[program, feed names, fetch variables]`."""
    @staticmethod
    def load_params(
        executor: Executor,
        dirname: Any,
        main_program: Program | None = None,
        filename: Any = None,
        missing: Any = None,
    ) -> None:
        """Loads the parameters of a program; `missing` as in `load_vars`."""
    @staticmethod
    def load_persistables(
        executor: Executor,
        dirname: Any,
        main_program: Program | None = None,
        filename: Any = None,
        missing: Any = None,
    ) -> None:
        """Loads all that lives between runs; `missing` as in `load_vars`."""
    @staticmethod
    def load_program_state(model_path: Any, var_list: Any = None) -> dict[str, Any]:
        """The arrays that `save` or another save function wrote, by name."""
    @staticmethod
    def load_vars(
        executor: Executor,
        dirname: Any,
        main_program: Program | None = None,
        vars: Any = None,
        predicate: Any = None,
        filename: Any = None,
        missing: Any = None,
    ) -> None:
        """Loads variables that `save_vars` saved; changes all of them or none."""
    @staticmethod
    def save(program: Any, model_path: Any) -> None:
        """Writes `<model_path>.pdparams`, `<model_path>.pdopt` and `<model_path>.pdmodel`."""
    @staticmethod
    def save_inference_model(
        dirname: Any,
        feeded_var_names: Any,
        target_vars: Any,
        executor: Executor,
        main_program: Program | None = None,
        model_filename: Any = None,
        params_filename: Any = None,
        export_for_deployment: bool = True,
        program_only: bool = False,
    ) -> list[str]:
        """Saves what computes the targets from the feeds; returns the names to fetch."""
    @staticmethod
    def save_params(
        executor: Executor,
        dirname: Any,
        main_program: Program | None = None,
        filename: Any = None,
    ) -> bytes | None:
        """Saves the parameters of a program."""
    @staticmethod
    def save_persistables(
        executor: Executor,
        dirname: Any,
        main_program: Program | None = None,
        filename: Any = None,
    ) -> bytes | None:
        """Saves all that lives between runs: parameters, optimizer state, statistics."""
    @staticmethod
    def save_vars(
        executor: Executor,
        dirname: Any,
        main_program: Program | None = None,
        vars: Any = None,
        predicate: Any = None,
        filename: Any = None,
    ) -> bytes | None:
        """Saves variables: `vars`, or those of the program for which `predicate` is true."""
    @staticmethod
    def set_program_state(program: Any, state_dict: Any) -> None:
        """Puts arrays into the variables of a program; those it does not have are warned of."""

class layers:
    class BlockGuard:
        """The context manager of a part of a program: layers called inside of it go into a block."""
        def __enter__(self) -> Any: ...
        def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> Any: ...
    class ConditionalBlock:
        """A part that runs if its one input holds, or if none of what it reads is empty."""
        def __init__(
            self,
            inputs: Any,
            is_scalar_condition: bool = False,
            name: str | None = None,
        ) -> None: ...
        def block(self) -> Any:
            """`with block.block():` holds what runs."""
    class IfElse:
        """Rows for which a condition holds go one way, the others another, and meet again."""
        def __init__(self, cond: Any, name: str | None = None) -> None: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def false_block(self) -> Any:
            """`with ie.false_block():` holds what is done with the others."""
        def input(self, x: Any) -> Any:
            """The rows of a variable that take this way."""
        def output(self, *outs: Any) -> Any:
            """Results of this way."""
        def true_block(self) -> Any:
            """`with ie.true_block():` holds what is done with rows for which the condition holds."""
    @staticmethod
    def Print(
        input: Any,
        first_n: int = -1,
        message: Any = None,
        summarize: int = 20,
        print_tensor_name: bool = True,
        print_tensor_type: bool = True,
        print_tensor_shape: bool = True,
        print_tensor_lod: bool = True,
        print_phase: str = 'both',
    ) -> Variable:
        """The input, shown on its way."""
    class StaticRNN:
        """A network that is run for each step of its inputs, whose first dimension is time."""
        def __init__(self, name: str | None = None) -> None: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def memory(
            self,
            init: Any = None,
            shape: Any = None,
            batch_ref: Any = None,
            init_value: float = 0.0,
            init_batch_dim_idx: int = 0,
            ref_batch_dim_idx: int = 1,
        ) -> Any:
            """The state that a step leaves for the next one."""
        def output(self, *outputs: Any) -> Any:
            """Several results of a step."""
        def step(self) -> Any:
            """`with rnn.step():` holds what is done for each step."""
        def step_input(self, x: Any) -> Any:
            """One step of a variable, whose first dimension is time."""
        def step_output(self, o: Any) -> Any:
            """An output of a step; those of all steps together are a result."""
        def update_memory(self, mem: Any, var: Any) -> Any:
            """Says what a step leaves in a memory."""
    class Switch:
        """The first of several parts whose condition holds runs."""
        def __init__(self, name: str | None = None) -> None: ...
        def __enter__(self) -> Any: ...
        def __exit__(self, _kind: Any, _value: Any, _traceback: Any) -> Any: ...
        def case(self, condition: Any) -> Any:
            """A part that runs if the condition holds and none before it did."""
        def default(self) -> Any:
            """The part that runs if no condition held."""
    class While:
        """A part that runs again and again while a condition holds; the part must change the condition."""
        def __init__(self, cond: Any, is_test: bool = False, name: str | None = None) -> None: ...
        def block(self) -> Any:
            """`with loop.block():` holds what runs."""
    class _StepGuard:
        """The context manager of `with rnn.step()`."""
        def __enter__(self) -> Any: ...
        def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> Any: ...
    class _WayGuard:
        """The context manager of `with ie.true_block()`."""
        def __enter__(self) -> Any: ...
        def __exit__(self, kind: Any, _value: Any, _traceback: Any) -> Any: ...
    @staticmethod
    def _initialize(var: Any, initializer: Any) -> None:
        """A variable's first value (`LayerHelper.set_variable_initializer`)."""
    @staticmethod
    def _parameter(
        layer_name: Any,
        attr: Any,
        shape: Any,
        dtype: Any,
        is_bias: Any,
        default_initializer: Any,
    ) -> Variable | None:
        """A parameter of a layer of the user's own (`LayerHelper.create_parameter`)."""
    @staticmethod
    def abs(x: Any, name: str | None = None) -> Variable:
        """The distance from 0: |x|."""
    @staticmethod
    def accuracy(
        input: Any,
        label: Variable,
        k: int = 1,
        correct: Any = None,
        total: Any = None,
    ) -> Variable:
        """The share of rows whose label is among the `k` largest; the counts are written into `correct` and `total` if they are given."""
    @staticmethod
    def acos(x: Any, name: str | None = None) -> Variable:
        """The angle whose cosine is x."""
    @staticmethod
    def adaptive_pool2d(
        input: Any,
        pool_size: Any,
        pool_type: str = 'max',
        require_index: bool = False,
        name: str | None = None,
    ) -> Variable:
        """Pools an image into `pool_size` windows that share it out."""
    @staticmethod
    def adaptive_pool3d(
        input: Any,
        pool_size: Any,
        pool_type: str = 'max',
        require_index: bool = False,
        name: str | None = None,
    ) -> Variable:
        """Pools an image into `pool_size` boxes that share it out."""
    @staticmethod
    def add_position_encoding(
        input: Any,
        alpha: Any,
        beta: Any,
        name: str | None = None,
    ) -> Variable:
        """`alpha` times the input plus `beta` times sines and cosines of its steps."""
    @staticmethod
    def addcmul(
        input: Any,
        tensor1: Any,
        tensor2: Any,
        value: float = 1.0,
        out: Any = None,
        name: str | None = None,
    ) -> Variable:
        """input + `value` tensor1 tensor2, number by number; written into `out` if it is given."""
    @staticmethod
    def addmm(
        input: Any,
        x: Any,
        y: Any,
        alpha: float = 1.0,
        beta: float = 1.0,
        name: str | None = None,
    ) -> Variable:
        """`beta` input + `alpha` x y, a product of matrices."""
    @staticmethod
    def affine_channel(
        x: Any,
        scale: Any = None,
        bias: Any = None,
        data_layout: str = 'NCHW',
        name: str | None = None,
        act: str | None = None,
    ) -> Variable:
        """`act(x scale + bias)`, a number of both for each channel."""
    @staticmethod
    def affine_grid(theta: Any, out_shape: Any, name: str | None = None) -> Variable:
        """The points of an image of this shape, moved by the matrices `theta`."""
    @staticmethod
    def allclose(
        input: Any,
        other: Any,
        rtol: float = 1e-05,
        atol: float = 1e-08,
        equal_nan: bool = False,
        name: str | None = None,
    ) -> Variable:
        """Whether all numbers of both are near each other: |input - other| <= atol + rtol |other|."""
    @staticmethod
    def arange(
        start: Any,
        end: Any,
        step: int = 1,
        dtype: Any = None,
        name: str | None = None,
    ) -> Variable:
        """start, start + step, … before end; float32 unless said."""
    @staticmethod
    def argmax(x: Any, axis: int = 0) -> Variable:
        """Where along an axis the largest element is."""
    @staticmethod
    def argmin(x: Any, axis: int = 0) -> Variable:
        """Where along an axis the smallest element is."""
    @staticmethod
    def argsort(
        input: Any,
        axis: int = -1,
        descending: bool = False,
        name: str | None = None,
    ) -> tuple[Variable, Variable]:
        """The sorted elements and where they were: (values, indices)."""
    @staticmethod
    def array_length(array: Any) -> Variable:
        """How many tensors a list holds."""
    @staticmethod
    def array_read(array: Any, i: Any) -> Variable:
        """The tensor at a place of a list."""
    @staticmethod
    def array_to_lod_tensor(x: Any, table: Any) -> Variable:
        """The sequences whose steps are the tensors of a list, in the order of a table of `lod_rank_table`."""
    @staticmethod
    def array_write(x: Any, i: Any, array: Any = None) -> Variable:
        """Puts a tensor at a place of a list, a new one if there is none."""
    @staticmethod
    def asin(x: Any, name: str | None = None) -> Variable:
        """The angle whose sine is x."""
    @staticmethod
    def assign(input: Any, output: Any = None) -> Variable:
        """A copy of a variable or of a numpy array, in a variable of its own or in `output`."""
    @staticmethod
    def atan(x: Any, name: str | None = None) -> Variable:
        """The angle whose tangent is x."""
    @staticmethod
    def auc(
        input: Any,
        label: Variable,
        curve: str = 'ROC',
        num_thresholds: int = 4095,
        topk: int = 1,
        slide_steps: int = 1,
    ) -> tuple[Variable, Variable, list[Variable]]:
        """The area under the curve of probabilities: over all batches, over the last ones, and the four histograms it is read from (positive and negative of the last batches, then of all)."""
    @staticmethod
    def autoincreased_step_counter(
        counter_name: Any = None,
        begin: int = 1,
        step: int = 1,
    ) -> Variable:
        """A counter that each run raises before anything else; the first run sees `begin`."""
    @staticmethod
    def batch_norm(
        input: Any,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        data_layout: str = 'NCHW',
        in_place: bool = False,
        name: str | None = None,
        moving_mean_name: Any = None,
        moving_variance_name: Any = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
    ) -> Variable:
        """Each channel with mean 0 and variance 1 over the batch, then scaled and shifted."""
    @staticmethod
    def beam_search(
        pre_ids: Any,
        pre_scores: Any,
        ids: Any,
        scores: Any,
        beam_size: Any,
        end_id: Any,
        level: int = 0,
        is_accumulated: bool = True,
        name: str | None = None,
        return_parent_idx: bool = False,
    ) -> Variable:
        """The best candidates of each source at one step: (ids, scores), and their parents with `return_parent_idx`."""
    @staticmethod
    def beam_search_decode(
        ids: Any,
        scores: Any,
        beam_size: Any,
        end_id: Any,
        name: str | None = None,
    ) -> Variable:
        """The sentences of a beam search, and the scores of their words."""
    @staticmethod
    def bilinear_tensor_product(
        x: Any,
        y: Any,
        size: Any,
        act: str | None = None,
        name: str | None = None,
        param_attr: Any = None,
        bias_attr: Any = None,
    ) -> Variable:
        """`act(x W y + bias)` with `size` matrices W."""
    @staticmethod
    def bmm(x: Any, y: Any, name: str | None = None) -> Variable:
        """The product of matrices, one of `x` with one of `y` each."""
    @staticmethod
    def bpr_loss(input: Any, label: Variable, name: str | None = None) -> Variable:
        """The personalised-ranking loss of the labelled class against the others."""
    @staticmethod
    def brelu(x: Any, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Variable:
        """x, but not below `t_min` and not above `t_max`."""
    @staticmethod
    def case(pred_fn_pairs: Any, default: Any = None, name: str | None = None) -> Variable:
        """The result of the first function whose condition holds; `default`'s if none does."""
    @staticmethod
    def cast(x: Any, dtype: Any) -> Variable:
        """`x` in another element type."""
    @staticmethod
    def ceil(x: Any, name: str | None = None) -> Variable:
        """The next whole number above."""
    @staticmethod
    def center_loss(
        input: Any,
        label: Variable,
        num_classes: Any,
        alpha: Any,
        param_attr: Any,
        update_center: bool = True,
    ) -> Variable:
        """Half the squared distance of each row from the center of its class."""
    @staticmethod
    def chunk_eval(
        input: Any,
        label: Variable,
        chunk_scheme: Any,
        num_chunk_types: Any,
        excluded_chunk_types: Any = None,
        seq_length: Any = None,
    ) -> Variable:
        """(precision, recall, f1 score, chunks inferred, chunks labelled, chunks in both)."""
    @staticmethod
    def clamp(
        input: Any,
        min: Any = None,
        max: Any = None,
        output: Any = None,
        name: str | None = None,
    ) -> Variable:
        """The input, but not below `min` and not above `max`, numbers or Variables; one of them may be None, which stands for 0 below, as in Fluid, and for no bound above."""
    @staticmethod
    def clip(x: Any, min: Any, max: Any, name: str | None = None) -> Variable:
        """`x`, but not below `min` and not above `max`."""
    @staticmethod
    def clip_by_norm(x: Any, max_norm: Any, name: str | None = None) -> Variable:
        """`x`, shrunk to the L2 norm `max_norm` if it is longer."""
    @staticmethod
    def concat(input: Any, axis: int = 0, name: str | None = None) -> Variable:
        """The inputs one after another along an axis."""
    @staticmethod
    def cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
        """The result of `true_fn` if `pred` holds, else that of `false_fn`."""
    @staticmethod
    def continuous_value_model(input: Any, cvm: Any, use_cvm: bool = True) -> Variable:
        """Counts of shows and clicks in the first two columns become logs, or go (`use_cvm` False)."""
    @staticmethod
    def conv2d(
        input: Any,
        num_filters: Any,
        filter_size: Any,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        name: str | None = None,
        data_format: str = 'NCHW',
    ) -> Variable:
        """`num_filters` filters slid over images."""
    @staticmethod
    def conv2d_transpose(
        input: Any,
        num_filters: Any,
        output_size: Any = None,
        filter_size: Any = None,
        padding: int = 0,
        stride: int = 1,
        dilation: int = 1,
        groups: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        name: str | None = None,
        data_format: str = 'NCHW',
    ) -> Variable:
        """Each pixel spread over a filter."""
    @staticmethod
    def conv3d(
        input: Any,
        num_filters: Any,
        filter_size: Any,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        name: str | None = None,
        data_format: str = 'NCDHW',
    ) -> Variable:
        """`num_filters` filters slid over images of three dimensions."""
    @staticmethod
    def conv3d_transpose(
        input: Any,
        num_filters: Any,
        output_size: Any = None,
        filter_size: Any = None,
        padding: int = 0,
        stride: int = 1,
        dilation: int = 1,
        groups: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_cudnn: bool = True,
        act: str | None = None,
        name: str | None = None,
        data_format: str = 'NCDHW',
    ) -> Variable:
        """Each number of an image of three dimensions spread over a filter."""
    @staticmethod
    def cos(x: Any, name: str | None = None) -> Variable:
        """The cosine."""
    @staticmethod
    def cos_sim(X: Any, Y: Any) -> Variable:
        """The cosine of the angle between rows; `Y` may be one row for all."""
    @staticmethod
    def cosine_decay(learning_rate: Any, step_each_epoch: Any, epochs: Any) -> Variable:
        """`learning_rate * (cos(epoch * pi / epochs) + 1) / 2`."""
    @staticmethod
    def create_array(dtype: Any) -> Variable:
        """An empty list of tensors."""
    @staticmethod
    def create_global_var(
        shape: Any,
        value: Any,
        dtype: Any,
        persistable: bool = False,
        force_cpu: bool = False,
        name: str | None = None,
    ) -> Variable:
        """A variable of the outermost block that the startup program fills with one value."""
    @staticmethod
    def create_parameter(
        shape: Any,
        dtype: Any,
        name: str | None = None,
        attr: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Variable:
        """A parameter."""
    @staticmethod
    def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Variable:
        """A variable that an op will write."""
    @staticmethod
    def crf_decoding(
        input: Any,
        param_attr: Any,
        label: Variable = None,
        length: Any = None,
    ) -> Variable:
        """The best labels of each sequence; with `label`, where they are right."""
    @staticmethod
    def crop(x: Any, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
        """A box of `shape` (or of the size of a Variable) that begins at `offsets`, numbers or a Variable."""
    @staticmethod
    def crop_tensor(
        x: Any,
        shape: Any = None,
        offsets: Any = None,
        name: str | None = None,
    ) -> Variable:
        """A box of `shape` that begins at `offsets`; -1 is all that is behind an offset."""
    @staticmethod
    def cross(input: Any, other: Any, dim: Any = None) -> Variable:
        """The cross products of vectors along `dim`, or along the first dimension of size 3."""
    @staticmethod
    def cross_entropy(
        input: Any,
        label: Variable,
        soft_label: bool = False,
        ignore_index: int = -100,
    ) -> Variable:
        """`-log input[label]` per row of probabilities; a label `ignore_index` counts as 0."""
    @staticmethod
    def ctc_greedy_decoder(
        input: Any,
        blank: Any,
        input_length: Any = None,
        padding_value: int = 0,
        name: str | None = None,
    ) -> Variable:
        """The most likely tokens without blanks and repeats; with lengths also how many they are."""
    @staticmethod
    def cumsum(x: Any, axis: Any = None, exclusive: Any = None, reverse: Any = None) -> Variable:
        """Running sums along an axis, the last unless said."""
    @staticmethod
    def data(
        name: str,
        shape: Any,
        append_batch_size: bool = True,
        dtype: str = 'float32',
        lod_level: int = 0,
        type: Any = None,
        stop_gradient: bool = True,
    ) -> Variable:
        """Declares an input of the program."""
    @staticmethod
    def data_checked(name: str, shape: Any, dtype: str = 'float32', lod_level: int = 0) -> Variable:
        """Declares an input in its full shape, which what is fed is checked against."""
    @staticmethod
    def data_norm(
        input: Any,
        act: str | None = None,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        data_layout: str = 'NCHW',
        in_place: bool = False,
        name: str | None = None,
        moving_mean_name: Any = None,
        moving_variance_name: Any = None,
        do_model_average_for_mean_and_var: bool = True,
        slot_dim: int = -1,
        sync_stats: bool = False,
        summary_decay_rate: float = 0.9999999,
        enable_scale_and_shift: bool = False,
    ) -> Variable:
        """Each column normalised with sums over all data."""
    @staticmethod
    def diag(diagonal: Any) -> Variable:
        """A matrix of zeros with a list, a Variable or an array, on its diagonal."""
    @staticmethod
    def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
        """The last dimension on the diagonals, `offset` above the main one, of new matrices in `dim1` and `dim2`."""
    @staticmethod
    def dice_loss(
        input: Any,
        label: Variable,
        epsilon: float = 1e-05,
        name: str | None = None,
    ) -> Variable:
        """One minus twice the overlap of probabilities and labels, divided by the size of both."""
    @staticmethod
    def dist(x: Any, y: Any, p: int = 2) -> Variable:
        """The p-norm of x - y."""
    @staticmethod
    def dot(x: Any, y: Any, name: str | None = None) -> Variable:
        """The sum of the products along the last dimension."""
    @staticmethod
    def dropout(
        x: Any,
        dropout_prob: Any,
        is_test: bool = False,
        seed: Any = None,
        name: str | None = None,
        dropout_implementation: str = 'downgrade_in_infer',
    ) -> Variable:
        """Sets elements to 0 with a probability, in training."""
    @staticmethod
    def dynamic_gru(
        input: Any,
        size: Any,
        param_attr: Any = None,
        bias_attr: Any = None,
        is_reverse: bool = False,
        gate_activation: str = 'sigmoid',
        candidate_activation: str = 'tanh',
        h_0: Any = None,
        origin_mode: bool = False,
    ) -> Variable:
        """The states of a gated recurrent unit along each sequence; the input is 3 x `size` wide."""
    @staticmethod
    def dynamic_lstm(
        input: Any,
        size: Any,
        h_0: Any = None,
        c_0: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_peepholes: bool = True,
        is_reverse: bool = False,
        gate_activation: str = 'sigmoid',
        cell_activation: str = 'tanh',
        candidate_activation: str = 'tanh',
        dtype: str = 'float32',
        name: str | None = None,
    ) -> tuple[Variable, Variable]:
        """States and cells of a long short-term memory along each sequence; `size` is the input's width."""
    @staticmethod
    def dynamic_lstmp(
        input: Any,
        size: Any,
        proj_size: Any,
        param_attr: Any = None,
        bias_attr: Any = None,
        use_peepholes: bool = True,
        is_reverse: bool = False,
        gate_activation: str = 'sigmoid',
        cell_activation: str = 'tanh',
        candidate_activation: str = 'tanh',
        proj_activation: str = 'tanh',
        dtype: str = 'float32',
        name: str | None = None,
        h_0: Any = None,
        c_0: Any = None,
        cell_clip: Any = None,
        proj_clip: Any = None,
    ) -> Variable:
        """Projections and cells of a long short-term memory along each sequence; `size` is the input's width."""
    @staticmethod
    def edit_distance(
        input: Any,
        label: Variable,
        normalized: bool = True,
        ignored_tokens: Any = None,
        input_length: Any = None,
        label_length: Any = None,
    ) -> Variable:
        """How many edits turn each sequence into its reference, and how many sequences there are."""
    @staticmethod
    def elementwise_add(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act(x + y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end."""
    @staticmethod
    def elementwise_div(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act(x / y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end."""
    @staticmethod
    def elementwise_equal(x: Any, y: Any, name: str | None = None) -> Variable:
        """Where x == y."""
    @staticmethod
    def elementwise_floordiv(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act` of the integer quotient; the dimensions of `y` begin at `axis` of `x`."""
    @staticmethod
    def elementwise_max(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act` of the greater one; the dimensions of `y` begin at `axis` of `x`."""
    @staticmethod
    def elementwise_min(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act` of the smaller one; the dimensions of `y` begin at `axis` of `x`."""
    @staticmethod
    def elementwise_mod(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act` of the remainder; the dimensions of `y` begin at `axis` of `x`."""
    @staticmethod
    def elementwise_mul(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act(x * y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end."""
    @staticmethod
    def elementwise_pow(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act` of x to the power of y; the dimensions of `y` begin at `axis` of `x`."""
    @staticmethod
    def elementwise_sub(
        x: Any,
        y: Any,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act(x - y)`; the dimensions of `y` begin at `axis` of `x`, by default at the right end."""
    @staticmethod
    def elu(x: Any, alpha: float = 1.0, name: str | None = None) -> Variable:
        """x above 0, else alpha (e^x - 1)."""
    @staticmethod
    def embedding(
        input: Any,
        size: Any,
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: Any = None,
        param_attr: Any = None,
        dtype: str = 'float32',
    ) -> Variable:
        """Rows of a table of `size` (rows, width) for ids that end in a dimension of 1."""
    @staticmethod
    def embedding_v2(
        input: Any,
        size: Any,
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: Any = None,
        param_attr: Any = None,
        dtype: str = 'float32',
    ) -> Variable:
        """Rows of a table of `size` (rows, width) for ids of any shape."""
    @staticmethod
    def equal(x: Any, y: Any, cond: Any = None) -> Variable:
        """Where x == y; written into `cond` if it is given."""
    @staticmethod
    def erf(x: Any) -> Variable:
        """The error function."""
    @staticmethod
    def exp(x: Any, name: str | None = None) -> Variable:
        """e to the power of x."""
    @staticmethod
    def expand(x: Any, expand_times: Any, name: str | None = None) -> Variable:
        """The input repeated along each dimension."""
    @staticmethod
    def expand_as(x: Any, target_tensor: Any, name: str | None = None) -> Variable:
        """The input repeated until it has the target's shape."""
    @staticmethod
    def exponential_decay(
        learning_rate: Any,
        decay_steps: Any,
        decay_rate: Any,
        staircase: bool = False,
    ) -> Variable:
        """`learning_rate * decay_rate ^ (step / decay_steps)`."""
    @staticmethod
    def eye(
        num_rows: Any,
        num_columns: Any = None,
        batch_shape: Any = None,
        dtype: str = 'float32',
    ) -> Variable:
        """Ones on the diagonal of a matrix of zeros; a `batch_shape` of such matrices."""
    @staticmethod
    def fc(
        input: Any,
        size: Any,
        num_flatten_dims: int = 1,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        is_test: bool = False,
        name: str | None = None,
    ) -> Variable:
        """A fully connected layer: `act(input x weight + bias)`, `size` columns wide."""
    @staticmethod
    def fill_constant(
        shape: Any,
        dtype: Any,
        value: Any,
        force_cpu: bool = False,
        out: Any = None,
    ) -> Variable:
        """One value in a shape."""
    @staticmethod
    def fill_constant_batch_size_like(
        input: Any,
        shape: Any,
        dtype: Any,
        value: Any,
        input_dim_idx: int = 0,
        output_dim_idx: int = 0,
        force_cpu: bool = False,
    ) -> Variable:
        """One value in a shape, one size of which is another variable's."""
    @staticmethod
    def filter_by_instag(
        ins: Any,
        ins_tag: Any,
        filter_tag: Any,
        is_lod: Any,
        out_val_if_empty: int = 0,
    ) -> Variable:
        """The rows that have one of the wanted tags, and a weight of 1 for each (0 if there is none)."""
    @staticmethod
    def flatten(x: Any, axis: int = 1, name: str | None = None) -> Variable:
        """A matrix whose rows are the first `axis` dimensions."""
    @staticmethod
    def flip(input: Any, dims: Any, name: str | None = None) -> Variable:
        """The order turned around along each of `dims`."""
    @staticmethod
    def floor(x: Any, name: str | None = None) -> Variable:
        """The next whole number below."""
    @staticmethod
    def fsp_matrix(x: Any, y: Any) -> Variable:
        """The products of the channels of both inputs, averaged over their places."""
    @staticmethod
    def full(
        shape: Any,
        fill_value: Any,
        out: Any = None,
        dtype: Any = None,
        device: Any = None,
        stop_gradient: bool = True,
        name: str | None = None,
    ) -> Variable:
        """One value in a shape, float32 unless said."""
    @staticmethod
    def full_like(
        input: Any,
        fill_value: Any,
        out: Any = None,
        dtype: Any = None,
        device: Any = None,
        stop_gradient: bool = True,
        name: str | None = None,
    ) -> Variable:
        """One value in the shape of another variable, of its type unless said."""
    @staticmethod
    def fused_elemwise_activation(
        x: Any,
        y: Any,
        functor_list: Any,
        axis: Any = ...,
        scale: float = 0.0,
        save_intermediate_out: bool = True,
    ) -> Variable:
        """A function of one number and one of two, composed in the order of the list."""
    @staticmethod
    def fused_embedding_seq_pool(
        input: Any,
        size: Any,
        is_sparse: bool = False,
        padding_idx: Any = None,
        combiner: str = 'sum',
        param_attr: Any = None,
        dtype: str = 'float32',
    ) -> Variable:
        """The sums of the rows that each sequence of ids names."""
    @staticmethod
    def gather(input: Any, index: Any, overwrite: bool = True) -> Variable:
        """The rows of the input that `index` names; nothing reads `overwrite`."""
    @staticmethod
    def gather_nd(input: Any, index: Any, name: str | None = None) -> Variable:
        """What lies at the places that the last dimension of `index` names."""
    @staticmethod
    def gather_tree(ids: Any, parents: Any) -> Variable:
        """The sequences of a beam search, followed back along parents."""
    @staticmethod
    def gaussian_random(
        shape: Any,
        mean: float = 0.0,
        std: float = 1.0,
        seed: int = 0,
        dtype: str = 'float32',
    ) -> Variable:
        """Normal numbers."""
    @staticmethod
    def gaussian_random_batch_size_like(
        input: Any,
        shape: Any,
        input_dim_idx: int = 0,
        output_dim_idx: int = 0,
        mean: float = 0.0,
        std: float = 1.0,
        seed: int = 0,
        dtype: str = 'float32',
    ) -> Variable:
        """Normal numbers in a shape one size of which is another variable's."""
    @staticmethod
    def gelu(x: Any, approximate: bool = False) -> Variable:
        """x times the chance that a normal variable stays below x, or its approximation by tanh."""
    @staticmethod
    def get_places(device_count: Any = None, device_type: Any = None) -> Variable:
        """The processors of a run."""
    @staticmethod
    def get_tensor_from_selected_rows(x: Any, name: str | None = None) -> Variable:
        """The values of keyed rows, one row per id."""
    @staticmethod
    def greater_equal(x: Any, y: Any, cond: Any = None) -> Variable:
        """Where x >= y; written into `cond` if it is given."""
    @staticmethod
    def greater_than(x: Any, y: Any, cond: Any = None) -> Variable:
        """Where x > y; written into `cond` if it is given."""
    @staticmethod
    def grid_sampler(x: Any, grid: Any, name: str | None = None) -> Variable:
        """Images at the points of a grid, between four neighbours."""
    @staticmethod
    def group_norm(
        input: Any,
        groups: Any,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        data_layout: str = 'NCHW',
        name: str | None = None,
    ) -> Variable:
        """Each of `groups` groups of channels of an image with mean 0 and variance 1; scaled and shifted if `param_attr` and `bias_attr` are given."""
    @staticmethod
    def gru_unit(
        input: Any,
        hidden: Any,
        size: Any,
        param_attr: Any = None,
        bias_attr: Any = None,
        activation: str = 'tanh',
        gate_activation: str = 'sigmoid',
        origin_mode: bool = False,
    ) -> tuple[Variable, Variable, Variable]:
        """One step of a gated recurrent unit: (hidden, reset hidden, gate)."""
    @staticmethod
    def hard_shrink(x: Any, threshold: Any = None) -> Variable:
        """x where |x| > threshold (0.5 if None), else 0."""
    @staticmethod
    def hard_sigmoid(
        x: Any,
        slope: float = 0.2,
        offset: float = 0.5,
        name: str | None = None,
    ) -> Variable:
        """slope x + offset, between 0 and 1."""
    @staticmethod
    def hard_swish(
        x: Any,
        threshold: float = 6.0,
        scale: float = 6.0,
        offset: float = 3.0,
        name: str | None = None,
    ) -> Variable:
        """x min(max(x + offset, 0), threshold) / scale."""
    @staticmethod
    def has_inf(x: Any) -> Variable:
        """Whether some element is infinite, shape [1]."""
    @staticmethod
    def has_nan(x: Any) -> Variable:
        """Whether some element is not a number, shape [1]."""
    @staticmethod
    def hash(input: Any, hash_size: Any, num_hash: int = 1, name: str | None = None) -> Variable:
        """`num_hash` hashes below `hash_size` of each row of ids."""
    @staticmethod
    def hsigmoid(
        input: Any,
        label: Variable,
        num_classes: Any,
        param_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
        path_table: Any = None,
        path_code: Any = None,
        is_custom: bool = False,
        is_sparse: bool = False,
    ) -> Variable:
        """The cost of the labelled class along its path in a tree of classes."""
    @staticmethod
    def huber_loss(input: Any, label: Variable, delta: Any) -> Variable:
        """Squares near errors and takes far ones (beyond `delta`) as they are."""
    @staticmethod
    def im2sequence(
        input: Any,
        filter_size: int = 1,
        stride: int = 1,
        padding: int = 0,
        input_image_size: Any = None,
        out_stride: int = 1,
        name: str | None = None,
    ) -> Variable:
        """The windows of each image as a sequence of rows."""
    @staticmethod
    def image_resize(
        input: Any,
        out_shape: Any = None,
        scale: Any = None,
        name: str | None = None,
        resample: str = 'BILINEAR',
        actual_shape: Any = None,
        align_corners: bool = True,
        align_mode: int = 1,
        data_format: str = 'NCHW',
    ) -> Variable:
        """Images in another size: `out_shape` (numbers, Variables, or one Variable for all), else `scale`."""
    @staticmethod
    def image_resize_short(input: Any, out_short_len: Any, resample: str = 'BILINEAR') -> Variable:
        """Images whose shorter side has this length, and the longer one as many times it as before."""
    @staticmethod
    def increment(x: Any, value: float = 1.0, in_place: bool = True) -> Variable:
        """`x + value` for a counter `x` of one element, by default in its own place."""
    @staticmethod
    def index_sample(x: Any, index: Any) -> Variable:
        """Of each row the numbers at the columns that the same row of `index` names."""
    @staticmethod
    def index_select(input: Any, index: Any, dim: int = 0) -> Variable:
        """The parts of the input along `dim` that `index` names."""
    @staticmethod
    def instance_norm(
        input: Any,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> Variable:
        """Each channel of each image with mean 0 and variance 1, then scaled and shifted."""
    @staticmethod
    def interpolate(
        input: Any,
        out_shape: Any = None,
        scale: Any = None,
        name: str | None = None,
        resample: str = 'BILINEAR',
        actual_shape: Any = None,
        align_corners: bool = True,
        align_mode: int = 1,
        data_format: str = 'NCHW',
    ) -> Variable:
        """Images in another size: `out_shape` (numbers, Variables, or one Variable for all), else `scale`."""
    @staticmethod
    def inverse_time_decay(
        learning_rate: Any,
        decay_steps: Any,
        decay_rate: Any,
        staircase: bool = False,
    ) -> Variable:
        """`learning_rate / (1 + decay_rate * step / decay_steps)`."""
    @staticmethod
    def is_empty(x: Any, cond: Any = None) -> Variable:
        """Whether a variable has no elements, in `cond` if it is given."""
    @staticmethod
    def isfinite(x: Any) -> Variable:
        """Whether every element is a finite number, shape [1]."""
    @staticmethod
    def kldiv_loss(
        x: Any,
        target: Any,
        reduction: str = 'mean',
        name: str | None = None,
    ) -> Variable:
        """The Kullback-Leibler divergence; `reduction` is none, batchmean, mean or sum."""
    @staticmethod
    def kron(x: Any, y: Any, out: Any = None, name: str | None = None) -> Variable:
        """The Kronecker product; written into `out` if it is given."""
    @staticmethod
    def l2_normalize(
        x: Any,
        axis: Any,
        epsilon: float = 1e-12,
        name: str | None = None,
    ) -> Variable:
        """Each vector along an axis (1 if None) with length 1."""
    @staticmethod
    def label_smooth(
        label: Variable,
        prior_dist: Any = None,
        epsilon: float = 0.1,
        dtype: str = 'float32',
        name: str | None = None,
    ) -> Variable:
        """One-hot labels moved towards a prior."""
    @staticmethod
    def layer_norm(
        input: Any,
        scale: bool = True,
        shift: bool = True,
        begin_norm_axis: int = 1,
        epsilon: float = 1e-05,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """Each example with mean 0 and variance 1 from `begin_norm_axis` on, then scaled and shifted."""
    @staticmethod
    def leaky_relu(x: Any, alpha: float = 0.02, name: str | None = None) -> Variable:
        """max(x, alpha x)."""
    @staticmethod
    def less_equal(x: Any, y: Any, cond: Any = None) -> Variable:
        """Where x <= y; written into `cond` if it is given."""
    @staticmethod
    def less_than(x: Any, y: Any, force_cpu: Any = None, cond: Any = None) -> Variable:
        """Where x < y; written into `cond` if it is given."""
    @staticmethod
    def linear_chain_crf(
        input: Any,
        label: Variable,
        param_attr: Any = None,
        length: Any = None,
    ) -> Variable:
        """The negative log-likelihood of each sequence of labels under a chain of transitions."""
    @staticmethod
    def linear_lr_warmup(
        learning_rate: Any,
        warmup_steps: Any,
        start_lr: Any,
        end_lr: Any,
    ) -> Variable:
        """From `start_lr` in a line towards `end_lr` for `warmup_steps`, then `learning_rate`."""
    @staticmethod
    def linspace(start: Any, stop: Any, num: Any, dtype: Any) -> Variable:
        """`num` numbers at equal distances, from `start` to `stop`."""
    @staticmethod
    def lod_append(x: Any, level: Any) -> Variable:
        """`x` with a further, innermost level of sequences."""
    @staticmethod
    def lod_rank_table(x: Any, level: int = 0) -> Variable:
        """The sequences of a variable at a level, the longest first."""
    @staticmethod
    def lod_reset(x: Any, y: Any = None, target_lod: Any = None) -> Variable:
        """`x` with the sequences of `y`, or those that the offsets `target_lod` make."""
    @staticmethod
    def lod_tensor_to_array(x: Any, table: Any) -> Variable:
        """Sequences as a list of their steps, in the order of a table of `lod_rank_table`."""
    @staticmethod
    def log(x: Any, name: str | None = None) -> Variable:
        """The natural logarithm."""
    @staticmethod
    def log1p(x: Any, out: Any = None, name: str | None = None) -> Variable:
        """log(1 + x), written into `out` if it is given."""
    @staticmethod
    def log_loss(
        input: Any,
        label: Variable,
        epsilon: float = 0.0001,
        name: str | None = None,
    ) -> Variable:
        """The negative log likelihood of probabilities; `epsilon` keeps the logs finite."""
    @staticmethod
    def log_softmax(
        input: Any,
        axis: Any = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> Variable:
        """The logarithm of softmax along an axis (the last if None), computed in `dtype` if it is given."""
    @staticmethod
    def logical_and(x: Any, y: Any, out: Any = None, name: str | None = None) -> Variable:
        """Where both hold; written into `out` if it is given."""
    @staticmethod
    def logical_not(x: Any, out: Any = None, name: str | None = None) -> Variable:
        """Where x does not hold; written into `out` if it is given."""
    @staticmethod
    def logical_or(x: Any, y: Any, out: Any = None, name: str | None = None) -> Variable:
        """Where either holds, or both; written into `out` if it is given."""
    @staticmethod
    def logical_xor(x: Any, y: Any, out: Any = None, name: str | None = None) -> Variable:
        """Where exactly one holds; written into `out` if it is given."""
    @staticmethod
    def logsigmoid(x: Any, name: str | None = None) -> Variable:
        """log(1 / (1 + e^-x))."""
    @staticmethod
    def logsumexp(
        x: Any,
        dim: Any = None,
        keepdim: bool = False,
        out: Any = None,
        name: str | None = None,
    ) -> Variable:
        """The logarithm of the sum of e^x along `dim` (a number, a list, or None for all dimensions); written into `out` if it is given."""
    @staticmethod
    def lrn(
        input: Any,
        n: int = 5,
        k: float = 1.0,
        alpha: float = 0.0001,
        beta: float = 0.75,
        name: str | None = None,
        data_format: str = 'NCHW',
    ) -> Variable:
        """Each number divided by a power of the squares of neighbouring channels."""
    @staticmethod
    def lstm_unit(
        x_t: Any,
        hidden_t_prev: Any,
        cell_t_prev: Any,
        forget_bias: float = 0.0,
        param_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> tuple[Variable, Variable]:
        """One step of a long short-term memory: the new (hidden, cell)."""
    @staticmethod
    def margin_rank_loss(
        label: Variable,
        left: Any,
        right: Any,
        margin: float = 0.1,
        name: str | None = None,
    ) -> Variable:
        """What two scores lack to differ by a margin; the label (1 or -1) says in which direction."""
    @staticmethod
    def match_matrix_tensor(
        x: Any,
        y: Any,
        channel_num: Any,
        act: str | None = None,
        param_attr: Any = None,
        dtype: str = 'float32',
        name: str | None = None,
    ) -> Variable:
        """Each row of a sequence times weights times each row of another: (result, rows times weights)."""
    @staticmethod
    def matmul(
        x: Any,
        y: Any,
        transpose_x: bool = False,
        transpose_y: bool = False,
        alpha: float = 1.0,
        name: str | None = None,
    ) -> Variable:
        """The product of matrices, batch by batch, times `alpha`."""
    @staticmethod
    def max_sequence_len(rank_table: Any) -> Variable:
        """The length of the longest sequence in a table of `lod_rank_table`."""
    @staticmethod
    def maxout(x: Any, groups: Any, name: str | None = None, axis: int = 1) -> Variable:
        """The largest of each `groups` channels that lie together; channels are dimension 1, or 3 (or -1)."""
    @staticmethod
    def mean(x: Any, name: str | None = None) -> Variable:
        """The average of all elements, shape [1]."""
    @staticmethod
    def mean_iou(input: Any, label: Variable, num_classes: Any) -> Variable:
        """The mean over classes of intersection over union, and the counts of wrong and correct places."""
    @staticmethod
    def merge_lod_tensor(
        in_true: Any,
        in_false: Any,
        x: Any,
        mask: Any,
        level: int = 0,
    ) -> Variable:
        """Rows (or sequences) put together again, in the order of a mask."""
    @staticmethod
    def merge_selected_rows(x: Any, name: str | None = None) -> Variable:
        """Rows of equal ids added up."""
    @staticmethod
    def meshgrid(input: Any, name: str | None = None) -> Variable:
        """Of each list its numbers along a dimension of its own in a grid of all lists."""
    @staticmethod
    def mish(x: Any, threshold: int = 20, name: str | None = None) -> Variable:
        """x tanh(log(1 + e^x)); beyond `threshold` the logarithm is approximated."""
    @staticmethod
    def mse_loss(input: Any, label: Variable) -> Variable:
        """The mean of the squared errors, shape [1]."""
    @staticmethod
    def mul(
        x: Any,
        y: Any,
        x_num_col_dims: int = 1,
        y_num_col_dims: int = 1,
        name: str | None = None,
    ) -> Variable:
        """The product of tensors flattened to matrices at `x_num_col_dims` and `y_num_col_dims`."""
    @staticmethod
    def multiplex(inputs: Any, index: Any) -> Variable:
        """Row i of the result is row i of the input that `index[i]` names."""
    @staticmethod
    def natural_exp_decay(
        learning_rate: Any,
        decay_steps: Any,
        decay_rate: Any,
        staircase: bool = False,
    ) -> Variable:
        """`learning_rate * exp(-decay_rate * step / decay_steps)`."""
    @staticmethod
    def nce(
        input: Any,
        label: Variable,
        num_total_classes: Any,
        sample_weight: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        num_neg_samples: Any = None,
        name: str | None = None,
        sampler: str = 'uniform',
        custom_dist: Any = None,
        seed: int = 0,
        is_sparse: bool = False,
    ) -> Variable:
        """The cost of noise-contrastive estimation: labels against classes that are drawn."""
    @staticmethod
    def noam_decay(d_model: Any, warmup_steps: Any, learning_rate: float = 1.0) -> Variable:
        """`learning_rate * d_model ^ -0.5 * min(step ^ -0.5, step * warmup_steps ^ -1.5)`."""
    @staticmethod
    def nonzero(input: Any, as_tuple: bool = False) -> Variable:
        """Where the input is true or not 0: a row of places each, or with `as_tuple` a column for each dimension."""
    @staticmethod
    def not_equal(x: Any, y: Any, cond: Any = None) -> Variable:
        """Where x != y; written into `cond` if it is given."""
    @staticmethod
    def npair_loss(anchor: Any, positive: Any, labels: Any, l2_reg: float = 0.002) -> Variable:
        """The loss of pairs of rows, anchor and positive: rows of other labels are negatives."""
    @staticmethod
    def one_hot(input: Any, depth: Any, allow_out_of_range: bool = False) -> Variable:
        """Rows with a 1 at the place the input names; the input ends in a dimension of 1."""
    @staticmethod
    def one_hot_v2(input: Any, depth: Any, allow_out_of_range: bool = False) -> Variable:
        """Rows with a 1 at the place the input names, for an input of any shape."""
    @staticmethod
    def ones(shape: Any, dtype: Any, force_cpu: bool = False) -> Variable:
        """Ones in a shape."""
    @staticmethod
    def ones_like(x: Any, out: Any = None) -> Variable:
        """Ones like another variable."""
    @staticmethod
    def pad(x: Any, paddings: Any, pad_value: float = 0.0, name: str | None = None) -> Variable:
        """The input with a value around it: `paddings` before and after each dimension."""
    @staticmethod
    def pad2d(
        input: Any,
        paddings: Any = [0, 0, 0, 0],
        mode: str = 'constant',
        pad_value: float = 0.0,
        data_format: str = 'NCHW',
        name: str | None = None,
    ) -> Variable:
        """Images with something around them: `paddings` above, below, left and right, numbers or a Variable; `mode` is constant (`pad_value`), reflect or edge."""
    @staticmethod
    def pad_constant_like(
        x: Any,
        y: Any,
        pad_value: float = 0.0,
        name: str | None = None,
    ) -> Variable:
        """`y` in the shape of `x`, with `pad_value` behind it."""
    @staticmethod
    def partial_concat(input: Any, start_index: int = 0, length: int = -1) -> Variable:
        """The columns from `start_index` on of each input, `length` of them (-1: all), side by side."""
    @staticmethod
    def partial_sum(input: Any, start_index: int = 0, length: int = -1) -> Variable:
        """The sum over the inputs of the columns from `start_index` on, `length` of them (-1: all)."""
    @staticmethod
    def piecewise_decay(boundaries: Any, values: Any) -> Variable:
        """The first of `values` whose boundary lies beyond the step, else the last."""
    @staticmethod
    def pixel_shuffle(x: Any, upscale_factor: Any) -> Variable:
        """Channels become blocks of pixels."""
    @staticmethod
    def polynomial_decay(
        learning_rate: Any,
        decay_steps: Any,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
    ) -> Variable:
        """`(learning_rate - end) * (1 - step / decay_steps) ^ power + end`."""
    @staticmethod
    def pool2d(
        input: Any,
        pool_size: int = -1,
        pool_type: str = 'max',
        pool_stride: int = 1,
        pool_padding: int = 0,
        global_pooling: bool = False,
        use_cudnn: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
        exclusive: bool = True,
        data_format: str = 'NCHW',
    ) -> Variable:
        """The largest or average pixel of a sliding window, or of the whole image (`global_pooling`)."""
    @staticmethod
    def pool3d(
        input: Any,
        pool_size: int = -1,
        pool_type: str = 'max',
        pool_stride: int = 1,
        pool_padding: int = 0,
        global_pooling: bool = False,
        use_cudnn: bool = True,
        ceil_mode: bool = False,
        name: str | None = None,
        exclusive: bool = True,
        data_format: str = 'NCDHW',
    ) -> Variable:
        """The largest or average number of a sliding box, or of the whole image (`global_pooling`)."""
    @staticmethod
    def pow(x: Any, factor: float = 1.0, name: str | None = None) -> Variable:
        """x to the power of `factor`, a number or a Variable."""
    @staticmethod
    def prelu(x: Any, mode: Any, param_attr: Any = None, name: str | None = None) -> Variable:
        """x above 0, else x times a learned number: one for all, one per channel, or one per element."""
    @staticmethod
    def randint(
        low: Any,
        high: Any = None,
        shape: Any = None,
        out: Any = None,
        dtype: Any = None,
        device: Any = None,
        stop_gradient: bool = False,
        seed: int = 0,
        name: str | None = None,
    ) -> Variable:
        """Integers in [low, high), or in [0, low) where `high` is None."""
    @staticmethod
    def randn(
        shape: Any,
        out: Any = None,
        dtype: Any = None,
        device: Any = None,
        stop_gradient: bool = True,
        name: str | None = None,
    ) -> Variable:
        """Normal numbers of mean 0 and deviation 1."""
    @staticmethod
    def random_crop(x: Any, shape: Any, seed: Any = None) -> Variable:
        """Of each instance a part of this shape, at a random place of its own."""
    @staticmethod
    def randperm(
        n: Any,
        out: Any = None,
        dtype: str = 'int64',
        device: Any = None,
        stop_gradient: bool = True,
        seed: int = 0,
    ) -> Variable:
        """0, 1, … n - 1 in a random order."""
    @staticmethod
    def range(start: Any, end: Any, step: Any, dtype: Any) -> Variable:
        """start, start + step, … before end."""
    @staticmethod
    def rank(input: Any) -> Variable:
        """How many dimensions a variable has, int32, shape [1]; Fluid's has no dimension, which tensors here must have."""
    @staticmethod
    def rank_loss(label: Variable, left: Any, right: Any, name: str | None = None) -> Variable:
        """RankNet's loss of two scores; the label says whether the left one should win."""
    @staticmethod
    def reciprocal(x: Any, name: str | None = None) -> Variable:
        """1 / x."""
    @staticmethod
    def reduce_all(
        input: Any,
        dim: Any = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Variable:
        """Whether all are true, along `dim` (a number, a list, or None for all dimensions)."""
    @staticmethod
    def reduce_any(
        input: Any,
        dim: Any = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Variable:
        """Whether any is true, along `dim` (a number, a list, or None for all dimensions)."""
    @staticmethod
    def reduce_max(
        input: Any,
        dim: Any = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Variable:
        """The greatest along `dim` (a number, a list, or None for all dimensions)."""
    @staticmethod
    def reduce_mean(
        input: Any,
        dim: Any = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Variable:
        """The average along `dim` (a number, a list, or None for all dimensions)."""
    @staticmethod
    def reduce_min(
        input: Any,
        dim: Any = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Variable:
        """The smallest along `dim` (a number, a list, or None for all dimensions)."""
    @staticmethod
    def reduce_prod(
        input: Any,
        dim: Any = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Variable:
        """The product along `dim` (a number, a list, or None for all dimensions)."""
    @staticmethod
    def reduce_sum(
        input: Any,
        dim: Any = None,
        keep_dim: bool = False,
        name: str | None = None,
    ) -> Variable:
        """The sum along `dim` (a number, a list, or None for all dimensions)."""
    @staticmethod
    def relu(x: Any, name: str | None = None) -> Variable:
        """max(x, 0)."""
    @staticmethod
    def relu6(x: Any, threshold: float = 6.0, name: str | None = None) -> Variable:
        """x, but not below 0 and not above `threshold`."""
    @staticmethod
    def reorder_lod_tensor_by_rank(x: Any, rank_table: Any) -> Variable:
        """Sequences (or rows) in the order of a table of `lod_rank_table`."""
    @staticmethod
    def reshape(
        x: Any,
        shape: Any,
        actual_shape: Any = None,
        act: str | None = None,
        inplace: bool = False,
        name: str | None = None,
    ) -> Variable:
        """The same numbers in another shape: 0 copies a size, one -1 stands for what is left over."""
    @staticmethod
    def resize_bilinear(
        input: Any,
        out_shape: Any = None,
        scale: Any = None,
        name: str | None = None,
        actual_shape: Any = None,
        align_corners: bool = True,
        align_mode: int = 1,
        data_format: str = 'NCHW',
    ) -> Variable:
        """Images of 2 dimensions in another size, between four neighbours."""
    @staticmethod
    def resize_nearest(
        input: Any,
        out_shape: Any = None,
        scale: Any = None,
        name: str | None = None,
        actual_shape: Any = None,
        align_corners: bool = True,
        data_format: str = 'NCHW',
    ) -> Variable:
        """Images of 2 dimensions in another size, each pixel that of the nearest."""
    @staticmethod
    def resize_trilinear(
        input: Any,
        out_shape: Any = None,
        scale: Any = None,
        name: str | None = None,
        actual_shape: Any = None,
        align_corners: bool = True,
        align_mode: int = 1,
        data_format: str = 'NCDHW',
    ) -> Variable:
        """Images of 3 dimensions in another size, between eight neighbours."""
    @staticmethod
    def reverse(x: Any, axis: Any) -> Variable:
        """The order turned around along one axis or several."""
    @staticmethod
    def roll(input: Any, shifts: Any, dims: Any = None) -> Variable:
        """Moved by `shifts` along `dims`, or along all numbers in a row where `dims` is None; numbers that leave at one end come in at the other."""
    @staticmethod
    def round(x: Any, name: str | None = None) -> Variable:
        """The nearest whole number, halves away from zero."""
    @staticmethod
    def row_conv(
        input: Any,
        future_context_size: Any,
        param_attr: Any = None,
        act: str | None = None,
    ) -> Variable:
        """Each step with what follows within `future_context_size` steps, weighted."""
    @staticmethod
    def rsqrt(x: Any, name: str | None = None) -> Variable:
        """1 / sqrt(x)."""
    @staticmethod
    def sampled_softmax_with_cross_entropy(
        logits: Any,
        label: Variable,
        num_samples: Any,
        num_true: int = 1,
        remove_accidental_hits: bool = True,
        use_customized_samples: bool = False,
        customized_samples: Any = None,
        customized_probabilities: Any = None,
        seed: int = 0,
    ) -> Variable:
        """The cross entropy of the softmax over the labels and `num_samples` drawn classes."""
    @staticmethod
    def sampling_id(
        x: Any,
        min: float = 0.0,
        max: float = 1.0,
        seed: int = 0,
        dtype: str = 'float32',
    ) -> Variable:
        """A place drawn for each row of probabilities."""
    @staticmethod
    def scale(
        x: Any,
        scale: float = 1.0,
        bias: float = 0.0,
        bias_after_scale: bool = True,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """`act(scale x + bias)`, or `act(scale (x + bias))`; `scale` is a number or a Variable."""
    @staticmethod
    def scatter(
        input: Any,
        index: Any,
        updates: Any,
        name: str | None = None,
        overwrite: bool = True,
    ) -> Variable:
        """The input with the rows at `index` replaced, or with all of `updates` added there."""
    @staticmethod
    def scatter_nd(index: Any, updates: Any, shape: Any, name: str | None = None) -> Variable:
        """`updates` added up at the places that the last dimension of `index` names, zeros elsewhere."""
    @staticmethod
    def scatter_nd_add(ref: Any, index: Any, updates: Any, name: str | None = None) -> Variable:
        """`ref` with `updates` added at the places that the last dimension of `index` names."""
    @staticmethod
    def search_pyramid_hash(
        input: Any,
        num_emb: Any,
        space_len: Any,
        pyramid_layer: Any,
        rand_len: Any,
        drop_out_percent: Any,
        is_training: Any,
        use_filter: Any,
        white_list_len: Any,
        black_list_len: Any,
        seed: Any,
        lr: Any,
        param_attr: Any = None,
        param_attr_wl: Any = None,
        param_attr_bl: Any = None,
        name: str | None = None,
        distribute_update_vars: Any = None,
        dtype: str = 'float32',
    ) -> Variable:
        """A row for each run of tokens, made of stretches of weights that its hash finds."""
    @staticmethod
    def selu(x: Any, scale: Any = None, alpha: Any = None, name: str | None = None) -> Variable:
        """`scale` x above 0, else `scale` `alpha` (e^x - 1); the constants of the paper where they are None."""
    @staticmethod
    def sequence_concat(input: Any, name: str | None = None) -> Variable:
        """Joins the inputs sequence by sequence."""
    @staticmethod
    def sequence_conv(
        input: Any,
        num_filters: Any,
        filter_size: int = 3,
        filter_stride: int = 1,
        padding: bool = True,
        padding_start: Any = None,
        bias_attr: Any = None,
        param_attr: Any = None,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        """Windows of steps times a filter: `num_filters` numbers per step."""
    @staticmethod
    def sequence_enumerate(
        input: Any,
        win_size: Any,
        pad_value: int = 0,
        name: str | None = None,
    ) -> Variable:
        """Windows of `win_size` ids, `pad_value` beyond the end of a sequence."""
    @staticmethod
    def sequence_expand(x: Any, y: Any, ref_level: int = -1, name: str | None = None) -> Variable:
        """Sequences of `x` repeated as often as level `ref_level` of `y` says; -1 is the innermost."""
    @staticmethod
    def sequence_expand_as(x: Any, y: Any, name: str | None = None) -> Variable:
        """Row i of `x` repeated as often as sequence i of `y` is long."""
    @staticmethod
    def sequence_first_step(input: Any) -> Variable:
        """The first step of each sequence."""
    @staticmethod
    def sequence_last_step(input: Any) -> Variable:
        """The last step of each sequence."""
    @staticmethod
    def sequence_mask(
        x: Any,
        maxlen: Any = None,
        dtype: str = 'int64',
        name: str | None = None,
    ) -> Variable:
        """For each length in `x` a row of ones, then zeros."""
    @staticmethod
    def sequence_pad(
        x: Any,
        pad_value: Any,
        maxlen: Any = None,
        name: str | None = None,
    ) -> tuple[Variable, Variable]:
        """The sequences filled up to one length (`maxlen`, or the longest), and their own lengths."""
    @staticmethod
    def sequence_pool(
        input: Any,
        pool_type: Any,
        is_test: bool = False,
        pad_value: float = 0.0,
    ) -> Variable:
        """One row per sequence; `pool_type` is average, sum, sqrt, max, last or first."""
    @staticmethod
    def sequence_reshape(input: Any, new_dim: Any) -> Variable:
        """The numbers of each sequence in rows of another width."""
    @staticmethod
    def sequence_reverse(x: Any, name: str | None = None) -> Variable:
        """The steps of each sequence, last first."""
    @staticmethod
    def sequence_scatter(input: Any, index: Any, updates: Any, name: str | None = None) -> Variable:
        """Row i of the input with the updates of sequence i added at the columns of sequence i of `index`."""
    @staticmethod
    def sequence_slice(input: Any, offset: Any, length: Any, name: str | None = None) -> Variable:
        """`length[i]` steps of sequence i, from step `offset[i]` on."""
    @staticmethod
    def sequence_softmax(input: Any, use_cudnn: bool = False, name: str | None = None) -> Variable:
        """A softmax over the steps of each sequence."""
    @staticmethod
    def sequence_topk_avg_pooling(
        input: Any,
        row: Any,
        col: Any,
        topks: Any,
        channel_num: Any,
    ) -> Variable:
        """The averages of the largest numbers of each row of each sample's matrices."""
    @staticmethod
    def sequence_unpad(x: Any, length: Any, name: str | None = None) -> Variable:
        """The first `length[i]` steps of each row of `x`, as sequences."""
    @staticmethod
    def shape(input: Any) -> Variable:
        """The sizes of the input, int32."""
    @staticmethod
    def shard_index(
        input: Any,
        index_num: Any,
        nshards: Any,
        shard_id: Any,
        ignore_value: int = -1,
    ) -> Variable:
        """Ids of shard `shard_id` of `nshards` counted from its first one, `ignore_value` for the others."""
    @staticmethod
    def shrink_memory(x: Any, i: Any, table: Any) -> Variable:
        """The rows of a memory of sequences that have a step `i`, in the order of a table of `lod_rank_table`."""
    @staticmethod
    def shuffle_batch(x: Any, seed: Any = None) -> Variable:
        """The rows in a random order, another one each time."""
    @staticmethod
    def shuffle_channel(x: Any, group: Any, name: str | None = None) -> Variable:
        """Channels of `group` groups take turns."""
    @staticmethod
    def sigmoid(x: Any, name: str | None = None) -> Variable:
        """1 / (1 + e^-x)."""
    @staticmethod
    def sigmoid_cross_entropy_with_logits(
        x: Any,
        label: Variable,
        ignore_index: int = -100,
        name: str | None = None,
        normalize: bool = False,
    ) -> Variable:
        """The cross entropy of the sigmoid of each score; `normalize` divides by the labels that count."""
    @staticmethod
    def sign(x: Any) -> Variable:
        """-1, 0 or 1."""
    @staticmethod
    def similarity_focus(input: Any, axis: Any, indexes: Any, name: str | None = None) -> Variable:
        """1 where the largest numbers of a matrix are, no row and no column twice; 0 elsewhere."""
    @staticmethod
    def sin(x: Any, name: str | None = None) -> Variable:
        """The sine."""
    @staticmethod
    def size(input: Any) -> Variable:
        """How many numbers a variable has, int64."""
    @staticmethod
    def slice(input: Any, axes: Any, starts: Any, ends: Any) -> Variable:
        """A part of the input: from `starts` to before `ends` along `axes`."""
    @staticmethod
    def smooth_l1(
        x: Any,
        y: Any,
        inside_weight: Any = None,
        outside_weight: Any = None,
        sigma: Any = None,
    ) -> Variable:
        """The smooth L1 distance of each row, shape [n, 1]."""
    @staticmethod
    def soft_relu(x: Any, threshold: float = 40.0, name: str | None = None) -> Variable:
        """log(1 + e^x), with x between -threshold and threshold."""
    @staticmethod
    def softmax(
        input: Any,
        use_cudnn: bool = False,
        name: str | None = None,
        axis: int = -1,
    ) -> Variable:
        """Probabilities along an axis of scores."""
    @staticmethod
    def softmax_with_cross_entropy(
        logits: Any,
        label: Variable,
        soft_label: bool = False,
        ignore_index: int = -100,
        numeric_stable_mode: bool = True,
        return_softmax: bool = False,
        axis: int = -1,
    ) -> Any:
        """The cross entropy of the softmax of scores: the loss, or (loss, softmax) with `return_softmax`."""
    @staticmethod
    def softplus(x: Any, name: str | None = None) -> Variable:
        """log(1 + e^x)."""
    @staticmethod
    def softshrink(x: Any, alpha: Any = None) -> Variable:
        """x moved by alpha (0.5 if None) towards 0, but not beyond it."""
    @staticmethod
    def softsign(x: Any, name: str | None = None) -> Variable:
        """x / (1 + |x|)."""
    @staticmethod
    def space_to_depth(x: Any, blocksize: Any, name: str | None = None) -> Variable:
        """Blocks of pixels become channels."""
    @staticmethod
    def sparse_embedding(
        input: Any,
        size: Any,
        padding_idx: Any = None,
        is_test: bool = False,
        entry: Any = None,
        param_attr: Any = None,
        dtype: str = 'float32',
    ) -> Variable:
        """Rows of a table that servers make when they are first used, for ids that end in a dimension of 1."""
    @staticmethod
    def split(
        input: Any,
        num_or_sections: Any,
        dim: int = -1,
        name: str | None = None,
    ) -> list[Variable]:
        """Consecutive parts along a dimension: so many equal ones, or of the sizes in a list."""
    @staticmethod
    def split_lod_tensor(input: Any, mask: Any, level: int = 0) -> Variable:
        """The rows (or sequences) for which a mask holds, and the others."""
    @staticmethod
    def sqrt(x: Any, name: str | None = None) -> Variable:
        """The square root."""
    @staticmethod
    def square(x: Any, name: str | None = None) -> Variable:
        """The square, x * x."""
    @staticmethod
    def square_error_cost(input: Any, label: Variable) -> Variable:
        """The squared difference, place by place."""
    @staticmethod
    def squeeze(input: Any, axes: Any, name: str | None = None) -> Variable:
        """Without the dimensions of 1 at `axes`, all of them if `axes` is empty."""
    @staticmethod
    def stack(x: Any, axis: int = 0) -> Variable:
        """The inputs side by side along a new dimension."""
    @staticmethod
    def stanh(
        x: Any,
        scale_a: float = 0.67,
        scale_b: float = 1.7159,
        name: str | None = None,
    ) -> Variable:
        """scale_b tanh(scale_a x)."""
    @staticmethod
    def strided_slice(input: Any, axes: Any, starts: Any, ends: Any, strides: Any) -> Variable:
        """Every `strides`-th place from `starts` to before `ends` along `axes`."""
    @staticmethod
    def sum(x: Any) -> Variable:
        """The sum of the inputs."""
    @staticmethod
    def sums(input: Any, out: Any = None) -> Variable:
        """The sum of the inputs, in a variable of its own or in `out`."""
    @staticmethod
    def swish(x: Any, beta: float = 1.0, name: str | None = None) -> Variable:
        """x / (1 + e^(-beta x))."""
    @staticmethod
    def switch_case(
        branch_index: Any,
        branch_fns: Any,
        default: Any = None,
        name: str | None = None,
    ) -> Variable:
        """The result of the function of this number; `default`'s, or the last one's, if there is none."""
    @staticmethod
    def t(input: Any, name: str | None = None) -> Variable:
        """A matrix with rows and columns exchanged; a list stays as it is."""
    @staticmethod
    def tanh(x: Any, name: str | None = None) -> Variable:
        """The hyperbolic tangent."""
    @staticmethod
    def tanh_shrink(x: Any, name: str | None = None) -> Variable:
        """x - tanh(x)."""
    @staticmethod
    def tdm_child(
        x: Any,
        node_nums: Any,
        child_nums: Any,
        param_attr: Any = None,
        dtype: str = 'int32',
    ) -> tuple[Variable, Variable]:
        """The children of nodes of a tree, and a mask of those that are leaves."""
    @staticmethod
    def tdm_sampler(
        x: Any,
        neg_samples_num_list: Any,
        layer_node_num_list: Any,
        leaf_node_num: Any,
        tree_travel_attr: Any = None,
        tree_layer_attr: Any = None,
        output_positive: bool = True,
        output_list: bool = True,
        seed: int = 0,
        tree_dtype: str = 'int32',
        dtype: str = 'int32',
    ) -> Any:
        """Nodes of each layer of a tree with their labels and masks, as lists or side by side."""
    @staticmethod
    def teacher_student_sigmoid_loss(
        input: Any,
        label: Variable,
        soft_max_up_bound: float = 15.0,
        soft_max_lower_bound: float = -15.0,
    ) -> Variable:
        """The cross entropy of a click and of a teacher's value; labels are -2 or -1 without a value, z or 1 + z with value z."""
    @staticmethod
    def temporal_shift(
        x: Any,
        seg_num: Any,
        shift_ratio: float = 0.25,
        name: str | None = None,
    ) -> Variable:
        """Of `seg_num` images in a row, a share of the channels moves to the next image, and another to the one before."""
    @staticmethod
    def tensor_array_to_tensor(
        input: Any,
        axis: int = 1,
        name: str | None = None,
        use_stack: bool = False,
    ) -> tuple[Variable, Variable]:
        """The tensors of a list joined or stacked, and the size of each: (tensor, sizes)."""
    @staticmethod
    def thresholded_relu(x: Any, threshold: Any = None) -> Variable:
        """x above `threshold` (1.0 if None), else 0."""
    @staticmethod
    def topk(input: Any, k: Any, name: str | None = None) -> tuple[Variable, Variable]:
        """The `k` largest of each row and their places: (values, indices)."""
    @staticmethod
    def trace(
        input: Any,
        offset: int = 0,
        dim1: int = 0,
        dim2: int = 1,
        out: Any = None,
        name: str | None = None,
    ) -> Variable:
        """The sums of the diagonals, `offset` above the main one, of the matrices in `dim1` and `dim2`."""
    @staticmethod
    def transpose(x: Any, perm: Any, name: str | None = None) -> Variable:
        """The dimensions in another order."""
    @staticmethod
    def tree_conv(
        nodes_vector: Any,
        edge_set: Any,
        output_size: Any,
        num_filters: int = 1,
        max_depth: int = 2,
        act: str | None = 'tanh',
        param_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> Variable:
        """A convolution over the nodes of trees."""
    @staticmethod
    def tril(input: Any, diagonal: int = 0, name: str | None = None) -> Variable:
        """The lower triangle, up to the diagonal `diagonal` above the main one; zeros above it."""
    @staticmethod
    def triu(input: Any, diagonal: int = 0, name: str | None = None) -> Variable:
        """The upper triangle, from the diagonal `diagonal` above the main one on; zeros below it."""
    @staticmethod
    def unfold(
        x: Any,
        kernel_sizes: Any,
        strides: int = 1,
        paddings: int = 0,
        dilations: int = 1,
        name: str | None = None,
    ) -> Variable:
        """A column of numbers for each place of a sliding window."""
    @staticmethod
    def uniform_random(
        shape: Any,
        dtype: str = 'float32',
        min: float = -1.0,
        max: float = 1.0,
        seed: int = 0,
    ) -> Variable:
        """Numbers in [min, max)."""
    @staticmethod
    def uniform_random_batch_size_like(
        input: Any,
        shape: Any,
        dtype: str = 'float32',
        input_dim_idx: int = 0,
        output_dim_idx: int = 0,
        min: float = -1.0,
        max: float = 1.0,
        seed: int = 0,
    ) -> Variable:
        """Numbers in [min, max) in a shape one size of which is another variable's."""
    @staticmethod
    def unique(x: Any, dtype: str = 'int32') -> tuple[Variable, Variable]:
        """The different numbers in the order in which they first come, and where each number is among them."""
    @staticmethod
    def unique_with_counts(x: Any, dtype: str = 'int32') -> Variable:
        """The different numbers, where each number is among them, and how often each comes."""
    @staticmethod
    def unsqueeze(input: Any, axes: Any, name: str | None = None) -> Variable:
        """With dimensions of 1 put in at `axes`."""
    @staticmethod
    def unstack(x: Any, axis: int = 0, num: Any = None) -> list[Variable]:
        """The slices along an axis; `num` says how many if the size is not known."""
    @staticmethod
    def var_conv_2d(
        input: Any,
        row: Any,
        col: Any,
        input_channel: Any,
        output_channel: Any,
        filter_size: Any,
        stride: int = 1,
        param_attr: Any = None,
        act: str | None = None,
        dtype: str = 'float32',
        name: str | None = None,
    ) -> Variable:
        """A convolution of images of the sizes that the sequences of `row` and `col` have."""
    @staticmethod
    def warpctc(
        input: Any,
        label: Variable,
        blank: int = 0,
        norm_by_times: bool = False,
        input_length: Any = None,
        label_length: Any = None,
    ) -> Variable:
        """The loss of connectionist temporal classification of each sequence."""
    @staticmethod
    def where(condition: Any) -> Variable:
        """The places where the condition holds."""
    @staticmethod
    def while_loop(
        cond: Any,
        body: Any,
        loop_vars: Any,
        is_test: bool = False,
        name: str | None = None,
    ) -> Any:
        """Runs `body` on the variables while `cond` of them holds; returns them."""
    @staticmethod
    def zeros(shape: Any, dtype: Any, force_cpu: bool = False) -> Variable:
        """Zeros in a shape."""
    @staticmethod
    def zeros_like(x: Any, out: Any = None) -> Variable:
        """Zeros like another variable."""

def leave_cluster(in_order: Any) -> Any:
    """Python ends: writes the last numbers of this process, and tells servers and other trainers that this trainer goes, if it never said that its job is done."""

def make_operator(kind: Any, **given: Any) -> Any:
    """An operator from the variables at its ports and its attributes, all by name."""

def memory_optimize(program: Any, skip: Any) -> Any:
    """Marks variables that share no memory, if this is the time for it; returns those that share, by place."""

def memory_usage(program: Any, batch_size: Any) -> Any:
    """How much memory the results of a program take: at least, at most, and in what unit."""

class metrics:
    class Answers:
        """Right and wrong answers of a classifier."""
        def __init__(self) -> None: ...
        fn: Any
        fp: Any
        def precision(self) -> Any:
            """The share of what was called positive that is."""
        def recall(self) -> Any:
            """The share of the positives that was found."""
        def reset(self) -> Any:
            """Starts to count anew."""
        tp: Any
        def update(self, preds: Any, labels: Any) -> Any:
            """Counts a batch of predictions."""
    class Auc:
        """The area under the ROC curve."""
        def __init__(self, num_thresholds: Any) -> None: ...
        def area(self) -> Any:
            """The area so far."""
        def reset(self) -> Any:
            """Starts to count anew."""
        stat_neg: Any
        stat_pos: Any
        def update(self, preds: Any, labels: Any) -> Any:
            """Counts a batch: a row of probabilities per example, of which column 1 is the positive's."""
    class Chunks:
        """Counts of chunks."""
        def __init__(self) -> None: ...
        def counts(self) -> Any:
            """Inferred, labelled and correct chunks so far."""
        def reset(self) -> Any:
            """Starts to count anew."""
        def scores(self) -> Any:
            """Precision, recall and their harmonic mean."""
        def update(
            self,
            num_infer_chunks: Any,
            num_label_chunks: Any,
            num_correct_chunks: Any,
        ) -> Any:
            """Adds the counts of a batch."""
    class EditDistances:
        """Edit distances of sequences."""
        def __init__(self) -> None: ...
        def counts(self) -> Any:
            """Total distance, sequences, wrong sequences so far."""
        def reset(self) -> Any:
            """Starts to count anew."""
        def scores(self) -> Any:
            """The mean distance and the share of wrong sequences; None before there is a sequence."""
        def update(self, distances: Any, seq_num: Any) -> Any:
            """Adds the distances of a batch."""
    class Quality:
        """How good predictions are."""
        auc: Any
        clicks: Any
        gauc: Any
        log_loss: Any
        normalised_entropy: Any
        pcoc: Any
        predicted: Any
        samples: Any
        users: Any
    class ScoredSamples:
        """Predictions with what came of them, batch after batch."""
        def __init__(self) -> None: ...
        def __len__(self) -> int: ...
        def by_slice(self) -> Any:
            """How good the predictions of each slice are."""
        def quality(self) -> Any:
            """How good all predictions are."""
        def reset(self) -> Any:
            """Forgets all samples."""
        def update(self, preds: Any, labels: Any, users: Any = None, slices: Any = None) -> Any:
            """Adds a batch."""
    class WeightedMean:
        """A weighted mean of numbers or arrays."""
        def __init__(self) -> None: ...
        def add(self, value: Any, weight: Any) -> Any:
            """Adds a value that counts `weight` times."""
        def add_positive(self, value: Any, weight: Any) -> Any:
            """Adds a value, unless its weight is negative."""
        is_used: Any
        def mean(self) -> Any:
            """The mean: a float, or an array if arrays were added."""
        def reset(self) -> Any:
            """Forgets everything."""
        sum: Any
        weight: Any

class nets:
    @staticmethod
    def glu(input: Any, dim: int = -1) -> Variable:
        """A gated linear unit: one half of the input times the sigmoid of the other."""
    @staticmethod
    def img_conv_group(
        input: Any,
        conv_num_filter: Any,
        pool_size: Any,
        conv_padding: int = 1,
        conv_filter_size: int = 3,
        conv_act: Any = None,
        param_attr: Any = None,
        conv_with_batchnorm: bool = False,
        conv_batchnorm_drop_rate: float = 0.0,
        pool_stride: int = 1,
        pool_type: str = 'max',
        use_cudnn: bool = True,
    ) -> Variable:
        """Several convolutions, each perhaps with batch normalisation and dropout, then pooling."""
    @staticmethod
    def scaled_dot_product_attention(
        queries: Any,
        keys: Any,
        values: Any,
        num_heads: int = 1,
        dropout_rate: float = 0.0,
    ) -> Variable:
        """Attention of [batch, steps, width] queries to keys, as weighted means of values."""
    @staticmethod
    def sequence_conv_pool(
        input: Any,
        num_filters: Any,
        filter_size: Any,
        param_attr: Any = None,
        act: str | None = 'sigmoid',
        pool_type: str = 'max',
        bias_attr: Any = None,
    ) -> Variable:
        """A convolution over windows of `filter_size` steps, then one row per sequence."""
    @staticmethod
    def simple_img_conv_pool(
        input: Any,
        num_filters: Any,
        filter_size: Any,
        pool_size: Any,
        pool_stride: Any,
        pool_padding: int = 0,
        pool_type: str = 'max',
        global_pooling: bool = False,
        conv_stride: int = 1,
        conv_padding: int = 0,
        conv_dilation: int = 1,
        conv_groups: int = 1,
        param_attr: Any = None,
        bias_attr: Any = None,
        act: str | None = None,
        use_cudnn: bool = True,
    ) -> Variable:
        """A convolution with its activation, then pooling."""

def no_such_name(module: Any, name: str, known: Any) -> Any:
    """The error message about a name that a module does not have."""

def once_in_job(what: Any, act: str) -> Any:
    """Does something that a script does once, and returns what came of it: a script that is started again in a job that recovers does not do it again."""

def op_proto(kind: Any) -> Any:
    """The inputs, outputs and attributes of an operator; ValueError if there is none of this name."""

def op_types() -> Any:
    """The operators that can be made by name."""

class optimizer:
    class MovingAverage:
        """Moving averages of the parameters of a program."""
        def __init__(
            self,
            decay: float = 0.999,
            thres_steps: Any = None,
            name: str | None = None,
        ) -> None: ...
        def apply_program(self) -> Any:
            """The program that puts the averages in the place of the parameters."""
        def restore_program(self) -> Any:
            """The program that puts the parameters back."""
        def update(self) -> Any:
            """Adds the operators that follow the parameters to the current program."""
    class Optimizer:
        """An optimizer: how parameters change by their gradients."""
        def accumulator(self, name: str, param: Any) -> Any:
            """A variable kept beside a parameter."""
        def apply_gradients(self, params_grads: Any) -> Any:
            """Clips and regularizes gradients and adds the operators that apply them; returns those."""
        def apply_optimize(self, loss: Any, startup_program: Program, params_grads: Any) -> Any:
            """Applies gradients in the program of `loss`."""
        def backward(
            self,
            loss: Any,
            startup_program: Program | None = None,
            parameter_list: Any = None,
            no_grad_set: Any = None,
            callbacks: Any = None,
        ) -> Any:
            """Adds the gradients only; returns pairs of parameter and gradient."""
        def configure(
            self,
            parameter_list: Any = None,
            regularization: Any = None,
            grad_clip: Any = None,
            name: str | None = None,
        ) -> Any:
            """Sets the options of any optimizer."""
        def global_learning_rate(self, program: Any = None) -> Any:
            """The variable with the learning rate, once the program has one."""
        grad_clip: Any
        @staticmethod
        def kinds() -> dict[str, list[tuple[str, float]]]:
            """The options of every optimizer with their defaults, by operator."""
        learning_rate: Any
        @staticmethod
        def make(
            op: Any,
            learning_rate: Any,
            exclude: Any = None,
            **options: Any,
        ) -> optimizer.Optimizer:
            """The optimizer that updates with an operator, with options by Fluid's names."""
        def minimize(
            self,
            loss: Any,
            startup_program: Program | None = None,
            parameter_list: Any = None,
            no_grad_set: Any = None,
        ) -> Any:
            """Adds gradients and the operators that apply them."""
        regularization: Any
        def state_names(self) -> Any:
            """Names of all variables kept beside parameters."""
        type: Any
    @staticmethod
    def append_lookahead(
        main_program: Program,
        startup_program: Program,
        alpha: Any,
        k: Any,
    ) -> Any:
        """Adds slow weights that parameters return to every `k` runs."""
    @staticmethod
    def set_gradient_clip(clip: Any, param_list: Any = None, program: Any = None) -> None:
        """Says how the gradients of parameters are clipped: of those in the list, or of all."""

def profiler_reset() -> Any:
    """Forgets what was measured."""

def profiler_start() -> Any:
    """Lets executors measure their ops from now on."""

def profiler_stop() -> Any:
    """Ends measuring; returns the times of ops, and of their runs."""

def program_job(program: Any) -> Any:
    """The job of a program; `None` if it was not transpiled."""

def show(dirname: Any) -> Any:
    """The contents of a saved folder, as text."""

def slice_shape(shape: Any, n_servers: Any, min_block_size: Any = ...) -> Any:
    """How a variable is cut: (block, offset, elements) of each block."""

def switch_main_program(program: Any) -> Program:
    """Makes another program the one that layers write into; returns the one before."""

def switch_scope(scope: Scope) -> Scope:
    """Makes another scope the global one; returns the one before."""

def switch_startup_program(program: Any) -> Program:
    """Makes another program the one that fills parameters; returns the one before."""

def transpile_collective(main: Any, startup: Any, mode: Any, collective_mode: Any, job: Any) -> Any:
    """Makes both programs those of a trainer among trainers, without servers: Fluid's modes "nccl2" and "collective"."""

def transpile_program(main: Any, startup: Any, job: Any, config: Any, choose: Any) -> Any:
    """Splits a program; `main` and `startup` become the trainer's."""

def unique_name_generate(key: Any) -> str:
    """The next unique name of a key."""

def unique_name_switch(new_generator: Any = None) -> UniqueNameGenerator:
    """Installs another generator of names (a fresh one without an argument); returns the one before."""

def wait_server_ready(endpoints: Any) -> Any:
    """Returns as soon as all servers accept connections; lists on stderr those that do not."""
