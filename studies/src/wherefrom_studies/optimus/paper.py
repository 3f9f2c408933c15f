"""The paper: its data sets, metrics, what it printed, and what it claims."""

from __future__ import annotations

from wherefrom_studies.claims import Claim

DATASETS = ("hatexplain", "ethos", "ais", "hoc", "movies", "hummingbird", "esnli")
SENTENCE_SETS = ("ais", "hoc", "movies")
NAMES = {
    "hatexplain": "HX",
    "ethos": "Ethos",
    "ais": "AIS",
    "hoc": "HoC",
    "movies": "MV",
    "hummingbird": "HB",
    "esnli": "ESNLI",
}
RFT, F, FT, COMP, SUFF, AUPRC = (
    "rft:normalise=no",
    "faithfulness",
    "faithful_truthfulness",
    "comprehensiveness",
    "sufficiency",
    "auprc",
)
METRICS = (RFT, F, FT, COMP, SUFF)
TABLE_2 = ("faithfulness", "rft", "faithful_truthfulness", "auprc")
ORDER = ("LIME", "IG", "B", "OB", "OB on test", "OP", "OL", "B*", "OB*", "OP*", "OL*", "OP A and A*", "random")
# Table 3 (RFT as sums) and the rows of AUPRC, both of BERT.
PRINTED_ORDER = ("LIME", "IG", "B", "OB", "OP", "OL", "B*", "OB*", "OP*", "OL*")
PRINTED_RFT = {
    "hatexplain": (0.180, 0.487, 0.455, 0.465, 0.528, 0.528, 0.133, 0.453, 0.548, 0.548),
    "ethos": (0.483, 0.515, 0.422, 0.444, 0.543, 0.620, 0.181, 0.450, 0.498, 0.635),
    "ais": (0.068, 0.079, 0.063, 0.081, 0.110, 0.110, 0.001, 0.077, 0.105, 0.105),
    "hoc": (0.114, 0.307, 0.239, 0.240, 0.349, 0.417, -0.013, 0.208, 0.326, 0.399),
    "movies": (0.011, 0.062, 0.132, 0.137, 0.242, 0.242, 0.001, 0.085, 0.201, 0.201),
    "hummingbird": (0.356, 0.151, 0.226, 0.269, 0.408, 0.429, -0.079, 0.259, 0.410, 0.437),
    "esnli": (0.292, 0.277, 0.246, 0.453, 0.636, 0.636, -0.074, 0.394, 0.627, 0.627),
}
PRINTED_RFT_SENTENCES = {
    "ais": (0.132, 0.164, 0.139, 0.185, 0.202, 0.202, 0.008, 0.173, 0.201, 0.201),
    "hoc": (0.141, 0.270, 0.244, 0.273, 0.360, 0.404, -0.132, 0.203, 0.372, 0.436),
    "movies": (0.063, 0.053, 0.110, 0.144, 0.293, 0.293, -0.124, 0.144, 0.341, 0.341),
}
PRINTED_AUPRC = {
    "hatexplain": (0.296, 0.391, 0.366, 0.374, 0.369, 0.371, 0.358, 0.387, 0.367, 0.369),
    "hoc": (0.367, 0.646, 0.554, 0.557, 0.511, 0.547, 0.469, 0.421, 0.493, 0.546),
    "movies": (0.139, 0.169, 0.176, 0.183, 0.188, 0.188, 0.183, 0.147, 0.177, 0.177),
    "hummingbird": (0.506, 0.366, 0.399, 0.483, 0.479, 0.454, 0.391, 0.498, 0.456, 0.443),
    "esnli": (0.477, 0.446, 0.411, 0.510, 0.500, 0.500, 0.433, 0.452, 0.491, 0.491),
}
# Table 2, BERT: Pearson and Spearman of F and of RFT with AUPRC.
PRINTED_CORRELATIONS = {
    "hatexplain": (0.93, 0.96, 0.93, 0.96),
    "hoc": (0.67, 0.67, 0.58, 0.58),
    "movies": (0.33, 0.51, 0.31, 0.40),
    "hummingbird": (0.69, 0.76, 0.67, 0.76),
    "esnli": (0.67, 0.77, 0.63, 0.75),
}
CONTRADICTIONS = [
    "The text gives OP* an average rank of 1.9 and OL* one of 2.9; the table has 2.9 and 1.9.",
    "Table 1 says that Hummingbird has 6 labels, the text eight.",
    "Eq. 3 divides by the number of tokens, the tables do not.",
    "What Table 5 calls tCO2e are neither tonnes nor what its formula gives.",
    "Fig. 4 counts winners by AUPRC, though OP chooses by RFT.",
    "OB is to be found on texts of its own; the public code takes those of the test.",
]
# Claims and margins were written down before any number was looked at; "above" is what the paper says.
_LED = "OP less each of B, IG and LIME"
CLAIMS = {
    claim.name: claim
    for claim in (
        Claim(
            "O1",
            "RFT goes with AUPRC more than F does",
            "Pearson's correlation of RFT with AUPRC over all combinations less that of F (by ranks: Table 2)",
        ),
        Claim("O2 comp", "OP beats B, IG and LIME", f"{_LED} by comprehensiveness, paired"),
        Claim("O2 suff", "OP beats B, IG and LIME", f"{_LED} by sufficiency, with the sign turned"),
        Claim("O2 F", "OP beats B, IG and LIME", f"{_LED} by F"),
        Claim("O2 AUPRC", "OP beats B, IG and LIME", f"{_LED} by AUPRC"),
        Claim("O3", "OL is at least as good as OP where labels are several", "OL less OP by F, multi-label sets"),
        Claim("O4 comp", "OB beats IG and LIME", "OB (fitted on validation texts) less each by comp, paired"),
        Claim("O4 AUPRC", "OB is best by AUPRC", "OB less each of LIME, IG, B and OP by AUPRC, paired"),
        Claim("O5 B", "A* is worse than A for B", "B less B* by F, paired"),
        Claim("O5 OB", "A* is worse than A for OB", "OB less OB* by F, paired"),
        Claim("O6", "A and A* together gain", "OP of both less OP of A by F, paired"),
        Claim(
            "O7",
            "[UNK] changes the other tokens' attention less than deletion",
            "the mean change after deletion less that after [UNK], of the top token",
        ),
        Claim("O8 heads", "the mean of heads wins most often", "its share less that of each other head operation"),
        Claim("O8 layers", "the mean of layers wins most often", "its share less that of each other layer operation"),
        Claim("O8 matrix", "From wins most often", "its share less that of each other matrix operation"),
        Claim("O8 minority", "the three together win a minority", "one half less the share of mean, mean, From"),
        Claim(
            "O9 token",
            "OP is dearer than IG at token level",
            "passes of OP less those of IG, for one explanation of texts of this length: OP's grow with the tokens",
        ),
        Claim("O9 sentence", "OP is cheaper than IG at sentence level", "passes of IG less those of OP"),
    )
}  # fmt: skip
