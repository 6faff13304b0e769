"""The image, the manifests and the units keep programs small, unprivileged and apart; their steps work without them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from plait.deployment.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "containers"
MANIFESTS = sorted((FOLDER / "kubernetes").glob("*.yaml"))
UNITS = sorted((FOLDER / "systemd").glob("*.service"))


def documents(path: Path) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml", reason="manifests are read with PyYAML")
    return list(yaml.safe_load_all(path.read_text()))


def test_the_image_runs_unprivileged_and_says_whether_it_lives() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    assert "-slim" in text
    assert re.search(r"^USER 10001:10001$", text, re.M)
    assert re.search(r"^HEALTHCHECK .*probe\.py", text, re.M)
    assert "containers/install.sh /source /opt/plait" in text


def test_organisations_share_one_network_and_no_volume() -> None:
    (found,) = documents(FOLDER / "compose.yaml")
    bank, shop = found["services"]["bank"], found["services"]["shop"]
    assert set(bank["networks"]) & set(shop["networks"]) == {"meeting"}
    assert not set(bank["volumes"]) & set(shop["volumes"])
    for service in (bank, shop):
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_pod_is_unprivileged_and_ready_when_all_are_connected(path: Path) -> None:
    (found,) = [each for each in documents(path) if each["kind"] in ("Job", "Deployment")]
    spec = found["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["readinessProbe"]["exec"]["command"][-1] == "/ready"
    assert found["spec"].get("replicas", found["spec"].get("parallelism")) == 1
    labels = found["spec"]["template"]["metadata"]["labels"]
    for service in [each for each in documents(path) if each["kind"] == "Service"]:
        assert service["spec"]["selector"] == labels
        (port,) = service["spec"]["ports"]
        assert port["targetPort"] in {each["name"] for each in container["ports"]}


def test_a_pod_that_has_trained_is_not_started_again_and_one_that_serves_is() -> None:
    """A program that starts again after its run trains once more, and every run counts against limits."""
    for path in MANIFESTS:
        (found,) = [each for each in documents(path) if each["kind"] in ("Job", "Deployment")]
        command = found["spec"]["template"]["spec"]["containers"][0]["args"][0]
        assert (found["kind"] == "Deployment") == (command == "serve")
        if command != "serve":
            assert found["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_the_service_uses_the_volume_of_the_training() -> None:
    for role in ("coordinator", "party"):
        made = documents(FOLDER / "kubernetes" / f"{role}.yaml")
        (claim,) = [each["metadata"]["name"] for each in made if each["kind"] == "PersistentVolumeClaim"]
        for path in (f"{role}.yaml", f"serve-{role}.yaml"):
            (found,) = [d for d in documents(FOLDER / "kubernetes" / path) if d["kind"] in ("Job", "Deployment")]
            volumes = found["spec"]["template"]["spec"]["volumes"]
            assert claim in [v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_fits_the_schema_of_kubernetes(path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate has the schemas")
    for document in documents(path):
        validate.validate(document, "1.29", strict=True)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_one_that_systemd_takes(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = path.read_text().replace("/opt/plait/bin/plait", sys.executable)  # a program that is there
    unit = tmp_path / path.name
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if path.name in line and "plait" in line]
    assert not [line for line in complaints if "Unknown" in line or "Invalid" in line or "Failed to parse" in line]


@pytest.mark.parametrize("name", ["install.sh", "prepare.sh"])
def test_scripts_are_ones_that_a_shell_takes(name: str) -> None:
    subprocess.run(["sh", "-n", str(FOLDER / name)], check=True)


def test_the_probe_says_no_where_nothing_answers() -> None:
    command = [sys.executable, str(FOLDER / "probe.py"), "/health", str(free_port())]
    assert subprocess.run(command, check=False).returncode == 1


@pytest.mark.slow
def test_the_steps_of_the_image_work_in_a_clean_environment(tmp_path: Path) -> None:
    """Install as the image does, prepare as compose does, and train between the two folders."""
    clean = {"PATH": os.defpath, "HOME": str(tmp_path)}
    clean |= {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    target = tmp_path / "plait"
    tools = {**clean, "PATH": f"{Path(sys.executable).parent}:{os.defpath}"}
    subprocess.run(["sh", str(FOLDER / "install.sh"), str(ROOT), str(target)], env=tools, check=True)
    clean["PATH"] = f"{target / 'bin'}:{os.defpath}"
    bank, shop, port, page = tmp_path / "bank", tmp_path / "shop", free_port(), free_port()
    subprocess.run(["sh", str(FOLDER / "prepare.sh"), bank, shop, f"127.0.0.1:{port}"], env=clean, check=True)
    coordinator = [target / "bin" / "plait", "coordinator", bank / "job.toml", "--page", f"127.0.0.1:{page}"]
    with subprocess.Popen(coordinator, env=clean) as program:
        party = [target / "bin" / "plait", "party", shop / "job.toml", "--name", "shop"]
        subprocess.run(party, env=clean, check=True, timeout=120)
        assert program.wait(60) == 0
    assert list(bank.glob("runs/*/coordinator/report.html"))
