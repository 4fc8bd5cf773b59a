"""Rule `estimate`: the core hours of a config, from the records of a finished run."""

from _job import log, snakemake

from deduce.estimate import FinishedRun, estimate
from deduce.experiment import RUN, Experiment

config = snakemake.config
table = estimate(Experiment(config, RUN, config["name"]), FinishedRun.load(snakemake.params.run))
log.info("\n%s", table.to_string(index=False, float_format="{:.3g}".format))
log.info("%s: %.3g core hours, estimated from %s", config["name"], table["hours"].sum(), snakemake.params.run)
