"""Reads training data from real object stores, emulators of Azure's and Google's, and a real Hadoop file system, breaks connections, and kills trainers.

    python stores.py JARS

JARS is the folder that fetch_hadoop.py has filled. A store that is not installed is skipped, with a line that says
so. Prints a line for each check; ends with a non-zero status if one fails.
"""

import datetime
import gzip
import os
import pathlib
import sys
import tempfile
import threading

import numpy
import pandas
import zstandard

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests"))

import paddlewheel  # noqa: E402
from paddlewheel import fluid  # noqa: E402
from paddlewheel.fluid.incubate.fleet.utils.hdfs import HDFSClient  # noqa: E402
from store_servers import Azurite, GoogleEmulator, Hadoop, Swift  # noqa: E402
from test_recovery_dataset import Passes, write_data  # noqa: E402

#: More than is read ahead.
N_LONG = 4_000_000


def check(what, so):
    print("%s: %s" % ("ok" if so else "FAILED", what), flush=True)
    assert so, what


def lines(n, begin=0):
    return "".join("1 %d\n" % at for at in range(begin, begin + n)).encode()


def dataset_of(files, command="cat", timeout=60):
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        n = fluid.layers.data("n", [1], dtype="int64", lod_level=1)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([n])
    dataset.set_batch_size(1000)
    dataset.set_remote_timeout(timeout)
    dataset.set_pipe_command(command)
    dataset.set_filelist(files)
    return dataset


def numbers(dataset):
    return numpy.concatenate([numpy.array(batch["n"]).ravel() for batch in dataset.batches()])


def refused(read):
    try:
        read()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "nothing was refused"


def files(put):
    """Files in three packings, and a table."""
    put("d/part-0", lines(100))
    put("d/part 1.gz", gzip.compress(lines(100, 100)))
    put("d/part-2.zst", zstandard.compress(lines(50, 200)) + zstandard.compress(lines(50, 250)))
    put("d/sub/part-3", lines(100, 300))
    put("d/empty", b"")
    put("long", lines(N_LONG))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.parquet")
        table = pandas.DataFrame({"n": numpy.arange(200_000), "x": numpy.random.RandomState(1).rand(200_000)})
        table.to_parquet(path, engine="fastparquet", row_group_offsets=50_000)
        put("t.parquet", pathlib.Path(path).read_bytes())


def reads(name, base):
    """The operations of every store."""
    dataset = dataset_of([base + "/d/part*", base + "/d/**/part-3"])
    wanted = [base + "/d/" + one for one in ("part 1.gz", "part-0", "part-2.zst", "sub/part-3")]
    check(name + ": patterns are files in order", dataset.filelist == wanted)
    order = [*range(100, 200), *range(100), *range(200, 400)]
    check(name + ": plain, gzip and zstd files are read", numbers(dataset).tolist() == order)
    dataset.set_pipe_command("sed -n p")
    check(name + ": a command gets the same", numbers(dataset).tolist() == order)
    table = dataset_of([base + "/t.parquet"], "paddlewheel parquet-reader n=n:id")
    check(name + ": Parquet", (numbers(table) == numpy.arange(200_000)).all())
    check(name + ": an empty file", "no sample in any" in refused(lambda: numbers(dataset_of([base + "/d/empty"]))))
    missing = refused(lambda: numbers(dataset_of([base + "/none"])))
    check(name + ": a missing file (%s)" % missing, "there is no `%s/none`" % base in missing)
    nothing = refused(lambda: dataset_of([base + "/d/nothing-*"]))
    check(name + ": a pattern without files", "no file matches" in nothing)


def survives(name, base, end, start):
    """A server that dies while it sends, and comes back."""
    batches = iter(dataset_of([base + "/long"]).batches())
    found = [numpy.array(next(batches)["n"]).ravel()]
    end()
    back = threading.Timer(2, start)
    back.start()
    found += [numpy.array(batch["n"]).ravel() for batch in batches]
    back.join()
    check(name + ": the server dies and comes back", (numpy.concatenate(found) == numpy.arange(N_LONG)).all())


def goes_on(name, base, put, folder):
    """A job whose trainers and servers are killed saves the same bits."""
    write_data(folder / "far", is_exact=True)
    for path in sorted((folder / "far").iterdir()):
        put("far/" + path.name, path.read_bytes())
    saved = []
    for kind in ("calm", "disturbed"):
        job = Passes(folder / kind, "sync", "plain", 1, DATA=base + "/far")
        try:
            if kind == "disturbed":
                job.wait_for_batches(6, n_cuts=1)
                job.signal("trainer.1")
                job.wait_for_batches(30)
                job.signal("trainer.0", "server.0")
            job.finish()
            saved.append(job.saved())
        finally:
            job.cluster.close()
    check(name + ": a killed job goes on and saves the same bits", saved[0] == saved[1])


def check_swift(folder):
    with Swift(str(folder / "swift")) as swift:
        s3 = swift.client()
        s3.create_bucket(Bucket="train")
        os.environ.update(
            AWS_ENDPOINT_URL=swift.url, AWS_ACCESS_KEY_ID=swift.key, AWS_SECRET_ACCESS_KEY=swift.secret,
            AWS_REGION=swift.region,
        )

        def put(key, body):
            s3.put_object(Bucket="train", Key=key, Body=body)

        files(put)
        reads("S3 (Swift)", "s3://train")
        for at in range(1003):
            put("many/%04d" % at, b"1 1\n")
        check("S3 (Swift): a list of several pages", len(dataset_of(["s3://train/many/*"]).filelist) == 1003)
        survives("S3 (Swift)", "s3://train", lambda: swift.end("proxy"), lambda: swift.start("proxy"))
        goes_on("S3 (Swift)", "s3://train", put, folder)
        os.environ["AWS_SECRET_ACCESS_KEY"] = "wrong"
        wrong = refused(lambda: numbers(dataset_of(["s3://train/d/part-0"])))
        check("S3 (Swift): a wrong secret (%s)" % wrong, "403" in wrong)
        del os.environ["AWS_ACCESS_KEY_ID"]
        unsigned = refused(lambda: numbers(dataset_of(["s3://train/d/part-0"])))
        check("S3 (Swift): no key (%s)" % unsigned, "not signed" in unsigned)
        swift.end("proxy")
        gone = refused(lambda: numbers(dataset_of(["s3://train/d/part-0"], timeout=1)))
        check("S3 (Swift): a store that is gone (%s)" % gone, "gave up after 1s" in gone)


def check_azure(folder):
    from azure.storage.blob import BlobServiceClient, ContainerSasPermissions, generate_container_sas

    with Azurite(str(folder / "azurite")) as azurite:
        service = BlobServiceClient.from_connection_string(azurite.connection)
        container = service.create_container("train")

        def put(key, body):
            container.upload_blob(key, body, overwrite=True)

        os.environ["AZURE_STORAGE_CONNECTION_STRING"] = azurite.connection
        files(put)
        reads("Azure (Azurite)", "az://train")
        check("Azure (Azurite): abfss", numbers(dataset_of(["abfss://train@%s.dfs/d/part-0" % azurite.account])).size == 100)
        survives("Azure (Azurite)", "az://train", lambda: azurite.end("azurite"), lambda: azurite.start("azurite"))
        goes_on("Azure (Azurite)", "az://train", put, folder)
        place = "AccountName=%s;BlobEndpoint=%s" % (azurite.account, azurite.url)
        permission = ContainerSasPermissions(read=True, list=True)
        until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        sas = generate_container_sas(azurite.account, "train", account_key=azurite.key, permission=permission, expiry=until)
        os.environ["AZURE_STORAGE_CONNECTION_STRING"] = place + ";SharedAccessSignature=" + sas
        check("Azure (Azurite): a signature", numbers(dataset_of(["az://train/d/part*"])).size == 300)
        os.environ["AZURE_STORAGE_CONNECTION_STRING"] = place + ";AccountKey=" + "A" * 86 + "=="
        wrong = refused(lambda: numbers(dataset_of(["az://train/d/part-0"])))
        check("Azure (Azurite): a wrong key (%s)" % wrong, "403" in wrong)


def check_google(folder):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    with GoogleEmulator(str(folder / "google")) as google:
        os.environ["STORAGE_EMULATOR_HOST"] = google.url
        bucket = storage.Client(credentials=AnonymousCredentials(), project="test").create_bucket("train")

        def put(key, body):
            bucket.blob(key).upload_from_string(body)

        files(put)
        reads("Google (emulator)", "gs://train")
        goes_on("Google (emulator)", "gs://train", put, folder)


def check_client(hadoop, folder):
    """Every method of Fleet's client over WebHDFS."""
    configs = {"fs.default.name": hadoop.rpc, "hadoop.job.ugi": "root,x", "dfs.namenode.http-address": hadoop.http}
    client = HDFSClient("/nowhere", configs)
    local = folder / "local"
    (local / "sub").mkdir(parents=True)
    (local / "a b").write_text(" one \n")
    (local / "sub" / "c").write_bytes(lines(N_LONG))
    client.upload("/m", str(local), multi_processes=2)
    check("HDFSClient: upload, lsr", client.lsr("/m") == ["/m/a b", "/m/sub/c"])
    there = client.is_exist("/m"), client.is_dir("/m/sub"), client.is_file("/m/a b"), client.is_exist("/none")
    check("HDFSClient: is_exist, is_dir, is_file", there == (True, True, True, False))
    check("HDFSClient: cat", client.cat("/m/a b") == "one")
    check("HDFSClient: makedirs, ls", client.makedirs("/m/x/y") is True and client.ls("/m/x") == ["/m/x/y"])
    moved = client.rename("/m/a b", "/m/x/a"), client.rename("/m/a b", "/m/x/a"), client.is_file("/m/x/a")
    check("HDFSClient: rename", moved == (True, False, True))
    check("HDFSClient: upload_dir", client.upload_dir("/e", str(local)) and not client.upload_dir("/e", str(local)))
    got = client.download("/m", str(folder / "back"), multi_processes=3)
    same = (folder / "back" / "sub" / "c").read_bytes() == lines(N_LONG)
    check("HDFSClient: download", len(got) == 2 and same)
    check("HDFSClient: delete", client.delete("/m") and not client.is_exist("/m"))


def check_hadoop(folder, jars):
    with Hadoop(str(folder / "hdfs"), jars) as hadoop:
        os.environ["HADOOP_USER_NAME"] = "root"
        check_client(hadoop, folder)
        client = HDFSClient("/nowhere", {"fs.default.name": "webhdfs://" + hadoop.http, "hadoop.job.ugi": "root,x"})

        def put(name, body):
            path = folder / "put"
            path.write_bytes(body)
            client.put(str(path), "/data/" + name, True, 1)

        files(put)
        base = "webhdfs://%s/data" % hadoop.http
        reads("WebHDFS (Hadoop 2.7.3)", base)
        dataset = dataset_of([])
        dataset.set_hdfs_config("webhdfs://" + hadoop.http, "root,x")
        dataset.set_filelist(["hdfs:/data/d/part-0"])
        check("WebHDFS (Hadoop 2.7.3): set_hdfs_config", numbers(dataset).tolist() == list(range(100)))
        name = "WebHDFS (Hadoop 2.7.3)"
        survives(name, base, lambda: hadoop.end("datanode"), lambda: hadoop.start("datanode"))
        goes_on(name, base, put, folder)


def main(jars):
    for variable in [name for name in os.environ if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "STORAGE_"))]:
        del os.environ[variable]
    print("paddlewheel", paddlewheel.__version__, flush=True)
    for there, what, run in (
        (Swift.is_there(), "OpenStack Swift", check_swift),
        (Azurite.command(), "Azurite", check_azure),
        (GoogleEmulator.command(), "gcp-storage-emulator", check_google),
        (Hadoop.is_there(jars), "Hadoop", lambda folder: check_hadoop(folder, jars)),
    ):
        if not there:
            print("skipped: %s is not installed" % what)
            continue
        with tempfile.TemporaryDirectory() as folder:
            run(pathlib.Path(folder))


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
