"""Rule `deduce`: the counterfactuals of one pair file by DeDUCE. Rule `time_deduce`: how long one takes."""

from _job import job

log = job(snakemake)

from _method import respond

from deduce.compute import device
from deduce.fold import fold
from deduce.methods.deduce import DeDUCE
from deduce.models import load
from deduce.shards import Pairs

method = DeDUCE(**snakemake.params.settings)
shape = Pairs.load(snakemake.input.pairs).original.shape[1:]
classifier = fold(load(snakemake.input.classifier).to(device()), shape)
densities = load(snakemake.input.densities).to(device())


def generate(images, targets, progress=False):
    return method.generate(classifier, densities, images, targets, allow_reached=True, progress=progress)


respond(snakemake, log, method, generate, classifier)
