"""Figures of quality over all trainers, and what only the first of them says."""

import logging
import sys

import numpy

from ....._core import global_scope
from ....core import CPUPlace
from ..parameter_server import distribute_transpiler

_logger = logging.getLogger(__name__)
_logger.setLevel(logging.INFO)

#: The results of `get_global_metrics`, in order.
N_METRICS = 9


class FleetUtil:
    """Tools for the trainers of a fleet. Both of Fluid's modes mean the same fleet here."""

    def __init__(self, mode="pslib"):
        if mode not in ("pslib", "transpiler"):
            raise ValueError("Please choose one mode from [\"pslib\", \"transpiler\"]")

    @property
    def _fleet(self):
        return distribute_transpiler.fleet

    def rank0_print(self, s):
        """The first trainer prints this."""
        if self._fleet.worker_index() == 0:
            print(s)
            sys.stdout.flush()

    def rank0_info(self, s):
        """The first trainer logs this."""
        if self._fleet.worker_index() == 0:
            _logger.info(s)

    def rank0_error(self, s):
        """The first trainer logs this as an error."""
        if self._fleet.worker_index() == 0:
            _logger.error(s)

    def set_zero(self, var_name, scope=None, place=None, param_type="int64"):
        """Fills a variable with zeros: a metric begins anew."""
        tensor = (scope or global_scope()).var(var_name).get_tensor()
        zeros = numpy.zeros(tensor.shape(), param_type)
        tensor.set(zeros, place or CPUPlace())

    def get_global_auc(
        self, scope=None, stat_pos="_generated_var_2", stat_neg="_generated_var_3"
    ):
        """The area under the ROC curve over the samples of all trainers; None without histograms.

        One half while there are only positives or only negatives.
        """
        scope = scope or global_scope()
        if self._missing(scope, "auc bucket", stat_pos, stat_neg):
            return None
        area, _ = self._fleet._need().global_auc(scope, stat_pos, stat_neg)
        return area

    def print_global_auc(
        self,
        scope=None,
        stat_pos="_generated_var_2",
        stat_neg="_generated_var_3",
        print_prefix="",
    ):
        """The first trainer prints the area under the ROC curve over the samples of all."""
        area = self.get_global_auc(scope, stat_pos, stat_neg)
        self.rank0_print(print_prefix + " global auc = %s" % area)

    def get_global_metrics(
        self,
        scope=None,
        stat_pos_name="_generated_var_2",
        stat_neg_name="_generated_var_3",
        sqrerr_name="sqrerr",
        abserr_name="abserr",
        prob_name="prob",
        q_name="q",
        pos_ins_num_name="pos",
        total_ins_num_name="total",
    ):
        """Figures of a click-through model over the samples of all trainers.

        A list: auc, bucket error, mae, rmse, actual ctr, predicted ctr, copc, mean predicted q value
        and number of samples; of None each where a variable is missing. The sums are those of
        `fluid.contrib.layers.ctr_metric_bundle`.
        """
        scope = scope or global_scope()
        if self._missing(scope, "auc bucket", stat_pos_name, stat_neg_name):
            return [None] * N_METRICS
        sums = {
            "sqrerr_name": sqrerr_name,
            "abserr_name": abserr_name,
            "prob_name": prob_name,
            "q_name": q_name,
            "pos_ins_num_name": pos_ins_num_name,
            "total_ins_num_name": total_ins_num_name,
        }
        for argument, name in sums.items():
            if self._missing(scope, "%s=%s" % (argument, name), name):
                return [None] * N_METRICS
        histograms = [stat_pos_name, stat_neg_name]
        found = self._fleet._need().global_metrics(scope, histograms, list(sums.values()))
        return [*found[:-1], int(found[-1])]

    def print_global_metrics(
        self,
        scope=None,
        stat_pos_name="_generated_var_2",
        stat_neg_name="_generated_var_3",
        sqrerr_name="sqrerr",
        abserr_name="abserr",
        prob_name="prob",
        q_name="q",
        pos_ins_num_name="pos",
        total_ins_num_name="total",
        print_prefix="",
    ):
        """The first trainer prints the figures of `get_global_metrics`."""
        found = self.get_global_metrics(
            scope,
            stat_pos_name,
            stat_neg_name,
            sqrerr_name,
            abserr_name,
            prob_name,
            q_name,
            pos_ins_num_name,
            total_ins_num_name,
        )
        if found[0] is None:
            return
        line = (
            "%s global AUC=%.6f BUCKET_ERROR=%.6f MAE=%.6f RMSE=%.6f Actural_CTR=%.6f "
            "Predicted_CTR=%.6f COPC=%.6f MEAN Q_VALUE=%.6f Ins number=%s"
        )
        self.rank0_print(line % (print_prefix, *found))

    def _missing(self, scope, what, *names):
        """Whether a variable is missing, which the first trainer says."""
        missing = any(scope.find_var(name) is None for name in names)
        if missing:
            self.rank0_print("not found %s" % what)
        return missing
