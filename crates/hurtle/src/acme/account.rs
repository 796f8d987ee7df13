//! An authority, and the account with it: made once, and kept (RFC 8555 7.3).

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{
    Account, AccountCredentials, CertificateIdentifier, ExternalAccountKey, NewAccount,
};
use rustls::pki_types::Der;

use super::http::{Advice, Http, why};
use super::storage::Storage;
use crate::config;

/// An authority.
pub(super) struct Authority {
    pub(super) directory: String,
    email: Option<String>,
    binding: Option<(String, Vec<u8>)>,
    http: Http,
    advice: Advice,
    /// While all goes well.
    account: Option<Account>,
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Authority {
    /// Reads its files.
    pub(super) fn load(
        authority: &config::Authority,
        acme: &config::Acme,
    ) -> io::Result<Authority> {
        let (http, advice) = Http::new(authority.root.as_deref()).map_err(io::Error::other)?;
        let binding = authority.binding.as_ref();
        let binding = binding.map(|binding| {
            let told = |e: String| io::Error::other(format!("{}: {e}", binding.key.display()));
            let key = binding_key(&binding.key).map_err(told)?;
            io::Result::Ok((binding.id.clone(), key))
        });
        Ok(Authority {
            directory: authority.directory.clone(),
            email: acme.email.clone(),
            binding: binding.transpose()?,
            http,
            advice,
            account: None,
        })
    }

    /// When the authority wants to be asked again, in seconds since 1970; 0: it did not say.
    pub(super) fn advice(&self) -> u64 {
        self.advice.take()
    }

    /// The account, found or made. The caller holds the storage's lock.
    pub(super) async fn account(&mut self, storage: &Storage) -> Result<Account, String> {
        if let Some(account) = self.kept(storage).await? {
            return Ok(account);
        }
        let contact = self.email.iter().map(|email| format!("mailto:{email}"));
        let contact: Vec<String> = contact.collect();
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contact,
            // No configuration without it.
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let binding = self.binding.as_ref();
        let binding = binding.map(|(id, key)| ExternalAccountKey::new(id.clone(), key));
        let builder = Account::builder_with_http(Box::new(self.http.clone()));
        let made = builder.create(&new, self.directory.clone(), binding.as_ref()).await;
        let (account, credentials) = made.map_err(|e| format!("no account: {}", why(&e)))?;
        let kept = storage.keep_account(&self.directory, &credentials);
        kept.map_err(|e| e.to_string())?;
        self.account = Some(account.clone());
        Ok(account)
    }

    /// The account, if there is one.
    async fn kept(&mut self, storage: &Storage) -> Result<Option<Account>, String> {
        if self.account.is_none() {
            let kept: Option<AccountCredentials> =
                storage.account(&self.directory).map_err(|e| e.to_string())?;
            let Some(kept) = kept else { return Ok(None) };
            let builder = Account::builder_with_http(Box::new(self.http.clone()));
            let account = builder.from_credentials(kept).await.map_err(|e| why(&e))?;
            self.account = Some(account);
        }
        Ok(self.account.clone())
    }

    /// To be read from the storage anew, and its directory from the authority.
    pub(super) fn close(&mut self) {
        self.account = None;
    }

    /// The authority knows the account no more.
    pub(super) fn forget(&mut self, storage: &Storage) {
        self.close();
        // Where this fails the next attempt meets the same.
        let _ = storage.forget_account(&self.directory);
    }

    /// When a certificate is to be renewed, from and to, and in how many seconds to ask again
    /// (RFC 9773 4).
    pub(super) async fn renewal(
        &mut self,
        id: &(Vec<u8>, Vec<u8>),
        storage: &Storage,
    ) -> Result<((u64, u64), u64), String> {
        let account = self.kept(storage).await?.ok_or("there is no account with it")?;
        let (info, in_time) = account.renewal_info(&identifier(id)).await.map_err(|e| why(&e))?;
        let window = info.suggested_window;
        let secs = |at: i64| u64::try_from(at).unwrap_or_default();
        let window = (secs(window.start.unix_timestamp()), secs(window.end.unix_timestamp()));
        Ok((window, in_time.as_secs()))
    }
}

/// How a certificate is called in RFC 9773 (4.1).
pub(super) fn identifier((issuer, serial): &(Vec<u8>, Vec<u8>)) -> CertificateIdentifier<'static> {
    CertificateIdentifier::new(Der::from_slice(issuer), Der::from_slice(serial)).into_owned()
}

fn binding_key(path: &Path) -> Result<Vec<u8>, String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let key = BASE64_URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
    key.map_err(|e| format!("{e}; it must hold the key in base64url, as the authority gives it"))
}
