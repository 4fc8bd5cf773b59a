"""Rule `jsma`: the counterfactuals of one pair file by JSMA. Rule `time_jsma`: how long one takes."""

from _job import job

log = job(snakemake)

from _method import respond

from deduce.compute import device
from deduce.fold import fold
from deduce.methods.jsma import JSMA
from deduce.models import load
from deduce.shards import Pairs

method = JSMA(**snakemake.params.settings)
shape = Pairs.load(snakemake.input.pairs).original.shape[1:]
classifier = fold(load(snakemake.input.classifier).to(device()), shape)


def generate(images, targets, progress=False):
    return method.generate(classifier, images, targets, allow_reached=True, progress=progress)


respond(snakemake, log, method, generate, classifier)
