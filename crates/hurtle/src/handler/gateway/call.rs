//! One request to a FastCGI or CGI application, or to an authorizer.

use std::rc::Rc;

use http::{StatusCode, Version};
use hurtle_http::cgi::RequestInfo;
use hurtle_http::message::forward::remove_nominated;
use hurtle_http::request::Method;
use hurtle_http::request::framing::BodyLength;

use super::super::client::{Client, Continue};
use super::super::named_file::named_file;
use super::super::request::{AuthorizerVariables, RequestContext};
use super::super::wait::Waits;
use super::super::{HandlerError, Outcome, http_request, redirect_to_directory, request_fields};
use super::{Authorizer, Gateway, Unauthorized};
use crate::answer::Answer;
use crate::files::Found;

/// The request data that `cgi::RequestInfo` borrows.
struct RequestFacts {
    method: String,
    target: Vec<u8>,
    host: String,
    user: Option<String>,
    gated: bool,
    length: Option<u64>,
}

impl RequestFacts {
    fn of(context: &RequestContext<'_>) -> RequestFacts {
        let RequestContext { head: request, target: (path, query), passwords, .. } = *context;
        let mut target = path.to_vec();
        if let Some(query) = query {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        let host = request.host.filter(|host| !host.name.is_empty());
        let host = host.map_or_else(
            || "localhost".to_owned(),
            |host| String::from_utf8_lossy(&host.authority()).into_owned(),
        );
        let length = match request.body {
            BodyLength::Exactly(length) => Some(length),
            BodyLength::None | BodyLength::Chunked => None,
        };
        RequestFacts {
            method: String::from_utf8_lossy(request.method_text()).into_owned(),
            target,
            host,
            user: passwords.and_then(|passwords| passwords.name(request.authorization)),
            gated: passwords.is_some(),
            length,
        }
    }
}

impl Authorizer {
    /// Asks whether the request is allowed; returns variables for its handler.
    ///
    /// # Errors
    /// The response in place of the handler's.
    pub(crate) async fn check(
        &self,
        request: &RequestContext<'_>,
    ) -> Result<AuthorizerVariables, Unauthorized> {
        let bad = || Unauthorized::Undecided(Answer::error(StatusCode::BAD_REQUEST, None));
        let mut fields = request.buffers.field_map(request.head).ok_or_else(bad)?;
        remove_nominated(request.head, &mut fields);
        let facts = RequestFacts::of(request);
        self.authorize(&facts.info(request), &fields).await
    }
}

impl Gateway {
    /// Handles a request. `None`: the path is not a script's, so the files beside it answer.
    ///
    /// # Errors
    /// This server's own response, or the exchange with the client has ended.
    pub(crate) async fn respond<C: Client>(
        self: &Rc<Self>,
        request: &RequestContext<'_>,
        client: &mut C,
    ) -> Result<Option<Outcome>, HandlerError> {
        let matched = &request.matched;
        let answer = |answer| Ok(Some(Outcome::Answer(answer)));
        let (base, rest) = self.split(matched.path, matched.rest);
        let found = self.find(matched, rest).await;
        let error = |status| Err(HandlerError::Answer(Box::new(Answer::error(status, None))));
        let script = match found.map_err(|error| HandlerError::Answer(Box::new(error)))? {
            Found::Other => return Ok(None),
            Found::SlashMissing => match request.head.method {
                // The file handler redirects it, or refuses it.
                Method::Get | Method::Head | Method::Other(b"TRACE") => return Ok(None),
                // The path with the slash may have other gates, so its script does not run here.
                _ => {
                    let permanent = StatusCode::PERMANENT_REDIRECT;
                    return answer(redirect_to_directory(permanent, matched));
                }
            },
            Found::Missing | Found::Outside => return error(StatusCode::NOT_FOUND),
            Found::Denied => return error(StatusCode::FORBIDDEN),
            Found::Script(script) => script,
        };
        if request.head.method.as_bytes() == b"TRACE" {
            return Err(HandlerError::Answer(Box::new(Answer::trace_refused())));
        }
        let body = client.body(Continue::OnRead);
        let method = http_request::method(&request.head.method);
        let Some((method, mut fields)) = method.zip(request.buffers.field_map(request.head)) else {
            return answer(Answer::error(StatusCode::BAD_REQUEST, None));
        };
        remove_nominated(request.head, &mut fields);
        let certificate = client.certificate();
        let own = self.request_fields().map(|own| {
            request_fields::for_application(&mut fields, own, request, certificate.as_ref())
        });
        let own = own.transpose()?.unwrap_or_default();
        let facts = RequestFacts::of(request);
        let variables = self.variables(&facts.info(request), &fields, &own, base, &script);
        let answering = self.call(method, body, request, variables, &script, client.buffered());
        let answered = client.beside(&Waits::default(), async |_| answering.await).await?;
        let answered = answered.map_err(|own| HandlerError::Answer(Box::new(own)))?;
        Ok(Some(named_file(request, answered)))
    }
}

impl RequestFacts {
    fn info<'a>(&'a self, request: &RequestContext<'a>) -> RequestInfo<'a> {
        RequestInfo {
            method: &self.method,
            protocol: match request.version() {
                Version::HTTP_10 => "HTTP/1.0",
                Version::HTTP_2 => "HTTP/2.0",
                Version::HTTP_3 => "HTTP/3.0",
                _ => "HTTP/1.1",
            },
            target: &self.target,
            query: request.matched.query.unwrap_or_default(),
            host: &self.host,
            client: request.client.address,
            user: self.user.as_deref(),
            has_server_auth: self.gated,
            is_tls: request.client.is_tls,
            trusted: request.client.trusted,
            length: self.length,
        }
    }
}
