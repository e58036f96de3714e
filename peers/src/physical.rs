//! A physical peer instance: something real that stands at one position of a tree. A connection to a server, or a launched client with all its connections.

use crate::answer::{Answer, BY_IPV4, Channel};
use crate::channel::Link;
use crate::inspect::Watch;
use crate::position::Segment;
use crate::process::Process;
use crate::tree::At;

/// Something real that has been told everything up to `at`, and nothing else.
#[derive(Debug)]
pub struct Physical {
    /// Which tree.
    pub tree: usize,
    /// Where it stands.
    pub at: At,
    /// Its connections, by channel.
    pub links: Vec<Link>,
    /// The process and the eyes on it, if it is a launched client.
    pub client: Option<(Process, Watch)>,
    /// Which server process answers, if we have launched it.
    pub server: Option<usize>,
    /// Heard, but not yet put down in the tree.
    pub heard: Answer,
    /// The process's end has been heard.
    pub ended: bool,
    /// When it was last waited for, the peer waited for something else: it has not read what it was told, or not even taken the connection.
    pub ignored: bool,
    /// What it had left unread when it was last waited for, by channel.
    pub unread: Vec<(Channel, u64)>,
    /// When it was last used, on the world's own clock.
    pub used: u64,
}

impl Physical {
    /// A new connection to a server, or a client just launched.
    #[must_use]
    pub fn new(
        tree: usize,
        links: Vec<Link>,
        client: Option<(Process, Watch)>,
        server: Option<usize>,
    ) -> Physical {
        Physical {
            tree,
            at: crate::tree::Tree::root(),
            links,
            client,
            server,
            heard: Answer::default(),
            ended: false,
            ignored: false,
            unread: Vec::new(),
            used: 0,
        }
    }

    /// Sends and receives what can be, without waiting; true if anything came in.
    pub fn pump(&mut self, limit: usize) -> bool {
        let mut any = false;
        for (channel, link) in self.links.iter_mut().enumerate() {
            any |= link.pump(channel as Channel, &mut self.heard, limit);
        }
        any
    }

    /// Adds a connection that the client has made.
    pub fn add_link(&mut self, link: Link, mut listener: String) {
        if link.is_mapped() {
            listener.push_str(BY_IPV4);
        }
        self.heard.push_open(self.links.len() as Channel, listener);
        self.links.push(link);
    }

    /// Takes in a datagram that the client has sent to the SUT: the first one from an address is a new channel.
    pub fn add_datagram(&mut self, link: Link, listener: String, datagram: Vec<u8>) {
        let known = |other: &Link| !other.is_stream() && other.addresses() == link.addresses();
        let channel = match self.links.iter().position(known) {
            Some(channel) => channel,
            None => {
                self.add_link(link, listener);
                self.links.len() - 1
            }
        };
        self.heard.push_datagram(channel as Channel, datagram);
    }

    /// Notes the end of the client's process; true if that is news. It is heard after everything that the process had to say.
    pub fn pump_exit(&mut self) -> bool {
        let Some((process, _)) = &mut self.client else {
            return false;
        };
        if self.ended || self.links.iter().any(|link| link.is_stream() && link.is_open()) {
            // Its connections outlive it in a child of its own, or their end is still on its way.
            return false;
        }
        let Some(status) = process.exit_status() else {
            return false;
        };
        self.heard.exit = Some(status);
        self.ended = true;
        true
    }

    /// Says something to the peer, for real.
    ///
    /// # Errors
    /// A datagram could not be sent.
    pub(crate) fn say(&mut self, channel: Channel, segment: &Segment, to: At) -> std::io::Result<()> {
        // A channel that the peer has not opened on this replay is a difference that the next check will show.
        if let Some(link) = self.links.get_mut(usize::from(channel)) {
            match segment {
                Segment::Bytes(bytes) => link.send(bytes),
                Segment::Datagram(bytes) => link.send_datagram(bytes)?,
                Segment::Fin => link.finish(),
                Segment::Reset => link.reset(),
                Segment::Close => {
                    // What has come until now was heard: with that unread it would be a reset.
                    link.pump(channel, &mut self.heard, usize::MAX);
                    link.close();
                }
                // Done by the world.
                Segment::From(_) | Segment::Open(_) => {}
            }
        }
        self.at = to;
        Ok(())
    }
}
