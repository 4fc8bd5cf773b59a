"""`make audit`: writes docs/licences.md, every package that `make install` installs, with its version and licence."""

import re
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = """# Licences of the dependencies

What `make install` installs, as each package declares its licence. `make audit` writes this page from the environment.
Nothing of it is part of this repository, whose own licence is MIT.

| package | version | licence |
|---|---|---|
"""


def licence(package: metadata.PackageMetadata) -> str:
    """The licence expression, or else the classifiers, or else the first line of the licence field."""
    classifiers = [
        text.rpartition(" :: ")[2] for text in package.get_all("Classifier", []) if text.startswith("License")
    ]
    declared = (package.get("License") or "").strip().splitlines()
    return package.get("License-Expression") or ", ".join(classifiers) or (declared[0] if declared else "not declared")


def page() -> str:
    names = re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "envs/constraints.txt").read_text(), re.MULTILINE)
    lines = []
    for name in names:
        try:
            package = metadata.metadata(name)
        except metadata.PackageNotFoundError:  # of slurm.txt, generic.txt or faults.txt
            continue
        text = licence(package).replace("|", "\\|")
        lines.append(f"| {package['Name']} | {package['Version'].partition('+')[0]} | {text} |")
    return PAGE + "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "docs/licences.md").write_text(page(), encoding="utf-8")
