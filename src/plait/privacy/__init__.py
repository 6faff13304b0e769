"""Differential privacy for the records of a party: mechanisms, exact costs and a ledger of what was spent."""

from plait.privacy.accounting import (
    Accountant,
    Cost,
    ExactAccountant,
    PaperAccountant,
    RdpAccountant,
    ZcdpAccountant,
    calibrate,
    delta_of,
    epsilon_of,
    mu_of,
    noise_multiplier,
)
from plait.privacy.admm import MechanismA
from plait.privacy.book import LedgerFolder
from plait.privacy.labels import NoisyLabel, RandomisedResponse, private_labels
from plait.privacy.ledger import Budget, Ledger, Unlimited, fingerprint
from plait.privacy.noise import InsecureTestNoise, KeyedNoise
from plait.privacy.paper import NoGuaranteeWarning, NoPrivacy, PaperMechanism, PaperNoise
from plait.privacy.policy import Policy, PublicRanges
from plait.privacy.recommended import Plan, Recommended
from plait.privacy.rows import Adjacency, ClippedRows

__all__ = [
    "Accountant",
    "Adjacency",
    "Budget",
    "ClippedRows",
    "Cost",
    "ExactAccountant",
    "InsecureTestNoise",
    "KeyedNoise",
    "Ledger",
    "LedgerFolder",
    "MechanismA",
    "NoGuaranteeWarning",
    "NoPrivacy",
    "NoisyLabel",
    "PaperAccountant",
    "PaperMechanism",
    "PaperNoise",
    "Plan",
    "Policy",
    "PublicRanges",
    "RandomisedResponse",
    "RdpAccountant",
    "Recommended",
    "Unlimited",
    "ZcdpAccountant",
    "calibrate",
    "delta_of",
    "epsilon_of",
    "fingerprint",
    "mu_of",
    "noise_multiplier",
    "private_labels",
]
