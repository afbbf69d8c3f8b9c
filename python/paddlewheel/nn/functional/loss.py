"""Losses."""

from ...fluid import layers
from ...tensor import math
from ...tensor._op import make, need_variable


def _reduced(loss, reduction, function):
    if reduction == "mean":
        return math.mean(loss)
    if reduction == "sum":
        return math.sum(loss)
    if reduction != "none":
        raise ValueError(
            "The value of 'reduction' in {} should be 'sum', 'mean' or 'none', but received {}, which is "
            "not allowed.".format(function, reduction)
        )
    return loss


def log_loss(input, label, epsilon=1e-4, name=None):
    """-label log(input + epsilon) - (1 - label) log(1 - input + epsilon)."""
    return layers.log_loss(input, label, epsilon, name)


def square_error_cost(input, label):
    """(input - label)^2."""
    return layers.square_error_cost(input, label)


def mse_loss(input, label, reduction="mean", name=None):
    """(input - label)^2, reduced."""
    return _reduced(math.square(math.subtract(input, label)), reduction, "mse_loss")


def l1_loss(input, label, reduction="mean", name=None):
    """|input - label|, reduced."""
    return _reduced(math.abs(math.subtract(input, label)), reduction, "l1_loss")


def smooth_l1_loss(input, label, reduction="mean", delta=1.0, name=None):
    """Squares near errors and takes far ones as they are."""
    return _reduced(layers.huber_loss(input, label, delta), reduction, "smooth_l1_loss")


def binary_cross_entropy(input, label, weight=None, reduction="mean", name=None):
    """The cross entropy of probabilities and labels between 0 and 1."""
    need_variable(input, "binary_cross_entropy", "input")
    loss = make("bce_loss", {"X": input, "Label": label}, name=name)
    if weight is not None:
        loss = math.multiply(loss, weight)
    return _reduced(loss, reduction, "binary_cross_entropy")


def binary_cross_entropy_with_logits(logit, label, weight=None, reduction="mean", pos_weight=None, name=None):
    """The cross entropy of scores and labels between 0 and 1."""
    loss = layers.sigmoid_cross_entropy_with_logits(logit, label)
    if pos_weight is not None:
        # Version 2.6 weighs the logarithm alone.
        logs = layers.softplus(math.scale(math.abs(logit), -1.0))
        extra = math.multiply(label, math.scale(pos_weight, 1.0, -1.0))
        loss = math.add(loss, math.multiply(logs, extra))
    if weight is not None:
        loss = math.multiply(loss, weight)
    return _reduced(loss, reduction, "binary_cross_entropy_with_logits")


def softmax_with_cross_entropy(
    logits, label, soft_label=False, ignore_index=-100, numeric_stable_mode=True, return_softmax=False, axis=-1
):
    """The cross entropy of the softmax of scores: the loss, or (loss, softmax)."""
    label = _with_axis(label, logits, axis, soft_label)
    return layers.softmax_with_cross_entropy(
        logits, label, soft_label, ignore_index, numeric_stable_mode, return_softmax, axis
    )


def _with_axis(label, logits, axis, soft_label):
    """Labels of whole numbers with the axis of classes, which has size 1."""
    if not soft_label and len(label.shape) == len(logits.shape) - 1:
        return layers.unsqueeze(label, [axis if axis >= 0 else axis + len(logits.shape)])
    return label


def cross_entropy(
    input, label, weight=None, ignore_index=-100, reduction="mean", soft_label=False, axis=-1,
    use_softmax=True, label_smoothing=0.0, name=None,
):
    """The cross entropy of scores (or probabilities without `use_softmax`) and labels, reduced."""
    if weight is not None or label_smoothing:
        raise NotImplementedError("cross_entropy takes no weight and no label_smoothing here")
    is_bare = not soft_label and len(label.shape) == len(input.shape) - 1
    label = _with_axis(label, input, axis, soft_label)
    if use_softmax:
        loss = layers.softmax_with_cross_entropy(input, label, soft_label, ignore_index, True, False, axis)
    else:
        loss = layers.cross_entropy(input, label, soft_label, ignore_index)
    if reduction == "mean" and not soft_label:
        return _mean_of_counted(loss, label, ignore_index)
    if is_bare and reduction == "none":
        return layers.squeeze(loss, [axis])
    return _reduced(loss, reduction, "cross_entropy")


def _mean_of_counted(loss, label, ignore_index):
    """The mean over labels that are not ignored."""
    ignored = layers.fill_constant([1], label.dtype, ignore_index)
    counted = layers.cast(layers.not_equal(label, ignored), loss.dtype)
    count = math.sum(counted)
    none = layers.cast(layers.equal(count, layers.fill_constant([1], loss.dtype, 0.0)), loss.dtype)
    return math.divide(math.sum(loss), math.add(count, none))


def nll_loss(input, label, weight=None, ignore_index=-100, reduction="mean", name=None):
    """Minus the logarithm of a probability at each label."""
    if weight is not None:
        raise NotImplementedError("nll_loss takes no weight here")
    width = input.shape[1]
    picked = math.multiply(input, layers.one_hot_v2(label, width))
    return _reduced(math.scale(math.sum(picked, axis=1), -1.0), reduction, "nll_loss")


def kl_div(input, label, reduction="mean", name=None):
    """The divergence of distributions; `input` has logarithms."""
    return layers.kldiv_loss(input, label, reduction, name)


def margin_ranking_loss(input, other, label, margin=0.0, reduction="mean", name=None):
    """max(0, -label (input - other) + margin)."""
    loss = math.multiply(math.subtract(other, input), label)
    return _reduced(layers.relu(math.scale(loss, 1.0, margin)), reduction, "margin_ranking_loss")
