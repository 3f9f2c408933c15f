"""What the site's build adds to the pages: the commands' reference, and the pages that stand in the repository's root.

Links in docs/ are written so that they work in the repository: `../CONTRIBUTING.md`. On the site the same page is
`contributing.md`, and a link to a file that is no page (a script, a licence) becomes its name.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any, get_args

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Kernels of notebooks inherit it: that tqdm would like to draw widgets is no part of a recipe.
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
# Pages of the repository's root, and where they are on the site.
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
COMMANDS = "<!-- commands -->"
# What a browser fetches by itself, unlike a link: sources, style sheets, imports, and whatever a CDN serves.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["'](?:https?:)?//[^"']*"""
    r"""|<link\b(?=[^>]*\brel=["'](?:stylesheet|preload|preconnect|icon|modulepreload))[^>]*\bhref=["'](?:https?:)?//[^"']*"""
    r"""|(?:@import|url\()\s*["']?(?:https?:)?//[^"')]*"""
    r"""|https?://[\w.-]*(?:unpkg|jsdelivr|cdnjs|googleapis|gstatic)[^"')\s]*"""
)
EXTRAS = "The [README](../README.md#extras) lists them."  # on the site the list itself stands here


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the root's pages, but for the README: the site has a home of its own."""
    for name, there in PAGES.items():
        if name != "README.md":
            text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
            files.append(File.generated(config, there, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, commands())
    if EXTRAS in markdown:
        markdown = markdown.replace(EXTRAS, section_of_readme("Extras"))
    return re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s:]+)\)", lambda link: linked(link[1], link[2], here), markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Take out what notebooks bring along to draw mermaid diagrams, which ours have none of: it names a CDN."""
    return re.sub(r"<script[^>]*>(?:(?!</script>).)*?cdnjs(?:(?!</script>).)*</script>", "", output, flags=re.DOTALL)


def on_post_build(config: MkDocsConfig) -> None:
    """Nothing on the site comes from another host, also not what the theme would fetch for diagrams or old browsers."""
    site = Path(config.site_dir)
    for path in site.rglob("assets/javascripts/*.js*"):
        path.write_text(re.sub(r"https://unpkg\.com/[^\"'\\]*", "", path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in [*site.rglob("*.html"), *site.rglob("*.css"), *site.rglob("*.js")]:
        found = FETCHED.search(path.read_text(encoding="utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(site)} would fetch something from another host: {found[0]}")


def section_of_readme(heading: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].strip()


def linked(text: str, goal: str, here: str) -> str:
    """A link as the site needs it: to a page, or only its text where the file is not on the site."""
    path, sharp, anchor = goal.partition("#")
    if not path:
        return f"[{text}]({goal})"
    from_root = here in PAGES.values() and here != "index.md"
    in_docs = normpath(str(PurePosixPath(here).parent / path))  # as seen from docs/
    outside = path if from_root and (ROOT / path).exists() else in_docs.removeprefix("../")
    if not (in_docs.startswith("../") or (from_root and outside in PAGES)):
        return f"[{text}]({goal})"
    if not (ROOT / outside).exists():
        raise PluginError(f"{here} links to {goal}, which does not exist.")
    if outside not in PAGES:
        return text if text.startswith("`") else f"{text} (`{outside}`)"
    there = relpath(PAGES[outside], str(PurePosixPath(here).parent))
    if outside == "README.md" and anchor:
        raise PluginError(f"{here} links to {goal}: a section of the README, which is not on the site.")
    return f"[{text}]({there}{sharp}{anchor})"


def commands() -> str:
    """The reference of every command, from the typer application."""
    from wherefrom.cli.main import app, load_plug_in, plug_in_commands, register_commands

    register_commands()
    apps = [app, *(load_plug_in(entry)[0] for entry in plug_in_commands().values())]
    return "\n".join(line for one in apps for line in described(one, "wherefrom", depth=2))


def described(app: typer.Typer, program: str, depth: int) -> list[str]:
    """Every command of an application, and of those inside it, from the functions behind them."""
    parts = []
    for command in app.registered_commands:
        function = command.callback
        if function is not None:
            name = f"{program} {command.name or function.__name__.replace('_', '-')}"
            parts += section(name, function, depth, command.help or inspect.getdoc(function) or "")
    for group in app.registered_groups:
        inner = group.typer_instance
        if inner is not None:
            parts += [f"{'#' * depth} {program} {group.name}\n", f"{inner.info.help}\n"]
            parts += described(inner, f"{program} {group.name}", depth + 1)
    return parts


def section(name: str, function: Callable[..., Any], depth: int, about: str) -> list[str]:
    arguments, options = [], []
    for declared in inspect.signature(function, eval_str=True).parameters.values():
        parameter = declared
        if isinstance(parameter.default, typer.models.OptionInfo):  # name: type = typer.Option(default, ...)
            kind, info = parameter.annotation, parameter.default
            parameter = parameter.replace(default=info.default)
        else:
            kind, info = get_args(parameter.annotation)  # Annotated[type, typer.Option(...)]
        default = None if parameter.default is parameter.empty else parameter.default
        if isinstance(info, typer.models.ArgumentInfo):
            metavar = info.metavar or parameter.name.upper()
            optional = parameter.default is not parameter.empty
            arguments.append((f"[{metavar}]" if optional else metavar, "", row(metavar, "", parameter, info)))
        else:
            first = [info.default] if isinstance(info.default, str) else []  # where Annotated has no default of its own
            flags = [*first, *(info.param_decls or ())] or [f"--{parameter.name.replace('_', '-')}"]
            takes = "" if bool in (kind, *get_args(kind)) else info.metavar or taken(kind)
            if not takes and default is not None and not first:
                flags.append(f"--no-{parameter.name.replace('_', '-')}")
            options.append(row(", ".join(flags), takes, parameter, info))
    usage = " ".join([name, *(shown for shown, _, _ in arguments), "[OPTIONS]" if options else ""]).strip()
    rows = [*(line for _, _, line in arguments), *options]
    head = ["| | takes | default | |", "|---|---|---|---|"] if rows else []
    return [f"{'#' * depth} {name}\n", f"{about}\n", f"```text\n{usage}\n```\n", *head, *rows, ""]


def taken(kind: Any) -> str:
    """What an option takes, as `--help` has it."""
    names = {int: "INTEGER", float: "FLOAT", Path: "PATH", str: "TEXT"}
    inner = [one for one in get_args(kind) if one is not type(None)]
    return names[kind] if kind in names else taken(inner[0]) if inner else "TEXT"


def row(flags: str, takes: str, parameter: inspect.Parameter, info: Any) -> str:
    said, _, default = (info.help or "").partition(" [default: ")  # some defaults are said in words
    if default:
        shown = default.rstrip("]")
    elif parameter.default is parameter.empty:
        shown = "required"
    else:
        shown = "" if parameter.default in (None, False) else f"`{str(parameter.default).lower()}`"
        shown = f"`{parameter.default}`" if isinstance(parameter.default, str) else shown
    cells = (f"`{flags}`", f"`{takes}`" if takes else "", shown, said)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
