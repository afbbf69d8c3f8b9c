"""Trainers without servers, against PyTorch's DistributedDataParallel (gloo) and against our own sync servers.

    python collective.py [--torch /path/to/python] [--rounds 3] [--only ctr,mlp]

Two nets: the dense part of the click-through net (273 numbers, three layers of 400) and four layers of 1024. Every process has one thread. Both sides
take turns in the same run; the figure is the ratio of the medians of samples per second of all trainers. Prints a `BENCH` line for each figure.
"""

import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import time

#: Inputs, widths of the layers, classes, batch of a trainer, steps.
NETS = {
    "ctr": (273, (400, 400, 400), 2, 128, 300),
    "mlp": (1024, (1024, 1024, 1024, 1024), 10, 128, 60),
}
WARM_UP = 10
LIMIT_S = 240


def batch_of(net):
    import numpy

    inputs, _, classes, batch, _ = NETS[net]
    random = numpy.random.RandomState(int(os.environ["PADDLE_TRAINER_ID"]))
    x = random.rand(batch, inputs).astype("float32")
    return x, random.randint(0, classes, (batch, 1)).astype("int64")


def timed(net, step):
    """Runs the steps and prints how many samples a second were trained."""
    _, _, _, batch, steps = NETS[net]
    for _ in range(WARM_UP):
        step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    print("samples/s %.1f" % (batch * steps / (time.perf_counter() - start)), flush=True)


def loss_of(fluid, net):
    inputs, widths, classes, _, _ = NETS[net]
    hidden = fluid.layers.data("x", [inputs])
    label = fluid.layers.data("y", [1], dtype="int64")
    for width in widths:
        hidden = fluid.layers.fc(hidden, width, act="relu")
    out = fluid.layers.fc(hidden, classes, act="softmax")
    return fluid.layers.mean(fluid.layers.cross_entropy(out, label))


def run_collective(net):
    import paddlewheel.fluid as fluid
    from paddlewheel.fluid.incubate.fleet.base import role_maker
    from paddlewheel.fluid.incubate.fleet.collective import DistributedStrategy, fleet

    loss = loss_of(fluid, net)
    optimizer = fluid.optimizer.SGD(0.01)
    exe = fluid.Executor(fluid.CPUPlace())
    if int(os.environ["PADDLE_TRAINERS_NUM"]) == 1:
        optimizer.minimize(loss)
        exe.run(fluid.default_startup_program())
        program = fluid.default_main_program()
    else:
        fleet.init(role_maker.PaddleCloudRoleMaker(is_collective=True))
        strategy = DistributedStrategy()
        strategy.mode, strategy.collective_mode = "collective", "grad_allreduce"
        fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
        exe.run(fleet.startup_program)
        program = fleet.main_program
    x, y = batch_of(net)
    timed(net, lambda: exe.run(program, feed={"x": x, "y": y}, fetch_list=[loss]))


def run_servers(net):
    import paddlewheel.fluid as fluid
    from paddlewheel.fluid.incubate.fleet.base import role_maker
    from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import (
        StrategyFactory,
        fleet,
    )

    fleet.init(role_maker.PaddleCloudRoleMaker())
    loss = loss_of(fluid, net)
    strategy = StrategyFactory.create_sync_strategy()
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.01), strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    exe = fluid.Executor(fluid.CPUPlace())
    fleet.init_worker()
    exe.run(fleet.startup_program)
    x, y = batch_of(net)
    timed(net, lambda: exe.run(fleet.main_program, feed={"x": x, "y": y}, fetch_list=[loss]))
    fleet.stop_worker()


def run_torch(net):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    rank, size = int(os.environ["PADDLE_TRAINER_ID"]), int(os.environ["PADDLE_TRAINERS_NUM"])
    os.environ["MASTER_ADDR"], _, os.environ["MASTER_PORT"] = os.environ["MASTER"].rpartition(":")
    inputs, widths, classes, _, _ = NETS[net]
    layers, last = [], inputs
    for width in widths:
        layers += [torch.nn.Linear(last, width), torch.nn.ReLU()]
        last = width
    model = torch.nn.Sequential(*layers, torch.nn.Linear(last, classes))
    if size > 1:
        dist.init_process_group("gloo", rank=rank, world_size=size)
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = torch.nn.CrossEntropyLoss()
    x, y = batch_of(net)
    x, y = torch.from_numpy(x), torch.from_numpy(y[:, 0])

    def step():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    timed(net, step)
    if size > 1:
        dist.destroy_process_group()


RUNS = {"collective": run_collective, "servers": run_servers, "torch": run_torch}


def free_endpoints(n):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    endpoints = ["127.0.0.1:%d" % own.getsockname()[1] for own in taken]
    for own in taken:
        own.close()
    return endpoints


def measure(python, kind, net, n):
    """Samples per second of all trainers together."""
    endpoints, servers, master = free_endpoints(n), free_endpoints(2), free_endpoints(1)[0]
    common = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PADDLE_TRAINERS_NUM": str(n),
        "MASTER": master,
    }
    roles = []
    if kind == "servers":
        common["PADDLE_PSERVERS_IP_PORT_LIST"] = ",".join(servers)
        for endpoint in servers:
            port = endpoint.rpartition(":")[2]
            own = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": port}
            roles.append((False, {**own, "PADDLE_TRAINER_ID": "0"}))
    else:
        common["PADDLE_TRAINER_ENDPOINTS"] = ",".join(endpoints)
    for at in range(n):
        own = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(at)}
        roles.append((True, {**own, "PADDLE_CURRENT_ENDPOINT": endpoints[at]}))
    command = [python, os.path.abspath(__file__), "--run", kind, "--only", net]
    started = [
        (
            trains,
            subprocess.Popen(
                command, env={**common, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            ),
        )
        for trains, own in roles
    ]
    total = 0.0
    try:
        for trains, process in started:
            if trains:
                text = process.communicate(timeout=LIMIT_S)[0].decode(errors="replace")
                found = re.search(r"samples/s ([\d.]+)", text)
                if found is None:
                    raise SystemExit("%s of %s failed:\n%s" % (kind, net, text))
                total += float(found.group(1))
    finally:
        for _, process in started:
            if process.poll() is None:
                try:
                    process.wait(timeout=5)
                except subprocess.TimeoutExpired:
                    process.kill()
    return total


def compare(name, sides, rounds):
    """Both sides in turn; prints the ratio of their medians."""
    speeds = {side: [] for side in sides}
    for _ in range(rounds):
        for side, (python, kind, net, n) in sides.items():
            speeds[side].append(measure(python, kind, net, n))
    medians = {side: statistics.median(found) for side, found in speeds.items()}
    own, other = medians.values()
    shown = " ".join("%s=%.0f" % pair for pair in medians.items())
    print("BENCH collective_%s ratio=%.2f %s" % (name, own / other, shown), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(NETS))
    parser.add_argument("--run")
    arguments = parser.parse_args()
    nets = arguments.only.split(",")
    if arguments.run:
        RUNS[arguments.run](nets[0])
        return
    own = sys.executable
    for net in nets:
        ours = {n: (own, "collective", net, n) for n in (1, 2, 4)}
        if arguments.torch:
            theirs = (arguments.torch, "torch", net, 2)
            compare(net + "_2_to_torch", {"ours": ours[2], "torch": theirs}, arguments.rounds)
            theirs = (arguments.torch, "torch", net, 1)
            compare(net + "_1_to_torch", {"ours": ours[1], "torch": theirs}, arguments.rounds)
        else:
            print("BENCH collective_%s_2_to_torch skipped: no Python with torch (TORCH_PYTHON)" % net)
        served = (own, "servers", net, 2)
        compare(net + "_2_to_servers", {"ours": ours[2], "servers": served}, arguments.rounds)
        compare(net + "_2_to_1", {"two": ours[2], "one": ours[1]}, arguments.rounds)
        compare(net + "_4_to_2", {"four": ours[4], "two": ours[2]}, arguments.rounds)


if __name__ == "__main__":
    main()
