"""Does one thing with less memory than it needs, then with more and more, until it succeeds.

Argument: a name of `CASES`. Each error is one line of its type and its text; the last line is `goes on`.
"""

import resource
import sys
import tempfile

import numpy
from paddlewheel import fluid

L, N, MB = fluid.layers, 2_000_000, 1 << 20


def floats():
    return numpy.random.RandomState(0).rand(N).astype("float32")


def ids(n=1 << 40):
    return numpy.random.RandomState(1).randint(0, n, N)


def vector(name="x", dtype="float32"):
    return L.data(name, [N], append_batch_size=False, dtype=dtype)


def ragged(array, length=4):
    tensor = fluid.LoDTensor()
    tensor.set(array.reshape(-1, 1), fluid.CPUPlace())
    tensor.set_recursive_sequence_lengths([[length] * (len(array) // length)])
    return tensor


def sequences(name="x", dtype="float32"):
    return L.data(name, [1], dtype=dtype, lod_level=1)


def run(outputs, feed, **options):
    """Runs what was built; only the mean of each output is fetched, unless it is asked for."""
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    whole = options.pop("whole", False)
    fetched = [output if whole else L.mean(L.cast(output, "float32")) for output in outputs]
    return lambda: exe.run(feed=feed, fetch_list=fetched, **options)


def trained(loss, optimizer, feed):
    optimizer.minimize(loss)
    return run([loss], feed, return_numpy=False)


def embedded(optimizer, height=100_000, **options):
    rows = L.embedding(L.data("x", [1], dtype="int64"), [height, 4], is_sparse=True, **options)
    return trained(L.mean(rows), optimizer, {"x": ids(height).reshape(-1, 1)})


def tensor_set():
    tensor, array = fluid.LoDTensor(), numpy.ones((4 * N,), "float32")
    return lambda: tensor.set(array, fluid.CPUPlace())


def tensor_to_numpy():
    tensor = fluid.LoDTensor()
    tensor.set(numpy.ones((8 * N,), "float32"), fluid.CPUPlace())
    return lambda: numpy.array(tensor)


def saved():
    L.embedding(L.data("x", [1], dtype="int64"), [N, 16])
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    folder = tempfile.mkdtemp(dir=".")
    fluid.io.save_persistables(exe, folder)
    return exe, folder


def load():
    exe, folder = saved()
    fluid.global_scope().drop_kids()

    def again():
        with fluid.scope_guard(fluid.Scope()):
            fluid.io.load_persistables(exe, folder)

    return again


def load_state():
    _, folder = saved()
    return lambda: fluid.io.load_program_state(folder)


def save_pickle():
    _, folder = saved()
    return lambda: fluid.save(fluid.default_main_program(), folder + "/pickled")


def inner_ragged(layer, dtype="float32", array=floats):
    return run([L.reduce_sum(layer(sequences(dtype=dtype)))], {"x": ragged(array())})


def strided():
    return run([L.mean(L.data("x", [2]))], {"x": floats().reshape(-1, 4)[:, ::2]})


CASES = {
    "feed": lambda: run([L.mean(L.data("x", [4]))], {"x": numpy.ones((4 * N, 4), "float32")}),
    "feed_strided": strided,
    "feed_tensor": lambda: run([L.mean(sequences())], {"x": ragged(floats())}),
    "tensor_set": tensor_set,
    "tensor_to_numpy": tensor_to_numpy,
    "fetch": lambda: run([L.expand(L.data("x", [1]), [1, 20])], {"x": floats().reshape(-1, 1)}, whole=True),
    "fetch_bool": lambda: run([L.expand(L.data("x", [1]), [1, 20]) > 0.5], {"x": floats().reshape(-1, 1)}, whole=True),
    "startup": lambda: (
        L.embedding(L.data("x", [1], dtype="int64"), [N, 16]),
        lambda: fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program()),
    )[1],
    "load": load,
    "load_program_state": load_state,
    "save": save_pickle,
    "unique": lambda: run(L.unique(vector(dtype="int64")), {"x": ids()}),
    "argsort": lambda: run(L.argsort(vector()), {"x": floats()}),
    "gather": lambda: run([L.gather(vector(), vector("i", "int64"))], {"x": floats(), "i": ids(N)}),
    "scatter": lambda: run(
        [L.scatter(vector(), vector("i", "int64"), vector("u"))], {"x": floats(), "i": ids(N), "u": floats()}
    ),
    "one_hot": lambda: run([L.one_hot(L.data("x", [1], dtype="int64"), 4)], {"x": ids(4).reshape(-1, 1)}),
    "sequence_expand": lambda: run(
        [L.reduce_sum(L.sequence_expand(sequences(), sequences("y")))], {"x": ragged(floats()), "y": ragged(floats())}
    ),
    "sequence_concat": lambda: run(
        [L.reduce_sum(L.sequence_concat([sequences(), sequences("y")]))], {"x": ragged(floats()), "y": ragged(floats())}
    ),
    "sequence_reverse": lambda: inner_ragged(L.sequence_reverse),
    "dynamic_gru": lambda: run(
        [L.reduce_sum(L.dynamic_gru(L.fc(sequences(), 3), 1))], {"x": ragged(floats()[: N // 4])}
    ),
    "sparse_sgd": lambda: embedded(fluid.optimizer.SGD(0.1)),
    "lazy_adam": lambda: embedded(fluid.optimizer.Adam(0.1, lazy_mode=True)),
    "all_ids": lambda: embedded(fluid.optimizer.SGD(0.1), 2**50, is_distributed=True),
}


def main(case):
    fluid.default_startup_program().random_seed = 1
    work = CASES[case]()
    with open("/proc/self/statm") as file:
        held = int(file.read().split()[0]) * resource.getpagesize()
    for more in (0, 2, 4, 6, 9, 13, 18, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096):
        limit = held + more * MB
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        try:
            work()
        except Exception as error:
            text = "%s: %s" % (type(error).__name__, str(error).partition("\n")[0])
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print(text, flush=True)
            continue
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print("goes on", flush=True)
        return


if __name__ == "__main__":
    main(sys.argv[1])
