//! An authority and the account with it (RFC 8555 section 7.3), which is created once and stored.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AccountCredentials, CertificateIdentifier, Error, ExternalAccountKey, NewAccount,
};
use rustls::pki_types::Der;
use serde::{Deserialize, Serialize};

use super::http::{Http, RetryAfter, reason};
use super::storage::Storage;
use crate::config;
use crate::tls::CertificateId;

/// An account as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredAccount {
    #[serde(flatten)]
    credentials: AccountCredentials,
    /// The address that the authority has; `None`: it has none, or an earlier version has stored
    /// it.
    #[serde(default)]
    email: Option<String>,
    /// Key identifier of its external account, empty without one; `None`: an earlier version has
    /// stored it.
    #[serde(default)]
    binding: Option<String>,
}

pub(super) struct Authority {
    pub(super) directory: String,
    /// The profile of certificates; `None`: the authority chooses.
    pub(super) profile: Option<String>,
    email: Option<String>,
    binding: Option<(String, Vec<u8>)>,
    http: Http,
    retry_after: RetryAfter,
    /// Dropped after a failed attempt, so that the next one reads everything again.
    account: Option<Account>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads the files that the configuration names.
    ///
    /// # Errors
    /// The unusable file and the reason.
    pub(super) fn load(
        authority: &config::Authority,
        acme: &config::Acme,
    ) -> io::Result<Authority> {
        let (http, retry_after) = Http::new(authority.root.as_deref()).map_err(io::Error::other)?;
        let binding = authority.eab_id.clone().zip(authority.eab_key.as_deref());
        let binding = binding.map(|(id, file)| {
            let key = binding_key(file);
            let key = key.map_err(|e| format!("{}: {e}", file.display()));
            io::Result::Ok((id, key.map_err(io::Error::other)?))
        });
        Ok(Authority {
            directory: authority.directory.clone(),
            profile: authority.profile.clone(),
            email: acme.email.clone(),
            binding: binding.transpose()?,
            http,
            retry_after,
            account: None,
        })
    }

    /// A copy with a `Retry-After` of its own.
    pub(super) fn copy(&self) -> Authority {
        let (http, retry_after) = self.http.copy();
        Authority {
            directory: self.directory.clone(),
            profile: self.profile.clone(),
            email: self.email.clone(),
            binding: self.binding.clone(),
            http,
            retry_after,
            // An account sends requests by the client it was made with.
            account: None,
        }
    }

    /// Takes the `Retry-After` of the last refused request, in seconds since 1970; 0 without one.
    pub(super) fn take_retry_after(&self) -> u64 {
        self.retry_after.take()
    }

    /// Reads or creates the account.
    pub(super) async fn account(&mut self, storage: &Storage) -> Result<Account, String> {
        if let Some(account) = self.stored(storage).await? {
            return Ok(account);
        }
        // Another order may be creating one.
        let _lock = storage.lock_accounts().await.map_err(|e| e.to_string())?;
        if let Some(account) = self.stored(storage).await? {
            return Ok(account);
        }
        let contact = self.contact();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            // The configuration requires `accept_terms`.
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let binding = self.binding.as_ref();
        let binding = binding.map(|(id, key)| ExternalAccountKey::new(id.clone(), key));
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let created = builder.create(&new, self.directory.clone(), binding.as_ref()).await;
        let (account, credentials) = created.map_err(|e| format!("no account: {}", reason(&e)))?;
        let (email, binding) = (self.email.clone(), Some(self.binding_id().to_owned()));
        let stored = StoredAccount { credentials, email, binding };
        let written = storage.write_account(&self.directory, &stored);
        written.map_err(|e| e.to_string())?;
        self.account = Some(account.clone());
        Ok(account)
    }

    /// Reads the account; `None` if there is none.
    async fn stored(&mut self, storage: &Storage) -> Result<Option<Account>, String> {
        if self.account.is_none() {
            let stored: Option<StoredAccount> =
                storage.account(&self.directory).map_err(|e| e.to_string())?;
            // One of another external account is replaced.
            let is_own = |stored: &StoredAccount| {
                stored.binding.as_ref().is_none_or(|binding| binding == self.binding_id())
            };
            let stored = stored.filter(is_own);
            let Some(StoredAccount { credentials, email, .. }) = stored else { return Ok(None) };
            let builder = Account::builder_with_http(Box::new(self.http.clone()));
            let account = match builder.from_credentials(credentials).await {
                Ok(account) => account,
                Err(e @ (Error::Crypto | Error::KeyRejected)) => {
                    let shown = storage.account_path(&self.directory);
                    tracing::warn!("{}: {e}; a new account is made", shown.display());
                    return Ok(None);
                }
                Err(e) => return Err(reason(&e)),
            };
            if email != self.email {
                self.change_contact(&account, storage).await;
            }
            self.account = Some(account);
        }
        Ok(self.account.clone())
    }

    /// Tells the authority the address of the configuration, in place of the one that it has (RFC
    /// 8555 section 7.3.2). If this fails, certificates are ordered all the same, and the next
    /// start repeats it.
    async fn change_contact(&self, account: &Account, storage: &Storage) {
        let contact = self.contact();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let changed = account.update_contacts(&contact).await.map_err(|e| reason(&e));
        let written = changed.and_then(|()| {
            let stored: Option<StoredAccount> =
                storage.account(&self.directory).map_err(|e| e.to_string())?;
            let Some(stored) = stored else { return Ok(()) };
            let stored = StoredAccount { email: self.email.clone(), ..stored };
            storage.write_account(&self.directory, &stored).map_err(|e| e.to_string())
        });
        let email = self.email.as_deref().unwrap_or("none");
        match written {
            Ok(()) => tracing::info!("{}: the account's address is {email} now", self.directory),
            Err(why) => tracing::warn!("{}: the account keeps its address: {why}", self.directory),
        }
    }

    /// The key identifier of the external account; empty without one.
    fn binding_id(&self) -> &str {
        self.binding.as_ref().map_or("", |(id, _)| id)
    }

    fn contact(&self) -> Vec<String> {
        self.email.iter().map(|email| format!("mailto:{email}")).collect()
    }

    /// Drops the account, so that the next use reads it and the authority's directory again.
    pub(super) fn close(&mut self) {
        self.account = None;
    }

    /// Removes an account that the authority does not know.
    pub(super) fn forget(&mut self, storage: &Storage) {
        self.close();
        // If this fails, the next attempt repeats it.
        let _ = storage.remove_account(&self.directory);
    }

    /// Fetches the renewal window of a certificate (start and end, in seconds since 1970), and in
    /// how many seconds to fetch it again (RFC 9773 section 4).
    pub(super) async fn renewal(
        &mut self,
        id: &CertificateId,
        storage: &Storage,
    ) -> Result<((u64, u64), u64), String> {
        let account = self.stored(storage).await?.ok_or("there is no account with it")?;
        let (info, in_time) =
            account.renewal_info(&identifier(id)).await.map_err(|e| reason(&e))?;
        let window = info.suggested_window;
        let secs = |at: i64| u64::try_from(at).unwrap_or_default();
        let window = (secs(window.start.unix_timestamp()), secs(window.end.unix_timestamp()));
        Ok((window, in_time.as_secs()))
    }
}

/// The certificate's identifier (RFC 9773 section 4.1).
pub(super) fn identifier(id: &CertificateId) -> CertificateIdentifier<'static> {
    let (issuer_key, serial) = (Der::from_slice(&id.issuer_key), Der::from_slice(&id.serial));
    CertificateIdentifier::new(issuer_key, serial).into_owned()
}

fn binding_key(path: &Path) -> Result<Vec<u8>, String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let key = BASE64_URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
    key.map_err(|e| format!("{e}; it must contain the key in base64url, as the authority gives it"))
}
