"""scikit-learn's own tests with plait under the names of its models:  python -m benchmarks.sweep.sklearn_tests.

The test files are those of the installed scikit-learn.  A test counts where it fits one of the replaced models; what
asks for something that plait does not offer is counted apart.  Tests of a solver's own options or messages fail too:
read the reasons before you count failures as plait's.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import sklearn

FILES = (
    "linear_model/tests/test_logistic.py",
    "linear_model/tests/test_ridge.py",
    "linear_model/tests/test_coordinate_descent.py",
    "linear_model/tests/test_sparse_coordinate_descent.py",
    "linear_model/tests/test_huber.py",
    "linear_model/tests/test_quantile.py",
    "linear_model/_glm/tests/test_glm.py",
    "svm/tests/test_svm.py",
)
OTHERS = {
    "a message, a warning, an error or the exact number of iterations of one of scikit-learn's own solvers": (
        "test_max_iter test_large_sparse_matrix test_liblinear_with_large_values "
        "test_newton_cholesky_fallback_to_lbfgs "
        "test_ridge_fit_intercept_sparse_error test_ridge_fit_intercept_sparse_sag test_lbfgs_solver_error "
        "test_enet_nonfinite_params test_enet_coordinate_descent_raises_convergence "
        "test_sparse_enet_coordinate_descent test_error_interior_point_future test_linalg_warning_with_newton_solver "
        "test_linearsvc_parameters test_linear_svm_convergence_warnings test_lasso_alpha_warning "
        "test_overridden_gram_matrix test_ridge_positive_error_test test_n_iter test_warm_start_convergence "
        "test_warm_start"  # five passes of coordinate descent and five more are ten
    ),
    "the lower bound of scikit-learn's own certificate, of which there are many": "test_lasso_dual_gap",
    "a warning about options of scikit-learn's that are on their way out or exclude one another": (
        "test_penalty_none test_penalty_deprecated test_l1_ratio_None_deprecated test_l1_ratio_non_elasticnet "
        "test_lr_penalty_l1ratio_incompatible test_logisticregression_warns_with_n_jobs "
        "test_elasticnet_l1_ratio_err_helpful"
    ),
    "two random states must give two answers, or X must be overwritten or its order of storage matter": (
        "test_liblinear_dual_random_state test_enet_copy_X_False_check_input_False test_check_input_false"
    ),
    "the other side of the comparison is a solver of scikit-learn's at a loose tolerance": "test_logistic_cv",
    "the callbacks of scikit-learn's own loops": "test_logistic_regression_callback_support",
    "an intercept with a penalty": "test_dense_liblinear_intercept_handling",
}
"""Why a test does not apply: what it asks is none of a model's.  They still run, and count where they pass."""
_NOT_OURS = {name: reason for reason, names in OTHERS.items() for name in names.split()}
KINDS = ("pass", "fail", "lacks a feature", "does not apply")


def kind(line: dict[str, object]) -> str:
    """Which of the four a test belongs to."""
    if not line["touched"] or line["outcome"] == "skipped":
        return "does not apply"
    if line["outcome"] == "passed":
        return "pass"
    if re.sub(r"\[.*", "", str(line["test"]).split("::")[-1]) in _NOT_OURS:
        return "does not apply"
    return "lacks a feature" if "Lacking" in str(line["words"]) else "fail"


def run(file: str, only: str) -> list[dict[str, object]]:
    """Run one test file in a process of its own."""
    path = Path(sklearn.__file__).parent / file
    with TemporaryDirectory() as folder:
        lines = Path(folder) / "lines.jsonl"
        command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "benchmarks.sweep.sklearn_names"]
        command += ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder, str(path)]
        command += ["-k", only] if only else []
        environment = os.environ | {"PLAIT_SKLEARN": str(lines)}
        subprocess.run(command, env=environment, capture_output=True, check=False)
        return [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep.sklearn_tests", description=__doc__)
    parser.add_argument("--file", default="", help="only the files whose name contains this")
    parser.add_argument("--only", default="", help="pytest's -k: only the tests whose name matches")
    parser.add_argument("--failures", action="store_true", help="list every test that fails")
    given = parser.parse_args()
    total: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    print("| file | " + " | ".join(KINDS) + " |")
    print("| --- |" + " --- |" * len(KINDS))
    for file in (f for f in FILES if given.file in f):
        lines = run(file, given.only)
        counts = Counter(kind(line) for line in lines)
        total += counts
        print(f"| {Path(file).name} | " + " | ".join(str(counts[k]) for k in KINDS) + " |", flush=True)
        for line in lines:
            if kind(line) == "fail":
                name = str(line["test"]).split("::")[-1]
                failed[f"{name if given.failures else re.sub(r'[[].*', '', name)}: {str(line['words'])[:110]}"] += 1
    print("| **all** | " + " | ".join(str(total[k]) for k in KINDS) + " |\n")
    for words, count in failed.most_common():
        print(f"- {count} x {words}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
