"""`DynamicRNN`: a network that is run for each step of sequences of different lengths."""

import contextlib

from ... import _core
from .. import core, unique_name
from ..framework import Variable, default_main_program

_layers = _core.layers
_KINDS = core.VarDesc.VarType


def _name(key):
    return unique_name.generate(key)


class DynamicRNN:
    """What is built inside `with rnn.block():` is done for each step. Sequences are sorted by their length, so that
    those that have ended stay out; the results have the order and the lengths of the inputs."""

    BEFORE_RNN = 0
    IN_RNN = 1
    AFTER_RNN = 2

    def __init__(self, name=None):
        self._layer = _name("dynamic_rnn") if name is None else name
        self.status = DynamicRNN.BEFORE_RNN
        self.lod_rank_table = None
        self.max_seq_len = None
        self.step_idx = None
        self.zero_idx = None
        self.mem_dict = {}
        self.output_array = []
        self.outputs = []
        self.input_array = []
        self.mem_link = []
        block = default_main_program().current_block()
        self.cond = block.create_var(name=_name(self._layer + ".tmp"), dtype="bool", shape=[1])
        self.while_op = _layers.While(self.cond)

    def step_input(self, x, level=0):
        """One step of the sequences of a variable."""
        self._inside("step_input")
        _check_variable(x, "step_input() can only take a Variable as its input.")
        around = self._around()
        if self.lod_rank_table is None:
            self._rank(around, x, level)
        steps = around.create_var(
            name=_name("dynamic_rnn_input_array"), type=_KINDS.LOD_TENSOR_ARRAY, dtype=x.dtype
        )
        self.input_array.append((steps, x.dtype))
        inputs = {"X": [x], "RankTable": [self.lod_rank_table]}
        around.append_op(type="lod_tensor_to_array", inputs=inputs, outputs={"Out": [steps]})
        return _layers.array_read(array=steps, i=self.step_idx)

    def _rank(self, around, x, level):
        """The first input says which sequences there are."""
        table = around.create_var(name=_name("lod_rank_table"), type=_KINDS.LOD_RANK_TABLE)
        table.stop_gradient = True
        self.lod_rank_table = table
        around.append_op(
            type="lod_rank_table",
            inputs={"X": [x]},
            outputs={"Out": [table]},
            attrs={"level": level},
        )
        longest = around.create_var(name=_name("dynamic_rnn_max_seq_len"), dtype="int64")
        self.max_seq_len = longest
        around.append_op(
            type="max_sequence_len", inputs={"RankTable": [table]}, outputs={"Out": [longest]}
        )
        self.cond.stop_gradient = True
        around.append_op(
            type="less_than",
            inputs={"X": [self.step_idx], "Y": [longest]},
            outputs={"Out": [self.cond]},
            attrs={"force_cpu": True},
        )

    def static_input(self, x):
        """All of a variable in each step, as far as its sequences have the step."""
        self._inside("static_input")
        _check_variable(x, "static_input() can only take a Variable as its input")
        if self.lod_rank_table is None:
            raise RuntimeError("static_input() must be called after step_input().")
        sorted_ = self._sorted(x, "dynamic_rnn_static_input_reordered")
        return _layers.shrink_memory(sorted_, self.step_idx, self.lod_rank_table)

    def _sorted(self, x, key):
        around = self._around()
        out = around.create_var(name=_name(key), type=_KINDS.LOD_TENSOR, dtype=x.dtype)
        inputs = {"X": [x], "RankTable": [self.lod_rank_table]}
        around.append_op(
            type="reorder_lod_tensor_by_rank", inputs=inputs, outputs={"Out": [out]}
        )
        return out

    @contextlib.contextmanager
    def block(self):
        """Holds what is done for each step."""
        if self.status != DynamicRNN.BEFORE_RNN:
            raise ValueError("rnn.block() can only be invoke once")
        self.step_idx = _layers.fill_constant(shape=[1], dtype="int64", value=0, force_cpu=True)
        self.step_idx.stop_gradient = False
        self.status = DynamicRNN.IN_RNN
        with self.while_op.block():
            yield
            _layers.increment(x=self.step_idx, value=1.0, in_place=True)
            for memory, kept in self.mem_link:
                _layers.array_write(x=memory, i=self.step_idx, array=kept)
            _layers.less_than(
                x=self.step_idx, y=self.max_seq_len, force_cpu=True, cond=self.cond
            )
        self.status = DynamicRNN.AFTER_RNN
        self.outputs = [
            _layers.array_to_lod_tensor(x=steps, table=self.lod_rank_table)
            for steps in self.output_array
        ]

    def __call__(self, *args, **kwargs):
        """The result, or a list of several."""
        if self.status != DynamicRNN.AFTER_RNN:
            raise ValueError(
                "Output of the dynamic RNN can only be visited outside the rnn block."
            )
        return self.outputs[0] if len(self.outputs) == 1 else self.outputs

    def memory(self, init=None, shape=None, value=0.0, need_reorder=False, dtype="float32"):
        """What a step leaves for the next one: it starts as `init`, or as `value` everywhere."""
        self._inside("memory")
        around = self._around()
        if self.zero_idx is None:
            self.zero_idx = around.create_var(name=_name("zero_idx"), dtype="int64")
            attrs = {"shape": [1], "dtype": self.zero_idx.dtype, "value": 0.0, "force_cpu": True}
            around.append_op(
                type="fill_constant", inputs={}, outputs={"Out": [self.zero_idx]}, attrs=attrs
            )
        if init is None:
            init = self._boot(around, shape, value, dtype)
        _check_variable(init, "The input arg `init` of memory() must be a Variable")
        if need_reorder:
            if self.lod_rank_table is None:
                raise ValueError(
                    "If set need_reorder to True, make sure step_input be invoked before "
                    "memory(init=init, need_reordered=True, ...)."
                )
            init = self._sorted(init, "dynamic_rnn_mem_init_reordered")
        kept = around.create_var(
            name=_name("dynamic_rnn_mem_array"), type=_KINDS.LOD_TENSOR_ARRAY, dtype=init.dtype
        )
        around.append_op(
            type="write_to_array",
            inputs={"X": [init], "I": [self.zero_idx]},
            outputs={"Out": [kept]},
        )
        memory = _layers.array_read(array=kept, i=self.step_idx)
        memory = _layers.shrink_memory(x=memory, i=self.step_idx, table=self.lod_rank_table)
        self.mem_dict[memory.name] = kept
        return memory

    def _boot(self, around, shape, value, dtype):
        if not self.input_array:
            raise ValueError("step_input should be invoked before memory(shape=..., value=...)")
        steps, dtype_of_input = self.input_array[0]
        init = around.create_var(name=_name("mem_init"), dtype=dtype)
        first = around.create_var(name=_name("in0"), dtype=dtype_of_input)
        around.append_op(
            type="read_from_array",
            inputs={"X": [steps], "I": [self.zero_idx]},
            outputs={"Out": [first]},
        )
        around.append_op(
            type="fill_constant_batch_size_like",
            inputs={"Input": [first]},
            outputs={"Out": [init]},
            attrs={"shape": [-1] + list(shape), "value": float(value), "dtype": init.dtype},
        )
        return init

    def update_memory(self, ex_mem, new_mem):
        """Says what a step leaves in a memory."""
        self._inside("update_memory")
        for what, var in (("ex_mem", ex_mem), ("new_mem", new_mem)):
            text = "The input arg `{}` of update_memory() must be a Variable"
            _check_variable(var, text.format(what))
        if ex_mem.name not in self.mem_dict:
            raise ValueError("Please invoke memory before update_memory")
        if self.lod_rank_table is None:
            raise ValueError("Please invoke step_input before update_memory")
        self.mem_link.append((new_mem, self.mem_dict[ex_mem.name]))

    def output(self, *outputs):
        """Results of a step; all steps together are results of the network."""
        self._inside("output")
        around = self._around()
        for each in outputs:
            key = "_".join([self._layer, "output_array", each.name])
            steps = around.create_var(
                name=_name(key), type=_KINDS.LOD_TENSOR_ARRAY, dtype=each.dtype
            )
            _layers.array_write(x=each, i=self.step_idx, array=steps)
            self.output_array.append(steps)

    def _around(self):
        program = default_main_program()
        return program.block(program.current_block().parent_idx)

    def _inside(self, method):
        if self.status != DynamicRNN.IN_RNN:
            raise ValueError("{} can only be invoked inside rnn block.".format(method))


def _check_variable(var, text):
    if not isinstance(var, Variable):
        raise TypeError(text)
