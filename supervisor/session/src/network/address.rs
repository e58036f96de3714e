//! The two vocabularies for addresses and connections: the model's and the peers'.

use peers::{Address, Channel, ConnKey};
use std::sync::Arc;
use syscall_model::net::{Endpoint, Key};

pub fn to_address(endpoint: &Endpoint) -> Address {
    match endpoint {
        Endpoint::Tcp(address) => Address::Tcp(*address),
        Endpoint::Udp(address) => Address::Udp(*address),
        Endpoint::Unix(name) => Address::Unix(name.clone()),
    }
}

pub fn endpoint(address: &Address) -> Endpoint {
    match address {
        Address::Tcp(address) => Endpoint::Tcp(*address),
        Address::Udp(address) => Endpoint::Udp(*address),
        Address::Unix(name) => Endpoint::Unix(name.clone()),
    }
}

pub fn to_key(key: &Key) -> ConnKey {
    match key {
        Key::Opened(to, nth) => ConnKey::Opened(Arc::new(to_address(to)), *nth),
        Key::Accepted(client, channel) => ConnKey::Accepted(*client, *channel as Channel),
    }
}
