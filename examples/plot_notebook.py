"""
A notebook for data scientists
==============================

You know scikit-learn. plait has estimators that behave like its own: they work in pipelines and in grid search. What is
new is ``parties``: who holds which columns.

This page is a notebook. Download it at the end of the page as ``plot_notebook.ipynb``, open it in Jupyter, and run it
cell by cell. It needs plait and matplotlib (``pip install '.[plots]'`` in a clone of plait), and takes seconds.

All parties are in one process here. This is how you try a model before organisations set up their programs. Programs on
several machines give the same numbers.
"""

# %%
# The data
# --------
#
# Three departments of a hospital measured different things about the same 569 patients. A department holds ten columns.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import plait

data = load_breast_cancer()
parties = {"imaging": slice(0, 10), "laboratory": slice(10, 20), "pathology": slice(20, 30)}
train, test, y_train, y_test = train_test_split(
    data.data, data.target, test_size=0.4, random_state=0, stratify=data.target
)
print(train.shape[0], "patients to train on,", test.shape[0], "to test on")

# %%
# An estimator in a pipeline
# --------------------------
#
# A grid search finds the strength of the penalty. Here ``alpha`` multiplies half the squared norm of the weights.

model = make_pipeline(StandardScaler(), plait.VerticalLogisticRegression(parties=parties))
search = GridSearchCV(model, {"verticallogisticregression__alpha": [1e-3, 1e-2, 1e-1]}, cv=3, scoring="neg_log_loss")
search.fit(train, y_train)
print(search.best_params_, "log loss", round(-search.best_score_, 3))
print("AUC on new patients:", round(roc_auc_score(y_test, search.predict_proba(test)[:, 1]), 4))

# %%
# One table per party
# -------------------
#
# ``plait.fit`` is the function below the estimators. It takes one table per party, and shows what crosses between them.

scaler = StandardScaler().fit(train)
parts = {name: scaler.transform(train)[:, columns] for name, columns in parties.items()}
fit = plait.fit(parts, y_train, penalty="l2", alpha=1e-2)
print(fit)
print(fit.history.last.bytes_up, "bytes went from the parties to the coordinator in the last round")

# %%
# Each party its own penalty
# --------------------------
#
# Here the laboratory's weights are sparse, and those of pathology are not positive.

penalties = {"imaging": plait.L2(1e-2), "laboratory": plait.L1(1e-2), "pathology": plait.Box(-np.inf, 0.0)}
mixed = plait.fit(parts, y_train, penalty=penalties)
print("zero at the laboratory:", int(np.sum(mixed.weights["laboratory"] == 0)), "of 10")
print("largest weight of pathology:", mixed.weights["pathology"].max())

# %%
# Explain the model
# -----------------
#
# A weight says by how much the log odds of a benign tumour change when a column grows by one standard deviation. A
# simulation sees all weights. Deployed, each party sees its own.

weights = {
    f"{name}: {column}": weight
    for name, columns in parties.items()
    for column, weight in zip(data.feature_names[columns], fit.weights[name], strict=True)
}
largest = sorted(weights.items(), key=lambda item: abs(item[1]))[-10:]
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
colours = ["#0b6e4f" if weight > 0 else "#b45309" for _, weight in largest]
axes.barh([name for name, _ in largest], [weight for _, weight in largest], color=colours)
axes.axvline(0, color="black", linewidth=0.8)
axes.set(xlabel="change of the log odds of a benign tumour", title="The ten largest weights")
plt.show()

# %%
# Go on
# -----
#
# Callbacks are told every round: ``plait.tracking`` has ready ones, for TensorBoard, MLflow and others.
#
# The other examples go on from here: a penalty path, quantiles, a loss and a transformer of your own, a private run.
