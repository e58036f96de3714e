//! The trace file.
//!
//! ```text
//! offset  size  what
//! 0       10    "TRACEFORK\n"
//! 10      4     format version, little-endian
//! 14      32    BLAKE3 of everything that follows
//! 46      …     zstd of the postcard encodings of `Trace` and, behind it, `Traffic`
//! ```
//! The traffic may be missing, and who does not know it need not look at it: so it needed no new version.
//! Fields are only ever added at the end of a structure, with a new version.

use super::{Trace, Traffic};
use failure::{ExitCode, Failure};
use peers::bounded;
use std::path::Path;

const MAGIC: &[u8; 10] = b"TRACEFORK\n";
/// Of the format.
pub const VERSION: u32 = 8;
const BODY: usize = MAGIC.len() + 4 + 32;
/// Zstandard at its default level: traces are small and repetitive.
const LEVEL: i32 = 3;
const ORIGIN: &str = "traces are written by run --trace and by check";

pub fn encode(trace: &Trace) -> Result<Vec<u8>, Failure> {
    let fail = |e: postcard::Error| Failure::internal(format!("trace cannot be encoded: {e}"));
    let mut plain = postcard::to_stdvec(trace).map_err(fail)?;
    if !trace.traffic.is_empty() {
        plain.extend(postcard::to_stdvec(&trace.traffic).map_err(fail)?);
    }
    if plain.len() > bounded::LARGEST_CONTENT {
        let limit = bounded::LARGEST_CONTENT >> 20;
        return Err(Failure::unsupported(format!(
            "the trace is larger than {limit} MiB, which is the limit"
        ))
        .hint("shorter executions, --max-depth, or less input give smaller traces"));
    }
    let body = zstd::bulk::compress(&plain, LEVEL)
        .map_err(|e| Failure::internal(format!("trace cannot be compressed: {e}")))?;
    let mut file = Vec::with_capacity(BODY + body.len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(blake3::hash(&body).as_bytes());
    file.extend_from_slice(&body);
    Ok(file)
}

pub fn decode(file: &[u8]) -> Result<Trace, Failure> {
    let bad = |what: &str| Failure::usage(format!("not a usable trace: {what}"));
    if !file.starts_with(MAGIC) || file.len() < BODY {
        return Err(bad("it does not begin as a trace file does").hint(ORIGIN));
    }
    let version = u32::from_le_bytes(file[10..14].try_into().map_err(|_| bad("too short"))?);
    if version != VERSION {
        return Err(bad(&format!(
            "format version {version}, this tracefork reads {VERSION}"
        ))
        .hint("use the tracefork that wrote it"));
    }
    let body = &file[BODY..];
    if blake3::hash(body).as_bytes() != &file[14..BODY] {
        return Err(bad("its checksum is wrong").hint("the file is damaged or cut short: copy it again"));
    }
    let plain = bounded::unpack(body).map_err(|e| bad(&e.to_string()))?;
    let decoded = bounded::within(|| {
        let (mut trace, rest) = postcard::take_from_bytes::<Trace>(&plain)?;
        if !rest.is_empty() {
            trace.traffic = postcard::from_bytes::<Traffic>(rest)?;
        }
        Ok::<Trace, postcard::Error>(trace)
    });
    let trace = decoded.map_err(|e| bad(&e.to_string()))?;
    trace.check().map_err(|what| bad(&what))?;
    Ok(trace)
}

/// Writes to a temporary name first, so that a trace is complete or not there.
pub fn write(path: &Path, trace: &Trace) -> Result<(), Failure> {
    let fail = |e: std::io::Error| {
        Failure::new(
            ExitCode::Usage,
            format!("cannot write trace {}: {e}", path.display()),
        )
        .hint("check that the directory exists and is writable")
    };
    peers::write_whole(path, &encode(trace)?).map_err(fail)
}

pub fn read(path: &Path) -> Result<Trace, Failure> {
    let file = bounded::read_bounded(path, bounded::LARGEST_FILE)
        .map_err(|e| Failure::usage(format!("cannot read trace {}: {e}", path.display())).hint(ORIGIN))?;
    decode(&file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_noticed() {
        let mut file = [
            &MAGIC[..],
            &VERSION.to_le_bytes(),
            blake3::hash(b"xx").as_bytes(),
            b"xx",
        ]
        .concat();
        file[50 - 4] ^= 1;
        assert!(decode(&file).unwrap_err().reason.contains("checksum"));
        assert!(decode(b"hello").unwrap_err().reason.contains("begin"));
        file[10] = 99;
        assert!(decode(&file).unwrap_err().reason.contains("version"));
    }
}
