"""The paper: what it reports and claims, and where it contradicts itself. Data only."""

from __future__ import annotations

from wherefrom_studies.claims import Claim

DATASETS = {"imdb": "IMDb", "20news": "20News", "sst": "SST"}
ENCODERS = {"bilstm": "BiLSTM", "transformer": "Transformer"}

EncoderAndDataset = tuple[str, str]  # encoder, dataset
EncoderVariantAndDataset = tuple[str, str, str]  # encoder, projection, dataset


def _by_dataset(encoder: str, *numbers: float) -> dict[EncoderAndDataset, float]:
    return {(encoder, dataset): number for dataset, number in zip(DATASETS, numbers, strict=True)}


def _with_spread(
    encoder: str, projection: str, *numbers: tuple[float, float]
) -> dict[EncoderVariantAndDataset, tuple[float, float]]:
    return {(encoder, projection, dataset): number for dataset, number in zip(DATASETS, numbers, strict=True)}


# Table 3: test accuracy
ACCURACY = _by_dataset("bilstm", 0.90, 0.91, 0.82) | _by_dataset("transformer", 0.89, 0.91, 0.79)

# Table 1: entropy of the inputs' importance for an intermediate representation, with its standard deviation
ENTROPY_FOR_INTERMEDIATES = (
    _with_spread("bilstm", "softmax", (0.71, 0.09), (0.75, 0.12), (0.93, 0.05))
    | _with_spread("bilstm", "sparsemax", (0.72, 0.10), (0.68, 0.12), (0.91, 0.07))
    | _with_spread("transformer", "softmax", (0.76, 0.08), (0.48, 0.06), (0.73, 0.09))
    | _with_spread("transformer", "sparsemax", (0.72, 0.09), (0.46, 0.06), (0.63, 0.08))
)

# Table 2: correlation of lambda with the entropy of the inputs' importance
LAMBDA_AND_ENTROPY = _by_dataset("bilstm", -0.935, -0.675, -0.866) | _by_dataset("transformer", -0.830, -0.409, -0.810)

# Table 5: (divergence, accuracy) of the adversary
ADVERSARY: dict[EncoderVariantAndDataset, tuple[float, float]] = (
    _with_spread("bilstm", "frozen", (0.67, 0.76), (0.67, 0.78), (0.62, 0.76))
    | _with_spread("bilstm", "unfrozen", (0.67, 0.90), (0.67, 0.91), (0.61, 0.82))
    | _with_spread("transformer", "frozen", (0.62, 0.71), (0.62, 0.87), (0.57, 0.76))
    | _with_spread("transformer", "unfrozen", (0.64, 0.87), (0.62, 0.92), (0.57, 0.78))
)

# Table 6: Kendall's tau of attention with an importance, with its standard deviation
AGREEMENT: dict[str, dict[EncoderVariantAndDataset, tuple[float, float]]] = {
    "g(x)": _with_spread("bilstm", "softmax", (0.36, 0.12), (0.24, 0.24), (0.25, 0.28))
    | _with_spread("bilstm", "sparsemax", (0.31, 0.08), (0.25, 0.13), (0.45, 0.13))
    | _with_spread("transformer", "softmax", (0.67, 0.08), (0.54, 0.11), (0.72, 0.11))
    | _with_spread("transformer", "sparsemax", (0.44, 0.08), (0.47, 0.10), (0.67, 0.12)),
    "D(x)": _with_spread("bilstm", "softmax", (0.31, 0.08), (0.17, 0.17), (0.35, 0.18))
    | _with_spread("bilstm", "sparsemax", (0.25, 0.06), (0.23, 0.09), (0.34, 0.15))
    | _with_spread("transformer", "softmax", (0.20, 0.10), (0.05, 0.10), (0.33, 0.20))
    | _with_spread("transformer", "sparsemax", (0.21, 0.09), (0.14, 0.15), (0.30, 0.23)),
    "g(I)": _with_spread("bilstm", "softmax", (0.77, 0.05), (0.78, 0.15), (0.80, 0.13))
    | _with_spread("bilstm", "sparsemax", (0.98, 0.02), (0.98, 0.06), (0.97, 0.06))
    | _with_spread("transformer", "softmax", (0.76, 0.04), (0.62, 0.13), (0.89, 0.07))
    | _with_spread("transformer", "sparsemax", (0.92, 0.05), (0.76, 0.15), (0.88, 0.11)),
    "D(I)": _with_spread("bilstm", "softmax", (0.79, 0.05), (0.70, 0.19), (0.49, 0.17))
    | _with_spread("bilstm", "sparsemax", (0.98, 0.02), (0.99, 0.01), (0.98, 0.04))
    | _with_spread("transformer", "softmax", (0.10, 0.07), (0.05, 0.11), (0.16, 0.18))
    | _with_spread("transformer", "sparsemax", (0.19, 0.09), (0.15, 0.16), (0.25, 0.23)),
}

CONTRADICTIONS = (
    (
        "The sign of Table 2.",
        "The correlations of λ with the entropy of input importance are all negative,"
        " which means that entropy falls as attention gets"
        " sparser. The text concludes from them that entropy increases with sparsity.",
    ),
    (
        "Which adversary redistributes information.",
        "Section 4 says it of the second method (a new model, accuracy kept), appendix"
        " C.1 of the first (a frozen model, accuracy lost)."
        " Only the former follows from the argument that is given.",
    ),
    (
        "What the adversary optimises.",
        "Table 5's caption says that the Jensen-Shannon divergence is optimised; its"
        " footnote refers to a loss with Kullback-Leibler's."
        " Here it is Jensen-Shannon's, as the other is infinite where a sparse attention has a zero.",
    ),
    (
        "Whether sparsity lowers the agreement with inputs.",
        "The text reports a fall. In the paper's own Table 6 the BiLSTM's agreement"
        " with g(x) rises from softmax to sparsemax on 20News"
        " (0.24 to 0.25) and on SST (0.25 to 0.45).",
    ),
)

# Claims and margins were written down before any number was looked at; "above" is what the paper says.
_LEAST = "in the model (data set, encoder, softmax or sparsemax) where it is least"
CLAIMS = {
    claim.name: claim
    for claim in (
        Claim(
            "S1",
            "attention agrees more with the importance of intermediate representations than with that of inputs, for"
            " every model",
            f"tau-b with g(I) less that with g(x), {_LEAST}",
        ),
        Claim(
            "S2 lambda",
            "agreement with inputs falls as attention gets sparser",
            "Kendall's tau-b of lambda with the mean agreement with g(x), with the sign turned",
        ),
        Claim(
            "S2 sparsemax",
            "agreement with inputs falls as attention gets sparser",
            "mean tau-b with g(x) of softmax less that of sparsemax",
        ),
        Claim(
            "S3",
            "the entropy of the inputs' importance grows with sparsity (the paper's text; the sign of its Table 2 says"
            " the contrary)",
            "Kendall's tau-b of lambda with the mean entropy of g(x)",
        ),
        Claim(
            "S4",
            "the influence of inputs on one intermediate representation is spread out, under every projection",
            f"normalised entropy of g_h(x) less one half, {_LEAST}",
        ),
        Claim(
            "S5 frozen",
            "the frozen adversary loses accuracy",
            "the base's accuracy less the adversary's",
        ),
        Claim(
            "S5 unfrozen",
            "the adversary that is trained anew loses none",
            "the base's accuracy less the adversary's",
            side=None,
            margin=0.02,
        ),
        Claim(
            "S6 places",
            "the same as S1 for leave-one-out",
            f"tau-b with D(I) less that with D(x), {_LEAST}",
        ),
        Claim(
            "S6 sparsemax",
            "the same as S2 for leave-one-out",
            "mean tau-b with D(x) of softmax less that of sparsemax",
        ),
    )
}
