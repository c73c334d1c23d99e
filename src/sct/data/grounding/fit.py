"""Estimation of ``ScoreParameters`` from human-grounded captions; ``benchmarks/quality/auto_grounding.py`` runs it."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import minimize

from sct.data.grounding.region_score import FEATURES, ScoreParameters

_L2 = 1e-4
"""Penalty of weights of standardized features."""


def fit_weights(
    features: Float[np.ndarray, "pairs features"], is_right: Bool[np.ndarray, " pairs"], *, threshold: float
) -> ScoreParameters:
    """Fit the logistic regression of pairs of a chunk and a region; every feature must vary."""
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    inputs = np.column_stack([(features - mean) / deviation, np.ones(len(features))])
    penalty = np.array([_L2] * len(FEATURES) + [0.0])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logits = inputs @ weights
        probabilities = 1 / (1 + np.exp(-logits))
        value = (np.logaddexp(0, logits) - is_right * logits).mean() + penalty @ weights**2
        return value, inputs.T @ (probabilities - is_right) / len(inputs) + 2 * penalty * weights

    found = minimize(loss, np.zeros(inputs.shape[1]), jac=True, method="L-BFGS-B").x
    weights = found[:-1] / deviation
    return ScoreParameters(weights=tuple(weights.tolist()), bias=float(found[-1] - weights @ mean), threshold=threshold)


def format_parameters(parameters: ScoreParameters, provenance: Mapping[str, str], comment: Sequence[str]) -> str:
    """TOML that ``ScoreParameters.load`` reads, rounded to four digits."""
    return "\n".join([
        *(f"# {line}" for line in comment),
        f"threshold = {parameters.threshold:.4g}",
        f"bias = {parameters.bias:.4g}",
        "",
        "[weights]",
        *(f"{name} = {weight:.4g}" for name, weight in zip(FEATURES, parameters.weights, strict=True)),
        "",
        "[provenance]",
        *(f'{name} = "{value}"' for name, value in provenance.items()),
        "",
    ])  # fmt: skip
