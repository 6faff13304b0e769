"""`plait serve`: scores over HTTP, and the tokens of those who may ask."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from plait.cli.options import (
    Address,
    Anywhere,
    Certificates,
    Config,
    Insecure,
    JobFile,
    Log,
    LogOption,
    Page,
    Yes,
    start,
)
from plait.cli.predict import Refresh, RowsFile, RunName, consent_to_join
from plait.cli.watching import Shown
from plait.deployment.score_party import help_score
from plait.deployment.scorer import SERVE
from plait.deployment.service.serve_options import ServeOptions
from plait.deployment.service.tokens import Tokens, tokens_file
from plait.errors import ConfigError

_DEFAULT = ServeOptions()
_START = "start"


class _StartsByDefault(TyperGroup):
    """`plait serve JOB` is `plait serve start JOB`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help", "-h"):
            args = [_START, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_StartsByDefault,
    no_args_is_help=True,
    help="Serve scores over HTTP. `plait serve JOB` starts the service, with the options of "
    "`plait serve start --help`; `plait serve token` says who may ask.",
)


@app.command(_START)
def serve(
    job_file: JobFile,
    name: Annotated[str, typer.Option(help="A feature party gives its name; the coordinator needs none.")] = "",
    rows: RowsFile = "",
    run: RunName = "",
    http: Annotated[str, typer.Option(help="host:port of the service.")] = _DEFAULT.http,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="A PEM file with the service's certificate: HTTPS instead of HTTP.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="A PEM file with its key.")] = None,
    per_minute: Annotated[
        int,
        typer.Option(help="How many ids are scored per minute at most, while there are no tokens; 0 for no limit."),
    ] = _DEFAULT.per_minute,
    most_ids: Annotated[int, typer.Option(help="How many ids one request may hold.")] = _DEFAULT.most_ids,
    decimals: Annotated[
        int, typer.Option(help="Digits after the point to which scores are rounded.")
    ] = _DEFAULT.decimals,
    answer_within: Annotated[
        float, typer.Option(help="Seconds without a sign of life after which a party counts as away.")
    ] = _DEFAULT.answer_within,
    refresh: Refresh = False,
    yes: Yes = False,
    config: Config = None,
    address: Address = "",
    certificates: Certificates = None,
    insecure: Insecure = False,
    insecure_anywhere: Anywhere = False,
    log: LogOption = Log.text,
    page: Page = "",
) -> None:
    """Serve scores over HTTP at the coordinator. Feature parties run it with --name and answer.

    The newest finished run of the job is used, and a newer one takes over as soon as it has finished; --run keeps to
    one. Where the job joins new rows privately, the rows that all parties hold are found first, and the other parties
    are asked for no other row. The service ends after SIGINT or SIGTERM, once requests that are under way are answered.
    """
    program = start(job_file, name, config, address, certificates, insecure, insecure_anywhere, scores=True)
    if not program.coordinates:
        consent = consent_to_join(program, yes)
        with Shown(log, page=page).watch(program.viewer("serve")) as progress:
            help_score(program.job, program.file, program.dial(), rows, SERVE, progress, consent)
        return
    from plait.deployment.service.program import serve as serve_scores  # Starlette and uvicorn are slow to import

    options = ServeOptions(
        http, per_minute, most_ids, decimals, tls_certificate, tls_key, answer_within, insecure_anywhere
    )
    consent = consent_to_join(program, yes)
    local = [program.file] if program.file.name in program.job.parties else []
    with Shown(log, page=page).watch(program.viewer("serve", local)) as progress:
        serve_scores(program.job, program.file, program.listen(), options, run, rows, progress, consent, refresh)


@app.command()
def token(
    job_file: JobFile,
    client: Annotated[str, typer.Option(help="Make a token for a client of this name; an old one is replaced.")] = "",
    per_minute: Annotated[
        int, typer.Option(help="How many ids this client may score per minute; 0 for no limit.")
    ] = _DEFAULT.per_minute,
    revoke: Annotated[str, typer.Option(help="Refuse the client of this name from now on.")] = "",
    config: Config = None,
) -> None:
    """Make, list and revoke the tokens of clients. Once there was one, the service answers nobody without.

    A token is shown once. Only its digest is kept. A running service notices a change within a second.
    """
    program = start(job_file, config=config, scores=True)
    if client and revoke:
        raise ConfigError("a token must be made or revoked. Found both. Leave one out.")
    tokens = Tokens(tokens_file(program.file))
    if client:
        typer.echo(tokens.make(client, per_minute))
        typer.echo(f"{client}: {_rate(per_minute)}. It is not shown again. Its digest is in {tokens.path}", err=True)
    elif revoke:
        tokens.revoke(revoke)
        typer.echo(f"{revoke}: refused from now on" + ("" if len(tokens) else ", as everybody is: no token is left"))
    else:
        for found in tokens.clients:
            typer.echo(f"{found.name:24s} {_rate(found.per_minute):24s} made {found.made}")
        if not len(tokens):
            whom = f"nobody. Make one, or remove {tokens.path.name}" if tokens.needed else "everybody who reaches it"
            typer.echo(f"no tokens: the service answers {whom}")


def _rate(per_minute: int) -> str:
    return f"{per_minute} ids a minute" if per_minute else "no limit"
