"""`make docs`: writes the reference pages that are made from the schema, config.yaml and the catalogue."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import yaml

from deduce.config import available_methods, defaults, schema
from deduce.evaluation.catalogue import FIGURES, TABLES, TITLES

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = """# Configuration

`config.yaml` is the default experiment; each file in `config/` changes only the keys that it names
(`snakemake --configfile config/paper.yaml`), and single keys can be changed on the command line
(`--config images_per_seed=5 'vlk={max_iterations: 500}'`). Everything is checked before the workflow starts.
`make docs` writes this page from the schema and config.yaml.

| key | default | what it is |
|---|---|---|
"""
CATALOGUE = """# Tables and figures

Every table and figure that a run can have, in the order of the page. A run has those whose artefacts it made;
`{method}` and `{metric}` stand for each method and metric. `make docs` writes this page from
[the catalogue](../deduce/evaluation/catalogue.py).

| files | section of the page | what it shows | made from |
|---|---|---|---|
"""


def configuration() -> str:
    """The reference page of the configuration, one row per key."""
    lines = []

    def add(properties: dict[str, Any], values: dict[str, Any], prefix: str) -> None:
        for key, part in properties.items():
            if "properties" in part:
                lines.append(f"| **`{prefix}{key}`** | | {part.get('description', '')} |")
                add(part["properties"], values.get(key, {}), f"{prefix}{key}.")
            else:
                plain = key in values and not part.get("additionalProperties")
                value = f"`{yaml.safe_dump(values[key], default_flow_style=True).splitlines()[0]}`" if plain else ""
                choice = " One of " + ", ".join(f"`{name}`" for name in part["enum"]) + "." if "enum" in part else ""
                lines.append(f"| `{prefix}{key}` | {value} | {part.get('description', '')}{choice} |")

    add(schema(ROOT, available_methods(ROOT))["properties"], defaults(ROOT), "")
    return CONFIGURATION + "\n".join(lines) + "\n"


def catalogue() -> str:
    """The reference page of tables and figures, one row each."""
    lines = []
    for folder, entries in (("tables", TABLES), ("figures", FIGURES)):
        for entry in entries:
            about = (entry.alternative or resolve_name(entry.builder).__doc__).splitlines()[0]
            about = about.replace("by {title}", f"by the {entry.each}").replace("{title}", f"The {entry.each}")
            needs = ", ".join(("results", *entry.needs)) + (" (the paper's dataset only)" if entry.paper else "")
            needs += " (several trainings only)" if entry.replicated else ""
            lines.append(f"| `{folder}/{entry.name}` | {TITLES[entry.section]} | {about} | {needs} |")
    return CATALOGUE + "\n".join(lines) + "\n"


PAGES = {"configuration.md": configuration, "catalogue.md": catalogue}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
