"""What a result was made with: the source it depends on, and the versions that ran it."""

import ast
import functools
import hashlib
import platform
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parent


def modules(source: Path) -> set[Path]:
    """Every module of this package that `source` imports, itself or through others (also inside functions)."""
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        new = _imports(path := waiting.pop(), path.stat().st_mtime_ns) - found
        found |= new
        waiting += new
    return found


def digest(source: str | Path) -> str:
    """A short digest of the modules that a script depends on: it changes when, and only when, one of them does."""
    total = hashlib.sha256()
    for path in sorted(modules(Path(source))):
        total.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


def versions(*packages: str) -> dict[str, str]:
    """Installed versions, as they are written into the metadata of artefacts."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in packages}


@functools.cache  # every rule asks for much the same modules, and every job reads all rules
def _imports(source: Path, modified: int) -> frozenset[Path]:
    """The modules of this package that a file names in its import statements."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(path for name in names for path in _files(name))


def _files(name: str) -> list[Path]:
    """The file of a dotted module name of this package, and of the packages that contain it."""
    parts = name.split(".")
    if parts[0] != PACKAGE.name:
        return []
    within = [PACKAGE.joinpath(*parts[1:i]) for i in range(1, len(parts) + 1)]
    candidates = [path / "__init__.py" for path in within] + [within[-1].with_suffix(".py")]
    return [path for path in candidates if path.is_file() and path != PACKAGE / "__init__.py"]
