"""How kernels become LLVM's code: as numba does it, without what they have no use for.

Numba's compiler is made of passes, and takes others in their place. Those here leave out what
kernels do not contain (closures, ``with``, expressions of whole arrays), and look at which
variables live where only once, at the end, and only where references are counted.

The code itself is that of numba but for three things, half of what a kernel consists of. For an
item of a C array, numba writes the array to memory to read its shape and strides back, thirty
instructions; here it is the few that compute its address. A function that is passed a group of
arrays is passed ten numbers for each; here two or three, of which all others follow. And what has
no references need not be cleared.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from llvmlite.ir import Constant, Undefined  # type: ignore[import-untyped]
from numba.core import types as numba_types
from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.datamodel.models import TupleModel, UniTupleModel
from numba.core.datamodel.registry import default_manager
from numba.core.imputils import impl_ret_borrowed
from numba.core.ir_utils import enforce_no_phis
from numba.core.lowering import Lower
from numba.core.typed_passes import (
    AnnotateTypes,
    BaseNativeLowering,
    IRLegalization,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    DeadBranchPrune,
    FixupArgs,
    GenericRewrites,
    InlineInlinables,
    IRProcessing,
    ReconstructSSA,
    RewriteSemanticConstants,
    TranslateByteCode,
)
from numba.np.arrayobj import load_item, store_item
from numba.np.numpy_support import as_dtype

types: Any = numba_types

MEMINFO, PARENT, ITEMS, ITEM_SIZE, DATA, SHAPE, STRIDES = range(7)
"""Where an array has what, in numba's model of it."""


class _Lower(Lower):
    """Numba's, but for items of C arrays and for variables without references."""

    def storevar(self, value: Any, name: str, argidx: Any = None) -> None:
        """Keep the value of a variable."""
        if self.context.enable_nrt or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self.builder.store(value, self.getvar(name))

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """An item of an array, or what its first axes leave of it."""
        kind, at = self.typeof(value.name), self._indices(index)
        if not self._simple(kind, at):
            return super().lower_getitem(resty, expr, value, index, signature)
        array = self.loadvar(value.name)
        if len(at) == kind.ndim:
            found = load_item(self.context, self.builder, kind, self._address(kind, array, at))
        else:
            found = self._part(kind, array, at, signature.return_type)
        found = impl_ret_borrowed(self.context, self.builder, signature.return_type, found)
        return self.context.cast(self.builder, found, signature.return_type, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        """Set an item of an array."""
        kind, at = self.typeof(target_var.name), self._indices(index_var)
        if not self._simple(kind, at) or len(at) < kind.ndim:
            return super().lower_setitem(target_var, index_var, value_var, signature)
        array, value = self.loadvar(target_var.name), self.loadvar(value_var.name)
        given = self.typeof(value_var.name)
        value = self.context.cast(self.builder, value, given, signature.args[2])
        value = self.context.cast(self.builder, value, signature.args[2], kind.dtype)
        store_item(self.context, self.builder, kind, value, self._address(kind, array, at))
        return None

    def _indices(self, index: Any) -> list[tuple[Any, Any]]:
        """Types and values of indices, one for each axis that has one."""
        kind, value = self.typeof(index.name), self.loadvar(index.name)
        if not isinstance(kind, types.BaseTuple):
            return [(kind, value)]
        return [(x, self.builder.extract_value(value, k)) for k, x in enumerate(kind.types)]

    def _simple(self, kind: Any, at: list[tuple[Any, Any]]) -> bool:
        """Whether these are numbers of items or rows of a C array."""
        return (
            isinstance(kind, types.Array)
            and kind.layout == "C"
            and 0 < len(at) <= kind.ndim
            and all(isinstance(x, types.Integer) for x, _ in at)
            and not self.context.enable_boundscheck
        )

    def _address(self, kind: Any, array: Any, at: list[tuple[Any, Any]]) -> Any:
        """Where the item is, or the first of what is left; indices below 0 count from the end."""
        builder, context = self.builder, self.context
        shape = [builder.extract_value(array, (SHAPE, k)) for k in range(kind.ndim)]
        place = None
        for axis, size in enumerate(shape):
            index = None
            if axis < len(at):
                given, value = at[axis]
                index = context.cast(builder, value, given, types.intp)
                if given.signed:
                    negative = builder.icmp_signed("<", index, Constant(index.type, 0))
                    index = builder.select(negative, builder.add(index, size), index)
            if place is not None:
                place = builder.mul(place, size)
            if index is not None:
                place = index if place is None else builder.add(place, index)
        return builder.gep(builder.extract_value(array, DATA), [place])

    def _part(self, kind: Any, array: Any, at: list[tuple[Any, Any]], left: Any) -> Any:
        """What is left of an array, of the type ``left``, where its first axes have an index."""
        builder, axes = self.builder, range(len(at), kind.ndim)
        sizes = [builder.extract_value(array, (SHAPE, k)) for k in axes]
        fields = {
            MEMINFO: builder.extract_value(array, MEMINFO),
            PARENT: builder.extract_value(array, PARENT),
            ITEMS: reduce(builder.mul, sizes),
            ITEM_SIZE: builder.extract_value(array, ITEM_SIZE),
            DATA: self._address(kind, array, at),
        }
        part = self.context.get_constant_undef(left)
        for field, value in fields.items():
            part = builder.insert_value(part, value, field)
        for k, axis in enumerate(axes):
            part = builder.insert_value(part, sizes[k], (SHAPE, k))
            stride = builder.extract_value(array, (STRIDES, axis))
            part = builder.insert_value(part, stride, (STRIDES, k))
        return part


class _Passed:
    """How a group is passed to a function: of each C array where it begins, and its shape.

    All else follows from those. References are not passed on, as who calls a kernel holds them; so
    no kernel may return an array of a group that it was given.
    """

    _members: tuple[Any, ...]
    _models: tuple[Any, ...]

    def get_argument_type(self) -> Any:
        """Types of what is passed, member by member."""
        return tuple(
            (whole[DATA], *(whole[SHAPE].element,) * kind.ndim)
            if _is_plain(kind) and (whole := model.get_value_type().elements)
            else model.get_argument_type()
            for kind, model in zip(self._members, self._models, strict=True)
        )

    def as_argument(self, builder: Any, group: Any) -> Any:
        """What is passed of a group."""
        return tuple(
            (
                builder.extract_value(group, (i, DATA)),
                *(builder.extract_value(group, (i, SHAPE, k)) for k in range(kind.ndim)),
            )
            if _is_plain(kind)
            else self._models[i].as_argument(builder, builder.extract_value(group, i))
            for i, kind in enumerate(self._members)
        )

    def from_argument(self, builder: Any, passed: Any) -> Any:
        """The group, of which that was passed."""
        group = Constant(self.get_value_type(), Undefined)  # type: ignore[attr-defined]
        for i, (kind, model) in enumerate(zip(self._members, self._models, strict=True)):
            member = (
                _array(builder, kind, model.get_value_type(), *passed[i])
                if _is_plain(kind)
                else model.from_argument(builder, passed[i])
            )
            group = builder.insert_value(group, member, i)
        return group


def _is_plain(kind: Any) -> bool:
    return isinstance(kind, types.Array) and kind.layout == "C" and kind.ndim > 0


def _array(builder: Any, kind: Any, whole: Any, data: Any, *shape: Any) -> Any:
    """A C array, of LLVM's type ``whole``."""
    stride = Constant(shape[0].type, as_dtype(kind.dtype).itemsize)
    fields = [Constant(x, Undefined) for x in whole.elements]
    fields[MEMINFO], fields[PARENT] = (Constant(whole.elements[x], None) for x in (MEMINFO, PARENT))
    fields[ITEM_SIZE] = stride
    array = builder.insert_value(Constant(whole, fields), data, DATA)
    for k in range(kind.ndim - 1, -1, -1):
        array = builder.insert_value(array, shape[k], (SHAPE, k))
        array = builder.insert_value(array, stride, (STRIDES, k))
        stride = builder.mul(stride, shape[k]) if k else stride
    return builder.insert_value(array, reduce(builder.mul, shape), ITEMS)


class _Group(_Passed, TupleModel):
    """A group of several types."""


class _UniGroup(_Passed, UniTupleModel):
    """A group of one type."""

    def __init__(self, models: Any, kind: Any) -> None:
        super().__init__(models, kind)
        self._members, self._models = tuple(kind), (self._elem_model,) * len(kind)


def pass_groups(package: str) -> None:
    """Let named tuples that are defined in a package be passed as groups, by all functions."""

    def choose(ours: Any, others: Any) -> Any:
        return lambda models, kind: (
            ours if kind.instance_class.__module__.startswith(f"{package}.") else others
        )(models, kind)

    default_manager.register(types.NamedTuple, choose(_Group, TupleModel))
    default_manager.register(types.NamedUniTuple, choose(_UniGroup, UniTupleModel))


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):
    """The pass that writes LLVM's code."""

    _name: Any = "kernel_lowering"

    @property
    def lowering_class(self) -> Any:
        """What writes it."""
        return _Lower


@register_pass(mutates_CFG=False, analysis_only=True)
class _Ending(IRLegalization):
    """Where variables end: it matters only if references are counted."""

    _name = "kernel_ending"

    def run_pass(self, state: Any) -> bool:
        """Say where they end."""
        if state.flags.nrt:
            return bool(super().run_pass(state))
        enforce_no_phis(state.func_ir)
        return True


class _Passes(PassManager):
    """Passes that do their own housekeeping: after each of them, numba would do it all again."""

    _ENFORCING = False


class KernelCompiler(CompilerBase):
    """Numba's passes, but for those that kernels do not need."""

    def define_pipelines(self) -> list[PassManager]:
        """What is done to a function, in turn."""
        passes = _Passes("kernel")
        for one in (
            TranslateByteCode,
            FixupArgs,
            IRProcessing,
            RewriteSemanticConstants,
            DeadBranchPrune,
            GenericRewrites,
            InlineInlinables,
            ReconstructSSA,
            DeadBranchPrune,
            NopythonTypeInference,
            PreLowerStripPhis,
            _Ending,
            AnnotateTypes,
            _Lowering,
            NoPythonBackend,
        ):
            passes.add_pass(one, one.__name__)
        passes.finalize()
        return [passes]
