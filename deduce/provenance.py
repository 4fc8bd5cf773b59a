"""What a result was made with: the source code that it depends on, and the versions that ran it."""

import ast
import functools
import hashlib
import os
import platform
import re
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parent


def digest(script: str | Path, *modules: str) -> str:
    """A short digest of all source code that a script runs: it changes when, and only when, that code does.

    The code is the script, the helpers beside it (`_*.py`), and every module of this package that these import, even
    indirectly. `modules` names further modules, such as `deduce.methods.jsma`, that the script imports by name.
    """
    total = hashlib.sha256()
    # Relative paths make the digest independent of the repository's location.
    for name, path in sorted((os.path.relpath(path, PACKAGE.parent), path) for path in source_files(script, *modules)):
        total.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def source_files(script: str | Path, *modules: str) -> set[Path]:
    """The files that `digest` covers."""
    pending = [Path(script)]
    for name in modules:
        file = PACKAGE.parent.joinpath(*name.split("."))
        if not (file.with_suffix(".py").is_file() or (file / "__init__.py").is_file()):
            raise ValueError(f"there is no module {name}")
        pending += _files(name)
    reached: set[Path] = set()
    while pending:
        if (path := pending.pop()) not in reached:
            reached.add(path)
            status = path.stat()
            pending += _imports(path, status.st_mtime_ns, status.st_size)
    return reached


def machine(threads: int) -> str:
    """A short description of the machine on which a time was measured."""
    facts = Path("/proc/cpuinfo")
    name = re.search(r"^model name\s*:(.*)", facts.read_text(), re.MULTILINE) if facts.exists() else None
    processor = name[1].strip() if name else platform.processor() or platform.machine()
    return f"{processor}, {threads} thread{'s' if threads > 1 else ''}"


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python and of those packages that are installed, for the metadata of artefacts."""
    installed = {(package.name or "").lower(): package.version for package in metadata.distributions()}
    return {"python": platform.python_version()} | {name: installed[name] for name in packages if name in installed}


@functools.cache  # many rules depend on the same modules, and every job reads all rules
def _imports(path: Path, modified: int, size: int) -> list[Path]:
    """The files that the import statements of a file name, including imports inside functions."""
    names: list[str] = []
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):  # else they never run
            pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            # The package that a relative import starts from: as many folders up as it has dots.
            package = path.relative_to(PACKAGE.parent).parts[: -node.level] if node.level else ()
            module = ".".join([*package, *filter(None, [node.module])])
            names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
    helpers = [path.parent / f"{name}.py" for name in names if name.startswith("_")]
    return [file for file in helpers if file.is_file()] + [file for name in names for file in _files(name)]


def _files(name: str) -> list[Path]:
    """The files of a dotted name of this package: the module, and the `__init__.py` of the packages that contain it.

    The package's own `__init__.py` does not count: it holds a version and shortcuts for users of the library.
    """
    parts = name.split(".")
    if parts[0] != PACKAGE.name:
        return []
    folders = [PACKAGE.joinpath(*parts[1:i]) for i in range(2, len(parts) + 1)]
    candidates = [folder / "__init__.py" for folder in folders] + [folder.with_suffix(".py") for folder in folders[-1:]]
    return [path for path in candidates if path.is_file()]
