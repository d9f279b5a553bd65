//! `penstock-api webhook secret|default`. A secret is printed once, alone, so that a script can take it.

use anyhow::Context;
use clap::Subcommand;
use penstock_config::Webhook;
use penstock_store::{NewWebhook, Store};
use penstock_webhook::{Target, signature};

use super::print;
use crate::webhook::EndEvent;

/// What to do with webhooks.
#[derive(Debug, Subcommand)]
pub(super) enum WebhookCommand {
    /// Give a tenant a new signing secret and print it. The one before signs as well for webhook.secret_overlap_ms.
    Secret {
        /// Its name.
        tenant: String,
    },
    /// Set where a tenant's ends are told unless a request says otherwise; without a URL, nowhere.
    Default {
        /// Its name.
        tenant: String,
        /// An absolute URL.
        #[arg(long)]
        url: Option<String>,
        /// The ends that are told.
        #[arg(long, value_delimiter = ',', default_value = "succeeded,failed,cancelled,expired")]
        events: Vec<EndEvent>,
    },
}

/// Runs the command.
pub(super) async fn run(store: &Store, settings: &Webhook, command: WebhookCommand) -> anyhow::Result<()> {
    match command {
        WebhookCommand::Secret { tenant } => {
            let mut secret = [0; 32];
            getrandom::fill(&mut secret).context("the system has no random numbers")?;
            let overlap_ms = u64::try_from(settings.secret_overlap.as_millis())?;
            store.rotate_webhook_secret(&tenant, &secret, overlap_ms).await?;
            print::line(&signature::shown(&secret))
        }
        WebhookCommand::Default { tenant, url, events } => {
            let webhook = match url {
                Some(url) => {
                    let target = Target::parse(&url)?;
                    target.judge(settings)?;
                    Some(NewWebhook { url: target.as_str().to_owned(), events: EndEvent::list(&events) })
                }
                None => None,
            };
            Ok(store.set_webhook_default(&tenant, webhook.as_ref()).await?)
        }
    }
}
