"""Every error that plait raises.

    PlaitError
    ├── InputError          data or labels that cannot be used     (also a ValueError)
    │   └── DataTypeError   ... because they are not numbers       (also a TypeError)
    ├── DatasetError        a public data set that is neither here nor to be had
    ├── SettingError        an option with an impossible value     (also a ValueError)
    ├── DivergedError       a run whose objective or residuals blow up  (also a ValueError)
    ├── ProtocolError       a message that does not fit the protocol
    ├── TransportError      a peer that cannot be reached, or refuses
    │   └── MissingPartyError   ... for longer than the job allows
    ├── ConfigError         a job or party file that cannot be used     (also a ValueError)
    ├── CertificateError    a certificate or key that cannot be used
    ├── StorageError        a run folder, checkpoint or model file that cannot be used
    └── PrivacyError        a release that the privacy rules forbid
        └── BudgetError     ... because the budget would be exceeded

A message says what must hold, what was found and what to do.
"""


class PlaitError(Exception):
    """The root of every error that plait raises."""


class InputError(PlaitError, ValueError):
    """Data or labels cannot be used as they are."""


class DataTypeError(InputError, TypeError):
    """A column holds things that are not numbers."""


class DatasetError(PlaitError):
    """A public data set is not here, cannot be downloaded, or is damaged."""


class SettingError(PlaitError, ValueError):
    """An option has a value that makes no sense, or two options exclude each other."""


class DivergedError(PlaitError, ValueError):
    """The run moved away from every solution and was ended."""


class ProtocolError(PlaitError):
    """A message does not fit the protocol."""


class TransportError(PlaitError):
    """A peer cannot be reached, or refuses to talk."""


class MissingPartyError(TransportError):
    """A party has been away for longer than the job allows."""


class ConfigError(PlaitError, ValueError):
    """A job file or a party file cannot be used as it is."""


class CertificateError(PlaitError):
    """A certificate, a key or a signing request cannot be used."""


class StorageError(PlaitError):
    """A run folder, a checkpoint or a model file cannot be used."""


class PrivacyError(PlaitError):
    """A release is forbidden by the privacy rules of a party."""


class BudgetError(PrivacyError):
    """A release would exceed the privacy budget."""


def for_others(error: PlaitError) -> str:
    """What a party says to others about an error: all of it where it is about what they sent, else only whose it is.

    Limits, paths and file names of a party are its own.  Its owner reads them on its own screen.
    """
    if isinstance(error, PrivacyError):
        what = "its own limits or rules do not allow it"
    elif isinstance(error, InputError | ConfigError):
        what = "its own file or table cannot be used"
    elif isinstance(error, StorageError):
        what = "its own run folder or alignment cannot be used"
    else:
        return str(error)
    return f"{what}. Its owner reads the reason there."


def unspecific(error: PlaitError) -> str:
    """What a party that protects something says to others about any error: one sentence, and a code.

    The code is "budget" when its ledger refuses, which depends on earlier releases only, and "stopped" for all else.
    """
    code = "budget" if isinstance(error, BudgetError) else "stopped"
    return f"this party protects its data and does not say why it cannot go on (code {code}). Ask its owner."


def other_rows(who: str) -> InputError:
    """What to say of a table that is not the one that was read before."""
    return InputError(
        f"{who} must hold the same ids in the same rows each time that it is read. Found others. Do not change a file "
        "while programs run, and give a query an order: select ... order by its id. Then start again."
    )
