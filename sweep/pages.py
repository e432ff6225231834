"""A study -> its report: a folder of two files that opens anywhere, offline."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import figures, formats, look, wording

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: What a report consists of. index.html asks for plotly.min.js and for nothing else.
PAGE, PLOTLY = "index.html", "plotly.min.js"
#: Says in the page that `sweep` wrote it, and for which study.
MARK = "sweep-study"
ELSEWHERE = "give it a new or an empty folder"


class PageError(ValueError):
    """A report that cannot be written, in one line."""


def write_report(data: dict, folder: str | Path) -> Path:
    """Writes the report of a study into `folder` and gives the path of its page.

    `data` is what `results.collect` gives. A folder that is absent or empty is made; in one that holds a report of the
    same study the report's own files are replaced, each at once, and nothing else is touched. All else is a PageError.
    """
    from plotly.offline import get_plotlyjs

    folder = Path(folder)
    name = str(data["study"]["name"])
    exists = check(folder, name)
    page = render(data).encode("utf-8", "replace")
    try:
        if not exists:
            _write_folder(folder, {PLOTLY: get_plotlyjs().encode(), PAGE: page})
        else:
            script = get_plotlyjs().encode()
            if not (folder / PLOTLY).is_file() or (folder / PLOTLY).stat().st_size != len(script):
                _replace(folder / PLOTLY, script)
            _replace(folder / PAGE, page)
    except OSError as error:
        raise PageError(f"{folder}: the report cannot be written: {error.strerror or error}") from None
    return folder / PAGE


def check(folder: Path, name: str) -> bool:
    """Whether `folder` already holds a report of study `name`; PageError where it holds something else."""
    try:
        if not folder.is_dir():
            if folder.exists() or folder.is_symlink():
                raise PageError(f"{folder} is a file; a report is a folder: {ELSEWHERE}")
            return False
        if not any(folder.iterdir()):
            return False
        page = folder / PAGE
        head = page.read_bytes()[:4096].decode("utf-8", "replace") if page.is_file() else ""
    except OSError as error:
        raise PageError(f"{folder}: cannot be read: {error.strerror or error}") from None
    if f'<meta name="{MARK}"' not in head:
        raise PageError(f"{folder} holds files that are not a report; nothing was written: {ELSEWHERE}")
    if f'<meta name="{MARK}" content="{_escaped(name)}">' not in head:
        raise PageError(f"{folder} holds the report of another study; nothing was written: {ELSEWHERE}")
    return True


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """All of `files` or nothing: a folder beside it takes its place when it is whole."""
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}.", dir=folder.parent))
    try:
        for name, content in files.items():
            (made / name).write_bytes(content)
        made.chmod(0o777 & ~_umask())
        made.rename(folder)  # takes the place of an empty folder too
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _replace(path: Path, content: bytes) -> None:
    """`content` takes the place of the file at once: whoever reads finds the old or the new one, whole."""
    handle, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(made, 0o666 & ~_umask())
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- the page ----------------------------------------------------------------------------------------------------


def render(data: dict) -> str:
    """The page as HTML; style, script and figures are inside, plotly.min.js stands beside it."""
    import jinja2
    import markupsafe

    templates = _templates()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters.update(whole=formats.whole, seconds=formats.seconds, percent=formats.percent, moment=wording.moment)
    drawn = draw(data)
    return environment.get_template("report.html").render(
        **wording.context(data),
        mark=MARK,
        absent={name: views[0].layout.annotations[0].text for name, views in drawn.items() if not views[0].data},
        style=markupsafe.Markup((templates / "style.css").read_text("utf-8")),
        script=markupsafe.Markup((templates / "report.js").read_text("utf-8")),
        drawings=markupsafe.Markup(in_script({name: views for name, views in drawn.items() if views[0].data})),
    )


def _templates() -> Path:
    package = Path(__file__).resolve().parent
    return next(p for p in (package / "reports", package.parent / "reports") if p.is_dir())


def _escaped(text: str) -> str:
    import markupsafe

    return str(markupsafe.escape(text))


def draw(data: dict) -> dict[str, list[Figure]]:
    """name -> the figure in each of its views; one without traces says in its annotation why there is nothing to see."""
    goal = formats.goal(data["study"].get("definition"))
    return {
        "front": [figures.front(data), figures.front(data, "median")],
        "kaplan-meier": [figures.kaplan_meier(data)],
        "learning": [figures.learning_curves(data, against, goal.target, goal.what) for against in ("seconds", "env_steps")],
        "search": [figures.search(data)],
        "time": [figures.time_spent(data)],
    }


def in_script(drawn: dict[str, list[Figure]]) -> str:
    """{"dark": colours, "figures": {name: [one for each view]}} as JSON that cannot end the script it stands in."""
    parts = (f"{json.dumps(name)}:[{','.join(figure.to_json() for figure in views)}]" for name, views in drawn.items())
    text = '{"dark":' + json.dumps(look.DARK) + ',"figures":{' + ",".join(parts) + "}}"
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
