//! Trees in a file: a saved cache is a stub for the peers it was recorded from.
//!
//! The file is `TFPEERS\0`, a version, the 64-bit xxh3 of the rest, and the rest: the trees in postcard, compressed by zstd.

use crate::address::Address;
use crate::bounded;
use crate::capacity::Capacity;
use crate::error::PeerError;
use crate::spec::Member;
use crate::tree::Tree;
use crate::whole_file::{can_write_whole, write_whole};
use crate::world::PeerWorld;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// What a tree belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TreeKey {
    /// The k-th connection to this destination.
    Server(Address, u32),
    /// The client launched as the k-th, with all its connections.
    Client(u32),
    /// The server process launched as the k-th, with all connections to it.
    Process(u32),
}

impl fmt::Display for TreeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeKey::Server(address, 0) => write!(f, "{address}"),
            TreeKey::Server(address, k) => write!(f, "{address}#{k}"),
            TreeKey::Client(k) => write!(f, "client#{k}"),
            TreeKey::Process(k) => write!(f, "server#{k}"),
        }
    }
}

const MAGIC: &[u8; 8] = b"TFPEERS\0";
/// The format that is written and read.
pub const VERSION: u32 = 5;
const HEADER: usize = 8 + 4 + 8;

#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(deserialize_with = "bounded::vec")]
    trees: Vec<(TreeKey, Tree)>,
    #[serde(deserialize_with = "bounded::vec")]
    chosen_ports: Vec<((Address, u32), Address)>,
}

impl PeerWorld {
    /// Writes all trees to a file, which is replaced as a whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), PeerError> {
        let bad = |reason: String| PeerError::CacheFile {
            path: path.to_path_buf(),
            reason,
        };
        let file = self.to_bytes().map_err(bad)?;
        write_whole(path, &file).map_err(|e| bad(e.to_string()))
    }

    /// Whether [`PeerWorld::save`] will find a place to write to: better known before hours of work than after them.
    ///
    /// # Errors
    /// It will not.
    pub fn can_save(path: &Path) -> Result<(), PeerError> {
        can_write_whole(path).map_err(|e| PeerError::CacheFile {
            path: path.to_path_buf(),
            reason: e.to_string(),
        })
    }

    /// All trees, as they are in a file.
    ///
    /// # Errors
    /// They cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let trees = self
            .trees()
            .map(|(key, tree)| (key.clone(), tree.clone()))
            .collect();
        let chosen_ports = self
            .chosen_ports
            .iter()
            .map(|(asked, got)| (asked.clone(), got.clone()))
            .collect();
        let mut plain = postcard::to_stdvec(&Saved { trees, chosen_ports }).map_err(|e| e.to_string())?;
        // Behind the rest, so that files without it can still be read.
        let capacities: Vec<(&Address, &Capacity)> = self.servers.capacities.iter().collect();
        if !self.clients.roster.is_empty() || !capacities.is_empty() {
            plain.extend(postcard::to_stdvec(&self.clients.roster).map_err(|e| e.to_string())?);
        }
        if !capacities.is_empty() {
            plain.extend(postcard::to_stdvec(&capacities).map_err(|e| e.to_string())?);
        }
        if plain.len() > bounded::LARGEST_CONTENT {
            return Err(format!(
                "what was said is more than {} MiB, which is the limit for such files",
                bounded::LARGEST_CONTENT >> 20
            ));
        }
        let packed = zstd::encode_all(plain.as_slice(), 3).map_err(|e| e.to_string())?;
        let mut file = Vec::with_capacity(HEADER + packed.len());
        file.extend(MAGIC);
        file.extend(VERSION.to_le_bytes());
        file.extend(xxh3_64(&packed).to_le_bytes());
        file.extend(packed);
        Ok(file)
    }

    /// Adds the trees of a file. Must come before the first connection.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or is of another version.
    pub fn load(&mut self, path: &Path) -> Result<(), PeerError> {
        let bad = |reason: String| PeerError::CacheFile {
            path: path.to_path_buf(),
            reason,
        };
        let file = bounded::read_bounded(path, bounded::LARGEST_FILE).map_err(|e| bad(e.to_string()))?;
        self.load_bytes(&file).map_err(bad)
    }

    /// Adds the trees of [`PeerWorld::to_bytes`]. Must come before the first connection.
    ///
    /// # Errors
    /// They are damaged, or of another version.
    pub fn load_bytes(&mut self, file: &[u8]) -> Result<(), String> {
        let bad = str::to_owned;
        let (Some(magic), Some(version), Some(sum), Some(packed)) = (
            file.get(..8),
            file.get(8..12),
            file.get(12..20),
            file.get(HEADER..),
        ) else {
            return Err(bad("it is too short"));
        };
        if magic != MAGIC {
            return Err(bad("it is not a saved cache"));
        }
        if version != VERSION.to_le_bytes() {
            return Err(bad("it was written by another version"));
        }
        if sum != xxh3_64(packed).to_le_bytes() {
            return Err(bad("its checksum is wrong: it is damaged"));
        }
        let plain = bounded::unpack(packed).map_err(|e| e.to_string())?;
        let saved = bounded::within(|| postcard::take_from_bytes::<Saved>(&plain));
        let (saved, rest) = saved.map_err(|e| e.to_string())?;
        if let Some((asked, got)) = saved.chosen_ports.iter().find(|((a, _), b)| !a.may_become(b)) {
            return Err(format!("it has {got} in place of {}", asked.0));
        }
        if !rest.is_empty() {
            self.load_more(rest)?;
        }
        for (key, mut tree) in saved.trees {
            tree.make_sound()?;
            self.trees.adopt(key, tree);
        }
        self.chosen_ports.extend(saved.chosen_ports);
        Ok(())
    }

    /// What stands behind the trees: the clients, and how many connections servers serve at a time.
    fn load_more(&mut self, rest: &[u8]) -> Result<(), String> {
        let roster = bounded::within(|| postcard::take_from_bytes::<Vec<Member>>(rest));
        let (roster, rest) = roster.map_err(|e| e.to_string())?;
        if !roster.iter().all(Member::is_sound) {
            return Err("a client in it comes after itself".to_owned());
        }
        if self.clients.roster.is_empty() {
            self.clients.roster = roster;
        }
        if !rest.is_empty() {
            let capacities = bounded::within(|| postcard::from_bytes::<Vec<(Address, Capacity)>>(rest));
            self.servers
                .capacities
                .extend(capacities.map_err(|e| e.to_string())?);
        }
        Ok(())
    }
}
