"""The random numbers of a search: the classic Mersenne Twister, word for word as Determined has always drawn them.

Seeded as NumPy's legacy `RandomState(seed)`. Python's own `random` has the same generator but seeds it differently, so
its state is set by hand; NumPy itself is not needed.
"""

from __future__ import annotations

import random
import uuid

_WORDS = 624


class RandomStream:
    """One stream of 32-bit words, and what is drawn from them. Its state is a list of 625 whole numbers."""

    def __init__(self, seed: int) -> None:
        word = seed & 0xFFFFFFFF
        words = []
        for position in range(1, _WORDS + 1):
            words.append(word)
            word = (1812433253 * (word ^ (word >> 30)) + position) & 0xFFFFFFFF
        self._generator = random.Random()
        self.restore([*words, _WORDS])

    def word(self) -> int:
        return self._generator.getrandbits(32)

    def unit(self) -> float:
        """A number from 0 (included) to 1 (excluded), made of two words."""
        return ((self.word() >> 5) * 67108864 + (self.word() >> 6)) / 9007199254740992

    def integer(self, largest: int) -> int:
        """A whole number from 0 to `largest`, both included; 0 draws nothing."""
        mask = (1 << largest.bit_length()) - 1
        count = (largest.bit_length() + 31) // 32
        while largest > 0:
            drawn = 0
            for _ in range(count):
                drawn = drawn << 32 | self.word()
            if drawn & mask <= largest:
                return drawn & mask
        return 0

    def uuid(self) -> str:
        """A version-4 UUID, made of four words."""
        drawn = b"".join(self.word().to_bytes(4, "little") for _ in range(4))
        return str(uuid.UUID(bytes=drawn, version=4))

    def state(self) -> list[int]:
        return list(self._generator.getstate()[1])

    def restore(self, state: list[int]) -> None:
        self._generator.setstate((3, tuple(state), None))
