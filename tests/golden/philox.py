"""psring's counter-based random numbers (base/rng.h) in numpy, to the same bits."""
import numpy as np

TEST = 6  # psr_rng_purpose


def words(seed, purpose, epoch, sample, layer, count):
    """The first count 32-bit words of the stream: psr_rng_word for element 0 .. count - 1."""
    blocks = (count + 3) // 4
    c0 = np.arange(blocks, dtype=np.uint32)
    c1 = np.full(blocks, sample, np.uint32)
    c2 = np.full(blocks, epoch, np.uint32)
    c3 = np.full(blocks, purpose << 24 | layer, np.uint32)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0 = c0.astype(np.uint64) * np.uint64(0xD2511F53)
        p1 = c2.astype(np.uint64) * np.uint64(0xCD9E8D57)
        c0 = (p1 >> np.uint64(32)).astype(np.uint32) ^ c1 ^ np.uint32(k0)
        c1 = p1.astype(np.uint32)
        c2 = (p0 >> np.uint64(32)).astype(np.uint32) ^ c3 ^ np.uint32(k1)
        c3 = p0.astype(np.uint32)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack((c0, c1, c2, c3), axis=1).reshape(-1)[:count]


def unit(word):
    """Uniform in [0, 1) with 24 bits: psr_rng_unit."""
    return (word >> np.uint32(8)).astype(np.float32) * np.float32(2.0 ** -24)
