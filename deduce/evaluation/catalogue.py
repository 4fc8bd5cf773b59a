"""Every table and figure of a run: its name, its builder, what it needs, and where it stands on the page.

Rules, page, docs and tests read this list; to add a table or a figure, write its builder and its entry here. Builders
are named, not imported: the rules read the catalogue without pandas and matplotlib. A builder takes the `Run` (and the
method or metric, with `each`). A table's builder returns the frame of its CSV and its `Table`, and a third value if the
page shows another `Table`; a figure's builder returns a matplotlib `Figure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from deduce.evaluation import metrics, paper

if TYPE_CHECKING:
    from deduce.datasets import Dataset
    from deduce.evaluation.run import Run
    from deduce.experiment import Experiment


@dataclass(frozen=True)
class Section:
    """A section of the page."""

    id: str
    title: str
    navigation: str
    lead: str = ""
    paper_lead: str = ""  # follows the lead where the dataset is the paper's

    def lead_of(self, dataset: Dataset) -> str:
        return f"{self.lead} {self.paper_lead}".strip() if dataset.paper else self.lead


@dataclass(frozen=True)
class Entry:
    name: str  # of the files; `{method}` or `{metric}` stands for each method or metric
    builder: str  # "module:function"
    section: str
    caption: str = ""  # of a figure; the builder of a table writes its caption, which depends on the run
    alternative: str = ""  # of a figure: a description for readers who cannot see it
    needs: tuple[str, ...] = ()  # kinds of artefacts
    fold: str = ""  # title of the <details> block around it on the page
    each: str = ""  # "method" or "metric": one table or figure for each; {title} is its name in caption and alternative
    paper: bool = False  # only where the dataset and at least one method are the paper's
    paper_caption: str = ""  # in place of the caption where the dataset is the paper's
    images: bool = False  # a figure of pictures, not a plot
    replicated: bool = False  # only where there are several trainings


@dataclass(frozen=True)
class Item:
    """A table or figure of one experiment."""

    name: str
    entry: Entry
    argument: str = ""  # the method or metric that it is about

    @property
    def needs(self) -> tuple[str, ...]:
        """The kinds of artefacts that it is made from; a metric that has a scorer needs its scores."""
        scored = self.entry.each == "metric" and metrics.METRICS[self.argument].scorer
        return (*self.entry.needs, "realism") if scored else self.entry.needs

    def build(self, run: Run) -> Any:
        return resolve_name(self.entry.builder)(run, *([self.argument] if self.argument else []))

    def figure_data(self, run: Run) -> dict[str, Any]:
        """What the page shows of a figure besides its picture."""
        entry, metric = self.entry, metrics.METRICS.get(self.argument)
        title = metric.text if metric else run.names.get(self.argument, self.argument)
        caption = (run.dataset.paper and entry.paper_caption) or entry.caption or entry.alternative
        data = {"name": self.name, "section": entry.section, "fold": entry.fold, "caption": caption.format(title=title)}
        return data | {"alternative": entry.alternative.format(title=title), "images": entry.images}


def _possible(entries: Iterable[Entry], methods: Iterable[str]) -> Iterator[Item]:
    """Every table or figure that an experiment with these methods could have."""
    arguments = {"": [""], "method": methods, "metric": [metric.name for metric in metrics.PAPER]}
    for entry in entries:
        for argument in arguments[entry.each]:
            yield Item(entry.name.format(method=argument, metric=argument), entry, argument)


def items(entries: Iterable[Entry], experiment: Experiment | Run) -> list[Item]:
    """The tables or figures of an experiment, by its dataset, methods, trainings and kinds of artefacts."""
    of_paper = experiment.dataset.paper and bool(set(experiment.methods) & set(paper.TABLE1))
    several = len(experiment.training_seeds) > 1
    possible = (
        item
        for item in _possible(entries, experiment.methods)
        if (of_paper or not item.entry.paper) and (several or not item.entry.replicated)
    )
    return [item for item in possible if all(experiment.artifacts.get(kind) for kind in item.needs)]


def named(entries: Iterable[Entry], names: Iterable[str], methods: Iterable[str]) -> list[Item]:
    """The items with these names: a script finds the items that `items` chose in its rule."""
    return [item for item in _possible(entries, methods) if item.name in names]


def needs(chosen: Iterable[Item]) -> list[str]:
    """The kinds of artefacts that these tables or figures are made from."""
    return sorted({kind for item in chosen for kind in item.needs})


def modules(entries: Iterable[Entry]) -> list[str]:
    """The modules of the builders."""
    return sorted({entry.builder.partition(":")[0] for entry in entries})


TABLE_BUILDERS, FIGURE_BUILDERS = "deduce.evaluation.paper_tables", "deduce.evaluation.figures"
SANITY, ORACLES = "deduce.evaluation.sanity", "deduce.evaluation.oracles"
TRADEOFF = "deduce.evaluation.tradeoff"
TRAININGS = "deduce.evaluation.trainings"
YARDSTICKS = "deduce.evaluation.yardsticks"
CLOSENESS, CERTAINTY = "How close to real images of the target class", "How certain, under whose densities"
ROBUSTNESS, ELSE = (
    "What survives noise, a shift, 8 bits and another training",
    "What else changed, and in how many places",
)
EXAMPLES = "More examples of each method, reconstructions and table 3"
SCORES_ALIKE = "Which scores say the same"
OTHER_READINGS = "Table 1, read in other ways"
SHARDS, STORED = ("pairs", "counterfactuals"), ("summaries", "counterfactuals")

SECTIONS = [
    Section("answer", "Table 1, beside the paper’s", "Answer"),
    Section("gallery", "Gallery", "Gallery",
            "Pick an image and a target: the original and what each method made of it, at the same scale. What was "
            "added is blue, what was removed orange."),
    Section("claims", "The paper’s claims, and this run", "Claims",
            "Each sentence of the paper that states a result, the test that it is put to here, and the outcome. What "
            "“much” or “comparable” means is ours, and is said in the test."),
    Section("oracles", "Would anyone else be convinced?", "Oracles",
            "Every method explains one network. These small networks of other architectures were trained apart and no "
            "method has seen them: do they see the target class in the counterfactuals too?"),
    Section("conviction", "The price of conviction", "Conviction",
            "A counterfactual that only the explained network believes explains little. Here each method goes on until "
            "its network is more and more confident, and oracles, which no method explains, are asked what they see."),
    Section("trainings", "Whose variance is it?", "Trainings",
            "Every method was run with several trainings of its networks. What one training shows, another may not."),
    Section("metrics", "Metric by metric", "Metrics",
            "Every point is one counterfactual. The marker is the mean with its 95 % interval, for other images and, "
            "with several trainings, another training; thin ticks are the means of each training and test set."),
    Section("same_classifier", "One classifier for all", "Same classifier",
            "Every method explains each network, so that algorithms are compared on the same network, and networks "
            "under the same algorithm. With several trainings, intervals hold for another training and other images.",
            "In the paper’s table 1, the new method explains another network than the others."),
    Section("dependence", "What the numbers depend on", "Dependence",
            "One setting of the explained network varied at a time, each point with several trainings."),
    Section("sweeps", "Settings: appendices A and B, and other sweeps", "Settings",
            "One method with some of its settings varied, each point on the same images. Means are over the pairs that "
            "all compared settings found."),
    Section("times", "Run times", "Run times",
            "Seconds for one counterfactual, each made alone, one after the other.",
            "The paper used a Tesla T4 and wider networks: compare the order, not the seconds."),
    Section("comparisons", "Two implementations of one method", "Comparisons"),
    Section("sanity", "Is the realism score any good?", "Sanity",
            "The AnoGAN score should be low for images of the dataset and high for others. AUROC is the probability "
            "that it ranks a random pair rightly."),
    Section("models", "Models", "Models"),
    Section("differences", "The paper and its released code", "Paper & code",
            "Where the two differ, the reading that made the paper’s numbers is the default here. Where the other is "
            "meaningful, a key of the config switches to it."),
    Section("made", "How this run was made", "How it was made"),
]  # fmt: skip

TITLES = {section.id: section.title for section in SECTIONS}

TABLES = [
    Entry("table1", f"{TABLE_BUILDERS}:table1", "answer"),
    Entry("table1_paper", f"{TABLE_BUILDERS}:table1_paper", "answer", fold="Table 1, number by number", paper=True),
    Entry("table3", f"{TABLE_BUILDERS}:table3", "gallery", fold=EXAMPLES),
    Entry("table3_paper", f"{TABLE_BUILDERS}:table3_paper", "gallery", fold=EXAMPLES, paper=True),
    Entry("claims", "deduce.evaluation.claims:claims", "claims", paper=True),
    Entry("claims_by_training", "deduce.evaluation.claims:by_training", "claims", fold="Each training by itself",
          paper=True, replicated=True),
    Entry("audit", f"{TABLE_BUILDERS}:audit", "claims", needs=STORED),
    Entry("table1_cleaned", f"{TABLE_BUILDERS}:table1_cleaned", "claims", needs=STORED),
    Entry("defects", f"{TABLE_BUILDERS}:defects", "claims", needs=STORED, fold="The stored rows that hold no image"),
    Entry("oracles", f"{ORACLES}:oracles", "oracles", needs=("oracles",)),
    Entry("variance", f"{TRAININGS}:variance", "trainings", replicated=True),
    Entry("tradeoff", f"{TRADEOFF}:tradeoff", "oracles", needs=("realism", "oracles")),
    Entry("frechet", f"{YARDSTICKS}:frechet", "oracles", needs=("oracles", "frechet"), fold=CLOSENESS),
    Entry("certainty", f"{YARDSTICKS}:certainty", "oracles", needs=("oracles",), fold=CERTAINTY),
    Entry("robustness", f"{YARDSTICKS}:robustness", "oracles", needs=("oracles", "card"), fold=ROBUSTNESS),
    Entry("attributes", f"{YARDSTICKS}:attributes", "oracles", needs=("natural_changes",), fold=ELSE),
    Entry("tests", f"{TABLE_BUILDERS}:tests", "metrics", fold="Paired tests"),
    Entry("table1_all_metrics", f"{TABLE_BUILDERS}:table1_all_metrics", "metrics", fold=OTHER_READINGS),
    Entry("table1_own_pairs", f"{TABLE_BUILDERS}:table1_own_pairs", "metrics", fold=OTHER_READINGS),
    Entry("table1_failures_worst", f"{TABLE_BUILDERS}:table1_failures_worst", "metrics", fold=OTHER_READINGS),
    Entry("l0_thresholds", f"{TABLE_BUILDERS}:l0_thresholds", "metrics", fold=OTHER_READINGS),
    Entry("success", f"{TABLE_BUILDERS}:success", "metrics", fold=OTHER_READINGS),
    Entry("correlations", f"{TRADEOFF}:correlations_table", "metrics", needs=("realism",), fold=SCORES_ALIKE),
    Entry("by_target", f"{TABLE_BUILDERS}:by_target", "metrics", fold=OTHER_READINGS),
    Entry("table2", f"{TABLE_BUILDERS}:table2", "times", needs=("timed",)),
    Entry("table2_paper", f"{TABLE_BUILDERS}:table2_paper", "times", needs=("timed",), paper=True),
    Entry("sanity", f"{SANITY}:sanity", "sanity", needs=("sanity",)),
    Entry("model_card", f"{TABLE_BUILDERS}:model_card", "models", needs=("card",)),
]  # fmt: skip

FIGURES = [
    Entry("paper_comparison", f"{FIGURE_BUILDERS}:beside_paper", "answer",
          "Filled: this run. Hollow: the paper. Bars are standard deviations over the test sets.",
          "Table 1 of this run and of the paper as points with error bars, a panel per metric.", paper=True),
    Entry("counterfactual_grid", f"{FIGURE_BUILDERS}:grid", "gallery", "Six pairs of the first test set.",
          "Grid of originals and of every method’s counterfactuals for six pairs.", needs=SHARDS, images=True,
          paper_caption="Figure 3: the paper’s random pairs where this run has them, and others."),
    Entry("examples_{method}", f"{FIGURE_BUILDERS}:examples", "gallery", "{title}",
          "Originals and below them the counterfactuals by {title}.", needs=SHARDS, fold=EXAMPLES, each="method",
          images=True),
    Entry("vae_reconstructions", f"{FIGURE_BUILDERS}:vae_reconstructions", "gallery", "",
          "Originals, sampled reconstructions by the VAE, and the mean of many (appendix B).",
          needs=("reconstructions",), fold=EXAMPLES, images=True),
    Entry("trainings", f"{TRAININGS}:picture", "trainings",
          "Markers are the trainings’ means, ticks beside them the means of their test sets. The band is the 95 % "
          "interval of the mean for another training and other images.",
          "Each metric as method, training and test set: a point per training, a tick per test set.", replicated=True),
    Entry("tradeoff", f"{TRADEOFF}:tradeoff_figure", "oracles",
          "Nearness against conviction and realism: no method is better in both than one on the front.",
          "Oracle rate and AGAN against L1, a point per method with both intervals, and the front.",
          needs=("realism", "oracles")),
    Entry("correlations", f"{TRADEOFF}:correlations_figure", "metrics", "Which scores say the same.",
          "Rank correlations of every two scores, within a method and over all methods, as a shaded table.",
          needs=("realism",), fold=SCORES_ALIKE),
    Entry("oracle_rates", f"{FIGURE_BUILDERS}:oracle_rates", "oracles",
          "How often the oracles see the target in what each method found; the bar is for other images and other "
          "oracles, ticks are the single oracles.",
          "Share of counterfactuals in which independent networks see the target, a line per method.",
          needs=("oracles",)),
    Entry("points_{metric}", f"{FIGURE_BUILDERS}:points", "metrics", "{title}",
          "{title} of every counterfactual, with the mean and its interval, a line per method.", each="metric"),
    Entry("success_rates", f"{FIGURE_BUILDERS}:success_rates", "metrics",
          "How often each method found a counterfactual.",
          "Success rate of each method with its interval and each test set’s rate."),
    Entry("l0_thresholds", f"{FIGURE_BUILDERS}:thresholds", "metrics",
          "How much L0 depends on what counts as a changed pixel.",
          "Mean L0 of each method against the difference that a pixel needs to count as changed."),
    Entry("targets", f"{FIGURE_BUILDERS}:targets", "metrics", "Which target classes are hard to reach.",
          "Mean L1 and failure rate by method and target class, as shaded tables."),
    Entry("feature_map", f"{FIGURE_BUILDERS}:feature_map", "metrics", "Two classes in feature space.",
          "Two classes in feature space with their Gaussians, the decision boundary, and the path of one "
          "counterfactual across it.", needs=("features",), paper_caption="Figure 2, from this run’s features."),
    Entry("run_times", f"{FIGURE_BUILDERS}:times", "times", "Every timed pair; large markers are means.",
          "Seconds of each timed counterfactual and their mean, by method, on a logarithmic axis.", needs=("timed",),
          paper_caption="Every timed pair; large markers are means, bars the paper’s means."),
    Entry("sanity_roc", f"{SANITY}:roc_figure", "sanity", "",
          "ROC curves of the AnoGAN score for telling the dataset from others.", needs=("sanity",)),
    Entry("training", f"{FIGURE_BUILDERS}:training", "models", "How the models learnt.",
          "Training curves: one row per model, training and validation values by epoch.", needs=("records",)),
    Entry("wgan_samples", f"{FIGURE_BUILDERS}:wgan_samples", "models", "", "Samples of the WGAN’s generator.",
          needs=("pictures",), images=True),
    Entry("reconstructions", f"{FIGURE_BUILDERS}:reconstructions", "models", "",
          "Test images and their reconstructions by the VAE and the autoencoder.", needs=("pictures",), images=True),
]  # fmt: skip
