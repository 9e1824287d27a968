"""Real models under fake tensors, beside the static model: how far its terms are off (dev; tracing needs torch).

python -m estimator.calibration trace [WORD ...]   # torch, transformers: writes traces.csv
python -m estimator.calibration sweep [WORD ...]   # torch, transformers: sizes and optimizers, writes sweep.csv
python -m estimator.calibration measure [WORD ...] # torch, transformers, a GPU: appends measured rows to a file
python -m estimator.calibration page [--check]     # writes docs/calibration.md from traces.csv, without torch
python -m estimator.calibration.diffusion          # torch, diffusers: the counts of data/pixels.csv
"""
