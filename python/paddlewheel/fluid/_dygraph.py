"""The names of Fluid's imperative mode: they can be imported and derived from, not used."""

from ._not_yet import not_yet, not_yet_class, not_yet_function
from .framework import (
    disable_dygraph,
    disable_imperative,
    enable_dygraph,
    enable_imperative,
    in_dygraph_mode,
)

#: The one place that says why the imperative mode is not here, and what is.
WHY = (
    "programs are built first and run afterwards; use fluid.layers, a Program and fluid.Executor. Instead of "
    "dygraph.Layer write functions that call fluid.layers, instead of to_variable feed arrays (exe.run(feed=...)), "
    "instead of save_dygraph call fluid.save"
)

enabled = in_dygraph_mode

LAYERS = (
    "BCELoss BatchNorm BilinearTensorProduct Conv2D Conv2DTranspose Conv3D Conv3DTranspose Dropout "
    "Embedding GRUUnit GroupNorm InstanceNorm L1Loss LayerNorm Linear MSELoss NCE NLLLoss PRelu Pool2D "
    "SpectralNorm TreeConv"
)
MODULES = {
    "nn": LAYERS + " RowConv SequenceConv",
    "base": "disable_dygraph disable_imperative enable_dygraph enable_imperative enabled grad guard "
    "no_grad param_guard program_desc_tracing_guard switch_to_static_graph to_variable",
    "backward_strategy": "BackwardStrategy",
    "checkpoint": "load_dygraph save_dygraph",
    "container": "LayerList ParameterList Sequential",
    "jit": "TracedLayer create_program_from_desc declarative dygraph_to_static_func extract_vars",
    "layer_object_helper": "LayerObjectHelper",
    "layers": "HookRemoveHelper Layer",
    "learning_rate_scheduler": "CosineDecay ExponentialDecay InverseTimeDecay LambdaDecay "
    "LearningRateDecay LinearLrWarmup MultiStepDecay NaturalExpDecay NoamDecay PiecewiseDecay "
    "PolynomialDecay ReduceLROnPlateau StepDecay",
    "parallel": "DataParallel Env ParallelEnv prepare_context",
    "profiler": "start_gperf_profiler stop_gperf_profiler",
    "static_runner": "StaticModelRunner",
    "tracer": "Tracer",
    "dygraph_to_static": "AstNodeWrapper DygraphToStaticAst LoopTransformer NameVisitor NodeVarType "
    "ProgramTranslator StaticAnalysisVisitor convert_call convert_function_with_cache "
    "convert_to_static data_layer_not_check",
}
MODULES = {
    "dygraph": " ".join(names for module, names in MODULES.items()),
    **{"dygraph." + module: names for module, names in MODULES.items()},
    "dygraph.dygraph_to_static.program_translator": "ConcreteProgram FunctionSpec ProgramCache "
    "ProgramTranslator convert_function_with_cache",
}

#: Decorators of functions or classes: they fail when those are used.
DECORATORS = "declarative dygraph_to_static_func no_grad switch_to_static_graph".split()


def _decorator(name):
    def decorator(function=None):
        if function is None:
            raise not_yet("fluid.dygraph." + name, WHY)
        return not_yet_function("fluid.dygraph." + name, WHY)

    decorator.__doc__ = name + ": not yet there."
    decorator.__name__ = name
    return decorator


for _name in sorted({name for names in MODULES.values() for name in names.split()}):
    if _name in globals():
        continue
    _make = not_yet_class if _name[0].isupper() else not_yet_function
    globals()[_name] = (
        _decorator(_name) if _name in DECORATORS else _make("fluid.dygraph." + _name, WHY)
    )
