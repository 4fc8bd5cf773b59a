"""The rules of rules/methods: one pair file answered by a method of the library.

The rule's inputs are named after the arguments that the method `needs`; `data` gives the training images.
"""

from _job import log, snakemake

from deduce import compute, methods, models
from deduce.datasets import load, root_of
from deduce.errors import InputError
from deduce.pairs import is_measured
from deduce.shards import Pairs
from deduce.variants import base

inputs, params, seed = snakemake.input, snakemake.params, snakemake.wildcards.seed
compute.configure(**params.accelerator)
method = methods.by_name(base(snakemake.wildcards.method))(**params.settings)
for need in method.needs:
    if (name := "data" if need == "training" else need) not in dict(inputs.items()):
        raise InputError(f"{method.display_name} needs {need}, so its rule needs the input '{name}'.")
pairs = Pairs.load(inputs.pairs)
roles = ["classifier", *(name for name in method.needs if name != "training")]
roles += ["confirming"] * ("confirming" in params.models)  # only if the setting `confirm_by` names a classifier
arguments = {role: models.load(inputs[role]).to(compute.device()) for role in roles}
if "training" in method.needs:
    arguments["training"] = load(root_of(inputs.data), params.dataset, "train", params.settings.get("training_images"))
arguments = method.prepare(pairs.original, **arguments)
shard = methods.answer(method, arguments, pairs, params.source, params.models, seed if is_measured(seed) else "")
shard.save(snakemake.output[0])
log.info("%d of %d found, %.0f iterations each", shard.found.sum(), len(shard), shard.iterations.mean())
