//! Makes the client of a store. Credentials come from where the provider's own tools look for them:
//! the environment, web identity tokens, files that it names, the metadata service of a machine.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::list::PaginatedListStore;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider,
};

use crate::checksum::Connector;
use crate::settings::{Scheme, Settings};

/// The operations that are used of a store.
pub(crate) trait Store: ObjectStore + PaginatedListStore {}

impl<S: ObjectStore + PaginatedListStore> Store for S {}

/// Number of attempts after the first, while `timeout` lasts.
const RETRIES_MAX: usize = 3;

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// Time for which an idle connection is kept.
const IDLE: Duration = Duration::from_secs(30);

/// Makes the client. It connects with the first request.
///
/// # Errors
/// The reason why these settings make none.
pub(crate) fn connect(settings: &Settings) -> Result<Arc<dyn Store>, String> {
    let store = match settings.url.scheme {
        Scheme::S3 => s3(settings),
        Scheme::Gs => gs(settings),
        Scheme::Az => az(settings),
    };
    store.map_err(|error| error.to_string())
}

fn s3(settings: &Settings) -> object_store::Result<Arc<dyn Store>> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(&settings.url.bucket)
        .with_client_options(client(settings))
        .with_retry(retry(settings))
        .with_allow_http(settings.allow_http)
        .with_virtual_hosted_style_request(!settings.path_style)
        .with_http_connector(Connector { compares: settings.checksums });
    if let Some(region) = &settings.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if settings.anonymous {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn gs(settings: &Settings) -> object_store::Result<Arc<dyn Store>> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(&settings.url.bucket)
        .with_client_options(client(settings))
        .with_retry(retry(settings))
        .with_http_connector(Connector { compares: settings.checksums });
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if settings.anonymous {
        // The client's uploads want credentials in any case.
        let none = StaticCredentialProvider::new(GcpCredential { bearer: String::new() });
        builder = builder.with_skip_signature(true).with_credentials(Arc::new(none));
    }
    Ok(Arc::new(builder.build()?))
}

fn az(settings: &Settings) -> object_store::Result<Arc<dyn Store>> {
    let mut builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(&settings.url.bucket)
        .with_client_options(client(settings))
        .with_retry(retry(settings))
        .with_allow_http(settings.allow_http)
        .with_http_connector(Connector { compares: settings.checksums });
    if let Some(account) = &settings.account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    if settings.anonymous {
        builder = builder.with_skip_signature(true);
    }
    Ok(Arc::new(builder.build()?))
}

fn client(settings: &Settings) -> ClientOptions {
    ClientOptions::new()
        // A response may take long as a whole; the time to its next bytes is limited.
        .with_timeout_disabled()
        .with_read_timeout(settings.timeout)
        .with_connect_timeout(settings.timeout)
        .with_pool_idle_timeout(IDLE)
        .with_allow_http(settings.allow_http)
}

fn retry(settings: &Settings) -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: RETRY_FIRST, max_backoff: RETRY_LAST, base: 2. };
    RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: settings.timeout }
}
