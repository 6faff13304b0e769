"""`plait cert`: a small certificate authority at the label party."""

from pathlib import Path
from typing import Annotated

import typer

from plait.errors import CertificateError
from plait.transports import certificate_authority, certificates, revocation
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
    certificate_authority.init_authority(place, name)
    _show(place.authority)
    _show(place.certificate(name))
    typer.echo(f"Send {place.authority} and the job file to every party. Keep {place.authority_key} to yourself.")


@app.command()
def request(
    name: Annotated[str, typer.Argument(help="Your name, as in the job file.")],
    folder: In = Path("certs"),
    renew: Annotated[bool, typer.Option("--renew", help="A new key; the old one works until then.")] = False,
) -> None:
    """Make your private key, which stays here, and a request for the label party to sign."""
    path = certificate_authority.make_request(Folder(folder), name, renew)
    _show(path)
    typer.echo(f"Send {path} to the label party and read them the fingerprint. The private key stays here.")


@app.command()
def sign(
    file: Annotated[Path, typer.Argument(help="The .csr file that a party sent.")],
    folder: In = Path("certs"),
    days: Annotated[int, typer.Option(help="For how long it is valid.")] = certificate_authority.PARTY_DAYS,
    name: Annotated[str, typer.Option(help="The name that the request must carry.")] = "",
    fingerprint: Annotated[str, typer.Option(help="What the party read out; asked for otherwise.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Sign without comparing: for tests on one machine.")] = False,
    renew: Annotated[bool, typer.Option("--renew", help="The same party has a new key.")] = False,
) -> None:
    """Sign a party's request, after comparing its fingerprint with the party on the phone."""
    _confirm(file, name, fingerprint, yes)
    place = Folder(folder)
    own = certificates.name_of(certificates.read_request(file)) == place.owner
    path = certificate_authority.sign_request(
        place, file, days, renew, own=own and renew and place.request(place.owner) == file
    )
    _show(path)
    typer.echo(f"Send {path} back. Anyone may see it; it works only together with the key that made the request.")


def _confirm(file: Path, name: str, fingerprint: str, yes: bool) -> None:
    """Show who asks; CertificateError unless the user agrees that the fingerprint is right."""
    _show(file)
    request_ = certificates.read_request(file)
    found, shown = certificates.name_of(request_), certificates.fingerprint(request_)
    if name and name != found:
        raise CertificateError(f"the request must be of {name!r}. Found {found!r}. Nothing was signed.")
    if fingerprint:
        if "".join(fingerprint.split()).lower() != "".join(shown.split()):
            raise CertificateError(f"the fingerprint must be {shown}. Found {fingerprint[:80]!r}. Nothing was signed.")
    elif not yes and not _agreed(f"Does the party {found!r} read out this fingerprint? Sign it?"):
        raise CertificateError(
            "a request is signed once its fingerprint was compared. Found no agreement. Give "
            "--fingerprint, or answer y."
        )


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:
        return False


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The party whose certificates no longer count.")],
    folder: In = Path("certs"),
    older: Annotated[bool, typer.Option("--older", help="All but its newest one: after a renewal.")] = False,
) -> None:
    """Revoke a party's certificates; a running coordinator refuses them from its next handshake on."""
    place = Folder(folder)
    count = revocation.revoke(place, name, older)
    typer.echo(f"{count} certificate(s) of {name!r} revoked. The list is {place.revoked}: keep it beside ca.crt.")


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
