"""Decoders: they make a sequence step by step, each step from what the one before gave."""

import collections

import numpy

from ... import _core
from .. import core, unique_name
from ..data_feeder import check_type, convert_dtype
from ..framework import Variable, default_main_program
from ._cells import swap_batch_and_time
from .utils import flatten, map_structure

_layers = _core.layers


class Decoder:
    """What `dynamic_decode` runs: a subclass has `initialize` and `step`, and `finalize` if it wants."""

    def initialize(self, inits):
        """The inputs, states and truth values (is it finished?) of the first step."""
        raise NotImplementedError

    def step(self, time, inputs, states, **kwargs):
        """One step: its outputs, states, the inputs of the next one, and what is finished."""
        raise NotImplementedError

    def finalize(self, outputs, final_states, sequence_lengths):
        """What is made of the outputs of all steps."""
        raise NotImplementedError


class BeamSearchDecoder(Decoder):
    """Keeps the `beam_size` likeliest sequences of each sample."""

    OutputWrapper = collections.namedtuple(
        "OutputWrapper", ("scores", "predicted_ids", "parent_ids")
    )
    StateWrapper = collections.namedtuple(
        "StateWrapper", ("cell_states", "log_probs", "finished", "lengths")
    )

    def __init__(
        self, cell, start_token, end_token, beam_size, embedding_fn=None, output_fn=None
    ):
        self.cell = cell
        self.start_token = start_token
        self.end_token = end_token
        self.beam_size = beam_size
        self.embedding_fn = embedding_fn
        self.output_fn = output_fn
        #: What stands for the logarithm of 0.
        self.kinf = 1e9

    @staticmethod
    def tile_beam_merge_with_batch(x, beam_size):
        """Each sample `beam_size` times, one after another."""
        check_type(x, "x", Variable, "BeamSearchDecoder.tile_beam_merge_with_batch")
        x = _beside(x, beam_size)
        rank = len(x.shape)
        x = _layers.transpose(x, list(range(2, rank)) + [0, 1])
        x = _layers.reshape(x, shape=[0] * (rank - 2) + [-1])
        rank = len(x.shape)
        return _layers.transpose(x, [rank - 1] + list(range(rank - 1)))

    def _split_batch_beams(self, x):
        check_type(x, "x", Variable, "BeamSearchDecoder._split_batch_beams")
        return _layers.reshape(x, shape=[-1, self.beam_size] + list(x.shape[1:]))

    def _merge_batch_beams(self, x):
        check_type(x, "x", Variable, "BeamSearchDecoder._merge_batch_beams")
        return _layers.reshape(x, shape=[-1] + list(x.shape[2:]))

    def _expand_to_beam_size(self, x):
        check_type(x, "x", Variable, "BeamSearchDecoder._expand_to_beam_size")
        return _beside(x, self.beam_size)

    def _mask_probs(self, probs, finished):
        """A sequence that is finished goes on with the end token alone."""
        check_type(probs, "probs", Variable, "BeamSearchDecoder._mask_probs")
        check_type(finished, "finished", Variable, "BeamSearchDecoder._mask_probs")
        finished = _layers.cast(finished, dtype=probs.dtype)
        ended = _layers.expand(_layers.unsqueeze(finished, [2]), [1, 1, self.vocab_size])
        ended = _layers.elementwise_mul(ended, self.noend_mask_tensor, axis=-1)
        return ended - _layers.elementwise_mul(probs, finished - 1.0, axis=0)

    def _gather(self, x, indices, batch_size):
        """For each sample the items that `indices` names."""
        check_type(x, "x", Variable, "BeamSearchDecoder._gather")
        check_type(indices, "indices", Variable, "BeamSearchDecoder._gather")
        check_type(batch_size, "batch_size", Variable, "BeamSearchDecoder._gather")
        if batch_size.dtype != indices.dtype:
            batch_size = _layers.cast(batch_size, indices.dtype)
        batch_size.stop_gradient = True
        samples = _layers.range(0, batch_size, 1, dtype=indices.dtype)
        samples = _layers.expand(_layers.unsqueeze(samples, [1]), [1, self.beam_size])
        places = _layers.stack([samples, indices], axis=2)
        places.stop_gradient = True
        return _layers.gather_nd(x, places)

    def initialize(self, initial_cell_states):
        """The first of each beam begins; the others are too unlikely to win."""
        state = flatten(initial_cell_states)[0]
        self.batch_size = _layers.shape(state)[0]
        self.start_token_tensor = _layers.fill_constant([1], "int64", self.start_token)
        self.end_token_tensor = _layers.fill_constant([1], "int64", self.end_token)
        states = map_structure(self._expand_to_beam_size, initial_cell_states)
        inputs = _layers.expand(self.start_token_tensor, [self.batch_size])
        inputs = _layers.expand(_layers.unsqueeze(inputs, [1]), [1, self.beam_size])
        likely = [[0.0] + [-self.kinf] * (self.beam_size - 1)]
        log_probs = _layers.assign(numpy.array(likely, dtype="float32"))
        log_probs = _layers.expand(log_probs, [self.batch_size, 1])
        finished = _layers.fill_constant_batch_size_like(
            input=state, shape=[-1, self.beam_size], dtype="bool", value=False, force_cpu=True
        )
        lengths = _layers.zeros_like(inputs)
        inputs = self.embedding_fn(inputs) if self.embedding_fn else inputs
        return inputs, self.StateWrapper(states, log_probs, finished, lengths), finished

    def _beam_search_step(self, time, logits, next_cell_states, beam_state):
        self.vocab_size = logits.shape[-1]
        self.vocab_size_tensor = _layers.fill_constant([1], "int64", self.vocab_size)
        only_end = numpy.full(self.vocab_size, -self.kinf, "float32")
        only_end[self.end_token] = 0
        self.noend_mask_tensor = _layers.assign(only_end)
        steps = _layers.log(_layers.softmax(logits))
        steps = self._mask_probs(steps, beam_state.finished)
        log_probs = _layers.elementwise_add(x=steps, y=beam_state.log_probs, axis=0)
        scores = _layers.reshape(log_probs, [-1, self.beam_size * self.vocab_size])
        best, places = _layers.topk(input=scores, k=self.beam_size)
        parents = _layers.elementwise_floordiv(places, self.vocab_size_tensor)
        tokens = _layers.elementwise_mod(places, self.vocab_size_tensor)

        def chosen(x):
            return self._gather(x, parents, self.batch_size)

        log_probs = self._gather(scores, places, self.batch_size)
        states = map_structure(chosen, next_cell_states)
        finished, lengths = chosen(beam_state.finished), chosen(beam_state.lengths)
        lengths = lengths + _layers.cast(_layers.logical_not(finished), lengths.dtype)
        ends = _layers.equal(tokens, self.end_token_tensor)
        finished = _layers.logical_or(finished, ends)
        return self.OutputWrapper(best, tokens, parents), self.StateWrapper(
            states, log_probs, finished, lengths
        )

    def step(self, time, inputs, states, **kwargs):
        """Runs the cell for all beams and keeps the likeliest."""
        inputs = map_structure(self._merge_batch_beams, inputs)
        cell_states = map_structure(self._merge_batch_beams, states.cell_states)
        logits, cell_states = self.cell(inputs, cell_states, **kwargs)
        logits = map_structure(self._split_batch_beams, logits)
        cell_states = map_structure(self._split_batch_beams, cell_states)
        if self.output_fn is not None:
            logits = self.output_fn(logits)
        outputs, states = self._beam_search_step(
            time=time, logits=logits, next_cell_states=cell_states, beam_state=states
        )
        tokens = outputs.predicted_ids
        tokens.stop_gradient = True
        inputs = self.embedding_fn(tokens) if self.embedding_fn else tokens
        return outputs, states, inputs, states.finished

    def finalize(self, outputs, final_states, sequence_lengths):
        """Whole sequences, found by going back from each last token."""
        return _layers.gather_tree(outputs.predicted_ids, outputs.parent_ids), final_states


def _beside(x, n):
    """The variable `n` times beside itself, in a new second dimension."""
    x = _layers.unsqueeze(x, [1])
    times = [1] * len(x.shape)
    times[1] = n
    return _layers.expand(x, times)


def _finished_stays(state, after, finished):
    """The old state where a sequence is finished, else the new one."""
    dtype = state.dtype
    is_truth = convert_dtype(dtype) == "bool"
    if is_truth:
        state, after = _layers.cast(state, "float32"), _layers.cast(after, "float32")
    if finished.dtype != state.dtype:
        finished = _layers.cast(finished, dtype=state.dtype)
        finished.stop_gradient = True
    kept = _layers.elementwise_mul(state, finished, axis=0)
    after = kept - _layers.elementwise_mul(after, finished - 1.0, axis=0)
    return _layers.cast(after, dtype=dtype) if is_truth else after


def _array_around(dtype):
    """An empty list in the block around the current one."""
    program = default_main_program()
    around = program.block(program.current_block().parent_idx)
    name = unique_name.generate("array") + ".out"
    return around.create_var(name=name, type=core.VarDesc.VarType.LOD_TENSOR_ARRAY, dtype=dtype)


def _write(nest, arrays, place):
    map_structure(lambda x, kept: _layers.array_write(x, i=place, array=kept), nest, arrays)


def _read(arrays, place):
    return map_structure(lambda kept: _layers.array_read(kept, place), arrays)


def dynamic_decode(
    decoder,
    inits=None,
    max_step_num=None,
    output_time_major=False,
    impute_finished=False,
    is_test=False,
    return_length=False,
    **kwargs
):
    """Runs a decoder until everything is finished, or for `max_step_num` steps and one: its outputs, the last states,
    and the lengths if they are asked for. With `is_test` no step is kept for gradients."""
    first_inputs, first_states, finished = decoder.initialize(inits)
    finished.stop_gradient = True
    time = _layers.fill_constant([1], "int64", 0)
    goes_on = _layers.logical_not(_layers.reduce_all(finished))
    last_time = None
    if max_step_num is not None:
        last_time = _layers.fill_constant([1], "int64", max_step_num)
    loop = _layers.While(goes_on, is_test=is_test)
    lengths = _layers.cast(_layers.zeros_like(finished), "int64")
    lengths.stop_gradient = True
    if not is_test:
        inputs_of = map_structure(lambda x: _layers.array_write(x, time), first_inputs)
        states_of = map_structure(lambda x: _layers.array_write(x, time), first_states)
    with loop.block():
        inputs = first_inputs if is_test else _read(inputs_of, time)
        states = first_states if is_test else _read(states_of, time)
        outputs, after, following, ends = decoder.step(time, inputs, states, **kwargs)
        ends = _layers.logical_or(ends, finished)
        longer = _layers.cast(_layers.logical_not(finished), lengths.dtype)
        longer = _layers.elementwise_add(lengths, longer)
        if impute_finished:
            after = map_structure(
                lambda old, new: _finished_stays(old, new, finished), states, after
            )
        outputs_of = map_structure(lambda x: _array_around(x.dtype), outputs)
        _write(outputs, outputs_of, time)
        _layers.increment(x=time, value=1.0, in_place=True)
        if is_test:
            map_structure(_layers.assign, following, first_inputs)
            map_structure(_layers.assign, after, first_states)
        else:
            _write(following, inputs_of, time)
            _write(after, states_of, time)
        _layers.assign(ends, finished)
        _layers.assign(longer, lengths)
        some_left = _layers.logical_not(
            _layers.reduce_all(finished), None if max_step_num is not None else goes_on
        )
        if max_step_num is not None:
            _layers.logical_and(some_left, _layers.less_equal(time, last_time), goes_on)
    stacked = map_structure(
        lambda kept: _layers.tensor_array_to_tensor(kept, axis=0, use_stack=True)[0], outputs_of
    )
    states = first_states if is_test else _read(states_of, time)
    try:
        stacked, states = decoder.finalize(stacked, states, lengths)
    except NotImplementedError:
        pass
    if not output_time_major:
        stacked = map_structure(swap_batch_and_time, stacked)
    return (stacked, states, lengths) if return_length else (stacked, states)


class DecodeHelper:
    """Where a `BasicDecoder` has its inputs from: a subclass has all three methods."""

    def initialize(self):
        """The first inputs, and what is finished before it began."""

    def sample(self, time, outputs, states):
        """The ids that a step gave."""

    def next_inputs(self, time, outputs, states, sample_ids):
        """What is finished after a step, the next inputs, and the states."""


class TrainingHelper(DecodeHelper):
    """Each step has the input that the data has for it."""

    def __init__(self, inputs, sequence_length, time_major=False):
        self.inputs = inputs
        self.sequence_length = sequence_length
        self.time_major = time_major
        # One step more, so that there is one after the last.
        self.inputs_ = map_structure(self._longer, inputs)

    def _longer(self, x):
        paddings = [0] * (2 * len(x.shape))
        paddings[1 if self.time_major else 3] = 1
        return _layers.pad(x, paddings=paddings)

    def initialize(self):
        """The first step of the data."""
        zero = _layers.fill_constant([1], self.sequence_length.dtype, 0)
        finished = _layers.equal(self.sequence_length, zero)
        inputs = map_structure(lambda x: x[0] if self.time_major else x[:, 0], self.inputs)
        return inputs, finished

    def sample(self, time, outputs, states):
        """The likeliest ids."""
        return _layers.argmax(outputs, axis=-1)

    def next_inputs(self, time, outputs, states, sample_ids):
        """The next step of the data."""
        if convert_dtype(time.dtype) != "int32":
            time = _layers.cast(time, "int32")
        if self.sequence_length.dtype != time.dtype:
            self.sequence_length = _layers.cast(self.sequence_length, time.dtype)
        following = time + 1
        finished = _layers.less_equal(self.sequence_length, following)
        axes = [0 if self.time_major else 1]

        def step(x):
            part = _layers.slice(x, axes=axes, starts=[following], ends=[following + 1])
            return _layers.squeeze(part, axes=axes)

        return finished, map_structure(step, self.inputs_), states


class GreedyEmbeddingHelper(DecodeHelper):
    """Each step has the likeliest id of the one before."""

    def __init__(self, embedding_fn, start_tokens, end_token):
        self.embedding_fn = embedding_fn
        self.start_tokens = start_tokens
        self.end_token = _layers.fill_constant([1], "int64", end_token)

    def initialize(self):
        """The start tokens."""
        finished = _layers.fill_constant_batch_size_like(
            input=self.start_tokens, shape=[-1], dtype="bool", value=False, force_cpu=True
        )
        return self.embedding_fn(self.start_tokens), finished

    def sample(self, time, outputs, states):
        """The likeliest ids."""
        return _layers.argmax(outputs, axis=-1)

    def next_inputs(self, time, outputs, states, sample_ids):
        """The ids of this step; the end token ends a sequence."""
        finished = _layers.equal(sample_ids, self.end_token)
        return finished, self.embedding_fn(sample_ids), states


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Each step has an id drawn from the probabilities of the one before."""

    def __init__(
        self, embedding_fn, start_tokens, end_token, softmax_temperature=None, seed=None
    ):
        super().__init__(embedding_fn, start_tokens, end_token)
        self.softmax_temperature = None
        if softmax_temperature is not None:
            self.softmax_temperature = _layers.fill_constant([1], "float32", softmax_temperature)
        self.seed = seed

    def sample(self, time, outputs, states):
        """Ids drawn by their probabilities."""
        if self.softmax_temperature is not None:
            outputs = outputs / self.softmax_temperature
        probs = _layers.softmax(outputs)
        probs.stop_gradient = True
        return _layers.sampling_id(probs, seed=self.seed or 0, dtype=self.start_tokens.dtype)


class BasicDecoder(Decoder):
    """Runs a cell; a helper says what goes into its steps."""

    OutputWrapper = collections.namedtuple("OutputWrapper", ("cell_outputs", "sample_ids"))

    def __init__(self, cell, helper, output_fn=None):
        self.cell = cell
        self.helper = helper
        self.output_fn = output_fn

    def initialize(self, initial_cell_states):
        """The first inputs of the helper."""
        inputs, finished = self.helper.initialize()
        return inputs, initial_cell_states, finished

    def step(self, time, inputs, states, **kwargs):
        """Runs the cell once."""
        outputs, states = self.cell(inputs, states, **kwargs)
        if self.output_fn is not None:
            outputs = self.output_fn(outputs)
        ids = self.helper.sample(time=time, outputs=outputs, states=states)
        ids.stop_gradient = True
        finished, following, states = self.helper.next_inputs(
            time=time, outputs=outputs, states=states, sample_ids=ids
        )
        return self.OutputWrapper(outputs, ids), states, following, finished
