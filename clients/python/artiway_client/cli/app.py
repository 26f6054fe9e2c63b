"""The commands, their options, and what becomes of errors."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from artiway_client.cli import account, jobs, operations, pictures, session, texts
from artiway_client.cli.output import Exit, Output, Stop, exit_of, hint_for
from artiway_client.errors import AnswerLost, ApiError
from artiway_client.streams import TextFailed

EPILOGUE = (
    "Exit codes: 0 done, 1 the work failed, 2 wrong usage, 3 not logged in or not allowed, 4 not found, "
    "5 refused (points, limits, a wrong field), 6 the platform is away, 130 interrupted. "
    "Environment: ARTIWAY_URL, ARTIWAY_API_KEY, ARTIWAY_PROFILE, ARTIWAY_CONFIG, NO_COLOR."
)
app = typer.Typer(
    name="artiway",
    help="Pictures, texts, jobs and operations of Artiway.",
    epilog=EPILOGUE,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (account, pictures, texts, jobs, operations):
    module.register(app)


@app.callback()
def options(
    profile: Annotated[str | None, typer.Option(help="the profile to use (`artiway profiles`)")] = None,
    url: Annotated[str | None, typer.Option(help="address of the API, up to /api/v1")] = None,
    json: Annotated[bool, typer.Option("--json", help="answer with JSON; may stand anywhere")] = False,
) -> None:
    session.begin(session.Session(Output(is_json=json), profile, url))


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code. Every error becomes one line, and a line that says what to do."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `artiway tasks | head` ends quietly
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--json" in words:
        arguments = ["--json", *(word for word in words if word != "--json"), *arguments[len(words) :]]
    try:
        try:
            code = app(args=arguments, prog_name="artiway", standalone_mode=False)
        except ApiError as error:
            output().fail(error.message, hint=f"{error.code}\n{hint_for(error)}".strip(), code=exit_of(error))
        except AnswerLost as error:
            output().fail(str(error), hint="Is the platform running (`make run`)? Try: artiway doctor", code=Exit.AWAY)
        except TextFailed as error:
            output().fail(error.message or "the text failed", hint=f"{error.code}; nothing was charged")
        except (ValueError, OSError) as error:
            output().fail(str(error), code=Exit.USAGE)
    except Stop as stop:
        return stop.code
    except typer.Abort:
        return Exit.INTERRUPTED
    except TyperException as error:  # wrong usage
        context = getattr(error, "ctx", None)
        is_help = error.format_message().startswith("Usage:")  # a group without a command
        output().err.print(error.format_message() if is_help else f"artiway: {error.format_message()}", markup=False)
        if not is_help:
            output().err.print(f"See: {context.command_path if context else 'artiway'} --help", markup=False)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return Exit.INTERRUPTED
    except BrokenPipeError:
        os._exit(Exit.OK)
    return code if isinstance(code, int) else Exit.OK


def output() -> Output:
    return session.current().output
