"""What is known about the data sets and the code behind the paper's Table 3."""

from __future__ import annotations

#: Holds for every data set.
EVERYWHERE = (
    "Three things can part the numbers on every data set. The settings here are those of the "
    "paper's Table 5, which it gives for GCM and IGCM; those of its baselines are not printed, and "
    "ours have the same. The authors' earlier public code trains in another way (plain SGD with a "
    "decaying rate, 10,000 steps of 256 rows drawn with replacement, clipped gradients), and we do "
    "not know which of the two made Table 3; ours clips gradients at a norm of 10. And Hint in "
    "that code subtracts a column from a row and so pulls the scores of all rows together (penalty "
    "0.67 where 0 is right); here it is the intended one, which hardly acts: Hint is level with "
    "the unconstrained MLP. The literal loss loses x for a binary y only: for RMSE the threshold "
    "of y depends on x, and it is level with the default objective or better."
)

_BOOSTING = (
    "Boosting has 100 trees, at the smallest step size 333; above 10,000 rows scikit-learn's stops "
    "early on a tenth of the training rows, below it has all of them."
)

#: What a reader of the held-out ranking has to know of the methods in it, and what was tried.
FORMS = (
    "The search. GCM is searched over three forms (plain, alternatives, alternatives with splines "
    "of the revenues), several baselines over theirs. Trials have fewer steps than fits on the "
    "large sets, where they train on 16,000 rows for as many epochs, which is hard on slow "
    f"starters such as SMNN. {_BOOSTING} An earlier run had "
    "100 at every step size: only the choice on Blog Feedback differs, which had 0.1503 then.",
    "Two rounds for GCM and IGCM, one for the others. The splines, and for RMSE one spread for all "
    "rows and the mean over z outside the logarithm (appendix D.3), came after a first round on "
    "these same ten splits, in which GCM and IGCM were at 0.8642 and 0.8645 on Adult, 0.2003 and "
    "0.1999 on Blog Feedback, 2.902 and 2.907 on Auto MPG; with one spread and the "
    "importance-weighted bound it was 0.1718 and 0.1865 on Blog Feedback, 2.853 and 2.827 on Auto "
    "MPG. The rows of those fits were not kept. The changes were tried on training rows of the "
    "first split, but the wish for them came from the table.",
    "Who is strict. Hint in the paper's form hardly acts at these weights, so that there are "
    "twelve methods in effect: its numbers and violations are those of the unconstrained MLP. IGCM "
    "is not strict either, and on Adult falls as often as the MLP.",
)

#: The same of the open track.
OPEN_TRACK = (
    "Ensembles of five seeds and boosting, six trials each, random 4:1 splits; differences as in "
    "section 5. For RMSE the members train for the mean, as there, and not for the density that "
    f"the log score asks for. {_BOOSTING} XGBoost and LightGBM do not stop early.",
    "The third form of the ensembles, logarithms of the covariates, came from training rows of the "
    "first split of Blog Feedback. Covariates that are 0 or 1 stay what they are in it, up to "
    "their unit: all of Adult and Diabetes, most of COMPAS and the stand-in; there the third form "
    "of GCM is the first over again, with other settings. It took the place of another (plain GCM; "
    "six alternatives) of which two trials a data set had been run on Adult and Auto MPG; they had "
    "not been chosen, and are not in the table of trials. The GCM ensemble that was chosen on "
    "Adult then, splines at a step size of 0.01, had an AUC of 0.8677 on these splits.",
)

#: What the column of versions does not say.
CODE = (
    "Versions without a commit are of fits before it was recorded. Predictions were written anew, "
    "for speed, after most fits of sections 4 and 5; the 60 held-out fits of IGCM were then run "
    "again with all scores equal to the last digit kept, but for the violations, which had been "
    "counted in float32 before."
)

#: Of the stand-in for Loan Defaulter.
STAND_IN = (
    "Its file is balanced artificially, so that accuracy, log score and calibration are not those "
    "of a lender's book. Logistic regression without any choice of epoch (table of checks) is "
    "ahead of GCM and of the paper's loss of IGCM at the paper's settings. One alternative, the "
    "paper's form, seems to be what is lacking: in the search of section 5 its two trials have the "
    "highest validation losses of GCM's six, one with splines the lowest. Tuned, on random splits "
    "(section 5), GCM and IGCM are nearer to boosting, but behind it by AUC and log score, which "
    "tell more than accuracy."
)

#: Data set -> what may part ours from the paper's. The figures in it are held to the results by
#: tests/reproduce/test_findings.py.
FINDINGS = {
    "adult": (
        "The published variant counts only the label `>50K.`, with the full stop, as positive, as "
        "the authors' earlier public loader does: the 7,841 positives of the training file count "
        "as negatives (7.9 % positive in place of 23.9 %). The published AUC fits that label only; "
        "with the right one everything scores 0.85 to 0.87. The split of the paper is not known; "
        "ours is one random 4:1 split. GCM (literal) lies between logistic regression and boosting "
        "of the revenues alone (table of checks). The baselines but SMNN, which is slow from its "
        "published start, are better here than printed, as is GCM under the default objective, so "
        "that the order of the paper is not found."
    ),
    "compas": (
        "The split is the fixed one of the literature (4,937 and 1,235 rows). Intervals as small "
        "as the published ones are only possible with one fixed split: ten random splits give ± "
        "0.007, more than most differences between methods. At its last epoch GCM (literal) is "
        "where the revenues alone are (table of checks): x does not appear in what its loss "
        "bounds; under the default objective GCM meets the paper's cell. The others that are apart "
        "are all better here, Hint by the most, so that the order of the paper is not found."
    ),
    "diabetes": (
        "`HvyAlcoholConsump` is an increasing input in the paper and correlates negatively with "
        "the label (-0.057), so a strictly increasing model cannot use it. The split of the paper "
        "is not known; ours is one random 4:1 split. IGCM is first, as in the paper, ahead of the "
        "unconstrained MLP too, and may fall with a revenue; on random splits, tuned, it is fourth "
        "(section 5). GCM (literal) is where boosting of the revenues alone is (table of checks): "
        "x does not appear in what its loss bounds. SMNN is slow from its published start and "
        "differs from seed to seed. The others that are apart are better here but for the paper's "
        "loss of IGCM, Hint by the most: its penalty hardly acts, it is where the MLP is."
    ),
    "blog": (
        "The published row count comes about if every one of the 61 files loses its first row and "
        "the target is cast to 8 bits, where it wraps modulo 256 (17 wrapped rows survive); the "
        "published variant does both. The known loaders move the eight monotone columns to the "
        "front and then constrain the wrong positions; ours constrains the named columns. Rows "
        "repeat, and the split counts: boosting has 0.145 on this one (table of checks), 0.151 on "
        "random ones (section 5). Every method but IGCM is better here than printed, SMNN by the "
        "most: it is first here, and last in the paper. Most are best early in the 40 epochs and "
        "get worse from then on, the paper's loss of IGCM most of all, so the epoch chosen on the "
        "test rows counts for much."
    ),
    "auto_mpg": (
        "This is the fixed split of the literature (314 and 78 rows); its numbers and those of the "
        "random splits of section 5 must not be mixed. With 78 test rows and 120 epochs the best "
        "epoch on the test rows is worth more than what parts most methods, and to GCM the most. "
        "All cells that are apart are better here: the order of the paper, which has IGCM first, "
        "is not found."
    ),
}
