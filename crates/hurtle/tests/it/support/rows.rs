//! Tables of requests and expected responses.

use super::{Response, Server};

/// A description; a target as for `Server::get`; the status; `Field: value` for each required field
/// and `!Field` for each absent one; the body, or `None` if any.
pub(crate) type Row<'a> = (&'a str, &'a str, u16, &'a [&'a str], Option<&'a str>);

/// Requests each row three times: an uncached GET, a cached GET, and HEAD, whose fields must be
/// those of GET (RFC 9110 9.3.2). Reports all rows that fail.
#[track_caller]
pub(crate) fn check(server: &Server, rows: &[Row<'_>]) {
    let mut failures = Vec::new();
    for row in rows {
        let (first, again, head) = (server.get(row.1), server.get(row.1), server.head(row.1));
        for response in [&first, &again] {
            if let Err(problem) = holds(row, response) {
                failures.push(format!("{}: {problem}\n    of {:?}: {response:?}", row.0, row.1));
                break;
            }
        }
        // RFC 9110 14.2: Range is ignored for HEAD.
        if !row.1.contains("\nRange:")
            && (head.status, head.stable_fields()) != (first.status, first.stable_fields())
        {
            failures.push(format!("{}: HEAD differs: {head:?}\n    {first:?}", row.0));
        }
    }
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

fn holds(row: &Row<'_>, response: &Response) -> Result<(), String> {
    let (_, _, status, fields, body) = row;
    if response.status != *status {
        return Err(format!("not {status}"));
    }
    for wanted in *fields {
        match wanted.strip_prefix('!') {
            Some(absent) if response.field(absent).is_some() => return Err(format!("a {absent}")),
            Some(_) => {}
            None => {
                let (name, value) = wanted.split_once(": ").unwrap();
                if response.field(name) != Some(value) {
                    return Err(format!("no {wanted}"));
                }
            }
        }
    }
    match body {
        Some(body) if body.as_bytes() != response.body => Err(format!("not the body {body:?}")),
        _ => Ok(()),
    }
}
