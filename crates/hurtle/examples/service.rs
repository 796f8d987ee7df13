//! The smallest application: a function from a request to a response, without a router.
//!
//! ```text
//! cargo run --release --example service
//! curl http://127.0.0.1:8080/who/am/i
//! ```

use std::convert::Infallible;
use std::io;

use http::{Request, Response};
use hurtle::{Arrival, Config, RequestBody, Server};

fn main() -> io::Result<()> {
    let server = Server::bind(Config::for_directory(".".into()))?;
    eprintln!("http://{}/who", server.addresses()[0]);
    server.mount("*", "/who", tower::service_fn(who))?.start()?.join()
}

/// Responds with the method, the paths and the client's address.
pub(crate) async fn who(request: Request<RequestBody>) -> Result<Response<String>, Infallible> {
    let text = match request.extensions().get::<Arrival>() {
        None => "from nowhere\n".to_owned(),
        Some(arrival) => {
            let Arrival { client, original, .. } = arrival;
            let (site, mount) = (arrival.site(), arrival.mount());
            let client = client.map_or("a local socket".to_owned(), |client| client.to_string());
            format!("{original} from {client}, for the application at {site}{mount}\n")
        }
    };
    Ok(Response::new(text))
}
