"""Which rows of a sparse table its servers take in."""


class EntryAttr:
    """A rule for :func:`paddle.fluid.contrib.layers.sparse_embedding`.

    A row that the rule has not taken in reads as zeros, and gradients for it are dropped.
    """

    def _to_attr(self):
        """The rule as the attribute of an op."""
        raise NotImplementedError("EntryAttr is base class")


class ProbabilityEntry(EntryAttr):
    """Takes in this share of all rows.

    Drawn once for each row from (seed of the program, table, row): every process and every run of
    a program with this seed takes in the same rows.
    """

    def __init__(self, probability):
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise ValueError("probability must be a float in (0,1)")
        self._name = "probability_entry"
        self._probability = probability

    def _to_attr(self):
        return f"{self._name}:{self._probability!r}"


class CountFilterEntry(EntryAttr):
    """Takes in a row with the n-th gradient that names it.

    A gradient counts once, however often its batch lists the row. Looking up counts nothing.
    """

    def __init__(self, count_filter):
        if not isinstance(count_filter, int):
            raise ValueError("count_filter must be a valid integer greater than 0")
        if count_filter < 0:
            raise ValueError("count_filter must be a valid integer greater or equal than 0")
        self._name = "count_filter_entry"
        self._count_filter = int(count_filter)

    def _to_attr(self):
        return f"{self._name}:{self._count_filter}"


class ShowClickEntry(EntryAttr):
    """Names the variables with shows and clicks of a row. Servers here keep rows whatever these are."""

    def __init__(self, show_name, click_name):
        if not isinstance(show_name, str) or not isinstance(click_name, str):
            raise ValueError("show_name click_name must be a str")
        self._name = "show_click_entry"
        self._show_name, self._click_name = show_name, click_name

    def _to_attr(self):
        return f"{self._name}:{self._show_name}:{self._click_name}"
