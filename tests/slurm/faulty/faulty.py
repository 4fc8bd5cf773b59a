"""Rule `faulty`: answers at once, but `faults/{seed}-{part}` may name a fault (see below): once, or `always`."""

from _job import log, snakemake

import time
from pathlib import Path

import numpy as np

from deduce.shards import Pairs, Shard

fault = Path("faults", f"{snakemake.wildcards.seed}-{snakemake.wildcards.part}")
kind = fault.read_text().split() if fault.exists() else []
if kind and "always" not in kind:
    fault.unlink()
if "fail" in kind:
    raise RuntimeError("a fault, as asked")
if "hang" in kind:
    log.info("hanging")
    time.sleep(600)
if "slow" in kind and snakemake.resources.runtime < 2:  # minutes, of the first attempt
    time.sleep(600)
if "bloat" in kind:
    ballast = np.ones((450, 1024, 128))  # 450 MB: with Snakemake, more than the first attempt asks for
    time.sleep(10)

pairs = Pairs.load(snakemake.input.pairs)
nothing = np.zeros(len(pairs))
Shard(
    pairs.image,
    pairs.label,
    pairs.target,
    pairs.original,
    found=nothing.astype(bool),
    confidence=nothing.astype(np.float32),
    iterations=nothing.astype(int),
    metadata={"method": "faulty"},
).save(snakemake.output[0])
