#!/bin/sh
# Installs what stores.py starts, where that can be done: OpenStack Swift and Jersey from Debian's packages, emulators of Azure's and
# Google's stores from npm and PyPI, and the
# classes of Hadoop 2.7.3, which are in the source package of pyspark 2.4.8 on PyPI. What is missing afterwards is
# skipped by stores.py, which says so.
#
#     install_stores.sh PYTHON FOLDER
set -eu
python=$1
folder=$2
jars="libjersey1-core-java libjersey1-server-java libjersey1-servlet-java libjersey1-json-java libjaxb-api-java"
missing=
command -v swift-proxy-server > /dev/null || missing="swift-proxy swift-account swift-container swift-object"
command -v java > /dev/null || missing="$missing default-jre-headless"
[ -e /usr/share/java/jersey1-servlet.jar ] || missing="$missing $jars"
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
        echo "installing:$missing"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq || true
        # shellcheck disable=SC2086
        apt-get install -y -qq --no-install-recommends $missing > /dev/null || echo "apt-get could not install:$missing"
    else
        echo "not installed:$missing (needs root and apt-get)"
    fi
fi
"$python" -m pip install --quiet boto3 zstandard
"$python" -m pip install --quiet azure-storage-blob google-cloud-storage gcp-storage-emulator || echo "clients of Azure and Google could not be installed"
if command -v npm > /dev/null; then
    mkdir -p .interop/azurite
    [ -e .interop/azurite/package.json ] || echo '{"private": true}' > .interop/azurite/package.json
    npm install --silent --prefix .interop/azurite azurite > /dev/null || echo "Azurite could not be installed"
fi
[ -e "$folder/hadoop-hdfs-2.7.3.jar" ] || "$python" "$(dirname "$0")/fetch_hadoop.py" "$folder"
