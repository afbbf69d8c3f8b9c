"""Graphs in the language of `dot`."""

import subprocess


def crepr(v):
    """A value as `dot` wants it: text in quotes."""
    return '"%s"' % v if isinstance(v, str) else str(v)


def _attrs(attrs):
    return "[%s]" % ",".join("%s=%s" % (key, crepr(value)) for key, value in sorted(attrs.items()))


class Rank:
    """Nodes at one height."""

    def __init__(self, kind, name, priority):
        self.kind, self.name, self.priority = kind, str(name), priority
        self.nodes = []

    def __str__(self):
        nodes = "".join(node.name + "; " for node in self.nodes)
        return "{rank=%s; %s}" % (self.kind, nodes) if self.nodes else ""


class Node:
    """A part of a graph."""

    counter = 0

    def __init__(self, label, prefix, description="", **attrs):
        Node.counter += 1
        self.label, self.description, self.attrs = label, description, attrs
        self.name = "%s_%d" % (prefix, Node.counter)

    def __str__(self):
        return "%s %s;" % (self.name, _attrs({"label": self.label, **self.attrs}))


class Edge:
    """An arrow between two parts."""

    def __init__(self, source, target, **attrs):
        self.source, self.target, self.attrs = source, target, attrs

    def __str__(self):
        return "%s -> %s %s" % (self.source.name, self.target.name, _attrs(self.attrs))


class Graph:
    """Parts, arrows between them, and groups."""

    def __init__(self, title, **attrs):
        self.title, self.attrs = title, attrs
        self.nodes, self.edges, self.rank_groups = [], [], {}

    def code(self):
        """The graph as text."""
        lines = ["digraph G {", "title = " + crepr(self.title)]
        lines += ["%s=%s;" % (key, crepr(value)) for key, value in sorted(self.attrs.items())]
        lines += map(str, sorted(self.rank_groups.values(), key=lambda rank: rank.priority))
        lines += map(str, self.nodes + self.edges)
        return "\n".join([*lines, "}"])

    __str__ = code

    def rank_group(self, kind, priority):
        """A new group of parts at one height."""
        name = "rankgroup-%d" % len(self.rank_groups)
        self.rank_groups[name] = Rank(kind, name, priority)
        return name

    def node(self, label, prefix, description="", **attrs):
        """A new part."""
        group = attrs.pop("rank_group", None)
        node = Node(label, prefix, description, **attrs)
        if group is not None:
            self.rank_groups[group].nodes.append(node)
        self.nodes.append(node)
        return node

    def edge(self, source, target, **attrs):
        """A new arrow."""
        self.edges.append(Edge(source, target, **attrs))
        return self.edges[-1]

    def compile(self, dot_path):
        """Writes the text, and a picture beside it if `dot` is installed; returns what was written."""
        with open(dot_path, "w", encoding="utf-8") as file:
            file.write(self.code())
        picture = dot_path.rpartition(".")[0] + ".pdf"
        try:
            subprocess.run(["dot", "-Tpdf", dot_path, "-o", picture], check=True)
        except (OSError, subprocess.CalledProcessError):
            return dot_path
        return picture

    show = compile


class GraphPreviewGenerator:
    """Draws parameters, operators and other variables."""

    def __init__(self, title):
        self.graph = Graph(title, layout="dot")
        self.op_rank = self.graph.rank_group("same", 2)
        self.param_rank = self.graph.rank_group("same", 1)
        self.arg_rank = self.graph.rank_group("same", 0)

    def __call__(self, path="temp.dot", show=False):
        return self.graph.compile(path)

    def add_param(self, name, data_type, highlight=False):
        """A parameter."""
        color = "orange" if highlight else "#148b97"
        return self.graph.node(name + "\\n" + data_type, "param", shape="box", color=color)

    def add_op(self, opType, **kwargs):
        """An operator."""
        highlight = kwargs.pop("highlight", False)
        return self.graph.node(opType, "op", shape="box", color="orange" if highlight else "#303A3A")

    def add_arg(self, name, highlight=False):
        """Another variable."""
        return self.graph.node(name, "arg", shape="box", color="orange" if highlight else "#999999")

    def add_edge(self, source, target, **kwargs):
        """An arrow."""
        highlight = kwargs.pop("highlight", False)
        return self.graph.edge(source, target, color="orange" if highlight else "#00000f")
