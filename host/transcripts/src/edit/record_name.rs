//! Names for the records of a summary.

/// Returns a UUID derived from the replaced record. It is unique, and the same input gives the same name.
pub(super) fn name(record: &[u8], number: usize, half: u8) -> String {
    let hash = |seed: u64| {
        let bytes = record.iter().copied().chain(number.to_le_bytes()).chain([half]);
        bytes.fold(0xcbf2_9ce4_8422_2325 ^ seed, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    };
    let (high, low) = (hash(0), hash(0x9e37_79b9_7f4a_7c15));
    let (version, variant) = (0x8000 | (high & 0x0fff), 0x8000 | ((low >> 48) & 0x3fff));
    format!(
        "{:08x}-{:04x}-{version:04x}-{variant:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        low & 0xffff_ffff_ffff
    )
}
