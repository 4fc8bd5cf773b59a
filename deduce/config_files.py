"""Checks config files before Snakemake reads them.

Snakemake reads the files of `--configfile` before any rule, without limits on what they contain. If a file asks for it
(`__use_yte__`), Snakemake even runs the code in it. So profiles/default calls `check_command_line` first.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from deduce.errors import InputError

MOST_BYTES, MOST_VALUES, DEEPEST = 1_000_000, 20_000, 20
STANDARD = "tag:yaml.org,2002:"
TAGS = {"map", "seq", "str", "int", "float", "bool", "null", "merge", "timestamp", "value"}
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def check_command_line(arguments: Sequence[str]) -> None:
    """Exits with one sentence if a file of `--configfile`, or a value of `--config`, cannot be used."""
    try:
        for path in _values(arguments, "--configfile", "--configfiles"):
            check_file(path)
        for setting in _values(arguments, "--config", "-C"):
            check_text(setting.partition("=")[2], "--config")
    except InputError as error:
        sys.exit(str(error))


def check_file(path: str | Path) -> None:
    """An `InputError` unless a file is a mapping in YAML or JSON, of a sensible size, with no key twice."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"{path}: is larger than {MOST_BYTES} bytes, which no config file is.")
        text = content.decode()
    except OSError as error:
        raise InputError(f"{path}: the config file cannot be read: {(error.strerror or str(error)).lower()}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not a text file in UTF-8; save the config file in that encoding.") from None
    node = check_text(text, str(path))
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{path}: must hold `key: value` lines, as config.yaml does.")
    if any(key.value == "__use_yte__" for key, _ in node.value):
        raise InputError(f"{path}: '__use_yte__' would run code from the file, which this workflow does not allow.")


def check_text(text: str, where: str) -> yaml.Node | None:
    """The YAML nodes of a text, or an `InputError`. YAML's readers have no limits, and keep the last of equal keys."""
    if max((text.count(bracket) for bracket in "[{"), default=0) > MOST_VALUES:
        raise InputError(f"{where}: has too many brackets.")
    depth = 0
    try:
        for event in yaml.parse(text, LOADER):  # which does not recurse; `compose` would exhaust the stack and crash
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise InputError(f"{where}: is nested too deeply.")
        node = yaml.compose(text, LOADER)
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error)
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{where}{line}: is not valid YAML ({problem.splitlines()[0]}).") from None
    for count, _ in enumerate(_walk(node, "", where, ()), start=1):
        if count > MOST_VALUES:
            raise InputError(f"{where}: stands for more than {MOST_VALUES} values.")
    return node


def _walk(node: yaml.Node | None, section: str, where: str, parents: tuple[int, ...]) -> Iterator[None]:
    """Every value that a node stands for, aliases expanded."""
    yield
    if node and node.tag.removeprefix(STANDARD) not in TAGS:
        raise InputError(f"{where}: the tag '{node.tag.removeprefix(STANDARD)}' has no meaning in a config.")
    if id(node) in parents:
        raise InputError(f"{where}: '{section.rstrip('.')}' contains itself.")
    if len(parents) > DEEPEST:
        raise InputError(f"{where}: is nested too deeply.")
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{where}, line {key.start_mark.line + 1}: a key must be one word.")
            if key.value in seen:
                line = f"{where}, line {key.start_mark.line + 1}"
                raise InputError(f"{line}: '{section}{key.value}' is there already; put both under one key.")
            seen.add(key.value)
            yield from _walk(value, f"{section}{key.value}.", where, (*parents, id(node)))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _walk(value, section, where, (*parents, id(node)))


def _values(arguments: Sequence[str], *options: str) -> Iterator[str]:
    """The values of an option that takes any number of them, as in `--config a=1 b=2` or `--config=a=1`."""
    inside = False
    for argument in arguments:
        name, separator, value = argument.partition("=")
        if argument.startswith("-") and not argument[1:2].isdigit():
            inside = argument in options
            if separator and name in options:
                yield value
        elif inside:
            yield argument
