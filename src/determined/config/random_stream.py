"""The random numbers of a search: a Mersenne Twister that produces the same numbers as Determined.

It is seeded like NumPy's legacy `RandomState(seed)`. Python's `random` has the same generator with another seeding, so
its state is computed and set here; NumPy is not needed.
"""

from __future__ import annotations

import random
import uuid

_WORDS = 624  # the size of the state of MT19937


class RandomStream:
    """A stream of random 32-bit words and the values made from them. Its state is a list of 625 integers."""

    def __init__(self, seed: int) -> None:
        word = seed & 0xFFFFFFFF
        words = []
        for position in range(1, _WORDS + 1):
            words.append(word)
            # The initialization that the reference implementation of MT19937 defines.
            word = (1812433253 * (word ^ (word >> 30)) + position) & 0xFFFFFFFF
        # Its own seeding is replaced by `restore`, because Python derives another state from a number.
        self._generator = random.Random()
        self.restore([*words, _WORDS])

    def word(self) -> int:
        """Return the next 32-bit word."""
        return self._generator.getrandbits(32)

    def unit(self) -> float:
        """Return a number from 0 (inclusive) to 1 (exclusive), made of two words."""
        # 27 and 26 bits, which together fill the 53 bits of a float: (a * 2**26 + b) / 2**53.
        return ((self.word() >> 5) * 67108864 + (self.word() >> 6)) / 9007199254740992

    def integer(self, largest: int) -> int:
        """Return a uniformly distributed integer from 0 to `largest`, both inclusive.

        `largest` 0 consumes no random word.
        """
        # Masked to the smallest power of two, like NumPy's legacy generator, so that the same words give the same
        # number.
        mask = (1 << largest.bit_length()) - 1
        count = (largest.bit_length() + 31) // 32
        while largest > 0:  # rejection sampling, so that all values are equally likely
            drawn = 0
            for _ in range(count):
                drawn = drawn << 32 | self.word()
            if drawn & mask <= largest:
                return drawn & mask
        return 0

    def uuid(self) -> str:
        """Return a version-4 UUID, made of four words."""
        # Byte order and number of words as in Determined, so that request ids of a seed are the same.
        drawn = b"".join(self.word().to_bytes(4, "little") for _ in range(4))
        return str(uuid.UUID(bytes=drawn, version=4))

    def state(self) -> list[int]:
        return list(self._generator.getstate()[1])

    def restore(self, state: list[int]) -> None:
        """Continue with a state that `state` returned."""
        # Version 3 is the format of the state since Python 3.2; None: no cached Gaussian number.
        self._generator.setstate((3, tuple(state), None))
