//! The servers that we have launched: they come up, they are found by address, and if one dies that is noticed before anything is concluded from what its death looks like from outside.

use crate::address::Address;
use crate::allowed::{Allowed, is_here, same_name};
use crate::error::PeerError;
use crate::inspect::{Doing, Watch};
use crate::process::{Process, listening_inodes, socket_inodes};
use crate::spec::PeerSpec;
use crate::world::PeerWorld;
use std::collections::HashSet;
use std::fs::File;
use std::time::{Duration, Instant};

/// A server that we have launched.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) watch: Watch,
}

impl Server {
    /// The status it ended with, if it has ended, or is ending: the end of a process closes its sockets some time before it can be waited for. So as long as
    /// it does anything at all (up to `bound`) it is not known to live.
    fn ended(&mut self, bound: Duration) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.process.exit_status() {
                return Some(status);
            }
            let (doing, look) = self.watch.inspect();
            match doing {
                Doing::Gone => return self.process.wait_exit(),
                Doing::Working => {}
                Doing::Waiting | Doing::Sleeping if !self.watch.unmoved_since(&look) => {}
                Doing::Waiting | Doing::Sleeping | Doing::Opaque => return None,
            }
            if started.elapsed() > bound {
                return None;
            }
            self.process.wait_news(1);
        }
    }
}

impl PeerWorld {
    pub(crate) fn spawn(
        &mut self,
        spec: &PeerSpec,
        file: &str,
        env: &[(String, String)],
    ) -> Result<Process, PeerError> {
        self.counters.peer_starts += 1;
        let output = match &self.config.output_dir {
            Some(dir) => {
                let path = dir.join(format!("{file}-{}.out", self.counters.peer_starts));
                let made = File::options().create(true).read(true).append(true).open(&path);
                made.map_err(PeerError::io(format!("creating {}", path.display())))?
            }
            None => tempfile::tempfile().map_err(PeerError::io("a file for a peer's output"))?,
        };
        Process::spawn(&self.config.launcher, &spec.name, &spec.argv, env, output)
    }

    /// Starts a server and waits until it listens and has come to rest.
    pub(crate) fn start_server(&mut self, spec: &PeerSpec) -> Result<Server, PeerError> {
        let mut process = self.spawn(spec, &spec.name.clone(), &[])?;
        let mut watch = Watch::below_host(process.host_pid(), self.config.sleep_bound);
        let bounds = (self.config.start_bound, &self.config.time_budget);
        process.wait_until(bounds, "listened", |_| {
            let own = socket_inodes(&watch.pids());
            listening_inodes().iter().any(|(inode, _)| own.contains(inode))
        })?;
        process.wait_until(bounds, "come to rest", |_| {
            let (doing, look) = watch.inspect();
            matches!(doing, Doing::Waiting | Doing::Sleeping) && watch.unmoved_since(&look)
        })?;
        watch.learn_housekeeping();
        Ok(Server { process, watch })
    }

    /// The sockets that answer at an address.
    pub(crate) fn listening_at(&mut self, address: &Address) -> HashSet<u64> {
        let same = |bound: &Address| match (bound, address) {
            (Address::Tcp(a), Address::Tcp(b)) | (Address::Udp(a), Address::Udp(b)) => a.port() == b.port(),
            (Address::Unix(a), Address::Unix(b)) => same_name(a, b),
            _ => false,
        };
        let listed = listening_inodes().into_iter().filter(|(_, bound)| same(bound));
        let mut found: HashSet<u64> = listed.map(|(inode, _)| inode).collect();
        if let (Address::Tcp(address), Some(diag)) = (address, &mut self.ground.diag) {
            found.extend(diag.tcp_listener(*address).ok().flatten());
        }
        found
    }

    /// Whether the program may talk to who is at an address: a process that was started for it, whatever it listens on, or a service that was
    /// named. Where nobody is, there is nothing to forbid.
    ///
    /// # Errors
    /// It may not: for the program nobody is there.
    pub(crate) fn may_connect(&mut self, tree: usize, address: &Address) -> Result<(), PeerError> {
        let is_named = |allowed: &[Allowed]| allowed.iter().any(|allowed| allowed.covers(address));
        let is_known = matches!(self.servers.served_by.get(&tree), Some(Some(_)))
            || self.servers.serves_at.contains_key(address);
        if is_known || is_named(&self.config.allowed) {
            return Ok(());
        }
        let is_here = match address {
            Address::Tcp(to) | Address::Udp(to) => is_here(to.ip()),
            Address::Unix(_) => true,
        };
        if is_here {
            let mut bound = self.listening_at(address);
            if let (Address::Tcp(to), Some(diag)) = (address, &mut self.ground.diag)
                && let Ok(Some(inode)) = diag.tcp_listener(*to)
            {
                // The one that the kernel would choose, of all that have this port.
                bound = HashSet::from([inode]);
            }
            if bound.is_empty() || self.is_started_by_us(&bound) {
                return Ok(());
            }
        }
        self.servers.barred.insert(address.clone());
        let is_path = matches!(address, Address::Unix(name) if name.first() != Some(&0));
        Err(PeerError::NoWay {
            address: address.to_string(),
            errno: if is_path { libc::ENOENT } else { libc::ECONNREFUSED },
        })
    }

    /// Is one of these sockets held by a server or a client of ours?
    fn is_started_by_us(&self, sockets: &HashSet<u64>) -> bool {
        let servers = self.ground.servers.iter().map(|server| &server.watch);
        let clients = self
            .pool
            .physicals
            .values()
            .filter_map(|physical| physical.client.as_ref());
        let mut watches = servers.chain(clients.map(|(_, watch)| watch));
        watches.any(|watch| !socket_inodes(&watch.pids()).is_disjoint(sockets))
    }

    /// Which of our servers listens there. If none does, whoever does is watched, if possible.
    pub(crate) fn server_of(&mut self, tree: usize, address: &Address) -> Option<usize> {
        if let Some(&server) = self.servers.served_by.get(&tree) {
            return server;
        }
        // Who served the last connection there serves this one, too: to look through all its descriptors each time would take longer the more it has.
        if let Some(&server) = self.servers.serves_at.get(address)
            && !self.ground.servers[server].process.is_gone()
        {
            self.servers.served_by.insert(tree, Some(server));
            return Some(server);
        }
        let bound = self.listening_at(address);
        let server = self
            .ground
            .servers
            .iter()
            .position(|server| !socket_inodes(&server.watch.pids()).is_disjoint(&bound));
        if server.is_none() {
            let mut watch = if address.is_local() {
                Watch::serving(&bound, self.config.sleep_bound)
            } else {
                None
            };
            if let Some(watch) = &mut watch {
                watch.inspect();
                watch.learn_housekeeping();
            }
            self.ground.strangers.insert(tree, watch);
        }
        if let Some(server) = server {
            self.servers.serves_at.insert(address.clone(), server);
        }
        self.servers.served_by.insert(tree, server);
        server
    }

    /// Starts servers again that have done what they had to do; true if there were any.
    pub(crate) fn restart_ended_servers(&mut self) -> Result<bool, PeerError> {
        let mut any = false;
        for i in 0..self.ground.servers.len() {
            self.ensure_alive(i)?;
            if self.ground.servers[i].process.is_gone() {
                let spec = self.config.servers[i].clone();
                self.ground.servers[i] = self.start_server(&spec)?;
                any = true;
            }
        }
        if any {
            // Who was not there when it was looked for may be now.
            self.servers.served_by.retain(|_, server| server.is_some());
            self.servers.serves_at.clear();
        }
        Ok(any)
    }

    /// A server that ended with a failure is an error of its own, whatever the connection then looked like.
    pub(crate) fn check_alive(&mut self, server: usize) -> Result<(), PeerError> {
        let process = &mut self.ground.servers[server].process;
        match process.exit_status() {
            Some(status) if status != 0 => Err(PeerError::Died {
                name: process.name.clone(),
                status,
                last_output: process.last_output(),
            }),
            _ => Ok(()),
        }
    }

    /// The same when there is a sign that it may be dying: a connection that ended unasked, a connection that was refused.
    pub(crate) fn ensure_alive(&mut self, server: usize) -> Result<(), PeerError> {
        self.ground.servers[server].ended(self.config.hang_bound);
        self.check_alive(server)
    }
}
