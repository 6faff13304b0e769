"""Differential privacy for the rows of a party: mechanisms, exact costs and a ledger of what was spent.

Public: all names below, as plait.privacy.NAME.
"""

from plait.privacy.accountants import (
    Accountant,
    ExactAccountant,
    PaperAccountant,
    RdpAccountant,
    ZcdpAccountant,
    calibrate,
)
from plait.privacy.accounting import Cost, delta_of, epsilon_of, mu_of, noise_multiplier
from plait.privacy.clipping import Adjacency, ClippedRows, PublicRanges
from plait.privacy.ledger.budget import Budget, Unlimited
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.ledger.release_gate import LedgerFolder
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoGuaranteeWarning, NoPrivacy, PaperMechanism, PaperNoise
from plait.privacy.mechanisms.recommended import Plan, Recommended
from plait.privacy.noise import InsecureTestNoise, KeyedNoise
from plait.privacy.policy import Policy

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
    "mu_of",
    "noise_multiplier",
]
