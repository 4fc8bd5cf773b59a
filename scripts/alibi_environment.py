"""Rule `alibi_environment`: a virtual environment with alibi and TensorFlow, from the package index alone."""

from _job import log, snakemake

import subprocess
import sys
import venv
from pathlib import Path

from deduce.errors import InputError

if not (3, 9) <= sys.version_info[:2] <= (3, 11):
    raise InputError(
        "TensorFlow 2.14, which alibi 0.9.4 needs, runs on Python 3.9 to 3.11: run Snakemake with one of them."
    )

requirements, folder = Path(snakemake.input[0]), Path(snakemake.output[0]).parent
packages = [line.split("==")[0] for line in requirements.read_text().splitlines() if "==" in line]
names = f"{packages[0]}, {packages[1]} and {len(packages) - 2} more packages"
log.info("installing %s into %s: about 2 GB on disk, some minutes", names, folder)
venv.create(folder, clear=True, with_pip=True)
python = folder / "bin" / "python"
pip = [python, "-m", "pip", "--disable-pip-version-check"]
with open(snakemake.log[0], "a") as output:
    subprocess.run([*pip, "install", "--quiet", "-r", requirements], check=True, stdout=output, stderr=output)
    subprocess.run([python, "-c", "import alibi.explainers"], check=True, stdout=output, stderr=output)
Path(snakemake.output[0]).write_text(subprocess.check_output([*pip, "freeze"], text=True))
log.info("installed")
