"""What the secret of a job and its encryption cost.

    python security.py [--rounds 3] [--modes sync,async]

The job of recovery.py on two servers and two trainers, over TCP: the names of the Unix sockets are taken, so that processes of one
machine do not find each other there. A job without a secret (`--insecure`) takes turns with one that has a secret, with one that is
encrypted by keys made for it (`--tls`), and with one that has certificates. The figure is the ratio of the median speeds, to the job
without a secret. Prints a `BENCH` line for each mode and kind.
"""

import argparse
import os
import socket
import statistics
import tempfile

from recovery import make_data
from recovery import speed as speed_of

FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "testing", "tls")
CERTIFICATES = [("--tls_cert", "good.pem"), ("--tls_key", "process.key"), ("--tls_ca", "ours.pem")]
SIDES = {
    "plain": ["--insecure"],
    "secret": [],
    "tls": ["--tls"],
    "certificates": [word for name, file in CERTIFICATES for word in (name, os.path.join(FILES, file))],
}


def taken_endpoint():
    """An end point that is free, and the local name of it, which is taken."""
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        endpoint = "127.0.0.1:%d" % port.getsockname()[1]
    name = socket.socket(socket.AF_UNIX)
    name.bind("\0paddlewheel/" + endpoint)
    return endpoint, name


def speed(mode, data, options):
    """Samples a second of a job over TCP."""
    servers = [taken_endpoint() for _ in range(2)]
    try:
        endpoints = ",".join(endpoint for endpoint, _ in servers)
        return speed_of(mode, 100, data, ["--metrics", "False", "--endpoints", endpoints, *options])
    finally:
        for _, name in servers:
            name.close()


def main():
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default="sync,async")
    params = parser.parse_args()
    with tempfile.TemporaryDirectory() as data:
        make_data(data)
        for mode in params.modes.split(","):
            found = {name: [] for name in SIDES}
            for turn in range(params.rounds):
                for name in list(SIDES)[:: -1 if turn % 2 else 1]:
                    found[name].append(speed(mode, data, SIDES[name]))
            plain = found.pop("plain")
            against, spread = statistics.median(plain), max(plain) - min(plain)
            for name, speeds in found.items():
                ours = statistics.median(speeds)
                figure = "ours=%.0f against=plain=%.0f samples/s" % (ours, against)
                more = "spread_of_plain=%.3f" % (spread / against)
                print("BENCH %s_%s ratio=%.3f %s %s" % (name, mode, ours / against, figure, more), flush=True)


if __name__ == "__main__":
    main()
