"""The paper: its data sets, methods under its names and ours, what it printed, and what it claims."""

from __future__ import annotations

from wherefrom_studies.claims import Claim

DATASETS = ("sst2", "imdb", "yelp", "agreement")
SEEDED = "sst2"  # the set on which models of several seeds are compared
PATH = "integrated_gradients:steps=100"
# The paper's names, and ours.
PAPER = {
    "Grad l2": "saliency",
    "IG l2": f"{PATH}:reduce=l2",
    "IG mean": f"{PATH}:reduce=mean",
    "GxI l2": "input_x_gradient:reduce=l2",
    "GxI mean": "input_x_gradient:reduce=mean",
    "Rollout": "attention_rollout",
    "Globenc": "globenc",
    "ALTI": "alti",
}
ABLATIONS = {"ALTI l2": "alti:norm=l2", "ALTI LN2": "alti:ln2=true", "Norms": "norms"}
SIGNED = {
    "IG signed": PATH,
    "GxI signed": "input_x_gradient",
    "AttCAT": "attcat",
    "AttnLRP": "attn_lrp",
    "Occlusion": "occlusion",
}
BEYOND = {"Logit": "logit_contributions"}  # not in the paper: it names the want of a class as a limit of ALTI
NAMES = PAPER | ABLATIONS | SIGNED | BEYOND | {"random": "random"}
GRADIENTS = ("Grad l2", "IG l2", "IG mean", "GxI l2", "GxI mean")
METHODS = tuple(NAMES.values())
# Runs of their own, so that what is measured beyond the paper never asks for the paper's methods again.
RUNS = (tuple(ours for name, ours in NAMES.items() if name not in BEYOND), tuple(BEYOND.values()))
COMP, SUFF, AOPC = "comprehensiveness", "sufficiency", "aopc"
PUBLISHED = {"comp": f"{COMP}:variant=published", "suff": f"{SUFF}:variant=published"}
METRICS = (COMP, SUFF, *PUBLISHED.values(), AOPC)
COLUMN = {name: place for place, name in enumerate(NAMES)}
ANISOTROPY_TEXTS = 25  # of each data set: the numbers hardly differ between texts
MOST_ATTRACTORS = 3  # more than so many count as this
# Figure 5's sentence, and that of Table 8.
SENTENCE = "a clever blend of fact and fiction ."
REVIEW = (
    "friendly staff and nice selection of vegetarian options . food is just okay , not great . makes me wonder why"
    " everyone likes food fight so much ."
)
FLOWS = ("alti", "globenc", "attention_rollout")

# Tables 2, 6 and 7: comprehensiveness and sufficiency, by the paper's model and data set.
BERT, ROBERTA, DISTIL = "BERT", "RoBERTa", "DistilBERT"
PRINTED_COLUMNS = (
    (BERT, "sst2"), (BERT, "yelp"), (BERT, "imdb"), (BERT, "agreement"), (ROBERTA, "sst2"), (DISTIL, "sst2"),
    (DISTIL, "imdb"), (DISTIL, "yelp"), (DISTIL, "agreement"), (ROBERTA, "imdb"), (ROBERTA, "yelp"),
    (ROBERTA, "agreement"),
)  # fmt: skip
PRINTED_COMP = {
    "Grad l2": (0.204, 0.083, 0.192, 0.284, 0.190, 0.230, 0.266, 0.111, 0.338, 0.216, 0.075, 0.273),
    "IG l2": (0.223, 0.111, 0.214, 0.315, 0.223, 0.295, 0.275, 0.128, 0.372, 0.200, 0.087, 0.363),
    "IG mean": (0.211, 0.106, 0.179, 0.317, 0.231, 0.279, 0.244, 0.108, 0.365, 0.215, 0.102, 0.351),
    "GxI l2": (0.199, 0.081, 0.197, 0.279, 0.187, 0.235, 0.281, 0.115, 0.333, 0.183, 0.066, 0.280),
    "GxI mean": (0.207, 0.087, 0.213, 0.285, 0.191, 0.237, 0.282, 0.117, 0.335, 0.225, 0.083, 0.270),
    "Rollout": (0.074, 0.076, 0.090, 0.108, 0.076, 0.152, 0.183, 0.092, 0.241, 0.077, 0.031, 0.223),
    "Globenc": (0.174, 0.118, 0.207, 0.251, 0.161, 0.240, 0.252, 0.124, 0.341, 0.154, 0.065, 0.305),
    "ALTI": (0.317, 0.255, 0.308, 0.372, 0.269, 0.332, 0.304, 0.237, 0.382, 0.266, 0.138, 0.390),
    # Tables 4 and 5.
    "ALTI l2": (0.300, 0.212, 0.286, 0.374, 0.230, 0.292, 0.254, 0.200, 0.357, 0.203, 0.108, 0.379),
    "Norms": (0.134, 0.082, 0.148, 0.273, 0.168, 0.157, 0.175, 0.093, 0.315, 0.133, 0.064, 0.275),
}
PRINTED_SUFF = {
    "Grad l2": (0.076, 0.101, 0.052, 0.145, 0.075, 0.066, 0.054, 0.073, 0.107, 0.083, 0.122, 0.165),
    "IG l2": (0.084, 0.024, 0.060, 0.171, 0.074, 0.048, 0.055, 0.054, 0.108, 0.084, 0.110, 0.163),
    "IG mean": (0.112, 0.022, 0.063, 0.174, 0.067, 0.064, 0.059, 0.056, 0.118, 0.083, 0.094, 0.161),
    "GxI l2": (0.080, 0.104, 0.056, 0.149, 0.081, 0.065, 0.053, 0.075, 0.111, 0.109, 0.149, 0.169),
    "GxI mean": (0.073, 0.098, 0.054, 0.145, 0.078, 0.065, 0.053, 0.074, 0.110, 0.080, 0.120, 0.167),
    "Rollout": (0.270, 0.102, 0.185, 0.292, 0.179, 0.147, 0.089, 0.114, 0.179, 0.197, 0.208, 0.183),
    "Globenc": (0.125, 0.053, 0.117, 0.178, 0.119, 0.072, 0.066, 0.066, 0.108, 0.086, 0.120, 0.170),
    "ALTI": (0.044, 0.022, 0.031, 0.088, 0.057, 0.034, 0.039, 0.017, 0.084, 0.050, 0.070, 0.109),
    "ALTI l2": (0.045, 0.020, 0.031, 0.088, 0.075, 0.051, 0.053, 0.031, 0.096, 0.086, 0.104, 0.114),
    "Norms": (0.180, 0.057, 0.115, 0.152, 0.135, 0.152, 0.104, 0.114, 0.117, 0.162, 0.180, 0.178),
}
CONTRADICTIONS = [
    "ALTI of BERT on Yelp is .255 (comprehensiveness) and .022 (sufficiency) in Table 2, .221 and .020 in Table 5.",
    "'58% more comprehensiveness and 38% less sufficiency than IG l2 on average' holds for the four columns of BERT;"
    " over all twelve columns it is 39% and 36%.",
    "The formulas have the plain curve; the public code takes the lowest probability so far (for sufficiency the"
    " highest), so that comprehensiveness cannot be below zero.",
    "The public code gives the gradient methods embeddings to which positions and a norm were already applied, and the"
    " model applies both again.",
]

# Claims and margins were written down before any number was looked at; "above" is what the paper says.
_BY_SUFF = "the same by sufficiency, with the sign turned"
CLAIMS = {
    claim.name: claim
    for claim in (
        Claim(
            "A1 comp", "ALTI is first by comprehensiveness", "ALTI less each of the paper's other seven methods, paired"
        ),
        Claim("A1 suff", "ALTI is first by sufficiency", _BY_SUFF),
        Claim(
            "A1 published",
            "ALTI is first by comprehensiveness",
            "the same as A1 comp, by what the public code computes (the lowest probability so far)",
        ),
        Claim(
            "A2",
            "ALTI's lead grows with the length of the texts",
            "the slope of ALTI less IG l2 by comprehensiveness over the rank of a text's length (0 the shortest, 1 the"
            " longest), within each data set",
        ),
        Claim("A3 comp", "IG l2 is the best of the paper's gradients", "IG l2 less each of the other four, paired"),
        Claim("A3 suff", "IG l2 is the best of the paper's gradients", _BY_SUFF),
        Claim(
            "A4 comp",
            "the lead over IG l2 survives the public code's two errors put right",
            "ALTI less IG l2 by the plain curve, gradients at the word embeddings, paired",
        ),
        Claim("A4 suff", "the lead over IG l2 survives the public code's two errors put right", _BY_SUFF),
        Claim(
            "A5 comp",
            "the lead survives baselines with signs",
            "ALTI less each of IG, GxI, AttCAT, AttnLRP and occlusion with signs, paired",
        ),
        Claim("A5 suff", "the lead survives baselines with signs", _BY_SUFF),
        Claim("A6 comp", "l1 is better than l2", "ALTI l1 less ALTI l2 by comprehensiveness, paired"),
        Claim("A6 suff", "l1 is better than l2", _BY_SUFF),
        Claim("A7 comp", "distances are better than norms", "ALTI l2 less Norms by comprehensiveness, paired"),
        Claim("A7 suff", "distances are better than norms", _BY_SUFF),
        Claim(
            "A8 comp",
            "the second norm changes nothing that matters",
            "ALTI with LN2 less ALTI by comprehensiveness, paired",
            side=None,
            margin=0.01,
        ),
        Claim(
            "A8 suff",
            "the second norm changes nothing that matters",
            "the same by sufficiency",
            side=None,
            margin=0.01,
        ),
        Claim(
            "A9 Jaccard",
            "ALTI is the most alike between models that differ in their seed",
            "Jaccard of the top quarters, ALTI less each of the paper's five gradient methods, paired",
        ),
        Claim("A9 Spearman", "ALTI is the most alike between models that differ in their seed", "the same of ranks"),
        Claim(
            "A10",
            "what positions hold is more alike than the parts that tokens bring, in every layer",
            "mean cosine of outputs less that of parts in each layer, paired",
        ),
        Claim(
            "A11 comp",
            "Rollout < Globenc < ALTI",
            "Globenc less Rollout and ALTI less Globenc by comprehensiveness, paired",
        ),
        Claim("A11 suff", "Rollout < Globenc < ALTI", _BY_SUFF),
        # Ours.
        Claim(
            "L1 comp",
            "(beyond the paper) contributions to the logit are more faithful than those to the vector",
            "logit contributions less ALTI by comprehensiveness, paired",
        ),
        Claim("L1 suff", "(beyond the paper) the same", _BY_SUFF),
        Claim(
            "L2 comp",
            "(beyond the paper) they are the most faithful of the methods with signs",
            "logit contributions less each of IG, GxI, AttCAT, AttnLRP and occlusion with signs, paired",
        ),
        Claim("L2 suff", "(beyond the paper) the same", _BY_SUFF),
    )
}
