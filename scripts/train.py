"""Rule `train`: makes one model of the registry, or a variant of it."""

from _job import log, snakemake

from deduce import compute, models
from deduce.datasets import DATASETS, root_of
from deduce.training import fit
from deduce.variants import base

name, params = base(snakemake.wildcards.model), snakemake.params
compute.configure(**params.accelerator)
needs, dataset = models.REGISTRY[name].needed(params.settings), DATASETS[params.dataset]
needed = {role: models.load(snakemake.input[role]).to(compute.device()) for role in needs}
places = root_of(snakemake.input.data), snakemake.output.weights
record = fit(name, params.settings, dataset, *places, params.seed, params.source, **needed)
log.info("%s: %s", snakemake.wildcards.model, record.iloc[-1].to_dict())
