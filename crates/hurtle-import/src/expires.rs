//! `expires`: Cache-Control of responses, by a duration or by a map of media types.

use super::path::seconds;
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;
use super::type_map::ExpiryMap;

impl Scope {
    /// Translates `expires` into Cache-Control for this place and those within it.
    pub(super) fn expires(&mut self, d: &Directive, report: &mut Report) {
        let value = d.arg(0);
        let types = self.type_maps.get(value).filter(|_| d.args.len() == 1);
        let of_row = |(media_type, value): &(Option<String>, String)| {
            let control = match value.as_str() {
                "off" => None,
                value => Some(cache_control(value)?),
            };
            Some((media_type.clone(), control))
        };
        let types: Option<ExpiryMap> = types.and_then(|map| map.iter().map(of_row).collect());
        let is_off = value == "off" || types.is_some();
        let control = cache_control(value).filter(|_| d.args.len() == 1);
        if !is_off && control.is_none() {
            report.refuse(d, "write one duration, such as 30d");
        }
        self.expires.set(control);
        self.typed_expires.set(types.unwrap_or_default());
    }
}

/// Returns the Cache-Control of a value of `expires`; `None`: it has none, or is not known.
pub(super) fn cache_control(value: &str) -> Option<String> {
    const TEN_YEARS: u64 = 315_360_000;
    match value {
        "off" => None,
        "max" => Some(format!("max-age={TEN_YEARS}")),
        "epoch" => Some("no-cache".to_owned()),
        text if text.starts_with('-') => Some("no-cache".to_owned()),
        text => seconds(text).map(|age| format!("max-age={age}")),
    }
}
