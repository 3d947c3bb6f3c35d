"""Protocol "released": the training code behind the paper's Table 3, and one change at a time.

Source: github.com/Anikethh/ResearchGym, commit d2f3995, tasks/dev/gcm. The collection has the eight
baselines as they are run, and the networks of GCM and IGCM without the calls that make them, so
that their `loss_type` and the dimension of z are not known.
"""
