"""ONNX files of estimators: their columns, what the files say of themselves, and a reader."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pyro_gcm.data.tables import read_table

#: Coefficients of (1 + 2a) exp(a^2) erfc(a), a >= 0, as a polynomial of (a - 3.75) / (a + 3.75),
#: the lowest first: its Chebyshev series up to degree 22, by mpmath.
_ERFC = (
    1.2375126308378275, -0.14024059858554525, 0.0035854154854790257, 0.08227673848999506,
    -0.10880393014244462, 0.09230432116428125, -0.05869339857664934, 0.02836227737211114,
    -0.009746579683265262, 0.0017556261651970652, 0.000293714378044958, -0.00029015535246077655,
    5.164652974177416e-05, 2.2387565714911816e-05, -1.1438048033346894e-05,
    -9.792625707303523e-07, 1.7419821586224816e-06, -5.084465378687302e-08,
    -2.4857126248016745e-07, 1.879082322370048e-08, 3.197926671666804e-08,
    -1.9551358868985616e-09, -2.623107347133476e-09,
)  # fmt: skip


def erfc(x: Tensor) -> Tensor:
    """Erfc by exp and a polynomial: ONNX runtimes have it for float32 alone, without its tail.

    The form is that of Shepherd and Laframboise (1981), and exp(-a^2) is a product of two, of which
    the first has an exact argument: the error is a few ulp, relative, as far as there are floats.
    """
    a = x.abs().clamp(max=30.0)  # beyond which it is 0
    place = (a - 3.75) / (a + 3.75)
    scaled = torch.full_like(place, _ERFC[-1])
    for coefficient in _ERFC[-2::-1]:
        scaled = scaled * place + coefficient
    near = torch.floor(a * 16.0) / 16.0
    tail = torch.exp(-near * near) * torch.exp((near - a) * (near + a))
    tail = tail * (scaled / (1.0 + 2.0 * a))
    return torch.where(x < 0.0, 2.0 - tail, tail)


#: What a file may have of each row.
OUTPUTS = ("prediction", "probabilities", "survival")
#: Functions in the place of operators that ONNX lacks in float64.
DECOMPOSITIONS = {torch.ops.aten.erfc.default: erfc}


def _columns_of(estimator: Any) -> dict[str, Any]:
    """How each column is read, by its name."""
    codes = estimator.encoding_.columns
    names = [str(name) for name in getattr(estimator, "feature_names_in_", range(len(codes)))]
    return dict(zip(names, codes, strict=True))


def _is_text(code: Any) -> bool:
    return code.kind != "number" and not any(isinstance(v, int | float) for v in code.seen)


def check_columns(estimator: Any) -> None:
    """Raise ValueError for an estimator whose columns a file cannot hold."""
    for name, code in _columns_of(estimator).items():
        if name in OUTPUTS:
            raise ValueError(f"column {name!r} has the name of an output of the file")
        if code.kind == "number":
            continue
        if "" in code.seen:
            raise ValueError(f"column {name!r} has the level '', which is a missing value in ONNX")
        if not _is_text(code) and len({*map(float, code.seen)}) < len(code.seen):
            raise ValueError(f"column {name!r} has whole numbers as levels that float64 lacks")


def inputs_of(estimator: Any, rows: int) -> tuple[Tensor, ...]:
    """Rows of zeros, as a program takes them: numbers, and the codes of categories."""
    kinds = [code.kind for code in estimator.encoding_.columns]
    types = [torch.float64 if kind == "number" else torch.int64 for kind in kinds]
    return tuple(torch.zeros(rows, dtype=each) for each in types)


def onnx_bytes(
    program: Any, inputs: tuple[Tensor, ...], response: Any, estimator: Any, times: Tensor | None
) -> bytes:
    """The file of a program, with the columns of an estimator in front."""
    import onnx

    names = ["prediction", *(["probabilities"] if response.named == "ordinal" else [])]
    names += [] if times is None else ["survival"]
    arguments = inputs if estimator is None else (inputs,)
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it warns of packages that it would know how to convert
    try:
        made = torch.onnx.export(program, arguments, output_names=names, dynamo=True, verbose=False)
    finally:
        logger.setLevel(level)
    assert made is not None
    proto = made.model_proto
    facts = {"prediction": response.predicts}
    if estimator is not None:
        proto = _with_columns(proto, estimator)
        facts |= _facts(estimator, times)
    onnx.helper.set_model_props(proto, facts)
    content: bytes = proto.SerializeToString()
    return content


def _with_columns(proto: Any, estimator: Any) -> Any:
    """The file with an input for each column, of its name, in place of codes."""
    import onnx
    from onnx import TensorProto, helper

    inner = [each.name for each in proto.graph.input]
    rows = proto.graph.input[0].type.tensor_type.shape.dim[0]
    graph, front, columns = proto.graph, list[Any](), list[Any]()
    outputs = {each.name for each in graph.output}
    # A column may have any name.
    _rename(graph, lambda name: name if name in outputs or not name else f"model/{name}")
    for (name, code), own in zip(_columns_of(estimator).items(), inner, strict=True):
        own = f"model/{own}"
        if code.kind == "number":
            kind = TensorProto.DOUBLE
            front.append(helper.make_node("Identity", [name], [own]))
        else:
            is_text, unseen = _is_text(code), len(code.seen)
            kind = TensorProto.STRING if is_text else TensorProto.DOUBLE
            keys = [*code.seen, "" if is_text else float("nan")]
            places = [*map(float, range(unseen)), unseen + 1.0]
            values = helper.make_tensor("values", TensorProto.DOUBLE, [len(places)], places)
            text = [key.encode() for key in keys] if is_text else [*map(float, keys)]
            options: Any = {
                "keys_tensor": helper.make_tensor("keys", kind, [len(keys)], text),
                "values_tensor": values,
                "default_tensor": helper.make_tensor("", TensorProto.DOUBLE, [1], [float(unseen)]),
            }
            place = f"model/place of {name}"
            front += [
                helper.make_node("LabelEncoder", [name], [place], domain="ai.onnx.ml", **options),
                helper.make_node("Cast", [place], [own], to=TensorProto.INT64),
            ]
        shape = [rows.dim_param or rows.dim_value]
        columns.append(helper.make_tensor_value_info(name, kind, shape))
    nodes = [*front, *graph.node]
    for field, entries in ((graph.input, columns), (graph.node, nodes)):
        del field[:]
        field.extend(entries)
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 4))
    onnx.checker.check_model(proto)
    return proto


def _rename(graph: Any, new: Callable[[str], str]) -> None:
    """Give every value of a graph, and of the graphs in it, another name."""
    for entries in (graph.input, graph.output, graph.initializer, graph.value_info):
        for each in entries:
            each.name = new(each.name)
    for node in graph.node:
        node.input[:], node.output[:] = map(new, node.input), map(new, node.output)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, new)


def _facts(estimator: Any, times: Tensor | None) -> dict[str, str]:
    """What the metadata of a file say, as JSON where it is no text."""
    columns = {
        name: {"kind": code.kind, "direction": direction, "levels": code.seen}
        for (name, code), direction in zip(
            _columns_of(estimator).items(), estimator.directions_, strict=True
        )
    }
    facts = {"estimator": type(estimator).__name__, "columns": json.dumps(columns)}
    if estimator.response == "binary":
        facts["event"] = str(estimator.classes_[estimator.event_column_])
    if estimator.response != "survival":
        facts["classes"] = json.dumps(estimator.classes_.tolist())
    else:
        facts["event"] = estimator.model_.response.event_named(None)
    return facts | ({} if times is None else {"times": json.dumps(times.tolist())})


class OnnxFile:
    """A file that `export` wrote of an estimator, as a predictor of tables in onnxruntime.

    :param source: path of the file, or an `onnxruntime.InferenceSession` of it. A path is opened
        with one thread, since a runtime may divide sums otherwise with another number.
    :raises FileNotFoundError: for a path of no file.
    :raises ValueError: for a file of another kind.

    Attributes: `facts`, the metadata; `columns`, how each column is read; `text`, names of those
    with text; `event`; `directions_` and `feature_names_in_`, as estimators have them.
    """

    def __init__(self, source: Any) -> None:
        self.session = source
        if isinstance(source, str | Path):
            import onnxruntime

            if not Path(source).is_file():
                raise FileNotFoundError(f"predictor must be a file, and {source} is none")
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            providers = ["CPUExecutionProvider"]
            self.session = onnxruntime.InferenceSession(str(source), options, providers)
        self.facts = dict(self.session.get_modelmeta().custom_metadata_map)
        if "columns" not in self.facts:
            raise ValueError("predictor must be a file that export wrote of an estimator")
        self.columns: dict[str, Any] = json.loads(self.facts["columns"])
        self.event = self.facts.get("event", "")
        inputs = self.session.get_inputs()
        self.text = [each.name for each in inputs if each.type == "tensor(string)"]
        self.feature_names_in_ = [*self.columns]
        self.directions_ = [column["direction"] for column in self.columns.values()]

    def as_read(self, X: Any) -> Any:
        """The columns of the file in a DataFrame, with the levels of those with a direction."""
        import pandas as pd

        table, found = read_table(X), dict[str, Any]()
        place = {name: at for at, name in enumerate(table.names or map(str, range(len(table))))}
        if lacking := [name for name in self.columns if name not in place]:
            raise ValueError(f"X must have the columns of the file, and lacks {lacking}")
        for name, about in self.columns.items():
            column = table[place[name]]
            found[name] = column.numbers if about["kind"] == "number" else column.as_labels()
            if about["direction"] and about["kind"] != "number":
                found[name] = pd.Categorical(found[name], about["levels"], ordered=True)
        return pd.DataFrame(found)

    def inputs(self, X: Any) -> dict[str, npt.NDArray[Any]]:
        """What a runtime takes of a table of n rows, [n] each."""
        frame, given = self.as_read(X), {}
        for name in self.columns:
            values = frame[name].astype(object)
            if name in self.text:
                given[name] = values.where(values.notna(), "").to_numpy(dtype=object)
            else:
                given[name] = values.to_numpy(dtype=np.float64)
        return given

    def __call__(self, X: Any) -> dict[str, npt.NDArray[np.float64]]:
        """The outputs by name, for a table of n rows."""
        names = [each.name for each in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, self.inputs(X)), strict=True))

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """The monotone prediction of each row, [n]."""
        return self(X)["prediction"]
