"""Real stores on this machine, each in a folder and on ports of its own: Swift with its S3 interface, HDFS, and emulators of
Azure's and Google's stores."""

import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

LIMIT = 120
JERSEY = "jersey1-core jersey1-server jersey1-servlet jersey1-json jaxb-api jsr311-api javax.activation".split()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until(what, so, limit=LIMIT):
    deadline = time.monotonic() + limit
    while not so():
        assert time.monotonic() < deadline, "not within %s s: %s" % (limit, what)
        time.sleep(0.05)


def answers(url):
    """Whether a server answers, whatever it says."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


class Processes:
    """Processes with logs in a folder; none is left behind."""

    def __init__(self, folder):
        self.folder, self.running = folder, {}
        os.makedirs(folder, exist_ok=True)

    def __exit__(self, *_):
        for name in list(self.running):
            self.end(name)

    def run(self, name, command, **variables):
        with open(os.path.join(self.folder, name + ".log"), "a") as log:
            environment = {**os.environ, **variables}
            self.running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=environment, start_new_session=True
            )

    def end(self, name):
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Swift(Processes):
    """One proxy, and one server each for accounts, containers and objects."""

    key, secret, region = "test:tester", "testing", "us-east-1"

    @staticmethod
    def is_there():
        return shutil.which("swift-proxy-server") is not None

    def __enter__(self):
        self.ports = {kind: free_port() for kind in ("proxy", "account", "container", "object")}
        self.url = "http://127.0.0.1:%d" % self.ports["proxy"]
        os.makedirs(os.path.join(self.folder, "node", "d1"), exist_ok=True)
        self.write("swift.conf", "[swift-hash]\nswift_hash_path_suffix = s\n[storage-policy:0]\nname = one\ndefault = yes\n")
        for kind in ("account", "container", "object"):
            self.write(kind + ".conf", self.head(kind) + STORAGE.format(kind=kind, folder=self.folder))
            ring = os.path.join(self.folder, kind + ".builder")
            device = "r1z1-127.0.0.1:%d/d1" % self.ports[kind]
            for words in (["create", "4", "1", "1"], ["add", device, "1"], ["rebalance"]):
                subprocess.run(["swift-ring-builder", ring, *words], check=True, stdout=subprocess.DEVNULL)
        self.write("proxy.conf", self.head("proxy") + PROXY)
        for kind in self.ports:
            self.start(kind)
        return self

    def head(self, kind):
        return HEAD.format(port=self.ports[kind], folder=self.folder)

    def start(self, kind):
        conf = os.path.join(self.folder, kind + ".conf")
        self.run(kind, ["swift-%s-server" % kind, conf], SWIFT_DIR=self.folder)
        wait_until("Swift: " + kind, lambda: answers("http://127.0.0.1:%d/" % self.ports[kind]))

    def client(self):
        import boto3
        from botocore.config import Config

        config = Config(
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        keys = {"aws_access_key_id": self.key, "aws_secret_access_key": self.secret}
        return boto3.client("s3", endpoint_url=self.url, region_name=self.region, config=config, **keys)


HEAD = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
swift_dir = {folder}
user = root
log_level = WARNING
"""
STORAGE = """devices = {folder}/node
mount_check = false
disable_fallocate = true
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""
PROXY = """[pipeline:main]
pipeline = catch_errors gatekeeper cache listing_formats bulk s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:cache]
use = egg:swift#memcache
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:s3api]
use = egg:swift#s3api
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""


LOGS = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n
"""


class Hadoop(Processes):
    """One name node and one data node of Hadoop 2.7.3, on a Java that is newer than they are."""

    OPENS = "java.base/java.lang java.base/java.util java.security.jgss/sun.security.krb5".split()

    def __init__(self, folder, jars):
        super().__init__(folder)
        self.jars = jars

    @staticmethod
    def is_there(jars):
        has_jersey = os.path.exists("/usr/share/java/jersey1-servlet.jar")
        return bool(shutil.which("java") and has_jersey and os.path.exists(os.path.join(jars, "hadoop-hdfs-2.7.3.jar")))

    def __enter__(self):
        names = "rpc http data ipc data_http".split()
        self.ports = {name: free_port() for name in names}
        self.http = "127.0.0.1:%d" % self.ports["http"]
        self.rpc = "hdfs://127.0.0.1:%d" % self.ports["rpc"]
        for webapp in ("hdfs", "datanode"):
            self.write("webapps/%s/WEB-INF/web.xml" % webapp, '<web-app version="2.4"></web-app>')
        os.makedirs(os.path.join(self.folder, "webapps", "static"), exist_ok=True)
        self.settings("core-site.xml", {"fs.defaultFS": self.rpc, "hadoop.tmp.dir": self.folder + "/tmp"})
        address = "127.0.0.1:%d"
        own = {
            "dfs.replication": "1",
            "dfs.namenode.http-address": self.http,
            "dfs.datanode.address": address % self.ports["data"],
            "dfs.datanode.ipc.address": address % self.ports["ipc"],
            "dfs.datanode.http.address": address % self.ports["data_http"],
            "dfs.datanode.hostname": "127.0.0.1",
        }
        self.settings("hdfs-site.xml", own)
        self.write("conf/log4j.properties", LOGS)
        subprocess.run(
            self.java("namenode.NameNode", "-format", "-nonInteractive"),
            check=True, cwd=self.folder, capture_output=True, timeout=LIMIT,
        )
        self.start("namenode")
        self.start("datanode")
        return self

    def settings(self, name, values):
        row = "<property><name>%s</name><value>%s</value></property>"
        text = "".join(row % pair for pair in values.items())
        self.write("conf/" + name, "<configuration>%s</configuration>" % text)

    def java(self, name, *arguments):
        jars = sorted(glob.glob(os.path.join(self.jars, "*.jar")))
        jars += ["/usr/share/java/%s.jar" % name for name in JERSEY]
        opens = [word for module in self.OPENS for word in ("--add-opens", module + "=ALL-UNNAMED")]
        opens += ["--add-exports", self.OPENS[-1] + "=ALL-UNNAMED"]
        path = os.pathsep.join([os.path.join(self.folder, "conf"), self.folder, *jars])
        name = "org.apache.hadoop.hdfs.server." + name
        return ["java", "-Xmx256m", "-Djava.net.preferIPv4Stack=true", *opens, "-cp", path, name, *arguments]

    def start(self, kind):
        name = {"namenode": "namenode.NameNode", "datanode": "datanode.DataNode"}[kind]
        self.run(kind, self.java(name))
        if kind == "namenode":
            wait_until("the name node", lambda: answers("http://%s/webhdfs/v1/?op=GETFILESTATUS" % self.http))
        else:
            wait_until("the data node", lambda: "finalize command" in self.log(kind))

    def log(self, name):
        with open(os.path.join(self.folder, name + ".log"), errors="replace") as file:
            return file.read()


class Azurite(Processes):
    """Microsoft's emulator of Azure's blob storage."""

    account = "devstoreaccount1"
    #: The key that every emulator has.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    @staticmethod
    def command():
        return shutil.which("azurite-blob", path=os.environ["PATH"] + ":" + os.path.abspath(".interop/azurite/node_modules/.bin"))

    def __enter__(self):
        self.port = free_port()
        self.url = "http://127.0.0.1:%d/%s" % (self.port, self.account)
        self.start("azurite")
        return self

    @property
    def connection(self):
        return "AccountName=%s;AccountKey=%s;BlobEndpoint=%s" % (self.account, self.key, self.url)

    def start(self, name):
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", self.folder]
        self.run(name, [self.command(), *place, "--skipApiVersionCheck", "--disableTelemetry"])
        wait_until("Azurite answers", lambda: answers(self.url))


class GoogleEmulator(Processes):
    """An emulator of Google's storage, of PyPI."""

    @staticmethod
    def command():
        return shutil.which("gcp-storage-emulator", path=os.path.dirname(sys.executable) + ":" + os.environ["PATH"])

    def __enter__(self):
        self.port = free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        self.start("google")
        return self

    def start(self, name):
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--data-dir", os.path.join(self.folder, "data")]
        self.run(name, [self.command(), "start", *place])
        wait_until("the emulator answers", lambda: answers(self.url))
