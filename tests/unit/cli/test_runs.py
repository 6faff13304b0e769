"""How a run is shown to a person."""

from plait.cli.runs import _readable


def test_facts_of_a_run_are_lines_and_sections_are_indented() -> None:
    facts = {
        "run": "r1",
        "reason": "",
        "settings": {"parties": ["bank", "shop"], "stopping": {"tol": 1e-6}},
        "converged": True,
        "objective": 0.43730812,
    }
    assert list(_readable(facts)) == [
        "run        r1",
        "settings",
        "  parties   bank, shop",
        "  stopping",
        "    tol  1e-06",
        "converged  yes",
        "objective  0.437308",
    ]
