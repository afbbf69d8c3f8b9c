"""Draws what servers and trainers say to each other, from real runs: one picture per mode.

    paddlewheel run docs/tools/timeline.py              # all modes, into docs/img
    paddlewheel run docs/tools/timeline.py sync --text  # one mode, as a list

The script starts two servers and two trainers for each mode. Trainers reach the servers through
relays in this process. A relay passes all bytes on and reads the head of each frame (see
docs/reference/formats.md). Trainer 1 is slowed down, so that the picture shows who waits for whom.
"""

import argparse
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGES = os.path.join(HERE, os.pardir, "img")

#: Steps of a trainer, and the one at which the picture begins.
STEPS, FIRST = 60, 30
#: What trainer 1 sleeps before a step, in seconds, and before every how many steps it does so.
PAUSES = {"ssp": (0.03, 4)}
PAUSE = (0.008, 1)
#: How long the drawn part is, in seconds.
SPANS = {"ssp": 0.1}
SPAN = 0.04

#: How to ask for each mode.
MODES = {
    "sync": lambda factory: factory.create_sync_strategy(),
    "half_async": lambda factory: factory.create_half_async_strategy(),
    "async": lambda factory: factory.create_async_strategy(),
    "geo": lambda factory: factory.create_geo_strategy(4),
    "ssp": lambda factory: factory.create_ssp_strategy(2),
}

#: Numbers of messages on the wire, the words for them, and their colours.
KINDS = {
    1: ("hello", "#999999"),
    2: ("push", "#1f77b4"),
    3: ("barrier", "#000000"),
    4: ("complete", "#999999"),
    6: ("pull", "#2ca02c"),
    7: ("look-up", "#ff7f0e"),
    8: ("all-gather", "#999999"),
    10: ("ping", "#cccccc"),
    129: ("welcome", "#999999"),
    130: ("acknowledged", "#cccccc"),
    131: ("parameters", "#2ca02c"),
    132: ("rows", "#ff7f0e"),
    133: ("all-gather result", "#999999"),
    135: ("pong", "#cccccc"),
    137: ("refused", "#d62728"),
}
DRAWN = ("look-up", "rows", "push", "barrier", "pull", "parameters")
HEAD = struct.Struct("<4sHHIIQ")
#: Bytes before the first frame: the proof of a trainer, and that of a server.
PROOF_BYTES = (172, 176)


# ------------------------------------------------------------------ a process of the job


def train(mode, slower):
    """What servers and trainers do: a small model with a table and two layers."""
    import numpy
    import paddle.fluid as fluid
    from paddle.fluid.incubate.fleet.base import role_maker
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
        distributed_strategy,
    )

    fleet.init(role_maker.PaddleCloudRoleMaker())
    ids = fluid.data("ids", [None, 1], dtype="int64")
    label = fluid.data("label", [None, 1], dtype="float32")
    found = fluid.layers.embedding(ids, [100000, 32], is_sparse=True)
    hidden = fluid.layers.fc(fluid.layers.reshape(found, [-1, 32]), 512, act="relu")
    guess = fluid.layers.fc(hidden, 1)
    loss = fluid.layers.mean(fluid.layers.square_error_cost(guess, label))
    strategy = MODES[mode](distributed_strategy.StrategyFactory)
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    fleet.init_worker()
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fleet.startup_program)
    me = fleet.worker_index()
    random = numpy.random.RandomState(me)
    fleet.barrier_worker()
    pause, every = PAUSES.get(mode, PAUSE)
    for step in range(STEPS):
        if me == 1 and step % every == 0:
            time.sleep(pause * slower)
        feed = {
            "ids": random.randint(0, 100000, (1024, 1)),
            "label": random.rand(1024, 1).astype("float32"),
        }
        began = time.monotonic()
        exe.run(fleet.main_program, feed=feed, fetch_list=[loss])
        print("step", began, time.monotonic(), flush=True)
    fleet.stop_worker()


# ------------------------------------------------------------------ what is seen on the wire


class Relay:
    """Passes bytes between a trainer and a server, and notes when each message passed."""

    def __init__(self, trainer, server, endpoint, seen):
        self._names, self._to, self._seen = (trainer, server), endpoint, seen
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = "127.0.0.1:%d" % self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            near, _ = self._listener.accept()
            host, _, port = self._to.rpartition(":")
            try:
                far = socket.create_connection((host, int(port)))
            except OSError:
                near.close()  # The server does not listen yet; the trainer tries again.
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            trainer, server = self._names
            ways = ((near, far, trainer, server), (far, near, server, trainer))
            for way, n_proof in zip(ways, PROOF_BYTES):
                threading.Thread(target=self._pass_on, args=(*way, n_proof), daemon=True).start()

    def _pass_on(self, source, sink, sender, receiver, skip):
        held = b""
        try:
            while data := source.recv(1 << 20):
                now = time.monotonic()
                sink.sendall(data)
                held += data
                while True:
                    dropped = min(skip, len(held))
                    held, skip = held[dropped:], skip - dropped
                    if skip or len(held) < HEAD.size:
                        break
                    magic, kind, _, n_meta, n_blob, _ = HEAD.unpack_from(held)
                    if magic[:3] != b"PWL":
                        raise OSError("not a frame")
                    skip = HEAD.size + n_meta + n_blob
                    self._seen.append((now, sender, receiver, kind, n_meta + n_blob))
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def free_ports(n):
    """End points on which nobody listens."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    found = ["127.0.0.1:%d" % one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


def run_job(mode, slower):
    """Runs two servers and two trainers; returns messages and the steps of each trainer."""
    servers, seen, processes = free_ports(2), [], []
    with tempfile.TemporaryDirectory() as folder:

        def start(name, **variables):
            log = open(os.path.join(folder, name), "w")
            command = [sys.executable, "-m", "paddlewheel", "run", os.path.abspath(__file__)]
            command += ["--job", mode, "--slower", str(slower)]
            variables = {**os.environ, "PADDLE_TRAINERS_NUM": "2", **variables}
            processes.append(subprocess.Popen(command, env=variables, stdout=log, stderr=log))

        try:
            for at, endpoint in enumerate(servers):
                host, _, port = endpoint.rpartition(":")
                start(
                    "server%d" % at,
                    TRAINING_ROLE="PSERVER",
                    POD_IP=host,
                    PADDLE_PORT=port,
                    PADDLE_PSERVERS_IP_PORT_LIST=",".join(servers),
                )
            for at in range(2):
                name = "trainer %d" % at
                ends = [
                    Relay(name, "server %d" % k, to, seen).endpoint for k, to in enumerate(servers)
                ]
                start(
                    "trainer%d" % at,
                    TRAINING_ROLE="TRAINER",
                    PADDLE_TRAINER_ID=str(at),
                    PADDLE_PSERVERS_IP_PORT_LIST=",".join(ends),
                )
            codes = [process.wait(timeout=120) for process in processes]
        finally:
            for process in processes:
                process.kill()
        logs = {name: open(os.path.join(folder, name)).read() for name in os.listdir(folder)}
        if any(codes):
            sys.exit("a process failed:\n" + "\n".join(logs.values()))
    steps = {}
    for at in range(2):
        lines = [line.split() for line in logs["trainer%d" % at].splitlines()]
        spans = [(float(line[1]), float(line[2])) for line in lines if line[:1] == ["step"]]
        steps["trainer %d" % at] = spans
    return sorted(seen), steps


# ------------------------------------------------------------------ drawing

LANES = {"trainer 0": 60, "server 0": 130, "server 1": 170, "trainer 1": 240}
LEFT, WIDTH, HEIGHT = 80, 1180, 330


def draw(mode, seen, steps, begin, span):
    """The picture of a mode."""
    end = begin + span
    scale = (WIDTH - LEFT - 20) / span

    def x(at):
        return LEFT + (min(max(at, begin), end) - begin) * scale

    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" ' % (WIDTH, HEIGHT)
        + 'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="10" y="20" font-size="14">%s: %d ms of a real run</text>' % (mode, span * 1e3),
    ]
    for name, y in LANES.items():
        out.append('<text x="10" y="%d">%s</text>' % (y + 4, name))
        out.append('<path d="M%d %dH%d" stroke="#dddddd"/>' % (LEFT, y, WIDTH - 20))
    for name, spans in steps.items():
        for at, (began, ended) in enumerate(spans):
            if ended > begin and began < end:
                box = (x(began), LANES[name] - 10, max(x(ended) - x(began), 1))
                out.append(
                    '<rect x="%.1f" y="%d" width="%.1f" height="20" ' % box
                    + 'fill="#e8eef7" stroke="#8899bb"/>'
                )
                if x(ended) - x(began) > 12:
                    place = (x(began) + 2, LANES[name] + 4, at)
                    out.append('<text x="%.1f" y="%d" font-size="9">%d</text>' % place)
    free = {}
    for at, sender, receiver, kind, _ in seen:
        word, colour = KINDS.get(kind, ("other", "#cccccc"))
        if word in DRAWN and begin <= at <= end:
            y0, y1 = LANES[sender], LANES[receiver]
            tip = 5 if y1 > y0 else -5
            # Messages of the same moment stand side by side, in their order.
            trainer = max(sender, receiver)
            at = max(x(at), free.get(trainer, 0))
            if at > WIDTH - 15:
                continue
            free[trainer] = at + 4
            arrow = (at, y0, y1 - tip, at - 2.5, y1 - tip, at + 2.5, y1 - tip, at, y1)
            out.append(
                '<path d="M%.1f %dV%dM%.1f %dL%.1f %dL%.1f %dZ" ' % arrow
                + 'stroke="%s" fill="%s"/>' % (colour, colour)
            )
    for ms in range(0, int(span * 1e3) + 1, max(int(span * 1e3) // 8, 1)):
        place = (x(begin + ms / 1e3), HEIGHT - 45, ms)
        out.append('<text x="%.1f" y="%d" font-size="10">%d ms</text>' % place)
    left = LEFT
    for word in DRAWN:
        colour = dict(KINDS.values())[word]
        out.append('<rect x="%d" y="%d" width="10" height="10" fill="%s"/>' % (left, 305, colour))
        out.append('<text x="%d" y="%d">%s</text>' % (left + 14, 314, word))
        left += 40 + 7 * len(word)
    out.append('<text x="%d" y="314">boxes: exe.run with the number of the step; gaps: trainer 1 sleeps</text>' % left)
    return "\n".join(out + ["</svg>"]) + "\n"


def listing(seen, begin):
    """All messages from then on, as lines of text."""
    lines = []
    for at, sender, receiver, kind, n_bytes in seen:
        if begin <= at:
            word = KINDS.get(kind, (str(kind),))[0]
            values = ((at - begin) * 1e3, sender, receiver, word, n_bytes)
            lines.append("%6.1f ms  %s -> %s  %-12s %d bytes" % values)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modes", nargs="*", help="; ".join(MODES))
    parser.add_argument("--text", action="store_true", help="print a list instead of drawing")
    parser.add_argument("--slower", type=int, default=1, help="longer pauses, for a slow machine")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.job:
        return train(settings.job, settings.slower)
    for mode in settings.modes or MODES:
        seen, steps = run_job(mode, settings.slower)
        begin = steps["trainer 0"][FIRST][0]
        if mode == "ssp":
            # Just before trainer 1 sleeps.
            begin = steps["trainer 1"][FIRST + 1][0]
        if settings.text:
            print(listing(seen, begin))
            continue
        path = os.path.join(IMAGES, "%s.svg" % mode)
        with open(path, "w") as file:
            file.write(draw(mode, seen, steps, begin, SPANS.get(mode, SPAN) * settings.slower))
        print("wrote", os.path.relpath(path))


if __name__ == "__main__":
    main()
