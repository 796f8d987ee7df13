//! A setting declared once: its key, type, range, default, example and documentation. `settings!`
//! makes of such a list the type that programs see, the part of the schema, the defaults and the
//! reader.

use std::time::Duration;

use serde::Serialize;

use super::names::Named;
use super::reader::Reader;
use super::schema::Kind;
use super::value::Value;

/// The companions of keys that need none.
pub(super) const ALWAYS: &[&str] = &[];

/// A value that is read as the kind of its key says.
pub(super) trait Setting: Sized {
    /// Reads the value; `None`: it is wrong, and the reader has the problem.
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self>;
}

impl Setting for bool {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<bool> {
        value.flag(reader)
    }
}

impl Setting for Duration {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Duration> {
        value.duration(reader)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Setting for $number {
            fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<$number> {
                match value.spec.kind {
                    Kind::Size(..) => value.size(reader),
                    _ => value.integer(reader),
                }
            }
        }
    )*};
}

numbers!(u32, u64, usize);

impl<T: Named> Setting for T {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<T> {
        value.choice(reader)
    }
}

impl<T: Setting> Setting for Option<T> {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Option<T>> {
        T::read(value, reader).map(Some)
    }
}

/// The value of a key in these settings, as it is written in TOML. Only an empty list is left out.
pub(super) fn written(settings: &impl Serialize, key: &str) -> String {
    let table = toml::Table::try_from(settings).unwrap_or_default();
    table.get(key).map_or_else(|| "[]".to_owned(), ToString::to_string)
}

/// Declares the settings of a table of the configuration, or of a group of keys in it.
///
/// ```text
/// settings! {
///     /// The documentation of the type, and of the table.
///     pub struct Limits: LIMITS "[limits]" {
///         /// The documentation of the field, and of its key.
///         idle_timeout: Duration = Duration::from_secs(75), Time(1, TIME_MS_MAX), "\"15s\"";
///         /// A key without a value says in words what that means.
///         connections: Option<usize> = None, Integer(1, COUNT_MAX), "10000", or "unlimited";
///     }
/// }
/// ```
///
/// A group of keys of a larger table has the keys that it goes with, `Buffer: BUFFER with
/// CONNECTED`, as one key has by `with &["user"]`. A key with another name than its field stands
/// behind it: `kind ("buffer"): Buffering`. A value that its type does not read by itself has a
/// function that does: `by Value::path`. Fields that are no keys, or that are read by hand, follow
/// in `beside { ... }`.
macro_rules! settings {
    ($(#[doc = $about:literal])+ $(#[derive($more:ident)])?
     pub struct $name:ident: $section:ident $header:literal { $($entries:tt)* }) => {
        settings!(@type [$($about)+] [Eq $($more)?] $name { $($entries)* } {});
        pub(super) static $section: $crate::schema::Section = $crate::schema::Section {
            header: $header,
            doc: concat!($($about),+),
            keys: &[settings!(@keys $name (&[]) { $($entries)* })],
        };
    };
    ($(#[doc = $about:literal])+ $(#[derive($more:ident)])?
     pub struct $name:ident: $group:ident with $with:ident { $($entries:tt)* }) => {
        settings!(@type [$($about)+] [Eq $($more)?] $name { $($entries)* } {});
        pub(super) const $group: &[$crate::schema::Key] = settings!(@keys $name ($with) { $($entries)* });
    };
    ($(#[doc = $about:literal])+ $(#[derive($more:ident)])?
     pub struct $name:ident: $group:ident with $with:ident { $($entries:tt)* }
     beside { $($others:tt)* }) => {
        settings!(@type [$($about)+] [$($more)?] $name { $($entries)* } { $($others)* });
        pub(super) const $group: &[$crate::schema::Key] = settings!(@keys $name ($with) { $($entries)* });
    };
    (@type [$($about:literal)+] [$($more:ident)*] $name:ident {$(
        $(#[doc = $doc:literal])+
        $(#[serde($($serde:tt)*)])?
        $field:ident $(($key:literal))?: $type:ty = $default:expr, $kind:expr, $example:literal
            $(, or $words:literal)? $(, with $own:expr)? $(, by $read:expr)?;
    )*} {$(
        $(#[doc = $other_doc:literal])+
        $(#[serde($($other_serde:tt)*)])?
        $other:ident: $other_type:ty = $other_default:expr;
    )*}) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize $(, $more)*)]
        pub struct $name {$(
            $(#[doc = $other_doc])+
            $(#[serde($($other_serde)*)])?
            pub $other: $other_type,
        )* $(
            $(#[doc = $doc])+
            $(#[serde($($serde)*)])?
            $(#[serde(rename = $key)])?
            pub $field: $type,
        )*}

        impl Default for $name {
            fn default() -> $name {
                $name { $($other: $other_default,)* $($field: $default,)* }
            }
        }

        impl $name {
            /// Reads the keys of a table.
            pub(super) fn read(table: &$crate::table::Table<'_>,
                reader: &mut $crate::reader::Reader<'_>,
            ) -> $name {
                let mut settings = $name::default();
                $(table.set(
                    settings!(@name $field $($key)?),
                    reader,
                    settings!(@read $($read)?),
                    &mut settings.$field,
                );)*
                settings
            }
        }
    };
    (@keys $name:ident ($with:expr) {$(
        $(#[doc = $doc:literal])+
        $(#[serde($($serde:tt)*)])?
        $field:ident $(($key:literal))?: $type:ty = $default:expr, $kind:expr, $example:literal
            $(, or $words:literal)? $(, with $own:expr)? $(, by $read:expr)?;
    )*}) => {
        &[$($crate::schema::Key::new(
            settings!(@name $field $($key)?),
            $kind,
            settings!(@absent $name (settings!(@name $field $($key)?)) $($words)?),
            $example,
            concat!($($doc),+),
        ).with(settings!(@with ($with) $($own)?)),)*]
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $key:literal) => { $key };
    (@with ($with:expr)) => { $with };
    (@with ($with:expr) $own:expr) => { $own };
    (@read) => { $crate::settings::Setting::read };
    (@read $read:expr) => { $read };
    (@absent $name:ident ($key:expr) $words:literal) => { $crate::schema::DefaultValue::Words($words) };
    (@absent $name:ident ($key:expr)) => {
        $crate::schema::DefaultValue::Of(|| $crate::settings::written(&$name::default(), $key))
    };
}

pub(super) use settings;
