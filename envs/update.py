"""`make update`: pins the newest versions of all packages that work together, and the hashes of their files.

The direct dependencies are in the files of `DIRECT`; their versions are replaced. constraints.txt gets the versions of
everything that these install, and hashes.txt the SHA-256 of the files; those of evaluation.txt alone are in
hashes-evaluation.txt.
`python envs/update.py hashes` leaves the versions alone. alibi.txt is not touched: alibi dictates its versions.
"""

import html
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).parent
DIRECT = [FOLDER / f"{name}.txt" for name in ("evaluation", "core", "develop", "slurm", "generic", "faults", "docs")]
OPTIONAL = DIRECT[3:]  # which `make install` does not install
CONSTRAINTS, HASHES = FOLDER / "constraints.txt", FOLDER / "hashes.txt"
EVALUATION_HASHES = FOLDER / "hashes-evaluation.txt"
HEADERS = {
    EVALUATION_HASHES: """\
# Written by envs/update.py: the SHA-256 of what evaluation.txt installs. `make tables` takes no other packages.
""",
    HASHES: """\
# Written by envs/update.py: the SHA-256 of the packages of constraints.txt. `make install` takes no others.
# Without torch and torchvision (several builds), and without slurm.txt, generic.txt, faults.txt and docs.txt.
-r hashes-evaluation.txt
""",
}
INDEX = "https://pypi.org/simple"
PIN = re.compile(r"^((?: *- )?)([A-Za-z0-9._-]+)==([^\s#]+)", re.MULTILINE)
# One version of these has several builds (CPU, CUDA), with other files and other dependencies on each platform.
BUILDS = {"torch", "torchvision"}
USABLE = re.compile(r"-(py3|py2\.py3|cp3\d+)-(none|abi3|cp31[1-4])-(any|manylinux\S*(x86_64|aarch64)|macosx\S*)\.whl$")


def pins(path: Path) -> dict[str, str]:
    return {name: version for _, name, version in PIN.findall(path.read_text())}


def chosen(*requirements: str) -> dict[str, str]:
    """The versions of everything that pip would install for these requirements."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        options = ["--quiet", "--dry-run", "--ignore-installed", "--report", report.name]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, *requirements], check=True)
        packages = [item["metadata"] for item in json.load(report)["install"]]
    return {item["name"]: item["version"].partition("+")[0] for item in packages}


def newest() -> dict[str, str]:
    """The versions that pip chooses if nothing is pinned."""
    return chosen(*(name for path in DIRECT for name in pins(path)))


def replace(path: Path, versions: dict[str, str]) -> None:
    known = {name.lower().replace("_", "-"): version for name, version in versions.items()}

    def pinned(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}=={known.get(match[2].lower().replace('_', '-'), match[3])}"

    path.write_text(PIN.sub(pinned, path.read_text()))


def hashes(name: str, version: str) -> list[str]:
    """The SHA-256 of a version's wheels, or of its source if it has no wheel for any platform in use."""
    project = re.sub(r"[-_.]+", "-", name).lower()
    with urllib.request.urlopen(f"{INDEX}/{project}/", timeout=60) as response:
        page = html.unescape(response.read().decode())
    files = re.findall(r'/([^/"#]+)#sha256=([0-9a-f]{64})', page)
    start = re.compile(
        rf"{re.sub('[-_.]+', '[-_.]+', project)}-{re.escape(version)}(-|\.tar\.gz$|\.zip$)", re.IGNORECASE
    )
    of_version = [(file, digest) for file, digest in files if start.match(file)]
    wheels = [digest for file, digest in of_version if USABLE.search(file)]
    return sorted(wheels or [digest for file, digest in of_version if not file.endswith(".whl")])


def write_hashes() -> None:
    left_out = BUILDS | {name for path in OPTIONAL for name in pins(path)}
    versions = {name: version for name, version in pins(CONSTRAINTS).items() if name not in left_out}
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(versions, pool.map(hashes, versions, versions.values()), strict=True))
    evaluation = chosen("-r", str(DIRECT[0]), "-c", str(CONSTRAINTS))
    written = dict(HEADERS)
    for name, version in versions.items():
        if not found[name]:
            sys.exit(f"{name}=={version}: the index has no file of it")
        pinned = [f"{name}=={version}", *(f"--hash=sha256:{digest}" for digest in found[name])]
        written[EVALUATION_HASHES if name in evaluation else HASHES] += " \\\n    ".join(pinned) + "\n"
    for path, text in written.items():
        path.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:] != ["hashes"]:
        versions = newest()
        for file in (*DIRECT, FOLDER / "core.yaml"):
            replace(file, versions)
        listed = sorted((f"{name}=={version}" for name, version in versions.items()), key=str.lower)
        CONSTRAINTS.write_text("\n".join([CONSTRAINTS.read_text().splitlines()[0], *listed]) + "\n")
    write_hashes()
