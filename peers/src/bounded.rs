//! Files from strangers: how much of them is read, unpacked and built in memory is bounded before it happens.
//!
//! A few bytes can unpack to gigabytes, a sparse file claims any size, and a list of empty texts takes 24 times as much memory as it takes in its
//! file. So each of the three has its limit: [`read_bounded`], [`unpack`], and [`vec()`] within [`within`].

use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::marker::PhantomData;
use std::path::Path;

/// Of a trace or a saved cache, as it is in its file.
pub const LARGEST_FILE: u64 = 256 << 20;
/// Of its contents, unpacked.
pub const LARGEST_CONTENT: usize = 256 << 20;
/// Of the lists that are made of it.
const LARGEST_DECODED: usize = 1 << 30;

/// Reads a file that must not be larger than `limit`.
///
/// # Errors
/// It is larger, or cannot be read.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    if found.is_file() && found.len() > limit {
        return Err(too_large(limit));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes),
    }
}

/// Like [`read_bounded`], for text.
///
/// # Errors
/// It is larger, cannot be read, or is not UTF-8.
pub fn read_text_bounded(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_bounded(path, limit)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not text in UTF-8"))
}

fn too_large(limit: u64) -> io::Error {
    let limit = match limit >> 20 {
        0 => format!("{} KiB", limit >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    };
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("it is larger than {limit}, which is the limit for such files"),
    )
}

/// Unpacks what zstd has packed, to at most [`LARGEST_CONTENT`].
///
/// # Errors
/// It is damaged, or there is more in it.
pub fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    let decoder = zstd::stream::Decoder::new(packed)?;
    decoder.take(LARGEST_CONTENT as u64 + 1).read_to_end(&mut plain)?;
    if plain.len() > LARGEST_CONTENT {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it unpacks to more than {} MiB", LARGEST_CONTENT >> 20),
        ));
    }
    Ok(plain)
}

thread_local! {
    /// What [`vec()`] may still build, in bytes.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Decodes with a limit to what is built in memory.
pub fn within<T>(decode: impl FnOnce() -> T) -> T {
    let before = LEFT.replace(LARGEST_DECODED);
    let decoded = decode();
    LEFT.set(before);
    decoded
}

/// A list whose elements count towards the limit of [`within`]; for `#[serde(deserialize_with)]`.
///
/// # Errors
/// The list is damaged, or the limit is reached.
pub fn vec<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_seq(Elements(PhantomData))
}

struct Elements<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            // Twice: a vector that grows is there twice for a moment.
            let left = LEFT.get().checked_sub(2 * size_of::<T>());
            LEFT.set(left.ok_or_else(|| A::Error::custom("more elements than any real file has"))?);
            elements.push(element);
        }
        elements.shrink_to_fit();
        Ok(elements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;

    #[test]
    fn a_sparse_file_is_refused_before_it_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sparse");
        File::create(&path)
            .and_then(|file| file.set_len(8 << 30))
            .expect("it is made");
        let error = read_bounded(&path, 1 << 20).expect_err("it is too large");
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
        let endless = read_bounded(Path::new("/dev/zero"), 1 << 16).expect_err("it never ends");
        assert!(endless.to_string().contains("64 KiB"), "{endless}");
    }

    #[test]
    fn a_bomb_does_not_go_off() {
        let mut packed = Vec::new();
        let mut encoder = zstd::stream::Encoder::new(&mut packed, 3).expect("an encoder");
        io::copy(&mut io::repeat(0).take(LARGEST_CONTENT as u64 + 1), &mut encoder).expect("it is packed");
        encoder.finish().expect("it is packed");
        assert!(packed.len() < 1 << 20);
        assert!(unpack(&packed).is_err());
    }

    #[test]
    fn empty_elements_take_room_too() {
        #[derive(Serialize, serde::Deserialize)]
        struct Texts(#[serde(deserialize_with = "vec")] Vec<String>);
        let of = |count| postcard::to_stdvec(&Texts(vec![String::new(); count])).expect("it is encoded");
        let decode =
            |bytes: &[u8]| within(|| postcard::from_bytes::<Texts>(bytes).map(|texts| texts.0.len()));
        assert_eq!(decode(&of(1000)), Ok(1000));
        assert!(decode(&of(LARGEST_DECODED / 48 + 1)).is_err());
    }
}
