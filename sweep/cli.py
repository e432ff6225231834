"""The `sweep` command: each command parses its options and calls one function."""

from __future__ import annotations

import errno
import math
import os
import re
import signal
import sys
import threading
from pathlib import Path

import click

from sweep.interrupts import Terminated

#: Errors of a standard output that is full or broken.
UNWRITABLE = {errno.ENOSPC, errno.EIO, errno.EBADF, errno.EDQUOT}

#: The errors that are a user's to mend: one line, exit status 2. Looked up by name, since importing them takes time.
USER_ERRORS = {
    "sweep.tomlfiles": "StudyError",
    "sweep.space": "SpaceError",
    "sweep.values": "StoreError",
    "sweep.workers": "WorkerError",
    "sweep.pages": "PageError",
    "sweep.export": "ExportError",
    "sweep.bench": "BenchError",
    "sweep.opponents": "MethodError",
    "sweep.tables": "TableError",
    "sweep.thresholds": "ThresholdError",
    "sweep.warmstart": "WarmStartError",
    "trainer_native.config": "ConfigError",
    "trainer_native.environments": "HeaderError",
}



class Real(click.FloatRange):
    """A float in a range; not a number is in none."""

    def convert(self, value, param, context):
        found = super().convert(value, param, context)
        if math.isnan(found):
            self.fail(f"not a number is not in the range {self._describe_range()}.", param, context)
        return found


class Several(click.ParamType):
    """What `one` takes, several times with commas between."""

    def __init__(self, one: click.ParamType):
        self.one = one
        self.name = one.name

    def convert(self, value, param, context):
        return value if isinstance(value, list) else [self.one.convert(v.strip(), param, context) for v in value.split(",")]


database = click.option("--db", "database", envvar="SWEEP_DB", default="sweep.db", metavar="FILE",
                        help="The database; $SWEEP_DB, else sweep.db.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
seed = click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, metavar="N",
                    help="Everything random follows from it.")
within = click.option("--within", type=Real(1, max=1e300), default=1.5, show_default=True, metavar="FACTOR",
                      help="Recommend the smallest network whose restart ERT is within FACTOR of the fastest.")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="solve-sweep", message="sweep %(version)s")
def cli() -> None:
    """Which network and hyperparameters solve an environment in the fewest seconds, and how small can the network be?

    \b
    sweep run breakout --budget 15m    search, measure the finalists again, write a report
    sweep best breakout                what was found
    sweep train breakout               train it
    """


@cli.command()
@click.argument("study")
@click.option("--budget", metavar="TIME", help="Wall-clock time of the search, as 90s, 15m or 2h.")
@click.option("--verify", metavar="TIME", help="Wall-clock time of measuring finalists again.")
@click.option("--run", "run_limit", metavar="TIME", help="A run that is unsolved by then is censored.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Runs side by side; one per core by default.")
@seed
@click.option("--sampler", metavar="NAME", help="Who suggests trials: capri, tpe, random, cmaes or gp.")
@click.option("--from", "older", metavar="STUDY", help="Begin with the front and the fastest trials of this one, of the same database.")
@click.option("--ray", is_flag=False, flag_value="auto", metavar="[ADDRESS]", help="Run on a Ray cluster.")
@click.option("--report", "--out", "folder", metavar="FOLDER", help="Where the report goes; STUDY-report by default.")
@database
@as_json
def run(study, as_json, **options) -> None:
    """Search, measure the finalists, write the report.

    STUDY is a name (of ./studies, or one that ships) or a TOML file.

    A study that was interrupted, or has run before, goes on where it was. Ctrl-C once: finish the runs in
    flight, measure the finalists, report. Twice: stop now.
    """
    from sweep import commands

    found = commands.run(study, **options)
    out(found, as_json, commands.ended)
    if found["report"] is None:
        raise click.ClickException(found["report_error"])


@cli.command()
@database
@as_json
def ls(database, as_json) -> None:
    """List the studies of the database."""
    from sweep import commands

    out(commands.studies(database), as_json, commands.studies_table)


@cli.command()
@click.argument("study")
@within
@database
@as_json
def show(study, within, database, as_json) -> None:
    """Show what STUDY asks, how far it is, and its front."""
    from sweep import commands

    out(commands.show(database, study, within), as_json, commands.overview)


@cli.command()
@click.argument("study")
@click.option("--max-parameters", type=click.IntRange(1), metavar="N", help="Only networks with at most N parameters.")
@within
@click.option("--at", type=Real(-1e300, 1e300), metavar="RETURN", help="Had the study asked for this mean return (or metric), "
              "lower than its own: by where learning curves first reach it.")
@database
@as_json
def best(study, max_parameters, within, at, database, as_json) -> None:
    """Show the recommended trial of STUDY and its front."""
    from sweep import commands

    out(commands.best(database, study, max_parameters, within, at), as_json, commands.recommendation)


@cli.command()
@click.argument("study")
@click.option("--out", "folder", metavar="FOLDER", help="STUDY-report by default.")
@database
@as_json
def report(study, folder, database, as_json) -> None:
    """Write the report of STUDY: pages that work offline."""
    from sweep import commands

    out(commands.report(database, study, folder), as_json, lambda written: written["report"])


@cli.command()
@click.argument("study")
@click.argument("file", required=False)
@click.option("--trial", type=click.IntRange(0), metavar="N", help="This trial, not the recommended one.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@database
@as_json
def export(study, file, trial, force, database, as_json) -> None:
    """Write a trial of STUDY as TOML that `sweep train` takes.

    FILE is STUDY-TRIAL.toml by default; - prints it.
    """
    from sweep import commands

    out(commands.export_trial(database, study, trial, file, force), as_json, commands.exported)


@cli.command()
@click.argument("source", metavar="FILE|STUDY")
@click.option("--trial", type=click.IntRange(0), metavar="N", help="This trial of STUDY, not the recommended one.")
@seed
@click.option("--max-seconds", default="10m", show_default=True, metavar="TIME", help="Stop unsolved by then.")
@click.option("--out", "file", metavar="FILE", help="The weights; NAME-seedN.safetensors by default.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@database
@as_json
def train(source, as_json, **options) -> None:
    """Train an exported FILE, or a trial of STUDY."""
    from sweep import commands

    result = commands.train(source, **options)
    out(result, as_json, commands.trained)
    sys.exit(0 if result["status"] == "solved" else 1)


@cli.command()
@click.argument("env", required=False)
@as_json
def envs(env, as_json) -> None:
    """List the environments, or show all of one: ENV, a name or a header."""
    from sweep import library

    if env:
        out(library.environment(env), as_json, library.page)
        return
    found = library.listing()
    out(found, as_json, library.table)
    sys.exit(1 if any("error" in env for env in found) else 0)


@cli.command()
@click.argument("env", metavar="HEADER|ENV")
@click.option("--steps", type=click.IntRange(1_000, 10**9), default=100_000, show_default=True, metavar="N",
              help="Env steps to play, or those of one longest episode if that is more.")
@seed
@as_json
def check(env, steps, seed, as_json) -> None:
    """Play an environment at random under sanitizers: what is wrong with it, and what a policy would see.

    HEADER is a path that ends in .h, ENV a name as in `sweep envs`. Exit status 2 where a fault was found.
    """
    from sweep import check

    found = check.check(env, steps, seed)
    out(found, as_json, check.text)
    sys.exit(2 if found["faults"] else 0)


@cli.command()
@click.argument("study")
@click.option("--yes", is_flag=True, help="Do not ask.")
@database
def rm(study, yes, database) -> None:
    """Remove STUDY and all it holds from the database."""
    from sweep import commands

    click.echo(commands.remove(database, study, confirm=None if yes else click.confirm))


@cli.command()
@database
@as_json
def doctor(database, as_json) -> None:
    """Show the machine, the installation and their faults."""
    from sweep import doctor

    facts = doctor.examine(database)
    out(facts, as_json, doctor.text)
    sys.exit(1 if facts["problems"] else 0)


@cli.group()
def bench() -> None:
    """Measure how fast sweep's own parts are."""


@bench.command("trainer")
@click.option("--env", "envs", type=Several(click.STRING), default="", metavar="ENV,...", help="cartpole and breakout by default.")
@click.option("--hidden", type=Several(click.INT), metavar="N,...", help="Widths; by default those each environment is known by.")
@click.option("--layers", type=Several(click.INT), default="1", metavar="N,...", show_default=True)
@click.option("--cell", "cells", type=Several(click.STRING), default="mingru", metavar="CELL,...", show_default=True)
@click.option("--epochs", type=Several(click.INT), metavar="N,...", help="Passes over each rollout.")
@click.option("--horizon", "horizons", type=Several(click.INT), default="64", metavar="T,...", show_default=True,
              help="Env steps per environment; T × environments stays the same.")
@click.option("--params", multiple=True, metavar="KEY=VALUE", help="A hyperparameter of every case; may be repeated.")
@click.option("--repeats", type=click.IntRange(1), metavar="N", help="Timings of each case; 3, or 7 with --against.")
@click.option("--seconds", type=Real(0, min_open=True, max=3600), default=0.5, show_default=True,
              metavar="S", help="CPU seconds that a timing takes, about.")
@click.option("--against", metavar="BUILD", help="A folder with another build of trainer_native, or KEY=VALUE,... for "
              "this one with other params: both in turn, and which is faster.")
@as_json
def bench_trainer(as_json, **options) -> None:
    """Env steps per CPU second of the native trainer on one core, beside the bound of each case, and what its time goes
    into.

    The bound: the products of an env step at the peak measured in the same process, plus the environment's own time.
    """
    from sweep import bench, commands

    out(commands.bench_trainer(**options), as_json, bench.text)


@bench.command("envs")
@click.argument("names", nargs=-1)
@click.option("--seconds", type=Real(0, min_open=True, max=3600), default=0.3, show_default=True, metavar="S",
              help="CPU seconds that a timing takes, about.")
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Timings of each case.")
@click.option("--python", metavar="PYTHON", help="The Python that has the references; this one by default.")
@as_json
def bench_envs(as_json, **options) -> None:
    """Env steps per CPU second of the environments NAMES (all by default), with random actions and 1, 64 and 1024 copies.

    Beside each its references, where they are installed: gymnasium, gymnax after compilation, MinAtar, PufferLib.
    """
    from sweep import bench_envs, commands

    out(commands.bench_envs(**options), as_json, bench_envs.text)


@bench.command("search")
@click.argument("tables", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--method", "methods", multiple=True, metavar="NAME", help="capri, tpe, random, cmaes, gp: `sweep run` with this sampler, "
              "or without a rule as in capri:no-caps, capri:one-seed; plain-tpe and so on: Optuna alone; asha, hyperband; protein: PufferLib's rule; smac: SMAC3. May be repeated.")
@click.option("--replays", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="Seeds of each search.")
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True, metavar="N", help="Simulated workers.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Replays at a time on this machine.")
@as_json
def bench_search(as_json, **options) -> None:
    """Replay searches on TABLES of recorded runs in simulated time: how good what they recommend truly is, by time spent.

    scripts/record_table.py records a table.
    """
    from sweep import bench_search, commands

    out(commands.bench_search(**options), as_json, bench_search.text)


def out(value, as_json: bool, text) -> None:
    """Print `value` as JSON, or as what `text` makes of it."""
    from sweep import terminal

    click.echo(terminal.dumps(value) if as_json else text(value))


def _users(error: BaseException) -> bool:
    """Whether `error` is one of USER_ERRORS: it can only be where its module is imported already."""
    kinds = (getattr(sys.modules.get(module), name, None) for module, name in USER_ERRORS.items())
    return any(kind is not None and isinstance(error, kind) for kind in kinds)


def main(arguments: list[str] | None = None) -> None:
    """The command's entry: exit status 0, 2 for a user's mistake, 1 with a traceback for ours, 130 after Ctrl-C."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        # Read when numpy is first imported. Our products are small, and while workers have all cores, threads that wait for each other
        # took the shares of sweep.importance from 0.4 s to 31 s (two cores at a load of 9, December 2026).
        os.environ.setdefault(name, "1")
    if sys.stderr is None:  # closed by who called us
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        click.echo("sweep: standard output is closed; nothing was done", err=True)
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")
    before = _listen()
    try:
        sys.exit(_status(arguments))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen() -> dict:
    """The first Ctrl-C or SIGTERM is an exception, the next ends the process; the handlers that were there before."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    heard = []

    def handle(number, frame):
        if heard:
            os._exit(128 + heard[0])
        heard.append(number)
        raise (Terminated if number == signal.SIGTERM else KeyboardInterrupt)

    return {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}


def _status(arguments: list[str] | None) -> int:
    try:
        status = cli(arguments, prog_name="sweep", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except (click.Abort, KeyboardInterrupt) as error:
        click.echo(f"sweep: {str(error) or str(error.__cause__ or '') or 'stopped'}", err=True)
        return 143 if isinstance(error, Terminated) or isinstance(error.__cause__, Terminated) else 130
    except BrokenPipeError:
        _drop_output()  # nobody reads on: no traceback at exit either
        return 1
    except MemoryError:
        click.echo("sweep: out of memory", err=True)
        return 2
    except Exception as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in UNWRITABLE:
            _drop_output()
            click.echo(f"sweep: standard output cannot be written: {error.strerror}", err=True)
            return 1
        if not (isinstance(error, click.ClickException) or _users(error)):
            raise
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        message = re.sub(r"(\d{36})\d{20,}", r"\1...", " ".join(message.split()))
        click.echo("\n".join([f"sweep: {message}", *getattr(error, "__notes__", ())]), err=True)
        return 2
    return status if isinstance(status, int) else 0


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
