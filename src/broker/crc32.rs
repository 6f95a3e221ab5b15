//! CRC-32 (IEEE) of short keys.
//!
//! A vectorised checksum pays off from a hundred bytes on; below that it goes byte by byte, and each byte waits for the
//! one before. Keys are short. Eight tables take eight bytes in one step, with loads that do not wait for each other.
#![forbid(unsafe_code)]

/// From here on the vectorised one is faster.
const LONG: usize = 64;

const POLYNOMIAL: u32 = 0xedb8_8320;

/// `TABLES[n][b]`: what a byte `b` becomes when `n` more bytes have passed.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut passed = 1;
    while passed < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[passed - 1][byte];
            tables[passed][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        passed += 1;
    }
    tables
}

/// The checksum of `key`.
#[inline]
pub(super) fn crc32(key: &[u8]) -> u32 {
    if key.len() < LONG { short(key) } else { crc32fast::hash(key) }
}

#[inline]
fn short(key: &[u8]) -> u32 {
    let mut crc = !0;
    let words = key.chunks_exact(8);
    let rest = words.remainder();
    for word in words {
        crc = step(u64::from_le_bytes(word.try_into().unwrap_or_default()) ^ u64::from(crc));
    }
    for byte in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    !crc
}

#[inline(always)]
fn step(word: u64) -> u32 {
    let of = |n: usize| TABLES[7 - n][(word >> (8 * n)) as usize & 0xff];
    (of(0) ^ of(1)) ^ (of(2) ^ of(3)) ^ ((of(4) ^ of(5)) ^ (of(6) ^ of(7)))
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{LONG, crc32, short};

    #[test]
    fn it_is_the_same_checksum_at_every_length_and_for_every_byte() {
        let mut state = 7_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for len in 0..=3 * LONG {
            let key: Vec<u8> = (0..len).map(|_| next()).collect();
            assert_eq!(crc32(&key), crc32fast::hash(&key), "length {len}");
            assert_eq!(short(&key), crc32fast::hash(&key), "length {len}");
        }
        for at in 0..8 {
            for byte in 0..=255 {
                let mut key = [0; 8];
                key[at] = byte;
                assert_eq!(short(&key), crc32fast::hash(&key), "byte {byte} at {at}");
            }
        }
    }
}
