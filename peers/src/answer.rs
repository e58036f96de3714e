//! What a peer says between two things that it is told.
//!
//! An answer is kept per channel, not as one sequence: two connections of one process are two streams, and no one can
//! observe in which order bytes were put on different streams. Kept so, an answer has one canonical form, and "the peer said
//! the same again" is plain equality.

use crate::sorted::Sorted;
use serde::{Deserialize, Serialize};

/// A connection within one peer instance, numbered in the order in which the connections came to be. A server connection has only channel 0.
pub type Channel = u16;

/// Behind the name of an address of IPv6, where the peer has come by IPv4.
pub const BY_IPV4: &str = " by IPv4";

/// How the stream from the peer ends, if it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StreamEnd {
    /// The peer may still say something.
    #[default]
    Open,
    /// The peer has closed its side.
    Eof,
    /// The peer has reset the connection.
    Reset,
    /// The peer has closed the connection altogether: what is said to it reaches nobody, and who says it is told so at once. Unix sockets only.
    Closed,
}

/// What was said on one channel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Speech {
    /// The channel came to be here: the peer connected to the SUT's listening address of this name, with [`BY_IPV4`] behind it where that is no matter of course.
    pub opened: Option<String>,
    /// Stream data.
    pub bytes: Vec<u8>,
    /// Datagrams, each whole.
    #[serde(deserialize_with = "crate::bounded::vec")]
    pub datagrams: Vec<Vec<u8>>,
    /// The stream ended, after the bytes.
    pub end: StreamEnd,
    /// After so many bytes the peer paused before it said more: whoever reads may be given those that came before alone.
    #[serde(deserialize_with = "crate::bounded::vec")]
    pub pauses: Vec<u64>,
}

/// A peer that says the same need not pause for as long that it is noticed.
impl PartialEq for Speech {
    fn eq(&self, other: &Speech) -> bool {
        (&self.opened, &self.bytes, &self.datagrams, self.end)
            == (&other.opened, &other.bytes, &other.datagrams, other.end)
    }
}

impl Eq for Speech {}

impl Speech {
    /// How many units there are to read: bytes of a stream, or datagrams.
    #[must_use]
    pub fn units(&self) -> u64 {
        (self.bytes.len() + self.datagrams.len()) as u64
    }

    fn is_empty(&self) -> bool {
        self.opened.is_none() && self.units() == 0 && self.end == StreamEnd::Open
    }

    fn strip_prefix(&self, prefix: &Speech) -> Option<Speech> {
        let opened = match (&self.opened, &prefix.opened) {
            (a, Some(b)) if a.as_ref() == Some(b) => None,
            (a, None) => a.clone(),
            _ => return None,
        };
        let end = match (self.end, prefix.end) {
            (end, StreamEnd::Open) => end,
            // A stream that had ended says nothing more, so all of it must be in the prefix.
            (a, b) if a == b && self.units() == prefix.units() => StreamEnd::Open,
            // But it may come out only later that nobody is there any more.
            (end @ (StreamEnd::Reset | StreamEnd::Closed), StreamEnd::Eof)
                if self.units() == prefix.units() =>
            {
                end
            }
            _ => return None,
        };
        let said = prefix.bytes.len() as u64;
        let pauses = self.pauses.iter().filter(|&&pause| pause > said);
        Some(Speech {
            opened,
            bytes: self.bytes.strip_prefix(prefix.bytes.as_slice())?.to_vec(),
            datagrams: self.datagrams.strip_prefix(prefix.datagrams.as_slice())?.to_vec(),
            end,
            pauses: pauses.map(|pause| pause - said).collect(),
        })
    }
}

/// What a peer instance said, on all its channels, between two polls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    channels: Sorted<Channel, Speech>,
    /// The process ended with this status (negative: killed by that signal).
    pub exit: Option<i32>,
}

impl Answer {
    /// The answer that consists of these bytes on channel 0.
    #[must_use]
    pub fn data(bytes: &[u8]) -> Answer {
        let mut answer = Answer::default();
        answer.push_bytes(0, bytes);
        answer
    }

    /// Nothing was said at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.exit.is_none() && self.channels.values().all(Speech::is_empty)
    }

    /// What was said on each channel that said anything.
    pub fn speeches(&self) -> impl Iterator<Item = (Channel, &Speech)> {
        self.channels
            .iter()
            .map(|(channel, speech)| (*channel, speech))
            .filter(|(_, speech)| !speech.is_empty())
    }

    /// Every channel once, in order: what comes from a file need not be so.
    pub(crate) fn is_sorted(&self) -> bool {
        self.channels.is_sorted()
    }

    /// What was said on `channel`.
    #[must_use]
    pub fn speech(&self, channel: Channel) -> Option<&Speech> {
        self.channels.get(channel)
    }

    /// Bytes and datagrams of all channels together.
    #[must_use]
    pub fn size(&self) -> usize {
        self.channels
            .values()
            .map(|s| s.bytes.len() + s.datagrams.iter().map(Vec::len).sum::<usize>())
            .sum()
    }

    fn entry(&mut self, channel: Channel) -> &mut Speech {
        self.channels.entry(channel)
    }

    /// The peer connected to the SUT's address `listener`.
    pub fn push_open(&mut self, channel: Channel, listener: String) {
        self.entry(channel).opened = Some(listener);
    }

    /// Stream data arrived.
    pub fn push_bytes(&mut self, channel: Channel, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.entry(channel).bytes.extend_from_slice(bytes);
        }
    }

    /// How many bytes were said so far, by channel.
    pub(crate) fn lengths(&self) -> Vec<(Channel, u64)> {
        let lengths = self
            .channels
            .iter()
            .map(|(channel, speech)| (*channel, speech.bytes.len() as u64));
        lengths.collect()
    }

    /// The peer paused when it had said as much: that is put down where it has said more since. True if it has.
    pub(crate) fn paused_at(&mut self, lengths: &[(Channel, u64)]) -> bool {
        let mut has_gone_on = false;
        for &(channel, length) in lengths {
            let speech = self.entry(channel);
            if length > 0 && speech.bytes.len() as u64 > length {
                speech.pauses.push(length);
                has_gone_on = true;
            }
        }
        has_gone_on
    }

    /// One datagram arrived (it may be empty).
    pub fn push_datagram(&mut self, channel: Channel, bytes: Vec<u8>) {
        self.entry(channel).datagrams.push(bytes);
    }

    /// The stream ended.
    pub fn push_end(&mut self, channel: Channel, end: StreamEnd) {
        if end != StreamEnd::Open {
            self.entry(channel).end = end;
        }
    }

    /// Adds what was said afterwards.
    pub fn append(&mut self, later: Answer) {
        for (channel, speech) in later.channels {
            let own = self.entry(channel);
            own.opened = own.opened.take().or(speech.opened);
            let said = own.bytes.len() as u64;
            own.pauses
                .extend((said > 0 && !speech.bytes.is_empty()).then_some(said));
            own.pauses.extend(speech.pauses.iter().map(|pause| said + pause));
            own.bytes.extend(speech.bytes);
            own.datagrams.extend(speech.datagrams);
            if speech.end != StreamEnd::Open {
                own.end = speech.end;
            }
        }
        self.exit = self.exit.or(later.exit);
    }

    /// What remains of this answer if its beginning was `prefix`; `None` if it does not begin so.
    #[must_use]
    pub fn strip_prefix(&self, prefix: &Answer) -> Option<Answer> {
        let exit = match (self.exit, prefix.exit) {
            (exit, None) => exit,
            (a, b) if a == b => None,
            _ => return None,
        };
        let mut rest = self.clone();
        rest.exit = exit;
        for (channel, said) in prefix.channels.iter() {
            let own = rest.entry(*channel);
            *own = own.strip_prefix(said)?;
        }
        rest.channels.retain(|speech| !speech.is_empty());
        Some(rest)
    }

    /// Equal in what they say, whatever empty entries they hold.
    #[must_use]
    pub fn same_as(&self, other: &Answer) -> bool {
        self.exit == other.exit && self.speeches().eq(other.speeches())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_can_be_taken_off_and_put_back() {
        let mut whole = Answer::data(b"hello world");
        whole.push_end(0, StreamEnd::Eof);
        let head = Answer::data(b"hello ");
        let rest = whole.strip_prefix(&head).expect("is a prefix");
        assert_eq!(rest.speech(0).expect("channel").bytes, b"world");
        let mut again = head;
        again.append(rest);
        assert!(again.same_as(&whole));
        assert!(whole.strip_prefix(&Answer::data(b"help")).is_none());
    }

    #[test]
    fn nothing_follows_the_end_of_a_stream() {
        let mut ended = Answer::data(b"a");
        ended.push_end(0, StreamEnd::Eof);
        assert!(Answer::data(b"ab").strip_prefix(&ended).is_none());
        assert!(ended.strip_prefix(&ended).expect("equal").is_empty());
    }
}
