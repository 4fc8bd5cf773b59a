"""Hooks of MkDocs: pages of the site that are not in docs/, and links that work there as in the repository."""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import deduce

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"\[([^\[\]]*)\]\((?!https?:)([^()\s#]+)(#[^()\s]*)?\)")
API = """# The library

What `from deduce import …` offers, from its docstrings. Every method has hyper-parameters, which are the arguments of
its constructor, and the function `generate`; [the README](../README.md#as-a-library) has an example.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=linked(text, ROOT)))
    names = "".join(f"\n::: {module}.{name}\n" for name, module in deduce._HOME.items())
    files.append(File.generated(config, "api.md", content=linked(API, ROOT / "docs") + names))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return linked(markdown, ROOT / "docs")


def linked(markdown: str, folder: Path) -> str:
    """A text of a folder of the repository with the site's links; a link to a file that is no page becomes its text."""

    def replaced(match: re.Match[str]) -> str:
        label, target, anchor = match.groups()
        path = os.path.relpath(folder / target, ROOT)
        if not (ROOT / path).exists():
            return match[0]  # for `mkdocs --strict` to complain about
        name = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else "")
        return f"[{label}]({name}{anchor or ''})" if name and not name.endswith(".py") else label

    return LINK.sub(replaced, markdown)
