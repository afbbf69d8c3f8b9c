"""`import paddle` and the command."""

import paddlewheel


def test_an_alias_module_is_the_very_same(child):
    script = """
import paddle, paddle.fluid as fluid, paddle.v2, paddle.reader.decorator
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
import paddlewheel, sys
assert paddle is paddlewheel
assert fluid is paddlewheel.fluid is sys.modules["paddle.fluid"]
assert sys.modules["paddle.reader.decorator"] is sys.modules["paddlewheel.reader.decorator"]
assert fluid.__spec__.name == fluid.__name__ == "paddlewheel.fluid"
try:
    import paddle.fluid.nothing_of_this_name
except ImportError as error:
    print(error)
"""
    result = child("-c", script, alias=True)
    assert result.returncode == 0, result.stderr
    assert "nothing_of_this_name" in result.stdout


def test_the_command_passes_arguments_and_exit_code(child, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import sys, paddle\nprint(sys.argv[1:], paddle.__name__)\nsys.exit(7)\n")
    result = child("-m", "paddlewheel", "run", str(script), "--epochs", "3")
    assert result.returncode == 7
    assert result.stdout == "['--epochs', '3'] paddlewheel\n"
    assert result.stderr == ""


def test_the_command_says_when_it_hides_another_paddle(child, tmp_path):
    other = tmp_path / "other" / "paddle"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("name = 'other'\n")
    environment = {"PYTHONPATH": str(tmp_path / "other")}
    import conftest

    environment["PYTHONPATH"] += ":" + conftest.PACKAGES
    script = tmp_path / "train.py"
    script.write_text("import paddle\nprint(paddle.__name__)\n")
    result = child("-m", "paddlewheel", "run", str(script), environment=environment)
    assert result.stdout == "paddlewheel\n"
    assert result.stderr.count("not the one in") == 1


def test_the_command_without_a_script_explains_itself(child):
    result = child("-m", "paddlewheel")
    assert result.returncode == 2 and "Usage: paddlewheel <COMMAND>" in result.stderr
    said = child("-m", "paddlewheel", "--version").stdout.strip()
    assert said == "paddlewheel %s, answers to Fluid 1.8.5" % paddlewheel._core.__version__
