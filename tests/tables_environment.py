"""A Python that has what envs/evaluation.txt installs and nothing else, of links to the packages of this one."""

import re
import venv
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent


def installed(names: list[str]) -> dict[str, Distribution]:
    """These packages and what they require, by their normalised names."""
    found: dict[str, Distribution] = {}
    wanted = [Requirement(name) for name in names]
    while wanted:
        requirement = wanted.pop()
        name = normalised(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[name] = distribution(name)
            wanted += [Requirement(text) for text in found[name].requires or []]
    return found


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(file: str) -> list[str]:
    """The packages that a file in envs/ names."""
    return re.findall(r"^([\w.-]+)==", (ROOT / "envs" / file).read_text(), re.M)


def make(folder: Path) -> None:
    """The environment as `make tables` would install it, with the command `snakemake`."""
    venv.create(folder, symlinks=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for package in installed(pinned("evaluation.txt")).values():
        for top in {path.parts[0] for path in package.files or []} - {"..", "__pycache__"}:
            (packages / top).symlink_to(package.locate_file(top))
    command = folder / "bin/snakemake"
    command.write_text(f"#!{folder}/bin/python\nfrom snakemake.cli import main\n\nmain()\n")
    command.chmod(0o755)
    (folder / ".installed").touch()
