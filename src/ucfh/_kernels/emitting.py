"""Less work for the compiler than numba gives it.

Two things of numba's take a third of the time, and are left out while kernels are compiled. Every
function is optimised and made machine code on its own, and again as a part of all that call it;
here, one that has no way in from Python (`ucfh._kernels.compiling.inner`, and numba's own) only as
a part of those, and under no name: the compiler may change how it is called, which makes a plan for
twenty states a tenth faster, and nobody else can call it by mistake. And Python's garbage collector
goes through all that a compiler keeps, again and again, to find nothing.

This rests on parts of numba that may change. So it is done with versions that it was tested with;
with others, kernels are compiled as numba does it, to the same effect.
"""

from __future__ import annotations

import gc
from typing import Any

import numba
from llvmlite.binding import Linkage  # type: ignore[import-untyped]
from llvmlite.binding import parse_assembly as parse
from numba.core import event
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen

TESTED = ("0.68",)
"""Versions of numba."""

kernels: set[Any] = set()
"""What is compiled in this way, with all that it calls."""


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


class _Compiling(event.Listener):
    """What is different while kernels are compiled, and what they call."""

    def __init__(self) -> None:
        self.depth, self.collected = 0, False

    def on_start(self, what: Any) -> None:
        """A function is compiled: a kernel, or what one calls, or somebody else's."""
        if self.depth or what.data["dispatcher"] in kernels:
            self.depth += 1
        if self.depth == 1:
            self.collected = gc.isenabled()
            gc.disable()
            JITCPUCodegen._library_class = _Library

    def on_end(self, _: Any) -> None:
        """It is compiled, or it failed."""
        if self.depth == 1:
            JITCPUCodegen._library_class = JITCodeLibrary
            if self.collected:
                gc.enable()
        self.depth = max(0, self.depth - 1)


if numba.__version__.rpartition(".")[0] in TESTED:
    event.register("numba:compile", _Compiling())
