"""The script that proves a part of the corpus and random descriptors."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import certify_corpus
import pytest
from folders import ROOT
from messages import rows_of
from rings import one_quick_in

import onnxgather as og

pytest.importorskip("z3")


@pytest.mark.slow
def test_a_random_descriptor_is_proved_for_each_policy_and_target() -> None:
    command = [
        sys.executable,
        certify_corpus.__file__,
        *("--random", "1", "--jobs", "2"),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    told = (0, "20 proved, 0 refuted, 0 undecided\n", "")
    assert (done.returncode, done.stdout, done.stderr) == told


@pytest.mark.slow
def test_shards_are_parts_of_the_corpus() -> None:
    whole = certify_corpus.corpus_part(1, 1)
    parts = [certify_corpus.corpus_part(part, 3) for part in (1, 2, 3)]
    assert [next(iter(part.items())) for part in parts] == [*whole.items()][:3]
    assert sum(map(len, parts)) == len(whole)
    assert {desc for part in parts for desc in part} == set(whole)


EMPTY = """
no words
there is nothing to prove: give --shard K/N or --random N

--shard 99999/99999
there is nothing to prove: give --shard K/N or --random N

--shard 3/2
argument --shard: invalid shard value: '3/2'

--shard 0/2
argument --shard: invalid shard value: '0/2'
"""


@pytest.mark.parametrize(("arguments", "told"), one_quick_in(4, rows_of(EMPTY)))
def test_an_empty_set_of_descriptors_is_an_error(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        certify_corpus.main(arguments.removeprefix("no words").split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {told}\n")


@pytest.mark.slow
def test_a_wrong_model_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (desc,) = certify_corpus.corpus_part(1, 99_999)
    wrong = og.to_onnx(desc, "zero")
    planted = partial(og.certify, model=wrong)
    monkeypatch.setattr(certify_corpus, "certify", planted)
    monkeypatch.setattr(certify_corpus, "PROVED_TARGETS", ["portable"])
    monkeypatch.setattr(certify_corpus, "PROGRESS", 2)
    assert certify_corpus.main(["--shard", "1/99999"]) == 1
    printed = capsys.readouterr()
    *lines, count = printed.out.splitlines()
    assert count == "1 proved, 3 refuted, 0 undecided"
    (name,) = certify_corpus.corpus_part(1, 99_999).values()
    starts = [
        f"{name}: {policy}, portable: refuted: where IndicesTensor is "
        for policy in ("clamp", "error", "directml")
    ]
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    assert printed.err == "2 of 4\n4 of 4\n"


def test_an_undecided_descriptor_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(certify_corpus, "POLICIES", ["clamp"])
    monkeypatch.setattr(certify_corpus, "PROVED_TARGETS", ["portable"])
    arguments = ["--shard", "1/99999", "--timeout", "0.000001"]
    assert certify_corpus.main(arguments) == 1
    line, count = capsys.readouterr().out.splitlines()
    assert line.endswith(": clamp, portable: undecided: the time is up")
    assert count == "0 proved, 0 refuted, 1 undecided"
