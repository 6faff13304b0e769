"""`plait cert`: a small certificate authority at the label party."""

from pathlib import Path
from typing import Annotated

import typer

from plait.transports import certificates
from plait.transports.certificates import Folder

app = typer.Typer(
    no_args_is_help=True, help="Certificates. The label party signs them; private keys never leave their owners."
)

In = Annotated[Path, typer.Option("--in", help="The folder of certificates.")]


@app.command()
def init(
    name: Annotated[str, typer.Argument(help="The label party's name, as in the job file.")],
    folder: In = Path("certs"),
) -> None:
    """Make the authority and the label party's own certificate."""
    place = Folder(folder)
    certificates.init_authority(place, name)
    _show(place.authority)
    _show(place.certificate(name))
    typer.echo(f"Send {place.authority} and the job file to every party. Keep {place.authority_key} to yourself.")


@app.command()
def request(
    name: Annotated[str, typer.Argument(help="Your name, as in the job file.")], folder: In = Path("certs")
) -> None:
    """Make your private key, which stays here, and a request for the label party to sign."""
    path = certificates.make_request(Folder(folder), name)
    _show(path)
    typer.echo(f"Send {path} to the label party and read them the fingerprint. {Folder(folder).key(name)} stays here.")


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="The .csr file that a party sent.")],
    folder: In = Path("certs"),
    days: Annotated[int, typer.Option(help="For how long it is valid.")] = certificates.PARTY_DAYS,
) -> None:
    """Sign a party's request, after comparing its fingerprint with the party on the phone."""
    path = certificates.sign_request(Folder(folder), file, days)
    _show(path)
    typer.echo(f"Send {path} back. Anyone may see it; it works only together with the key that made the request.")


@app.command()
def show(files: Annotated[list[Path], typer.Argument(help=".crt or .csr files.")]) -> None:
    """Show names, fingerprints and expiry."""
    for file in files:
        _show(file)


def _show(path: Path) -> None:
    if path.suffix == ".csr":
        request_ = certificates.read_request(path)
        typer.echo(f"{path}: request of {certificates.name_of(request_)!r}")
        typer.echo(f"  fingerprint {certificates.fingerprint(request_)}")
        return
    certificate = certificates.read_certificate(path)
    typer.echo(f"{path}: {certificate.subject.rfc4514_string()}, until {certificate.not_valid_after_utc:%Y-%m-%d}")
    typer.echo(f"  fingerprint {certificates.fingerprint(certificate)}")
