"""The paper: its data sets, methods under its names and ours, what it printed, and what it claims."""

from __future__ import annotations

from wherefrom_studies.claims import Claim

TEXT_SETS = ("sst2", "qqp", "mnli", "amazon", "yelp", "imdb")
ANSWER_SETS = ("squad1", "squad2")
DATASETS = (*TEXT_SETS, *ANSWER_SETS)
# The paper's names, and ours.
PAPER = {
    "RawAtt": "raw_attention",
    "Rollout": "attention_rollout",
    "Grads": "attention_gradients",
    "AttGrads": "attention_x_gradient",
    "PartialLRP": "partial_lrp",
    "TransAtt": "transatt",
    "CAT": "cat",
    "AttCAT": "attcat",
}
OWN = "attcat"
OTHERS = [name for name in PAPER.values() if name != OWN]
CLASS_SPECIFIC = [name for name in PAPER.values() if name not in ("raw_attention", "attention_rollout")]
BESIDE = ("gae", "attn_lrp", "integrated_gradients", "occlusion", "random")
VARIANTS = ("attcat:layers=rollout", "attcat:layers=last", "attcat:hidden=output", "cat:hidden=output")
METHODS = (*PAPER.values(), *BESIDE, *VARIANTS)
METRICS = (
    "aopc",
    "log_odds",
    "aopc:variant=published",
    "log_odds:variant=published",
    "kendall_confidence",
    "kendall_confidence:variant=published",
    "truthfulness",
    "faithfulness_violation",
)
DEPTHS = (5, 10, 20, 40)
ANSWER_METHODS = (*PAPER.values(), *BESIDE)
ANSWER_METRICS = tuple(f"precision_at_k:k={k}" for k in DEPTHS)
COLUMN = {name: number for number, name in enumerate(METHODS)}

# Figures 4 and 5b are about this sentence, Figure 5a about this question.
SENTENCE = "i really didn't like this movie. some of the actors were good, but overall the movie was boring."
QUESTION = (
    "Which NFL team represented the AFC at Super Bowl 50?",
    "Super Bowl 50 was an American football game to determine the champion of the National Football League (NFL) for"
    " the 2015 season. The American Football Conference (AFC) champion Denver Broncos defeated the National Football"
    " Conference (NFC) champion Carolina Panthers 24-10 to earn their third Super Bowl title. The game was played on"
    " February 7, 2016, at Levi's Stadium in the San Francisco Bay Area at Santa Clara, California.",
)

# Table 1: AOPC and LOdds; Table 2: Kendall's correlation.
PRINTED_SETS = ("sst2", "qqp", "mnli", "amazon", "yelp", "imdb")
PRINTED_AOPC = {
    "RawAtt": (0.331, 0.143, 0.138, 0.384, 0.394, 0.298),
    "Rollout": (0.286, 0.139, 0.151, 0.324, 0.277, 0.331),
    "Grads": (0.335, 0.141, 0.156, 0.316, 0.414, 0.304),
    "AttGrads": (0.351, 0.143, 0.159, 0.346, 0.439, 0.310),
    "PartialLRP": (0.341, 0.142, 0.138, 0.418, 0.424, 0.312),
    "TransAtt": (0.354, 0.145, 0.130, 0.415, 0.434, 0.421),
    "CAT": (0.352, 0.134, 0.157, 0.409, 0.421, 0.406),
    "AttCAT": (0.371, 0.139, 0.164, 0.457, 0.473, 0.528),
}
PRINTED_ODDS = {
    "RawAtt": (-0.885, 0.149, 0.235, -1.729, -2.017, -1.245),
    "Rollout": (-0.641, 0.262, 0.321, -1.303, -1.055, -1.323),
    "Grads": (-0.252, 0.184, 0.139, -1.820, -1.994, -1.227),
    "AttGrads": (-0.603, 0.113, 0.114, -1.941, -2.054, -1.267),
    "PartialLRP": (-0.922, 0.137, 0.231, -2.019, -2.199, -1.321),
    "TransAtt": (-1.038, 0.114, 0.214, -1.889, -2.508, -2.137),
    "CAT": (-1.115, 0.121, 0.121, -2.157, -2.587, -3.052),
    "AttCAT": (-1.319, 0.073, 0.008, -2.332, -3.169, -3.671),
}
PRINTED_KENDALL = {
    "Grads": (0.150, 0.236, 0.169, 0.146, 0.174, 0.098),
    "AttGrads": (0.116, 0.198, 0.156, 0.148, 0.132, 0.064),
    "PartialLRP": (0.955, 0.949, 0.935, 0.965, 0.952, 0.858),
    "TransAtt": (0.336, 0.222, 0.339, 0.152, 0.121, 0.043),
    "CAT": (0.101, 0.373, 0.339, 0.095, 0.107, 0.056),
    "AttCAT": (0.018, 0.349, 0.017, 0.015, 0.008, 0.023),
}
CONTRADICTIONS = [
    "AttCAT is said to be the best on all data sets; in Table 1 its AOPC on QQP, .139, is below that of TransAtt"
    " (.145), RawAtt and AttGrads (.143), and in Table 2 its correlation on QQP, .349, is the fourth of six.",
    "What Fig. 3 calls precision is a count of tokens, at most 3.72 and 3.84.",
    "CAT (Eq. 10) is a vector that is used as a number.",
    "Eqs 8 to 10 take the output of a layer, the public code its input.",
    "The same AttCAT on the same IMDB has an AOPC of .528 here and of .340 in the paper of Mask-LRP.",
]

# Claims and margins were written down before any number was looked at. Statistics are signed so that "above" is what
# the paper says.
_TURNED = "the same by log-odds, with the sign turned"
CLAIMS = {
    claim.name: claim
    for claim in (
        Claim(
            "C1 AOPC",
            "AttCAT is first by AOPC",
            "AttCAT less each of the paper's other seven methods, paired",
        ),
        Claim("C1 LOdds", "AttCAT is first by LOdds", _TURNED),
        Claim("C2 AOPC", "attention makes CAT better", "AttCAT less CAT by AOPC, paired"),
        Claim("C2 LOdds", "attention makes CAT better", _TURNED),
        Claim(
            "C3 AOPC",
            "RawAtt and Rollout are last",
            "each of the other six methods less each of the two by AOPC, paired",
        ),
        Claim("C3 LOdds", "RawAtt and Rollout are last", _TURNED),
        Claim("C4 AOPC", "AttCAT beats TransAtt", "AttCAT less TransAtt by AOPC, paired"),
        Claim("C4 LOdds", "AttCAT beats TransAtt", _TURNED),
        Claim(
            "C5",
            "AttCAT is the most class-specific",
            "the Kendall correlation of each of the other five class-specific methods less AttCAT's, by the right"
            " definition, paired",
        ),
        Claim("C5 published", "AttCAT is the most class-specific", "the same by the definition of the public code"),
        Claim(
            "C6",
            "AttCAT finds the most answer tokens among its first 20",
            "AttCAT's count less that of each of the other seven, paired",
        ),
        Claim(
            "C7 AOPC",
            "the sum over layers is better than their rollout",
            "AttCAT summed less AttCAT rolled out by AOPC, paired",
        ),
        Claim(
            "C7 depth",
            "impact grows uniform with depth",
            "Spearman's correlation of a layer's number with the entropy of its impact, mean over texts",
        ),
        Claim(
            "C8",
            "AttCAT of what a layer gives (the paper) equals that of what it is given (the public code)",
            "the first less the second by AOPC, paired",
            side=None,
            margin=0.02,
        ),
        Claim(
            "C9",
            "the signs of AttCAT mean something, unlike those of TransAtt",
            "AttCAT less TransAtt by truthfulness, paired (the share of violated signs is one less this number)",
        ),
        Claim(
            "C10",
            "the public code's AOPC orders the eight methods as the paper's formula does",
            "1 less Kendall's tau of the two orders, mean over data sets",
            side=None,
            margin=0.1,
        ),
    )
}
