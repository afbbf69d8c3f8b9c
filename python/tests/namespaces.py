"""Machines of a test inside this one: network namespaces on a switch that reaches nothing else. Needs root and iproute2."""

import os
import shutil
import subprocess
import sys

import pytest
from clusters import Cluster


class Machines(Cluster):
    """The processes of a test on machines with addresses of their own. No other process has these addresses, so they may be
    anybody's."""

    def __init__(self, folder, *addresses):
        super().__init__(folder)
        self._switch = "pw%dswitch" % os.getpid()
        self._names = {address: "pw%dm%d" % (os.getpid(), at) for at, address in enumerate(addresses)}
        self.disconnect()
        try:
            self._connect()
        except subprocess.CalledProcessError as error:
            self.disconnect()
            pytest.skip("no network namespaces here: " + error.stderr.decode().strip())

    def _connect(self):
        ip("netns", "add", self._switch)
        ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
        ip("-n", self._switch, "link", "set", "br0", "up")
        for at, (address, name) in enumerate(self._names.items()):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
            port = "port%d" % at
            ip("-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("-n", self._switch, "link", "set", port, "master", "br0", "up")
            ip("-n", name, "link", "set", "eth0", "up")
            # No other process has it: it need not be asked for.
            suffix = ["/64", "nodad"] if ":" in address else ["/24"]
            ip("-n", name, "addr", "add", address + suffix[0], "dev", "eth0", *suffix[1:])
            ip("netns", "exec", name, "true")

    def disconnect(self):
        """Removes the machines."""
        for name in [*self._names.values(), self._switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def run(self, address, name, text, **variables):
        """Runs lines of a shell on a machine; it keeps what programs keep in a folder of its own."""
        variables.setdefault("XDG_STATE_HOME", str(self.folder / ("state of " + address)))
        within = ["ip", "netns", "exec", self._names[address], "/bin/sh", "-c", text]
        self._start(name, within, variables)

    def script(self, address, name, script, **variables):
        """Runs a script on a machine."""
        self.run(address, name, 'exec "%s" -u "%s"' % (sys.executable, script), **variables)

    def close(self):
        super().close()
        self.disconnect()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def need_root():
    """Skips a test where there can be no machines."""
    if os.geteuid() != 0:
        pytest.skip("machines of a test need root")
    if not shutil.which("ip"):
        pytest.skip("machines of a test need the command `ip` (iproute2)")
