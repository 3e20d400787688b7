"""Sessions read the memory that they are given: arrays, OrtValues, DLPack."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from command_line import DATA_4X3 as DATA
from command_line import DESC, INDICES
from dlpack_arrays import Exported
from messages import message_of
from onnx_texts import model_of
from short_descriptors import ascending

import onnxgather as og
from onnxgather.core.options import TARGETS

runtime: Any = onnxruntime
OrtValue = runtime.OrtValue
WANTED = DATA[:, [2, 0]]


def model(*outputs: str) -> onnx.ModelProto:
    """A model of any number of rows, with the sum and the product of two inputs."""
    kinds = {"sum": "Add", "product": "Mul"}
    nodes = "".join(f"[{name}] {name} = {kinds[name]} (a, b) " for name in outputs)
    typed = ", ".join(f"float[rows,2] {name}" for name in outputs)
    return model_of(f"g (float[rows,2] a, float[rows,2] b) => ({typed}) {{ {nodes} }}")


A: Any = ascending("FLOAT32 3x2")
B: Any = np.full((3, 2), 5, np.float32)


class TestModels:
    def test_a_model_of_one_output_gives_an_array_and_of_several_a_list(
        self, tmp_path: Path
    ) -> None:
        one, both = model("sum"), model("sum", "product")
        path = tmp_path / "model.onnx"
        path.write_bytes(both.SerializeToString())
        for source in (both, both.SerializeToString(), path, str(path)):
            session = og.Session(source)
            found = session.run(A, B)
            assert [array.tobytes() for array in found] == [
                (A + B).tobytes(),
                (A * B).tobytes(),
            ]
            assert session.assignment == (("sum", "Add"), ("product", "Mul"))
        assert og.Session(one).run({"b": B, "a": A}).tobytes() == (A + B).tobytes()

    def test_inputs_and_outputs_are_named(self) -> None:
        session = og.Session(model("sum"))
        assert [*session.inputs] == ["a", "b"]
        kinds = {
            name: (kind.dtype, kind.sizes) for name, kind in session.outputs.items()
        }
        assert kinds == {"sum": (np.dtype(np.float32), (None, 2))}

    def test_an_input_with_a_default_need_not_be_given(self) -> None:
        given = model("sum")
        given.graph.initializer.append(onnx.numpy_helper.from_array(B, "b"))
        assert og.Session(given).run(A).tobytes() == (A + B).tobytes()

    def test_texts_pass(self) -> None:
        graph = "g (string[2] x) => (string[2] y) { y = Identity (x) }"
        session = og.Session(model_of(graph))
        assert session.run(np.array(["a", "bc"])).tolist() == ["a", "bc"]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ((A,), "the inputs must be a, b, got 1 array"),
            ((), "the inputs must be a, b, got 0 arrays"),
            (({"a": A, "c": B},), "the inputs must be a, b, got a, c"),
            ((dict[str, Any](),), "the inputs must be a, b, got none"),
            ((A, B.tolist()), "b must be an array of float32 [?, 2], got list, of"
             " which numpy.asarray makes an array"),
            ((A, B.astype(">f4")),
             "b must be an array of float32 [?, 2], got >f4 (3, 2)"),
            ((A, B[0]), "b must be an array of float32 [?, 2], got float32 (2,)"),
            ((A, OrtValue.ortvalue_from_numpy(B.astype(int))),
             "b must be an array of float32 [?, 2], got int64 (3, 2)"),
            ((A, OrtValue.ortvalue_from_numpy(B.T.copy())),
             "b must be an array of float32 [?, 2], got float32 (2, 3)"),
        ],
    )  # fmt: skip
    def test_inputs_that_do_not_fit_are_refused(self, given: Any, message: str) -> None:
        assert (
            message_of(og.DescriptorError, lambda: og.Session(model("sum")).run(*given))
            == message
        )

    @pytest.mark.parametrize(
        ("source", "options", "message"),
        [
            (5, {}, "source must be a descriptor, an onnx.ModelProto, its bytes, or"
             " the path of its file, got 5"),
            (b"\1", {}, "the model must be an ONNX model, got bytes that are cut"
             " short, or no model"),
            (model("sum"), {"target": "cpu"},
             "a model has its own out_of_range and target; leave them out, or give"
             ' out_of_range with the provider "onnxgather"'),
            (DESC, {"threads": -1},
             "threads must be an integer from 0 to 1024, got -1"),
            (DESC, {"target": "gpu"}, "target must be one of {targets}, got 'gpu'"),
        ],
    )  # fmt: skip
    def test_what_is_no_source_or_option_is_refused(
        self, source: Any, options: Any, message: str
    ) -> None:
        assert message_of(og.OnnxGatherError, og.Session, source, **options) == (
            message.format(targets=", ".join(TARGETS))
        )

    def test_options_reach_the_provider(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given, make = list[Any](), runtime.InferenceSession

        def noted(*arguments: Any, **options: Any) -> Any:
            given.append((options["providers"], arguments[1].intra_op_num_threads))
            return make(*arguments, **options)

        monkeypatch.setattr(runtime, "InferenceSession", noted)
        og.Session(DESC, threads=3, provider_options={"use_arena": "0"})
        assert given == [([("CPUExecutionProvider", {"use_arena": "0"})], 3)]

    def test_a_closed_session_says_so(self) -> None:
        with og.Session(DESC) as session:
            session.run(DATA, INDICES)
        assert message_of(og.ProviderError, session.run, DATA, INDICES) == (
            "the session on CPUExecutionProvider is closed"
        )


class TestMemory:
    def test_inputs_in_disorder_are_read_anew_each_time(self) -> None:
        session, data = og.Session(DESC), np.asfortranarray(DATA)
        raw = np.zeros(DATA.nbytes + 1, np.uint8)
        odd = raw[1:].view(np.float32).reshape(4, 3)
        odd[...] = DATA
        for given in (data, data, odd, odd):
            given += 1
            wanted = np.ascontiguousarray(given[:, [2, 0]])
            assert session.run(given, INDICES).tobytes() == wanted.tobytes()

    def test_ort_values_are_read_where_they_are(self) -> None:
        session, data = og.Session(DESC), DATA.copy()
        given = (
            OrtValue.ortvalue_from_numpy(data),
            OrtValue.ortvalue_from_numpy(INDICES),
        )
        for _ in range(2):
            data += 1
            assert session.run(*given).tobytes() == data[:, [2, 0]].tobytes()

    @pytest.mark.slow
    def test_torch_tensors_are_read_where_they_are(self) -> None:
        torch: Any = pytest.importorskip("torch", reason="torch is not installed")
        session, data = og.Session(DESC), torch.from_numpy(DATA.copy())
        indices = torch.from_numpy(INDICES.copy())
        for _ in range(2):
            data += 1
            assert (
                session.run(data, indices).tobytes()
                == data.numpy()[:, [2, 0]].tobytes()
            )
        data.set_(torch.from_numpy(DATA.copy()))
        assert session.run(data, indices).tobytes() == WANTED.tobytes()
        rule = (
            "InputTensor must be an array of float32 (4, 3), got Tensor, whose memory"
            " numpy "
        )
        with pytest.raises(
            og.DescriptorError, match=f"^{re.escape(rule)}cannot read: .+"
        ):
            session.run(data.to(torch.bfloat16), indices)

    def test_what_has_dlpack_is_read_where_it_is(self) -> None:
        session, data = og.Session(DESC), Exported(DATA.copy())
        for _ in range(2):
            data.array += 1
            found = session.run(data, Exported(INDICES))
            assert found.tobytes() == data.array[:, [2, 0]].tobytes()
            assert session.run(data, INDICES).tobytes() == found.tobytes()

    @pytest.mark.parametrize("policy", ["clamp", "error", "zero", "directml"])
    def test_every_policy_holds_for_ort_values(self, policy: Any) -> None:
        session = og.Session(DESC, out_of_range=policy)
        for indices in (
            INDICES,
            np.array([[1, 1]], np.uint32),
            np.array([[9, 1]], np.uint32),
        ):
            given = OrtValue.ortvalue_from_numpy(indices)
            if policy == "error" and indices.max() > 2:
                assert (
                    message_of(og.IndexOutOfRangeError, session.run, DATA, given)
                    == "IndicesTensor[0,0] must be in [0, 3), got 9"
                )
            else:
                wanted = og.reference(DESC, DATA, indices, policy)
                assert session.run(DATA, given).tobytes() == wanted.tobytes()

    def test_a_run_that_fails_says_why_and_the_next_runs(self) -> None:
        session = og.Session(og.to_onnx(DESC, "error"))
        failed = r"^CPUExecutionProvider failed: .*out of data bounds"
        for _ in range(2):
            with pytest.raises(og.ProviderError, match=failed):
                session.run(DATA, np.array([[3, 0]], np.uint32))
        assert session.run(DATA, INDICES).tobytes() == WANTED.tobytes()

    def test_eight_threads_run_at_once(self) -> None:
        session, wrong = og.Session(DESC), list[int]()

        def work(number: int) -> None:
            data = DATA + number
            for _ in range(200):
                data += 1
                if session.run(data, INDICES).tobytes() != data[:, [2, 0]].tobytes():
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
