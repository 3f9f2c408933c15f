"""Tests run without a network and with one thread a worker: small models are slower, not faster, on two.

`make test-portable` asks for two by OMP_NUM_THREADS, because other threads add up in another order.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
