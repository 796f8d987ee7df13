//! `RewriteCond` on fields of requests.

use toml::Value;

use super::condition::{Condition, Requests};
use hurtle_config::PathRegex;

impl Requests {
    /// Adds a condition on a field.
    pub(super) fn add_field(
        &mut self,
        name: &str,
        condition: &Condition<'_>,
    ) -> Result<(), String> {
        let is_there = match condition.pattern.as_str() {
            "." | ".+" | ".*." | "^.+$" | "^.+" => !condition.is_not,
            "^$" | "=\"\"" | "=" => condition.is_not,
            pattern => {
                if PathRegex::new(&condition.expression()?)?.is_in(b"") {
                    return Err(format!(
                        "a request without {name} meets its expression, too: write a condition for ^$ and one for values"
                    ));
                }
                let is_of_case = condition.ignores_case && pattern.chars().any(char::is_alphabetic);
                let value = match condition.patterns(false, false).filter(|_| !is_of_case) {
                    Some(known) => Value::from(known),
                    None => regex(&condition.expression()?),
                };
                let list = if condition.is_not { &mut self.not_header } else { &mut self.header };
                if list.insert(name.to_owned(), value).is_some() {
                    return Err(format!("two conditions on {name}"));
                }
                return Ok(());
            }
        };
        if !is_there {
            self.empty_fields.push(name.to_owned());
            return Ok(());
        }
        let value = regex(NOT_EMPTY);
        match self.header.insert(name.to_owned(), value.clone()) {
            Some(known) if known != value => Err(format!("two conditions on {name}")),
            _ => Ok(()),
        }
    }

    /// The requests of which one is to be met: to Apache a field without a value is a missing one.
    ///
    /// # Errors
    /// A field is to be empty and to have a value.
    pub(super) fn by_empty_fields(mut self) -> Result<Vec<Requests>, String> {
        let Some(name) = self.empty_fields.pop() else { return Ok(vec![self]) };
        if self.header.contains_key(&name) || self.empty_fields.contains(&name) {
            return Err(format!("two conditions on {name}"));
        }
        let mut all = Vec::new();
        for value in [Value::from(false), regex("^$")] {
            let mut one = self.clone();
            one.header.insert(name.clone(), value);
            all.extend(one.by_empty_fields()?);
        }
        Ok(all)
    }
}

/// An expression of values that are not empty.
const NOT_EMPTY: &str = ".";

/// The value of a field that an expression matches.
fn regex(text: &str) -> Value {
    Value::Table(toml::Table::from_iter([("regex".to_owned(), Value::from(text))]))
}
