"""Rule `revise`: the counterfactuals of one pair file by REVISE. Rule `time_revise`: how long one takes."""

from _job import job

log = job(snakemake)

from _method import respond

from deduce.compute import device
from deduce.fold import fold
from deduce.methods.revise import REVISE
from deduce.models import load
from deduce.shards import Pairs

method = REVISE(**snakemake.params.settings)
shape = Pairs.load(snakemake.input.pairs).original.shape[1:]
classifier = fold(load(snakemake.input.classifier).to(device()), shape)
vae = load(snakemake.input.vae).to(device())


def generate(images, targets, progress=False):
    return method.generate(classifier, vae, images, targets, allow_reached=True, progress=progress)


respond(snakemake, log, method, generate, classifier)
