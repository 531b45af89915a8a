"""Batch inference: process a data set once on all ranks, resuming after an interruption."""

from determined.pytorch.experimental.batch_process import initialize_default_inference_context, torch_batch_process
from determined.pytorch.experimental.processor import TorchBatchProcessor, TorchBatchProcessorContext

__all__ = [
    "TorchBatchProcessor",
    "TorchBatchProcessorContext",
    "initialize_default_inference_context",
    "torch_batch_process",
]
