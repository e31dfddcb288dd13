"""What is in the JSON of an exported program: the types of ``torch/_export/serde/schema.py``, by their names there.

Those that would mean something else here have ``Saved`` before their names.

They are those of version 8, which torch 2.6 brought, with all that was added since. A field that torch passes on
without a look at it is ``Any``; one that it does not know, it ignores. A union has exactly one, which it knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

VERSION: Final = (8, 20)
"""The version that is described here: the members of unions in a later one need not be."""


_Kind = TypeVar("_Kind")


def convert(value: object, kind: type[_Kind]) -> _Kind:
    """Return a value of JSON as one of the types below.

    :raises ProgramError: it is none
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ProgramError(str(error)) from error


class ProgramError(Exception):
    """Something is not what torch saves; the text says what, and where."""


class _Union(Struct, forbid_unknown_fields=True):
    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not UNSET for name in self.__struct_fields__) != 1:
            raise ValueError("Object must have exactly one field")


class SavedDevice(Struct):
    """Where a tensor is."""

    type: str
    index: int | None = None


class _SymExprHint(_Union):
    as_int: int | UnsetType = UNSET
    as_bool: bool | UnsetType = UNSET
    as_float: float | str | UnsetType = UNSET


class _SymExpr(Struct):
    expr_str: str
    hint: _SymExprHint | None = None


class _SymInt(_Union):
    as_expr: _SymExpr | UnsetType = UNSET
    as_int: int | UnsetType = UNSET


class _SymFloat(_Union):
    as_expr: _SymExpr | UnsetType = UNSET
    as_float: float | str | UnsetType = UNSET


class _SymBool(_Union):
    as_expr: _SymExpr | UnsetType = UNSET
    as_bool: bool | UnsetType = UNSET


class TensorMeta(Struct):
    """The shape and the kind of a tensor."""

    dtype: int
    sizes: list[_SymInt]
    requires_grad: bool
    device: SavedDevice
    strides: list[_SymInt]
    storage_offset: _SymInt
    layout: Any


class _SymIntArgument(_Union):
    as_name: str | UnsetType = UNSET
    as_int: int | UnsetType = UNSET


class _SymFloatArgument(_Union):
    as_name: str | UnsetType = UNSET
    as_float: float | str | UnsetType = UNSET


class _SymBoolArgument(_Union):
    as_name: str | UnsetType = UNSET
    as_bool: bool | UnsetType = UNSET


class _Named(Struct):
    name: str


class _OptionalTensorArgument(_Union):
    as_tensor: _Named | UnsetType = UNSET
    as_none: Any | UnsetType = UNSET


class _GraphArgument(Struct):
    name: str
    graph: SavedGraph


class _CustomObjArgument(Struct):
    name: str
    class_fqn: str


class _ComplexValue(Struct):
    real: float | str
    imag: float | str


class SavedArgument(_Union):
    """What an operator or a graph takes or returns."""

    as_none: Any | UnsetType = UNSET
    as_tensor: _Named | UnsetType = UNSET
    as_tensors: list[_Named] | UnsetType = UNSET
    as_int: int | UnsetType = UNSET
    as_ints: list[int] | UnsetType = UNSET
    as_float: float | str | UnsetType = UNSET
    as_floats: list[float | str] | UnsetType = UNSET
    as_string: str | UnsetType = UNSET
    as_strings: list[str] | UnsetType = UNSET
    as_sym_int: _SymIntArgument | UnsetType = UNSET
    as_sym_ints: list[_SymIntArgument] | UnsetType = UNSET
    as_scalar_type: int | UnsetType = UNSET
    as_memory_format: int | UnsetType = UNSET
    as_layout: int | UnsetType = UNSET
    as_device: SavedDevice | UnsetType = UNSET
    as_bool: bool | UnsetType = UNSET
    as_bools: list[bool] | UnsetType = UNSET
    as_sym_bool: _SymBoolArgument | UnsetType = UNSET
    as_sym_bools: list[_SymBoolArgument] | UnsetType = UNSET
    as_graph: _GraphArgument | UnsetType = UNSET
    as_optional_tensors: list[_OptionalTensorArgument] | UnsetType = UNSET
    as_custom_obj: _CustomObjArgument | UnsetType = UNSET
    as_operator: str | UnsetType = UNSET
    as_sym_float: _SymFloatArgument | UnsetType = UNSET
    as_sym_floats: list[_SymFloatArgument] | UnsetType = UNSET
    as_optional_tensor: _OptionalTensorArgument | UnsetType = UNSET
    as_complex: _ComplexValue | UnsetType = UNSET
    as_nested_tensors: list[list[_Named]] | UnsetType = UNSET
    as_int_lists: list[list[int]] | UnsetType = UNSET
    as_string_to_argument: dict[str, SavedArgument] | UnsetType = UNSET
    as_float_lists: list[list[float | str]] | UnsetType = UNSET

    def list_tensors(self) -> Iterator[str]:
        """Yield the names of the tensors in it."""
        if self.as_tensor is not UNSET:
            yield self.as_tensor.name
        for tensor in self.as_tensors or ():
            yield tensor.name


class _NamedArgument(Struct):
    name: str
    arg: SavedArgument
    kind: Any = None


class Node(Struct):
    """A call of an operator."""

    target: str
    inputs: list[_NamedArgument]
    outputs: list[SavedArgument]
    metadata: dict[str, str]
    is_hop_single_tensor_return: Any = None
    name: str | None = None


class SavedGraph(Struct):
    """What is computed."""

    inputs: list[SavedArgument]
    outputs: list[SavedArgument]
    nodes: list[Node]
    tensor_values: dict[str, TensorMeta]
    sym_int_values: dict[str, _SymInt]
    sym_bool_values: dict[str, _SymBool]
    custom_obj_values: dict[str, _CustomObjArgument] = {}
    sym_float_values: dict[str, _SymFloat] = {}

    def __post_init__(self) -> None:
        """Look up the names of tensors: nothing is used before it is made, and of the inputs the shapes are known."""
        made = {name for argument in self.inputs for name in argument.list_tensors()}
        unknown = made - self.tensor_values.keys()
        for node in self.nodes:
            unknown.update(name for item in node.inputs for name in item.arg.list_tensors() if name not in made)
            made.update(name for argument in node.outputs for name in argument.list_tensors())
        unknown.update(name for argument in self.outputs for name in argument.list_tensors() if name not in made)
        if unknown:
            raise ValueError(f"Object has no tensor {min(unknown)!r}")


class _UserSpec(Struct):
    arg: SavedArgument


class _TensorSpec(Struct):
    arg: _Named


class _ParameterSpec(_TensorSpec):
    parameter_name: str


class _BufferSpec(_TensorSpec):
    buffer_name: str


class _InputToBufferSpec(_BufferSpec):
    persistent: Any


class _TensorConstantSpec(_TensorSpec):
    tensor_constant_name: str


class _CustomObjSpec(Struct):
    arg: _CustomObjArgument
    custom_obj_name: str


class _UserInputSpec(_TensorSpec):
    user_input_name: str


class _ConstantSpec(Struct):
    name: str
    value: dict[str, Any]


class _InputSpec(_Union):
    user_input: _UserSpec | UnsetType = UNSET
    parameter: _ParameterSpec | UnsetType = UNSET
    buffer: _InputToBufferSpec | UnsetType = UNSET
    tensor_constant: _TensorConstantSpec | UnsetType = UNSET
    custom_obj: _CustomObjSpec | UnsetType = UNSET
    token: _TensorSpec | UnsetType = UNSET
    constant_input: _ConstantSpec | UnsetType = UNSET


class _OutputSpec(_Union):
    user_output: _UserSpec | UnsetType = UNSET
    loss_output: _TensorSpec | UnsetType = UNSET
    buffer_mutation: _BufferSpec | UnsetType = UNSET
    gradient_to_parameter: _ParameterSpec | UnsetType = UNSET
    gradient_to_user_input: _UserInputSpec | UnsetType = UNSET
    user_input_mutation: _UserInputSpec | UnsetType = UNSET
    token: _TensorSpec | UnsetType = UNSET
    parameter_mutation: _ParameterSpec | UnsetType = UNSET


class _GraphSignature(Struct):
    input_specs: list[_InputSpec]
    output_specs: list[_OutputSpec]


class _RangeConstraint(Struct):
    min_val: int | None
    max_val: int | None


class _ModuleCallSignature(Struct):
    inputs: list[SavedArgument]
    outputs: list[SavedArgument]
    in_spec: str
    out_spec: str


class _ModuleCallEntry(Struct):
    fqn: Any
    signature: _ModuleCallSignature | None = None


class _NamedTupleDef(Struct):
    field_names: list[str]


class _GraphModule(Struct):
    graph: SavedGraph
    signature: _GraphSignature
    module_call_graph: list[_ModuleCallEntry]
    metadata: dict[str, Any] = {}
    treespec_namedtuple_fields: dict[str, _NamedTupleDef] = {}

    def __post_init__(self) -> None:
        for of_graph, specs in (
            (self.graph.inputs, self.signature.input_specs),
            (self.graph.outputs, self.signature.output_specs),
        ):
            if len(of_graph) != len(specs):
                raise ValueError(f"Object has a graph of {len(of_graph)}, and a signature of {len(specs)}")


class ExportedProgram(Struct):
    """All of it."""

    graph_module: _GraphModule
    opset_version: Any
    range_constraints: dict[str, _RangeConstraint]
    verifiers: list[str] = []

    def list_weights(self) -> Iterator[str]:
        """Yield the names of its parameters, and of the buffers that are saved with it."""
        for spec in self.graph_module.signature.input_specs:
            if spec.parameter is not UNSET:
                yield spec.parameter.parameter_name
            elif spec.buffer is not UNSET and spec.buffer.persistent:
                yield spec.buffer.buffer_name


class _PayloadMeta(Struct):
    path_name: str
    is_param: bool
    use_pickle: bool
    tensor_meta: TensorMeta | None

    def __post_init__(self) -> None:
        if self.tensor_meta is None and not self.use_pickle:
            raise ValueError("Object says nothing of the shape")


class PayloadConfig(Struct):
    """The list of weights or of constants."""

    config: dict[str, _PayloadMeta]
