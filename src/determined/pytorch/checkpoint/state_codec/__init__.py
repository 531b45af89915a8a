"""Encode any state as tensors and plain data, and rebuild it with types that come from the program.

A state file is read by torch's restricted loader, which knows tensors, numbers, strings and plain containers. Other
values are written as *tagged* dicts of such data. Decoding never imports, calls or unpickles what a file names: a class
is the class of the value that the program itself has at the same place (its *template*), or one that the program
registered with `torch.serialization.add_safe_globals`.
"""

from determined.pytorch.checkpoint.state_codec.decode import Decoder, Lazy, has_tags
from determined.pytorch.checkpoint.state_codec.encode import Encoded, Encoder, encoded
from determined.pytorch.checkpoint.state_codec.references import References
from determined.pytorch.checkpoint.state_codec.tags import Problem, map_tensors, problems_in

__all__ = [
    "Decoder",
    "Encoded",
    "Encoder",
    "Lazy",
    "Problem",
    "References",
    "encoded",
    "has_tags",
    "map_tensors",
    "problems_in",
]
