"""A real browser without a window: Debian's Chromium, spoken to through its driver."""

import base64
import functools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request

import pytest

from clusters import free_port, wait_until

#: Without these, Chromium looks for hosts that a closed network does not have.
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--disable-dev-shm-usage",
]


@functools.lru_cache(maxsize=None)
def missing():
    """Why there is no browser; None if there is one. As root, it is installed."""
    if shutil.which("chromedriver") and shutil.which("chromium"):
        return None
    if os.geteuid() != 0:
        return "there is no chromium with chromedriver, and only root may install it"
    command = ["apt-get", "install", "-y", "-q", "chromium", "chromium-driver"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "chromium could not be installed: %s" % error
    if done.returncode != 0:
        return "chromium could not be installed: %s" % done.stderr.strip()[-200:]
    return None


class Browser:
    """One page in Chromium."""

    def __init__(self):
        self._folder = tempfile.mkdtemp()
        port = free_port()
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=%d" % port],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._at = "http://127.0.0.1:%d" % port
        wait_until("the driver listens", lambda: self._listens(port))
        flags = FLAGS + ["--user-data-dir=" + self._folder]
        options = {"browserName": "chrome", "goog:chromeOptions": {"args": flags}}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._at += "/session/" + answer["sessionId"]

    @staticmethod
    def _listens(port):
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", port)) == 0

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._at + path, data=data, method=method)
        # A proxy of this machine has nothing to do with it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def _devtools(self, command, **parameters):
        self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def open(self, address):
        """Loads a page."""
        self._call("POST", "/url", {"url": address})

    def run(self, script):
        """The result of a script."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def text(self, selector):
        """The text of the first element that fits; empty if there is none."""
        return self.run("return document.querySelector(%s)?.innerText ?? ''" % json.dumps(selector))

    def size(self, width, height):
        """Makes the window as large as this."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", **size)

    def prefer(self, scheme):
        """Light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._devtools("Emulation.setEmulatedMedia", features=[feature])

    def picture(self, path):
        """Writes what is seen as a PNG."""
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._call("GET", "/screenshot")))

    def close(self):
        """Ends it."""
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=20)
            shutil.rmtree(self._folder, ignore_errors=True)


@pytest.fixture
def browser():
    """A browser, or a reason to skip."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    opened = Browser()
    yield opened
    opened.close()
