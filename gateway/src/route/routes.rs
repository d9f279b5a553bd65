//! Everything that settings decide about calls, built whole, so that one call sees one set of settings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::inspection::inspect;
use super::{Chain, Facts};
use crate::client::http_client;
use crate::error::BuildError;
use crate::exit::Exit;
use crate::hop::Hop;
use crate::settings::{self, CacheSettings, RetrySettings, Settings};

/// The routes of a gateway.
#[derive(Debug)]
pub(crate) struct Routes {
    pub(crate) chains: BTreeMap<String, Chain>,
    pub(crate) retry: RetrySettings,
    pub(crate) tenant_calls_max: usize,
    pub(crate) hedge_after: Duration,
    pub(crate) cache: CacheSettings,
    pub(crate) client: reqwest::Client,
    /// One per provider and model, however many chains name it: they share its gate and breakers.
    pub(crate) exits: HashMap<settings::Exit, Arc<Exit>>,
    client_settings: ClientSettings,
}

/// What an HTTP client is built from; another one only when it changes, since its connections go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClientSettings {
    connect: Duration,
    idle_connections_max: usize,
    has_tls: bool,
}

impl Routes {
    /// `held`: the routes before the settings changed.
    pub(crate) fn build(settings: &Settings, held: Option<&Self>) -> Result<Self, BuildError> {
        let mut exits = HashMap::<_, Arc<Exit>>::new();
        let mut chains = BTreeMap::new();
        for (name, hops) in &settings.chains {
            let mut chain = Vec::with_capacity(hops.len());
            for hop in hops {
                let exit = match exits.get(&hop.exit) {
                    Some(exit) => Arc::clone(exit),
                    None => {
                        let held = held.and_then(|held| held.exits.get(&hop.exit));
                        let exit = Arc::new(Exit::new(&hop.exit, settings, held.map(|exit| &**exit))?);
                        exits.insert(hop.exit.clone(), Arc::clone(&exit));
                        exit
                    }
                };
                chain.push(Hop::new(exit, hop.options.clone(), Facts::of(&hop.exit, settings)));
            }
            let chain = Chain::new(chain).ok_or_else(|| BuildError::EmptyChain { chain: name.clone() })?;
            inspect(name, &chain, hops, settings);
            chains.insert(name.clone(), chain);
        }
        let mut endpoints = exits.values().flat_map(|exit| &exit.endpoints);
        let client_settings = ClientSettings {
            connect: settings.timers.connect,
            idle_connections_max: settings.idle_connections_max,
            has_tls: endpoints.any(|endpoint| endpoint.url.scheme() == "https"),
        };
        let client = match held {
            Some(held) if held.client_settings == client_settings => held.client.clone(),
            _ => client_settings.client()?,
        };
        Ok(Self {
            chains,
            retry: settings.retry,
            tenant_calls_max: settings.tenant_calls_max,
            hedge_after: settings.hedge_after,
            cache: settings.cache,
            client,
            exits,
            client_settings,
        })
    }
}

impl ClientSettings {
    fn client(self) -> Result<reqwest::Client, reqwest::Error> {
        http_client(self.connect, self.idle_connections_max, self.has_tls)
    }
}
