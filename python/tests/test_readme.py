"""The programs in the README run as they stand there."""

import json
import pathlib
import re
import subprocess
import sys
import urllib.request

from clusters import Cluster

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def programs():
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def program(word):
    (text,) = [text for text in programs() if word in text]
    return text


def run(tmp_path, word):
    """Runs the program with this word in it; returns its text and what it printed."""
    text = program(word)
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [sys.executable, "-m", "paddlewheel", "run", str(script)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=str(tmp_path))
    return text, done.stdout


def test_the_short_way_in_the_readme_learns(tmp_path):
    text, printed = run(tmp_path, "pw.CTR")
    assert len([line for line in text.splitlines() if line.strip()]) <= 10
    word, value = printed.splitlines()[-1].split()
    assert word == "AUC" and float(value) > 0.99
    assert (tmp_path / "model" / "ctr.json").exists()


def test_the_program_in_the_readme_fits_its_data(tmp_path):
    _, printed = run(tmp_path, "minimize")
    word, value = printed.split()
    assert word == "loss"
    assert float(value) < 1e-3


def test_what_was_trained_is_used_as_the_readme_says(tmp_path):
    save = 'fluid.io.save_inference_model("model", ["x"], [predicted], exe)\n'
    (tmp_path / "train.py").write_text(program("minimize") + save)
    (tmp_path / "use.py").write_text(program("Predictor"))
    for script in ("train.py", "use.py"):
        command = [sys.executable, "-m", "paddlewheel", "run", script]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    value = float(printed.strip().strip("[]"))
    assert abs(value - 0.6) < 0.1
    readme = README.read_text(encoding="utf-8")
    (serve,) = re.findall(r"^    paddlewheel (serve .*) --port 8866$", readme, re.MULTILINE)
    ((path, body),) = re.findall(r"^    curl localhost:8866(\S*) -d '(.*)'$", readme, re.MULTILINE)
    cluster = Cluster(tmp_path)
    try:
        cluster.start("serve", "-m", "paddlewheel", *serve.split(), "--port", "0")
        cluster.wait_for("serve", "serving on http://")
        address = cluster.log("serve").split("serving on ")[1].split()[0]
        with urllib.request.urlopen(address + path, body.encode(), timeout=30) as answer:
            (predicted,) = json.loads(answer.read())["predictions"].values()
    finally:
        cluster.close()
    assert abs(predicted[0][0] - value) < 1e-6
