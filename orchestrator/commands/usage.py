"""Commands of one style: -h, -q and -v everywhere, plain help pages, usage errors in the form of all other errors.

The arguments and options that several commands have are here, with the same name, meaning and help text everywhere, and
so is the shell completion of names, which reads names of files only. It prints no errors into a command line.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from owlt import PACKAGE
from owlt.inputs.mistake import Invalid, Mistake
from owlt.orchestrator.commands.output import verbosity
from owlt.orchestrator.errors import OwltError, did_you_mean

Value = TypeVar("Value")

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only, no progress and no notes.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print each step, and the traceback of an error.")]


class UsageError(OwltError):
    """A command line that is not understood."""


class Command(TyperCommand):
    """A command whose usage errors name the command, the nearest option and the help page."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words behind the command's name in its usage line: an optional argument stands in brackets."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        return ["[OPTIONS]", *(_label(each) if each.required else f"[{_label(each)}]" for each in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options of the help page."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record and parameter.param_type_name == "argument":
                sections["Arguments"].append((_label(parameter), record[1].removesuffix("  [required]")))
            elif record:
                sections["Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words behind the command's name. Raises UsageError."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as problem:
            raise _usage_error(problem, ctx) from problem


class Group(TyperGroup):
    """A group of commands whose usage errors name the nearest command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words behind the group's name. Without any, print the help page. Raises UsageError."""
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(0)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as problem:
            raise _usage_error(problem, ctx) from problem

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that the first word names. Raises UsageError."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            fix = did_you_mean(name, self.list_commands(ctx), f"known: {', '.join(self.list_commands(ctx))}")
            raise _error(ctx, f"unknown command {name!r}", fix)
        return super().resolve_command(ctx, args)


def new_app(help_text: str) -> typer.Typer:
    """A group of commands without any."""
    return typer.Typer(
        cls=Group,
        no_args_is_help=True,
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def add_command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to a group as the command of that name, with -q and -v. Returns the function unchanged.

    Options that belong together are one parameter, whose type is a dataclass: each of its fields is an option.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        app.command(name, cls=Command)(_with_verbosity(function))
        return function

    return add


def set_verbosity(quiet: bool, verbose: bool) -> None:
    """Set how much is printed. Raises UsageError for -q and -v together."""
    if (verbosity.quiet or quiet) and (verbosity.verbose or verbose):
        verbosity.verbose = False  # so that this error has no traceback
        raise UsageError(Mistake("got --quiet and --verbose", "one of them", "leave one out"))
    verbosity.quiet |= quiet
    verbosity.verbose |= verbose


def _with_verbosity(function: Callable[..., None]) -> Callable[..., None]:
    own = list(inspect.signature(function, eval_str=True).parameters.values())
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}

    @wraps(function)
    def with_verbosity(*args: Any, quiet: bool = False, verbose: bool = False, **options: Any) -> None:
        set_verbosity(quiet, verbose)
        grouped = {
            name: group(**{each.name: options.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        function(*args, **options, **grouped)

    flat = [option for each in own for option in (_options_of(groups[each.name]) if each.name in groups else [each])]
    flat += [_option("quiet", Quiet, False), _option("verbose", Verbose, False)]
    with_verbosity.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in flat]
    )
    with_verbosity.__annotations__ = {each.name: each.annotation for each in flat}
    return with_verbosity


def _options_of(group: type[Any]) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters of a command."""
    types = get_type_hints(group, include_extras=True)
    return [
        _option(each.name, types[each.name], inspect.Parameter.empty if each.default is MISSING else each.default)
        for each in fields(group)
    ]


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _usage_error(problem: typer.TyperException, ctx: Any) -> UsageError:
    see = f"see: {ctx.command_path} --help"
    options = [name for parameter in ctx.command.get_params(ctx) for name in parameter.opts if name.startswith("-")]
    parameter = getattr(problem, "param", None)
    name = getattr(problem, "option_name", None)
    if name is not None and name not in options:
        return _error(ctx, f"unknown option {name}", did_you_mean(name, options, see))
    if parameter is not None and not problem.message:
        return _error(ctx, f"{_label(parameter)} is missing", see)
    if parameter is not None:
        return _error(ctx, f"{_label(parameter)}: {_in_own_words(problem)}", see)
    message = problem.format_message().rstrip(".")
    return _error(ctx, f"{message[:1].lower()}{message[1:]}", see)


def _in_own_words(problem: typer.TyperException) -> str:
    """The value and what was expected; the messages of owlt's own parsers stay as they are."""
    cause = problem.__cause__
    errors = cause.errors() if cause is not None and hasattr(cause, "errors") else []  # pydantic's
    expected = _expected(errors[0]) if errors else ""
    if not expected:
        return problem.message.rstrip(".").removeprefix("Value error, ")
    value = str(errors[0]["input"])
    choices = expected.removeprefix("one of ").split(", ") if expected.startswith("one of ") else []
    got = f"got {value if value.lstrip('-').isdecimal() else repr(value)}"
    return str(Mistake(got, expected, did_you_mean(value, choices)))


def _expected(error: Mapping[str, Any]) -> str:
    """What pydantic expected, in a noun phrase; "" for an error of another kind."""
    limits = error.get("ctx", {})
    choices = re.search(r" is not one of (.+)", error["msg"])
    if choices:
        return f"one of {choices[1].rstrip('.').replace(chr(39), '')}"
    return {
        "int_parsing": "a whole number",
        "float_parsing": "a number",
        "greater_than_equal": f"a number of at least {limits.get('ge')}",
        "less_than_equal": f"a number of at most {limits.get('le')}",
    }.get(error["type"], "")


def _label(parameter: Any) -> str:
    """An argument or option as a user writes it: SWEEP, --guests."""
    is_option = parameter.opts[0].startswith("-")
    return str(parameter.opts[0] if is_option else parameter.metavar or parameter.name.upper())


def _error(ctx: Any, problem: str, fix: str) -> UsageError:
    """A mistake at the command without the name of the program, which stands before every error: "channel show"."""
    return UsageError(Mistake.of(" ".join(ctx.command_path.split()[1:]), problem, fix=fix))


def parsed(option: str, text: str, parse: Callable[[str], Value]) -> Value:
    """The value of an option. Raises OwltError, which names it, if `parse` raises Invalid."""
    try:
        return parse(text)
    except Invalid as problem:
        raise OwltError(*(mistake.below(option) for mistake in problem.mistakes)) from problem


def parse_for_s(text: str) -> float:
    """The seconds of a duration that is given with --for. Raises OwltError."""
    from owlt.inputs.quantities import parse_delay_ns

    return parsed("--for", text, lambda text: parse_delay_ns(text, "20 min", ("min", "h"))) / 1e9


PROFILES = (PACKAGE / "profiles").resolve()
RIGS = ("local", "virtual")


def complete_sweep(incomplete: str) -> list[str]:
    """The sweeps whose names begin so."""
    return profile_names("sweeps", incomplete)


def option_words(option: str, values: Iterable[str] | None) -> list[str]:
    """An option with each of its values, as words of a command line; [] without values."""
    return [word for value in values or () for word in (option, value)]


def complete_channel(incomplete: str) -> list[str]:
    """The channels whose names begin so."""
    return profile_names("channels", incomplete)


def channel_option(help_text: str) -> Any:
    """An option that takes a channel."""
    return typer.Option(metavar="CHANNEL", help=help_text, autocompletion=complete_channel)


def complete_implementation(incomplete: str) -> list[str]:
    """The implementations whose names begin so."""
    return profile_names("implementations", incomplete)


def complete_third_party(incomplete: str) -> list[str]:
    """The third-party implementations whose names begin so."""
    return profile_names("third-party", incomplete)


def complete_kind(incomplete: str) -> list[str]:
    """The kinds of profile whose names begin so."""
    return [path.stem for path in _files(PROFILES / "schemas", ".json") if path.stem.startswith(incomplete)]


def complete_rig(incomplete: str) -> list[str]:
    """The rigs whose names begin so."""
    return [name for name in RIGS if name.startswith(incomplete)]


def profile_names(folder: str, incomplete: str, profiles: Path = PROFILES) -> list[str]:
    """The names in a folder of profiles that begin so; none if it cannot be read."""
    return [path.stem for path in _files(profiles / folder, ".yaml") if path.stem.startswith(incomplete)]


def _files(folder: Path, suffix: str) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == suffix)
    except OSError:
        return []


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text (fields: docs/commands.md).")]
CriterionOption = Annotated[
    str,
    typer.Option(
        "--criterion",
        metavar="CRITERION",
        help="goodput, time-to-delivery, str or rts (packets of the sender, of the receiver), total-data or data-back "
        "(their bytes), delivery (the probability; not for compare); default: one that does not mislead.",
    ),
]
LARGEST_SHARE = 0.5


def share_of(option: str, text: str) -> float:
    """A share from 0 to LARGEST_SHARE, in percent: "1%". Raises OwltError."""
    from owlt.inputs.quantities import parse_share

    return parsed(option, text, lambda text: parse_share(text, LARGEST_SHARE))


Sweep = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP",
        help="Name of a sweep ('owlt sweeps list') or path of its file, such as demo or mine.yaml.",
        autocompletion=complete_sweep,
    ),
]
Results = Annotated[
    Path | None, typer.Option(metavar="DIRECTORY", help="Results directory; default: results/NAME of the sweep.")
]
ResultsArgument = Annotated[Path, typer.Argument(metavar="RESULTS", help="A results directory, such as results/demo.")]
MakeReport = Annotated[bool, typer.Option(help="Make the report at the end.")]
StartTimeline = Annotated[bool, typer.Option("--start", help="Start the channel's timeline too.")]
Guests = Annotated[
    int | None, typer.Option(metavar="COUNT", min=1, help="Guests that run in parallel; default: one per core.")
]
ChangedParameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", metavar="NAME=VALUE", help="Change a parameter of the profile; may be repeated."),
]
Channel = Annotated[
    str,
    typer.Argument(
        metavar="CHANNEL",
        help="Name of a channel ('owlt channel list') or path of its file, such as geo or mine.yaml.",
        autocompletion=complete_channel,
    ),
]
ChannelOrNone = Annotated[
    str | None,
    typer.Argument(
        metavar="CHANNEL",
        help="Name of a channel or path of its file; default: the emulator's current channel.",
        autocompletion=complete_channel,
    ),
]
Implementation = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="Name of an implementation ('owlt implementations list') or path of its file, such as ltp or mine.yaml.",
        autocompletion=complete_implementation,
    ),
]
Inventory = Annotated[
    str,
    typer.Argument(metavar="INVENTORY", help="Inventory of a lab rig (docs/lab.md); INVENTORY:RIG if it has several."),
]
LabRigOption = Annotated[
    str | None,
    typer.Option(
        "--rig", metavar="INVENTORY", help="Inventory of a lab rig (docs/lab.md); INVENTORY:RIG if it has several."
    ),
]
Rig = Annotated[str, typer.Argument(metavar="RIG", help="virtual or local.", autocompletion=complete_rig)]
