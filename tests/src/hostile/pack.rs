//! The packing of traces and saved caches, undone and done again: so that changed contents have a correct checksum.

use xxhash_rust::xxh3::xxh3_64;

/// Magic and version, then the checksum.
const TRACE_HEAD: usize = 14;
const TRACE_BODY: usize = TRACE_HEAD + 32;
const CACHE_HEAD: usize = 12;
const CACHE_BODY: usize = CACHE_HEAD + 8;

fn unpacked(body: &[u8]) -> Vec<u8> {
    zstd::decode_all(body).expect("a real file is packed properly")
}

fn packed(plain: &[u8]) -> Vec<u8> {
    zstd::encode_all(plain, 1).expect("bytes can be packed")
}

/// What a trace file holds.
pub fn trace_content(file: &[u8]) -> Vec<u8> {
    unpacked(&file[TRACE_BODY..])
}

/// A trace file that holds this, whatever it is.
pub fn trace(plain: &[u8]) -> Vec<u8> {
    trace_of_body(&packed(plain))
}

/// A trace file with this body.
pub fn trace_of_body(body: &[u8]) -> Vec<u8> {
    let mut file = b"TRACEFORK\n".to_vec();
    file.extend(trace::format::VERSION.to_le_bytes());
    file.extend(blake3::hash(body).as_bytes());
    file.extend(body);
    file
}

/// What a saved cache holds.
pub fn cache_content(file: &[u8]) -> Vec<u8> {
    unpacked(&file[CACHE_BODY..])
}

/// A saved cache that holds this, whatever it is.
pub fn cache(plain: &[u8]) -> Vec<u8> {
    cache_of_body(&packed(plain))
}

/// A saved cache with this body.
pub fn cache_of_body(body: &[u8]) -> Vec<u8> {
    let mut file = b"TFPEERS\0".to_vec();
    file.extend(peers::store::VERSION.to_le_bytes());
    file.extend(xxh3_64(body).to_le_bytes());
    file.extend(body);
    file
}
