"""Rule `uncertainty`: predictive entropy and mutual information of every method's counterfactuals."""

from _job import snakemake

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from deduce import models
from deduce.evaluation import tables
from deduce.models.ensemble import uncertainty
from deduce.shards import Pairs, Shard

ensemble = models.load(snakemake.input.ensemble)
originals = {Path(path).stem: Pairs.load(path).original for path in snakemake.input.pairs}
parts = []
for path in map(Path, snakemake.input.shards):
    shard = Shard.load(path)
    for when, images in (("before", originals[path.stem]), ("after", shard.counterfactual)):
        found = torch.from_numpy(np.ascontiguousarray(images[shard.found]))
        names = ("entropy", "mutual_information")
        values = dict(zip(names, (part.numpy() for part in uncertainty(ensemble, found)), strict=True))
        confidence = ensemble(found).softmax(1)[range(len(found)), shard.target[shard.found]].detach().numpy()
        line = {"method": path.parent.name, "name": shard.metadata["display_name"], "when": when}
        parts.append(pd.DataFrame(line | {"confidence": confidence} | values, index=range(len(found))))
frame = pd.concat(parts)
names = dict(frame[["method", "name"]].drop_duplicates().itertuples(index=False))
counts = frame[frame["when"] == "after"].groupby("method", sort=False).size().rename("found")
means = frame.drop(columns="name").groupby(["method", "when"], sort=False).mean().unstack("when")
means.columns = [f"{name}_{when}" for name, when in means.columns]
frame = pd.concat([counts, means], axis=1).rename_axis("method").reset_index()
caption = "The ensemble's confidence in the target, predictive entropy and mutual information (nats), "
caption += "before and after, over the pairs that each algorithm found."
table = tables.frame_table(frame, caption, names=names, decimals=4)
tables.write(Path(snakemake.output.table).with_suffix(""), frame, table)
