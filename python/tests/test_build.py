"""The files that make packages and images are true: there is no container engine here to try them."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def stages():
    """The lines of each stage, comments left out, long lines joined."""
    text = re.sub(r"\\\n", " ", DOCKERFILE)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    starts = [at for at, line in enumerate(lines) if line.startswith("FROM ")]
    return [lines[start:end] for start, end in zip(starts, starts[1:] + [len(lines)])]


def test_the_dockerfile_copies_what_there_is():
    build, final = stages()
    copied = [line.split()[1:-1] for line in build if line.startswith("COPY ")]
    names = [name for line in copied for name in line]
    missing = [name for name in names if not (ROOT / name).exists()]
    assert names and not missing
    # All that a build reads: the members of the workspace, and what pyproject.toml names.
    assert {"crates", "src", "examples", "python", "Cargo.toml", "Cargo.lock", "pyproject.toml"} <= set(names)
    assert {"README.md", "LICENSE"} <= set(names)
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert not set(names) & set(ignored)
    assert [line for line in final if line.startswith("COPY ")] == [
        "COPY --from=build /opt/paddlewheel /opt/paddlewheel"
    ]


def test_the_dockerfile_builds_what_the_readme_says():
    build, final = stages()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "    pip install .  " in readme
    assert any(re.search(r"/pip install (--no-cache-dir )?\.$", line) for line in build)
    (needed,) = re.findall(r'^rust-version = "1\.(\d+)"', (ROOT / "Cargo.toml").read_text(), re.M)
    (given,) = re.findall(r"^FROM rust:1\.(\d+)-(\w+) AS build$", DOCKERFILE, re.M)
    assert int(given[0]) >= int(needed)
    assert final[0] == "FROM debian:%s-slim" % given[1], "the Python of both stages is the same"
    assert final[-1] == 'CMD ["paddlewheel", "--help"]'
    python = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'paddlewheel = "paddlewheel._cli:main"' in python


def test_make_wheel_builds_for_old_systems_and_tries_what_it_built():
    done = subprocess.run(["make", "-n", "wheel"], cwd=str(ROOT), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (built,) = [line for line in lines if "maturin build" in line]
    for word in ("--release", "--locked", "--zig", "--compatibility manylinux2014"):
        assert word in built
    assert any("auditwheel show" in line for line in lines)
    (tried,) = [line for line in lines if "paddlewheel run" in line]
    (script,) = re.findall(r"examples/\S+", tried)
    assert (ROOT / script).exists()
