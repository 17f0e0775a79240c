"""Less work for the compiler than numba gives it.

Four things of numba's take almost half of the time, and are left out while kernels are compiled:

- Every function is optimised and made machine code on its own, and again as a part of all that call
  it; here, one that has no way in from Python (`ucfh._kernels.compiling.inner`, and numba's own)
  only as a part of those, and under no name: the compiler may change how it is called, which makes
  a plan for twenty states a tenth faster, and nobody else can call it by mistake.
- What a sum of two numbers is, or the larger of them, is looked up among dozens of rules, again and
  again for each place where one stands; here, once for all of a function.
- Which variables live where is computed after every pass; here, where somebody asks for it.
- Python's garbage collector goes through all that a compiler keeps, again and again, to find
  nothing.

This rests on parts of numba that may change: see `ucfh._kernels.compiling.tested`.
"""

from __future__ import annotations

import gc
import operator
from typing import Any

from llvmlite.binding import Linkage  # type: ignore[import-untyped]
from llvmlite.binding import parse_assembly as parse
from numba.core import event
from numba.core import types as numba_types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.targetconfig import ConfigStack
from numba.core.transforms import canonicalize_cfg

types: Any = numba_types


class _Library(JITCodeLibrary):
    """Compiled code of one function, as LLVM has it; machine code only if Python can call it."""

    _emitted = False

    def _optimize_functions(self, ll_module: Any) -> None:
        # all else when it is emitted, but pairs of reference counts are found only before
        if any(x.name.startswith("NRT_incref") for x in ll_module.functions):
            super()._optimize_functions(ll_module)
        else:
            ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Where the function of that name is; 0 if there is none."""
        self._ensure_finalized()
        if not self._emitted:
            if all(x.is_declaration for x in self._final_module.functions if x.name == name):
                return 0
            self._emitted = True
            self._codegen._check_llvm_bugs()
            for function in self._final_module.functions:
                # those of other libraries; of "internal" ones numba's linker would still see names
                if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                    function.linkage = "private"
            self._optimize_final_module()
            self._final_module.verify()
            self._finalize_final_module()
        return int(super().get_pointer_to_function(name))

    def serialize_using_object_code(self) -> Any:
        """What is kept: machine code and, in place of LLVM's, names. Nothing else is made of it."""
        own = [x for x in self._final_module.functions if x.linkage == Linkage.external]
        names = [x.name for x in own if not x.is_declaration]
        text = "".join(f'define void @"{name}"() {{ ret void }}\n' for name in names)
        return self.name, "object", (self._get_compiled_object(), parse(text).as_bitcode())

    @property
    def codegen(self) -> Any:
        """What emits the code; nothing that is not emitted has an environment to be set."""
        return self._codegen if self._emitted else _Silent


class _Silent:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        pass


_call_type = types.BaseFunction.get_call_type
_process = PostProcessor.run
_known: dict[Any, Any] = {}


def _get_call_type(function: Any, context: Any, args: Any, by_name: Any) -> Any:
    """What a function is for these types, from memory, in the function that is compiled now.

    In others it may be compiled differently: where it is asked for again, what it was compiled to
    here is set again, too. Operators take constants for numbers like all others, but for powers.
    """
    if by_name:
        return _call_type(function, context, args, by_name)
    if (
        getattr(function.typing_key, "__module__", None) == operator.add.__module__
        and function.typing_key not in (operator.pow, operator.ipow)
        and all(isinstance(x, types.Number | types.Boolean | types.Array) for x in args)
    ):
        args = tuple(map(types.unliteral, args))
    here = ConfigStack.top_or_none()
    key = function, args, id(here)
    if key not in _known:
        found = _call_type(function, context, args, {})
        _known[key] = found, function._impl_keys[found.args], here
    found, function._impl_keys[found.args], _ = _known[key]
    return found


def _run(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Bring a function's blocks into order, and say where variables end if that is asked for."""
    function = processor.func_ir
    if emit_dels or function.is_generator:
        _process(processor, emit_dels, extend_lifetimes)
        return
    function.blocks = canonicalize_cfg(function.blocks)
    function.variable_lifetime = VariableLifetime(function.blocks)
    function.generator_info = None


SHORTER: list[tuple[Any, str, Any]] = [
    (JITCPUCodegen, "_library_class", _Library),
    (types.BaseFunction, "get_call_type", _get_call_type),
    (PostProcessor, "run", _run),
]
"""What stands in for what of numba's, while kernels are compiled."""


class _Compiling(event.Listener):
    """What is different while kernels are compiled, and what they call."""

    def __init__(self, kernels: set[Any]) -> None:
        self.kernels, self.depth, self.collected = kernels, 0, False
        self.before = [vars(owner)[name] for owner, name, _ in SHORTER]

    def on_start(self, what: Any) -> None:
        """A function is compiled: a kernel, or what one calls, or somebody else's."""
        if self.depth or what.data["dispatcher"] in self.kernels:
            self.depth += 1
        if self.depth == 1:
            self.collected = gc.isenabled()
            gc.disable()
            for owner, name, ours in SHORTER:
                setattr(owner, name, ours)

    def on_end(self, _: Any) -> None:
        """It is compiled, or it failed."""
        if self.depth == 1:
            for (owner, name, _ours), before in zip(SHORTER, self.before, strict=True):
                setattr(owner, name, before)
            _known.clear()
            if self.collected:
                gc.enable()
        self.depth = max(0, self.depth - 1)


def shorten(kernels: set[Any]) -> None:
    """Let these be compiled in this way from now on, with all that they call."""
    event.register("numba:compile", _Compiling(kernels))
