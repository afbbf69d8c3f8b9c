"""Modules and objects that scripts and Paddle's own tests import: each does what it says."""

import importlib
import subprocess
import sys

import numpy
import pytest

import paddlewheel
from paddlewheel import compat, fluid, version
from paddlewheel.fluid import core
from paddlewheel.fluid.layers import _table
from paddlewheel.fluid.op import Operator


@pytest.mark.parametrize("module", _table.MODULES)
def test_modules_of_layers_have_the_layers_there_are(module):
    found = importlib.import_module("paddlewheel.fluid.layers." + module)
    for name in _table.MODULES[module].split():
        if name in vars(fluid.layers):
            assert getattr(found, name) is getattr(fluid.layers, name)
        else:
            with pytest.raises(AttributeError, match="paddlewheel has no paddle.fluid.layers"):
                getattr(found, name)
    assert set(found.__all__) <= set(dir(fluid.layers))


def test_every_layer_is_in_a_module():
    """All but readers and what other versions of Fluid have."""
    told = {name for names in _table.MODULES.values() for name in names.split()}
    own = {"data_checked", "embedding_v2", "one_hot_v2", "shuffle_batch", "sparse_embedding"}
    own |= {"tdm_child", "tdm_sampler", *fluid.layers._APART}
    there = {name for name in vars(paddlewheel._core.layers) if name[0] != "_"}
    assert there - told - own == set()


def test_names_are_imported_under_the_name_of_paddle():
    script = """
import paddle.fluid as fluid
import paddle.fluid.layers.ops as ops
from paddle.fluid.layers.nn import fc, LayerHelper
from paddle.fluid.layers.control_flow import *
from paddle.fluid.dygraph.nn import Conv2D
import paddle.fluid.dygraph.jit as jit
assert fc is fluid.layers.fc and ops.exp is fluid.layers.exp and While is fluid.layers.While
try:
    from paddle.fluid.layers.nn import no_such_layer
except ImportError as error:
    assert "no_such_layer" in str(error), error
else:
    raise SystemExit("a name that is not there was imported")
"""
    alias = "from paddlewheel._paddle import install; import paddlewheel; install('paddle')\n"
    subprocess.run([sys.executable, "-c", alias + script], check=True)


def test_importing_fluid_brings_its_modules():
    """Those of the real Fluid 1.8.5 that scripts use without importing them."""
    script = """
import types
import paddlewheel.fluid as fluid
for name in "op data_generator fleet log_helper wrapped_decorator".split():
    assert isinstance(getattr(fluid, name), types.ModuleType), name
assert fluid.fleet is fluid.incubate.fleet and fluid.op.Operator
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_imperative_mode_is_refused_where_it_is_used():
    class Net(fluid.dygraph.Layer):
        def __init__(self):
            super().__init__()

        @fluid.dygraph.jit.declarative
        def forward(self, x):
            return x

    assert not fluid.dygraph.enabled()
    uses = [Net, fluid.dygraph.guard, lambda: Net.forward(1), lambda: fluid.dygraph.to_variable(1)]
    for use in [*uses, fluid.dygraph.no_grad, lambda: fluid.dygraph.nn.Linear(2, 3)]:
        with pytest.raises(NotImplementedError, match="fluid.dygraph.*use fluid.layers, a Program"):
            use()


def scope_with(**values):
    scope = core.Scope()
    for name, value in values.items():
        scope.var(name).get_tensor().set(numpy.array(value, "float32"), core.CPUPlace())
    return scope


def test_an_operator_runs_on_a_scope():
    scope = scope_with(w=[1, 2], g=[10, 10], lr=[0.1])
    sgd = Operator("sgd", Param="w", Grad="g", LearningRate="lr", ParamOut="w")
    sgd.run(scope, core.CPUPlace())
    numpy.testing.assert_allclose(scope.find_var("w").get_tensor(), [0, 1], atol=1e-6)
    scope.var("z")
    total = Operator(type="sum", X=["w", "g"], Out="z")
    total.run(scope, core.CPUPlace())
    numpy.testing.assert_allclose(scope.find_var("z").get_tensor(), [10, 11], atol=1e-6)
    assert str(total) == "Op(sum), inputs:{X[w, g]}, outputs:{Out[z]}."


def test_attributes_of_an_operator_get_the_type_they_have_by_rule():
    scope = scope_with(x=[1, 2])
    scope.var("y")
    Operator("scale", X="x", Out="y", scale=3, bias=1).run(scope, core.CPUPlace())
    numpy.testing.assert_allclose(scope.find_var("y").get_tensor(), [4, 7])


def test_wrong_operators_are_refused():
    with pytest.raises(ValueError, match="The operator: nothing is not registered"):
        Operator("nothing")
    with pytest.raises(ValueError, match="Input Param expects only one input, but 2 are given"):
        Operator("sgd", Param=["a", "b"])
    with pytest.raises(ValueError, match="sgd has no Parm: its inputs are Param"):
        Operator("sgd", Parm="a")
    with pytest.raises(ValueError, match="should be keyword arguments"):
        Operator("sgd", "w")
    missing = Operator("sgd", Param="w", Grad="g", LearningRate="lr", ParamOut="w")
    with pytest.raises(core.EnforceNotMet, match="sgd"):
        missing.run(core.Scope(), core.CPUPlace())


def test_what_operators_take_and_give():
    assert Operator.get_op_input_names("sum") == ["X"]
    assert Operator.get_op_inputs("sum") == [("X", True)]
    assert "x_num_col_dims" in Operator.get_op_attr_names("mul")
    assert core.get_op_attrs_default_value(b"mul")["x_num_col_dims"] == 1
    proto = fluid.framework.OpProtoHolder.instance().get_op_proto("dropout")
    assert [port.name for port in proto.outputs if port.intermediate] == ["Mask"]
    with pytest.raises(ValueError, match='Operator "nothing" has not been registered'):
        fluid.framework.OpProtoHolder.instance().get_op_proto("nothing")


def test_descriptions_are_changed_by_methods():
    program = core.ProgramDesc()
    block = program.block(0)
    first = block.append_op()
    first.set_type("mul")
    first.set_input("X", ["a", "b"])
    first.set_output("Out", ["c"])
    first._set_attr("numbers", [1, 2])
    before = block._prepend_op()
    # An operator stays the same one, wherever it stands.
    assert [block.op(0), block.op(1)] == [before, first]
    assert (first.type(), first.input("X"), first.output_names()) == ("mul", ["a", "b"], ["Out"])
    assert (first.attr("numbers"), first.attr_type("numbers")) == ([1, 2], core.AttrType.INTS)
    first.check_attrs()
    assert first.attr("y_num_col_dims") == 1
    block._remove_op(0, 1)
    assert block.op_size() == 1
    with pytest.raises(IndexError, match="no longer in its block"):
        before.type()
    with pytest.raises(IndexError, match="no operators 1 to 7"):
        block._remove_op(1, 7)


def test_descriptions_of_variables():
    program = fluid.Program()
    block = program.desc.block(0)
    var = block.var(b"x")
    var.set_type(core.VarDesc.VarType.LOD_TENSOR)
    var.set_shape([3, -1])
    var.set_dtype(core.VarDesc.VarType.INT64)
    assert program.global_block().var("x").shape == (3, -1)
    assert block.find_var(b"x") == var and set(block.all_vars()) == {var}
    assert block.find_var("y") is None
    reader = block.var("r")
    reader.set_type(core.VarDesc.VarType.READER)
    reader.set_shapes([[2, 3], [4]])
    reader.set_lod_levels([1, 0])
    assert (reader.shapes(), reader.lod_levels()) == ([[2, 3], [4]], [1, 0])


def test_shapes_are_inferred_for_descriptions():
    block = core.ProgramDesc().block(0)
    for name, shape in {"x": [10, 20], "y": [20, 30]}.items():
        block.var(name).set_shape(shape)
    out = block.var("out")
    op = block.append_op()
    op.set_type("mul")
    op.set_input("X", ["x"])
    op.set_input("Y", ["y"])
    op.set_output("Out", ["out"])
    op.infer_shape(block)
    assert out.shape() == [10, 30]


def test_gradients_of_a_description():
    program = fluid.Program()
    with fluid.program_guard(program):
        x = fluid.data("x", [2, 3])
        fluid.layers.tanh(x)
    op = program.global_block().ops[-1]
    grads, origins = core.get_grad_op_desc(op.desc, set(), [])
    assert [grad.type() for grad in grads] == ["tanh_grad"]
    assert origins == {"x@GRAD": "x"}
    target = program.global_block().desc.append_op()
    target.copy_from(grads[0])
    assert program.global_block().ops[-1].type == "tanh_grad"


def test_an_operator_keeps_its_place_when_others_come_before_it():
    program = fluid.Program()
    block = program.global_block()
    x = block.create_var(name="x", shape=[1], dtype="float32")
    last = block.append_op(type="scale", inputs={"X": x}, outputs={"Out": x}, attrs={"scale": 2.0})
    block._prepend_op(type="scale", inputs={"X": x}, outputs={"Out": x}, attrs={"scale": 3.0})
    assert (last.idx, last.attr("scale")) == (1, 2.0)
    assert x.op == last and block.ops[0] != last
    assert last.attr("bias_after_scale") is True and last.attr_type("bias") == core.AttrType.FLOAT


def test_text_and_numbers_for_two_versions_of_python():
    assert compat.to_text([b"a", "b"]) == ["a", "b"]
    assert compat.to_bytes({"a"}) == {b"a"}
    held = [b"a"]
    assert compat.to_text(held, inplace=True) is held and held == ["a"]
    assert [compat.round(x) for x in (2.5, -2.5, 0.5)] == [3.0, -3.0, 1.0]
    assert version.full_version == paddlewheel.__version__ == "1.8.5"


def test_flags_are_a_mapping_too():
    flags = core.globals()
    before = flags["FLAGS_check_nan_inf"]
    flags["FLAGS_check_nan_inf"] = not before
    assert fluid.get_flags("FLAGS_check_nan_inf") == {"FLAGS_check_nan_inf": not before}
    flags["FLAGS_check_nan_inf"] = before


def test_scopes_of_a_thread():
    from paddlewheel.fluid import default_scope_funcs as scopes

    scopes.var("outer")

    def inside():
        scopes.var("inner")
        assert scopes.find_var("outer") is not None

    scopes.scoped_function(inside)
    assert scopes.find_var("inner") is None


def small_program():
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4], "float32")
        loss = fluid.layers.mean(fluid.layers.fc(x, 2))
    return program, startup, loss


def test_programs_as_readable_text(capsys):
    from paddlewheel.fluid.transpiler import details

    program, _, _ = small_program()
    block = program.global_block()
    text = details.op_to_code(block.ops[0])
    assert text.startswith("{Out=['fc_0.tmp_0']} = mul(inputs={X=['x'], Y=['fc_0.w_0']}, force_fp32")
    assert "x_num_col_dims = 1" in text and "op_callstack" not in text
    details.program_to_code(program)
    printed = capsys.readouterr().out
    assert "persist trainable parameter fc_0.w_0 : fluid.VarType.LOD_TENSOR.shape(4, 2)" in printed
    assert details.find_op_by_output_arg(block, "fc_0.tmp_1") == 1
    assert details.find_op_by_input_arg(block, "nothing") == -1
    details.delete_ops(block, [block.ops[1], block.ops[0]])
    assert [op.type for op in block.ops] == ["mean"]


def test_programs_as_pictures(tmp_path):
    program, _, _ = small_program()
    fluid.debugger.draw_block_graphviz(program.block(0), path=str(tmp_path / "a.dot"))
    dot = (tmp_path / "a.dot").read_text()
    assert dot.startswith("digraph G {") and dot.count("->") == 8
    assert "mul(inputs=" in fluid.debugger.pprint_program_codes(program)


def test_memory_of_a_program():
    program, _, _ = small_program()
    low, high, unit = fluid.contrib.memory_usage(program, batch_size=100)
    # Two results of 100 × 2 numbers and the loss.
    assert unit == "KB" and low == pytest.approx(1604 / 1024 * 1.05)
    assert high == pytest.approx(1604 / 1024 * 1.1)
    with pytest.raises(ValueError, match="The batch size need to be positive"):
        fluid.contrib.memory_usage(program, 0)
    with pytest.raises(TypeError, match="requires Program"):
        fluid.contrib.memory_usage("program", 1)
    single, pairs = fluid.contrib.op_freq_statistic(program)
    assert dict(single) == {"mul": 1, "elementwise_add": 1, "mean": 1}
    assert dict(pairs) == {"mul->elementwise_add": 1, "elementwise_add->mean": 1}


def test_checkpoints_of_the_oldest_form(tmp_path):
    program, startup, _ = small_program()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        weight = fluid.global_scope().find_var("fc_0.w_0").get_tensor()
        before = numpy.array(weight)
        for _ in range(3):
            fluid.io.save_checkpoint(exe, str(tmp_path), 0, program, max_num_checkpoints=2)
        assert fluid.io.get_latest_checkpoint_serial(str(tmp_path)) == 2
        assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint_1", "checkpoint_2"]
        weight.set(before + 1, core.CPUPlace())
        fluid.io.load_checkpoint(exe, str(tmp_path), 2, program)
        numpy.testing.assert_array_equal(fluid.global_scope().find_var("fc_0.w_0").get_tensor(), before)
    fluid.io.clean_checkpoint(str(tmp_path), delete_dir=True)
    assert not tmp_path.exists()
    with pytest.raises(AttributeError, match="paddlewheel has no paddle.fluid.io.nothing"):
        fluid.io.nothing


def test_batches_are_pushed_by_hand():
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        reader = fluid.layers.py_reader(4, [(-1, 2)], ["float32"])
        doubled = fluid.layers.scale(fluid.layers.read_file(reader), 2.0)
        batch = fluid.LoDTensorArray()
        batch.append(fluid.executor._as_lodtensor(numpy.ones((3, 2), "float32"), core.CPUPlace()))
        exe = fluid.Executor(fluid.CPUPlace())
        assert reader.queue.push(batch) and reader.queue.size() == 1
        (found,) = exe.run(fetch_list=[doubled])
        numpy.testing.assert_array_equal(found, numpy.full((3, 2), 2, "float32"))
        reader.queue.close()
        with pytest.raises(core.EOFException):
            exe.run(fetch_list=[doubled])


def test_clips_can_be_called():
    program, startup, loss = small_program()
    with fluid.program_guard(program, startup):
        pairs = fluid.backward.append_backward(loss)
        clipped = fluid.clip.GradientClipByValue(0.1)(pairs)
        kept = fluid.clip.GradientClipByValue(0.1, need_clip=lambda param: False)(pairs)
    assert [param.name for param, _ in clipped] == [param.name for param, _ in pairs]
    assert [grad.name for _, grad in kept] == [grad.name for _, grad in pairs]
    assert fluid.clip.GradientClipByNorm(1.0)([(pairs[0][0], None)]) == []
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        feed = {"x": numpy.ones((2, 4), "float32")}
        found = exe.run(program, feed=feed, fetch_list=[pairs[0][1], clipped[0][1]])
    numpy.testing.assert_allclose(found[0], numpy.full((4, 2), 0.5))
    numpy.testing.assert_allclose(found[1], numpy.full((4, 2), 0.1), rtol=1e-6)


def test_blocks_are_opened_and_closed_by_hand():
    program, _, _ = small_program()
    block = program._create_block()
    assert (block.idx, block.parent_idx, program.current_block_idx) == (1, 0, 1)
    assert block._find_var_recursive("x").name == "x" and block._find_var_recursive("y") is None
    with pytest.raises(ValueError, match="Var y is not found recursively"):
        block._var_recursive("y")
    program._rollback()
    assert program.current_block_idx == 0
    with pytest.raises(ValueError, match="`type` to initialized an Operator can not be None"):
        block.append_op()
    with pytest.raises(ValueError, match="the same topology"):
        program._copy_data_info_from(fluid.Program())
    copy = program.clone()
    copy.global_block().var("x").stop_gradient = True
    program._copy_data_info_from(copy)
    assert program.global_block().var("x").stop_gradient


def test_names_that_are_refused_say_what_to_use():
    with pytest.raises(NotImplementedError, match="train_from_dataset makes its threads by itself"):
        fluid.trainer_desc.TrainerDesc()
    with pytest.raises(NotImplementedError, match="fleet.save_persistables"):
        fluid.contrib.utils.load_persistables_for_inference()


def test_rows_and_numbers_of_tensors_by_hand():
    rows = core.SelectedRows([0, 4, 7], 10)
    values = numpy.arange(6, dtype="float32").reshape(3, 2)
    rows.get_tensor().set(values, core.CPUPlace())
    assert (rows.rows(), rows.height()) == ([0, 4, 7], 10)
    tensor = rows.get_tensor()
    tensor._set_float_element(3, 7.5)
    assert tensor._get_float_element(3) == 7.5 and tensor._get_float_element(5) == 5.0
    with pytest.raises(IndexError, match="no element 6"):
        tensor._get_float_element(6)
    whole = core.LoDTensor()
    whole._set_dims([2, 2])
    assert whole._mutable_data(core.CPUPlace(), core.VarDesc.VarType.FP64) != 0
    assert whole._dtype() == core.VarDesc.VarType.FP64


def test_a_program_with_details_says_more():
    program, _, _ = small_program()
    details = program.to_string(throw_on_error=False, with_details=True)
    assert details.startswith(program.to_string(True)) and "x: stop_gradient=" in details
