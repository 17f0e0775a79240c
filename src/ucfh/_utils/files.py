"""Reading and writing files: nothing is overwritten without being asked, or left half-written.

What is wrong with a file is said in one line that begins with its path.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from ucfh._utils.memory import check_memory
from ucfh.exceptions import InputError, unknown

if TYPE_CHECKING:
    from ucfh.mdp import Problem

RUN_FORMAT = "ucfh-run"
"""What a saved run calls itself in its "head", so that other readers can say what it is."""

AnyPath = str | os.PathLike[str]
Identity = tuple[int, int]
IN_USE: Counter[Identity | None] = Counter()
"""Database files that this process has open, by `identity`, and how often.

Closing another descriptor of such a file would drop SQLite's locks on it.
"""
T = TypeVar("T")


@contextmanager
def naming(place: AnyPath) -> Iterator[None]:
    """Put ``place`` (a path, or an entry of a file) in front of errors, and keep them one line.

    >>> with naming("model.json"), naming("transitions[3]"):
    ...     raise InputError("state 7 does not exist")
    Traceback (most recent call last):
    ucfh.exceptions.InputError: model.json: transitions[3]: state 7 does not exist
    """
    try:
        yield
    except InputError as error:
        # names come from files, and may hold line breaks
        raise InputError(" ".join(f"{place}: {error}".splitlines())) from None
    except MemoryError:
        raise InputError(f"{place}: its content does not fit into memory") from None


def check_path(path: Any) -> str:
    """A path as text, if it is one; else raise."""
    where = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(where, str):
        raise InputError(f"{path!r} is not a path: pass the name of a file, or a pathlib.Path")
    return where


def identity(path: AnyPath) -> Identity | None:
    """What tells a file from others, whatever its name; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _refuse_in_use(path: AnyPath) -> None:
    """Raise if a file is a database that this process has open."""
    found = identity(path)
    if found is not None and IN_USE[found] > 0:
        raise InputError(f"{path} is a store that this process has open. Fix: name another file")


def check_ending(path: AnyPath, known: Sequence[str]) -> str:
    """The ending of a path, such as ".json", if it is a known one; else raise."""
    ending = Path(check_path(path)).suffix.lower()
    if ending not in known:
        with naming(path):
            raise unknown("ending", ending, known)
    return ending


def refuse_existing(path: AnyPath, force: bool = False) -> None:
    """Raise if ``path`` could not be written: call it before the work whose result goes there."""
    where = check_path(path)
    if "\0" in where:
        raise InputError(f"cannot write {where!r}: a name cannot contain a zero character")
    if os.path.exists(where) and not os.path.isfile(where):
        raise InputError(f"{path} is not a file: pass the name of a file")
    _refuse_in_use(where)
    if os.path.lexists(where) and not force:  # also a dangling link
        raise InputError(f"{path} exists: pass --force (force=True) to overwrite")
    directory = os.path.dirname(where) or "."
    if not os.path.isdir(directory):
        raise InputError(f"cannot write {path}: the directory {directory} does not exist")
    if not os.access(directory, os.W_OK):
        raise InputError(f"cannot write {path}: the directory {directory} is not writable")


def check_outputs(
    outputs: Sequence[tuple[str | None, Sequence[str]]], inputs: Sequence[str], force: bool
) -> None:
    """Refuse, before the work, outputs that could not be written or would overwrite its input.

    ``outputs`` are paths, or None, each with the endings it may have.
    """
    taken = {os.path.abspath(path) for path in inputs}
    for path, endings in outputs:
        if path is None:
            continue
        check_ending(path, endings)
        if os.path.abspath(path) in taken:
            raise InputError(f"{path} is named twice: give every output its own name")
        refuse_existing(path, force)
        taken.add(os.path.abspath(path))


@contextmanager
def replacing(path: AnyPath, force: bool = False) -> Iterator[Path]:
    """A temporary path to write to, which becomes ``path`` if all goes well.

    It has the same ending and lies in the same directory, so the last step is atomic: a reader
    of ``path`` sees all of the new file, or none of it.
    """
    refuse_existing(path, force)
    target = Path(os.path.realpath(path))  # a link stays a link
    temporary = target.with_name(f".{os.urandom(8).hex()}{Path(path).suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # or a power cut may leave an empty file under the name
        os.replace(temporary, target)
        sync_folder(target)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def sync_folder(path: AnyPath) -> None:
    """Let the disk keep the name of a file that was created or replaced."""
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    with suppress(OSError):  # some file systems cannot
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_text(path: AnyPath, text: str, force: bool = False) -> None:
    """Write a text file in UTF-8, line breaks as they are in ``text``."""
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        letter = text[error.start]
        raise InputError(
            f"cannot write {path}: UTF-8 cannot hold {letter!r}; remove it from the names"
        ) from None
    with replacing(path, force) as temporary:
        temporary.write_bytes(content)


def open_bytes(path: AnyPath) -> IO[bytes]:
    """A file, opened for reading."""
    check_path(path)
    _refuse_in_use(path)
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: check the name") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path}: {reason}") from None


def read_text(path: AnyPath) -> str:
    """The text of a file in UTF-8; a byte order mark, as some editors write, is skipped."""
    with open_bytes(path) as file:
        content = file.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}: line {line} is not text in UTF-8: save the file as UTF-8"
        ) from None


LONGEST_TOML = 2**20
"""Settings and studies are a few lines; a megabyte of them is something else."""
DEEP_KEY = re.compile(r"(?:[^.\n\"'=]+\.){100}")
"""A dotted key of more than a hundred parts, each of which costs the memory of all before it."""


def parse_toml(text: str) -> dict[str, Any]:
    """What a text in TOML says; an `InputError` where it is none, or nested too deeply."""
    import tomllib

    if len(text) > LONGEST_TOML or DEEP_KEY.search(text):
        raise InputError("too long, or nested too deeply, for a file of settings")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}") from None
    except RecursionError:
        raise InputError("not TOML: nested too deeply") from None


def read_arrays(path: AnyPath) -> JsonObject:
    """All arrays of an .npz file, whatever they are; pickled objects are refused.

    Nothing is read before it is known to need no more memory than the file has bytes. Refused are
    compressed arrays, which may be a thousand times as large, and headers and directories that
    announce more than there is.
    """
    import zipfile

    with open_bytes(path) as file, naming(path):
        size = os.fstat(file.fileno()).st_size
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                if any(member.compress_type != zipfile.ZIP_STORED for member in members):
                    raise InputError(
                        "its arrays are compressed, so their size cannot be checked: write them "
                        "with np.savez(new, **np.load(old)), not np.savez_compressed"
                    )
                needed = sum(member.file_size for member in members)
                if needed > size:
                    raise InputError(
                        "damaged, its directory lists more than it holds: write it again"
                    )
                check_memory("its content", needed)
                return JsonObject(_read_array(archive, member) for member in members)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # a damaged archive raises whatever its layers raise
            raise InputError("damaged, or not an .npz file: write it again") from error


def _read_array(archive: Any, member: Any) -> tuple[str, Any]:
    """Name and content of a member of an archive, if it is as large as its header says."""
    from numpy.lib import format as npy

    name = member.filename.removesuffix(".npy")
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with archive.open(member) as file:
        shape, _, kind = readers[npy.read_magic(file)](file)
        held = member.file_size - file.tell()
    if not kind.hasobject and (prod(shape) * kind.itemsize != held or kind.itemsize == 0):
        raise InputError(f"its array {name} is cut short, or too long: write it again")
    with archive.open(member) as file:
        return name, npy.read_array(file, allow_pickle=False)


class JsonObject(dict[str, Any]):
    """A JSON object that remembers a key given twice, of which ``json`` keeps only the last."""

    twice: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = JsonObject(pairs)
    if len(found) < len(pairs):
        found.twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
    return found


def parse_json(text: str | bytes) -> Any:
    """The value that a JSON text describes, its objects as `JsonObject`."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InputError(
            f"line {error.lineno}, column {error.colno}: not JSON, or cut short ({error.msg})"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON that can be read ({error})") from None


def check_format(document: Any, name: str, version: int) -> JsonObject:
    """The object that a file holds, if it says that it has this format and version."""
    if not isinstance(document, JsonObject):
        raise InputError(f"a {name} file holds a JSON object, not {show(document)}")
    if document.get("format") != name:
        found = show(document["format"]) if "format" in document else "missing"
        raise InputError(f'its "format" is {found}: it must be "{name}"')
    if not is_whole(document.get("version")) or document["version"] != version:
        found = show(document["version"]) if "version" in document else "missing"
        raise InputError(f'its "version" is {found}: this version of ucfh reads version {version}')
    return document


def check_keys(value: Any, required: Sequence[str], optional: Sequence[str] = ()) -> JsonObject:
    """``value`` if it is an object with all of the required keys and no unknown ones."""
    found = check_object(value)
    for key in found:
        if key not in required and key not in optional:
            raise unknown("key", key, [*required, *optional])
    for key in required:
        if key not in found:
            raise InputError(f'"{key}" is missing: add it')
    return found


def check_object(value: Any) -> JsonObject:
    """``value`` if it is a JSON object in which no key is given twice."""
    if not isinstance(value, JsonObject):
        raise InputError(f"it must be an object {{...}}, not {show(value)}")
    if value.twice is not None:
        raise InputError(f"{value.twice!r} is given twice: keep only one")
    return value


def check_number(value: Any) -> float:
    """``value`` as a float, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{show(value)} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{show(value)} is too large") from None


def is_whole(value: Any) -> bool:
    """Whether ``value`` is a whole number; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Whether ``value`` is a number of things, and not more than can be numbered in a table."""
    return is_whole(value) and 1 <= value < 2**31


def show(value: Any) -> str:
    """A value of a JSON file in a few words, whatever its size."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


class Labels:
    """How a file refers to the states, or the actions: by name, or by number from 0.

    >>> states = Labels("state", ("home", "work"), 2)
    >>> states.find("work"), states.find(1), states.find("1")
    (1, 1, 1)
    >>> states.label(0), states.words(0)
    ('home', "state 'home'")
    """

    def __init__(self, kind: str, names: tuple[str, ...] | None, count: int) -> None:
        self.kind = kind
        self.names = names
        self.count = count
        self._index = {name: i for i, name in enumerate(names or ())}

    def label(self, index: int) -> str | int:
        """The name, or the number where there are no names."""
        return self.names[index] if self.names else index

    def words(self, index: int) -> str:
        """The label with its kind, for messages."""
        return f"{self.kind} {self.label(index)!r}"

    def find(self, given: Any) -> int:
        """The number of a name or number; text that is not a name may be a number in digits."""
        if is_whole(given):
            return self._check(given)
        if not isinstance(given, str):
            raise InputError(
                f"{show(given)} is not a valid {self.kind}: give its name, or its number"
            )
        text = given.strip()
        for name in (given, text):
            if name in self._index:
                return self._index[name]
        if text.isascii() and text.isdigit() and len(text) < 19:
            return self._check(int(text))
        if self.names:
            raise unknown(self.kind, given, self.names)
        raise InputError(
            f"unknown {self.kind} {given!r}: {self.kind}s have no names here; give a number, "
            f"0 to {self.count - 1}"
        )

    def read_object(self, given: Any, read: Callable[[Any], T]) -> dict[int, T]:
        """Number and value of each label of a JSON object, the values as ``read`` reads them."""
        found: dict[int, T] = {}
        for key, value in check_object(given).items():
            i = self.find(key)
            if i in found:
                raise InputError(f"{self.words(i)} is given twice: keep only one")
            try:
                found[i] = read(value)
            except InputError as error:
                raise InputError(f"{self.words(i)}: {error}") from None
        if not found:
            raise InputError(f"no {self.kind} is given: give at least one")
        return found

    def _check(self, index: int) -> int:
        if not 0 <= index < self.count:
            raise InputError(
                f"{self.kind} {show(index)} does not exist: {self.kind}s are 0 to {self.count - 1}"
            )
        return index


def labels_of(problem: Problem) -> tuple[Labels, Labels]:
    """How files refer to the states and the actions of a problem."""
    return (
        Labels("state", problem.state_names, problem.states),
        Labels("action", problem.action_names, problem.actions),
    )
