"""Files elsewhere: a web server that is really asked, lists with patterns, and a Hadoop client."""

import gzip
import http.server
import os
import re
import socket
import stat
import threading
import time

import numpy
import pytest

from conftest import HERE
from paddlewheel import fluid
from paddlewheel.fluid.contrib import utils as contrib
from paddlewheel.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddlewheel.fluid.incubate.fleet.parameter_server.distribute_transpiler import DistributedTranspiler
from paddlewheel.fluid.incubate.fleet.utils.hdfs import HDFSClient
from test_recovery_dataset import Passes, write_data

HADOOP = os.path.join(HERE, "programs", "hadoop.sh")


class Ranges(http.server.SimpleHTTPRequestHandler):
    """Python's file server, which knows ranges `bytes=N-` besides."""

    asked = []
    #: Seconds between two parts of a file.
    pace = 0.0

    def copyfile(self, source, outputfile):
        while part := source.read(2048):
            outputfile.write(part)
            time.sleep(self.pace)

    def send_head(self):
        found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        self.asked.append((self.path, int(found.group(1)) if found else 0))
        if not found:
            return super().send_head()
        begin = int(found.group(1))
        try:
            file = open(self.translate_path(self.path), "rb")
        except OSError:
            self.send_error(404)
            return None
        size = os.fstat(file.fileno()).st_size
        self.send_response(206)
        self.send_header("Content-Range", "bytes %d-%d/%d" % (begin, size - 1, size))
        self.send_header("Content-Length", str(size - begin))
        self.send_header("Last-Modified", self.date_time_string(os.fstat(file.fileno()).st_mtime))
        self.end_headers()
        file.seek(begin)
        return file

    def log_message(self, *_):
        pass


@pytest.fixture(params=[Ranges, http.server.SimpleHTTPRequestHandler])
def web(request, tmp_path):
    yield from serve(request.param, tmp_path)


@pytest.fixture
def ranges(tmp_path):
    yield from serve(Ranges, tmp_path)


@pytest.fixture
def slow_ranges(tmp_path, monkeypatch):
    """Files that arrive over several cuts."""
    monkeypatch.setattr(Ranges, "pace", 0.03)
    yield from serve(Ranges, tmp_path)


def serve(handler, folder):
    made = lambda *arguments: handler(*arguments, directory=str(folder))  # noqa: E731
    Ranges.asked.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield "http://127.0.0.1:%d" % server.server_address[1]
        server.shutdown()
        thread.join()


def numbers(dataset):
    return [int(n) for batch in dataset.batches() for n in numpy.array(batch["n"]).ravel()]


def dataset_of(files):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        n = fluid.layers.data("n", [1], dtype="int64", lod_level=1)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([n])
    dataset.set_batch_size(64)
    dataset.set_remote_timeout(0.5)
    dataset.set_filelist(files)
    return dataset


def lines(n):
    return "".join("1 %d\n" % at for at in range(n)).encode()


def test_files_of_a_web_server_are_read(web, tmp_path):
    (tmp_path / "a b").write_bytes(lines(5000))
    (tmp_path / "c.gz").write_bytes(gzip.compress(lines(100)))
    dataset = dataset_of([web + "/a%20b", web + "/c.gz"])
    assert numbers(dataset) == [*range(5000), *range(100)]


def test_patterns_stand_for_files_in_order(tmp_path):
    for name in ("part-10", "part-1", "part-2", "other"):
        (tmp_path / name).write_bytes(lines(3))
    wanted = [str(tmp_path / name) for name in ("part-1", "part-10", "part-2")]
    assert dataset_of([str(tmp_path / "part-*")]).filelist == wanted
    parts = []
    for at in (0, 1):
        fleet = DistributedTranspiler()
        fleet.init(UserDefinedRoleMaker(at, Role.WORKER, 2, ["127.0.0.1:16000"]))
        parts.append(fleet.split_files([str(tmp_path / "part-*")]))
    assert parts == [wanted[:2], wanted[2:]]
    with pytest.raises(ValueError, match="no file matches `.*nothing-"):
        dataset_of([str(tmp_path / "nothing-*")])


def test_errors_name_the_file_and_the_reason(web):
    with pytest.raises(RuntimeError, match="there is no `http://.*/none`: the server answers 404"):
        numbers(dataset_of([web + "/none"]))
    with pytest.raises(ValueError, match="a web server does not list its files"):
        dataset_of([web + "/part-*"])
    with pytest.raises(ValueError, match="`ftp://` is not known here"):
        numbers(dataset_of(["ftp://host/file"]))
    with pytest.raises(ValueError, match="it names no name node"):
        numbers(dataset_of(["hdfs:/a"]))


def test_an_object_store_that_is_gone_is_said_in_time(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:%d" % free.getsockname()[1])
    dataset = dataset_of(["s3://bucket/key"])
    with pytest.raises(RuntimeError, match="`s3://bucket/key` could not be read from byte 0 on.*tries; gave up"):
        numbers(dataset)


def test_a_killed_trainer_goes_on_at_its_byte(slow_ranges, tmp_path):
    write_data(tmp_path / "far", is_exact=True)
    jobs = []
    try:
        for name in ("calm", "disturbed"):
            jobs.append(Passes(tmp_path / name, "sync", "plain", 1, DATA=slow_ranges + "/far"))
            if name == "disturbed":
                Ranges.asked.clear()
                jobs[-1].wait_for_batches(6, n_cuts=3)
                jobs[-1].signal("trainer.1")
                jobs[-1].wait_for_batches(30)
                jobs[-1].signal("trainer.0", "server.0")
            jobs[-1].finish()
        assert jobs[1].saved() == jobs[0].saved(), jobs[1].logs()
        assert any(begin > 0 for _, begin in Ranges.asked), Ranges.asked
    finally:
        for job in jobs:
            job.cluster.close()


@pytest.fixture(params=[HDFSClient, contrib.HDFSClient])
def client(request, tmp_path):
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "root").mkdir()
    with open(HADOOP, encoding="utf-8") as file:
        (home / "bin" / "hadoop").write_text(file.read())
    os.chmod(home / "bin" / "hadoop", stat.S_IRWXU)
    configs = {"fs.default.name": "hdfs://nowhere:9000", "hadoop.job.ugi": "me,secret"}
    return request.param(str(home), configs)


def test_the_client_of_fleet_uses_the_hadoop_command(client, tmp_path):
    assert client.uses_command
    assert not client.is_exist("/d") and client.ls("/d") == [] and client.delete("/d") is True
    assert client.makedirs("/d") is True and client.makedirs("/d") is None
    assert client.is_dir("/d") and not client.is_file("/d")
    local = tmp_path / "local"
    (local / "sub").mkdir(parents=True)
    (local / "a").write_text(" one \n")
    (local / "sub" / "b").write_text("two")
    if isinstance(client, contrib.HDFSClient):
        assert client.upload("/d", str(local / "a")) is True
        assert client.upload("/d", str(local / "a")) is False
        contrib.multi_upload(client, "/d", str(local), overwrite=True)
        assert client.lsr("/d", only_file=False) == ["/d/a", "/d/sub", "/d/sub/b"]
        assert client.download("/d/a", str(tmp_path / "one")) is True
        assert client.download("/d/none", str(tmp_path / "one")) is False
        part = contrib.multi_download(client, "/d", str(tmp_path / "part"), 1, 2)
        assert part == [str(tmp_path / "part" / "sub" / "b")]
    else:
        client.upload("/d", str(local), multi_processes=2)
        assert client.upload_dir("/e", str(local)) is True
        assert client.upload_dir("/e", str(local)) is False
        assert client.lsr("/e") == ["/e/local/a", "/e/local/sub/b"]
        got = client.download("/d", str(tmp_path / "back"))
        assert got == [str(tmp_path / "back" / "a"), str(tmp_path / "back" / "sub" / "b")]
    assert client.cat("/d/a") == "one" and client.cat("/d/none") == ""
    assert client.lsr("/d") == ["/d/a", "/d/sub/b"]
    assert client.rename("/d/a", "/d/c") is True and client.rename("/d/a", "/d/c") is False
    assert client.ls("/d") == ["/d/c", "/d/sub"]
    assert client.delete("/d") is True and not client.is_exist("/d")
    assert client.split_files(["a", "b", "c"], 0, 2) == ["a", "b"]


def test_a_client_without_a_command_needs_a_name_node(tmp_path):
    with pytest.raises(ValueError, match="it names no name node"):
        HDFSClient(str(tmp_path), {})
