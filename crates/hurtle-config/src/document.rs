//! Joins the texts of a configuration to one document: lists of tables are appended, every other
//! key of the top stands in one of them.

use toml::de::{DeArray, DeString, DeTable, DeValue};
use toml::{Spanned, map};

use super::config::TOP;
use super::error::ValueError;
use super::include::INCLUDE;
use super::reader::{KeyPosition, Reader};
use super::schema::Kind;

/// Parses the texts; the reader collects the problems.
pub(super) fn document<'t>(reader: &mut Reader<'t>) -> DeTable<'t> {
    let mut whole = DeTable::new();
    for source in reader.sources().iter() {
        for (name, value) in reader.parse(source) {
            let value = if name.get_ref() == INCLUDE { list(value) } else { value };
            add(&mut whole, name, value, reader);
        }
    }
    whole
}

/// A single value is a list of one.
fn list(value: Spanned<DeValue<'_>>) -> Spanned<DeValue<'_>> {
    match value.get_ref() {
        DeValue::Array(_) => value,
        _ => Spanned::new(value.span(), DeValue::Array(DeArray::from_iter([value]))),
    }
}

fn add<'t>(
    whole: &mut DeTable<'t>,
    name: Spanned<DeString<'t>>,
    value: Spanned<DeValue<'t>>,
    reader: &mut Reader<'t>,
) {
    let spot = KeyPosition { key: name.get_ref().to_string(), at: name.span().start };
    let mut known = match whole.entry(name) {
        map::Entry::Vacant(vacant) => {
            vacant.insert(value);
            return;
        }
        map::Entry::Occupied(known) => known,
    };
    let first = known.key().span().start;
    let is_appended = spot.key == INCLUDE
        || TOP.key(&spot.key).is_some_and(|key| matches!(key.kind, Kind::Tables(_)));
    match (known.get_mut().get_mut(), value.into_inner()) {
        (DeValue::Array(items), DeValue::Array(more)) if is_appended => {
            more.into_iter().for_each(|item| items.push(item));
        }
        _ => {
            let wrong = format!("the key is already set in {}", reader.line(first));
            reader.report_alone(&spot, ValueError::new(wrong).hint("remove one of the two"));
        }
    }
}
