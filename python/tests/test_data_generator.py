"""From lines to slots."""

import pytest

from paddlewheel.fluid.incubate.data_generator import (
    DataGenerator,
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)


class Words(MultiSlotDataGenerator):
    def generate_sample(self, line):
        def samples():
            numbers = [int(word) for word in line.split()] if line else [7, 8]
            yield zip(["words", "label"], [numbers, [len(numbers) / 2]])
            yield None

        return samples


def test_lines_become_slots(monkeypatch, capsys):
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("1 2 3\n4\n"))
    generator = Words()
    generator.set_batch(2)
    generator.run_from_stdin()
    assert capsys.readouterr().out == "3 1 2 3 1 1.5\n1 4 1 0.5\n"
    assert generator._proto_info == [("words", "uint64"), ("label", "float")]
    generator.run_from_memory()
    assert capsys.readouterr().out == "2 7 8 1 1.0\n"


@pytest.mark.parametrize("sample, text", [
    ("words", "must be in list or tuple"),
    ([(1, [2])], "must be in str type"),
    ([("a", (2,))], "must be in list type"),
    ([("a", [])], "can not be empty"),
    ([("a", ["x"])], "must be in int or float"),
])
def test_bad_samples(sample, text):
    with pytest.raises(ValueError, match=text):
        MultiSlotDataGenerator()._gen_str(sample)


def test_samples_must_agree():
    generator = MultiSlotDataGenerator()
    assert generator._gen_str([("a", [1])]) == "1 1\n"
    with pytest.raises(ValueError, match="inconsistent"):
        generator._gen_str([("a", [1]), ("b", [1])])
    with pytest.raises(ValueError, match="not match"):
        generator._gen_str([("b", [1])])


def test_strings_and_the_base_class():
    assert MultiSlotStringDataGenerator()._gen_str([("a", ["x", "y"])]) == "2 x y\n"
    with pytest.raises(NotImplementedError):
        DataGenerator().generate_sample("line")


GENERATE = """
import paddlewheel.fluid.incubate.data_generator as dg
dg.MultiSlot{}DataGenerator(); dg.MultiSlotDataGenerator()
"""


@pytest.mark.parametrize("kind", ["", "String"])
@pytest.mark.parametrize("seed, said", [("", 1), ("0", 0), ("random", 0)])
def test_a_hash_that_differs_from_process_to_process_is_told_once(child, kind, seed, said):
    result = child("-c", GENERATE.format(kind), environment={"PYTHONHASHSEED": seed})
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("Set PYTHONHASHSEED=0 before Python starts") == said, result.stderr


@pytest.mark.parametrize("kind", [MultiSlotDataGenerator, MultiSlotStringDataGenerator])
def test_slots_in_another_order_than_the_dataset_has_are_refused(monkeypatch, kind):
    monkeypatch.setenv("PADDLEWHEEL_SLOTS", "label\nwords")
    value = 1 if kind is MultiSlotDataGenerator else "1"
    with pytest.raises(ValueError, match="slot `words` is number 1 .* number 2 .* label, words"):
        kind()._gen_str([("words", [value]), ("label", [value])])
    assert kind()._gen_str([("click", [value]), ("words", [value])]) == "1 1 1 1\n"
    monkeypatch.delenv("PADDLEWHEEL_SLOTS")
    assert kind()._gen_str([("words", [value]), ("label", [value])]) == "1 1 1 1\n"
