"""Gets the classes of Hadoop 2.7.3 out of the source package of pyspark 2.4.8: the last that has a name node.

    python fetch_hadoop.py FOLDER
"""

import hashlib
import io
import os
import re
import sys
import tarfile
import urllib.parse
import urllib.request

INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pyspark/"
NAME = "pyspark-2.4.8.tar.gz"
SHA256 = "3a19b71b8dc8dd91ebc943604a05e1ab01bce052456d42937035632d852d78dc"
#: The packages of a name node and a data node.
JARS = re.compile(
    "(hadoop-(annotations|auth|common|hdfs)|htrace-core|protobuf-java|guava|commons-|jetty-|netty-|log4j|slf4j-"
    "|javax.servlet-api|xercesImpl|xmlenc|leveldbjni|jackson|zookeeper|curator|apacheds|api-|http(client|core))[^/]*jar$"
)


def main(folder):
    page = urllib.request.urlopen(INDEX, timeout=60).read().decode()
    link = next(link for link in re.findall('href="([^"]+)"', page) if NAME in link)
    archive = urllib.request.urlopen(urllib.parse.urljoin(INDEX, link), timeout=600).read()
    assert hashlib.sha256(archive).hexdigest() == SHA256, "another %s than expected" % NAME
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            name = os.path.basename(member.name)
            if "/deps/jars/" in member.name and JARS.match(name):
                with open(os.path.join(folder, name + ".new"), "wb") as file:
                    file.write(files.extractfile(member).read())
                os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))


if __name__ == "__main__":
    main(sys.argv[1])
