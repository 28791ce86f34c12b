//! Setters of option types, which other crates cannot write as literals: so they can get new fields.

/// A method for each field of an option type, which sets it. Where the field may be `None`, `Some` need not be written.
#[macro_export]
#[doc(hidden)]
macro_rules! setters {
    ($options:ident { $($fields:tt)* }) => {
        impl $options {
            $crate::setters!(@ $($fields)*);
        }
    };
    (@) => {};
    (@ $field:ident: Option<$type:ty>, $($rest:tt)*) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: impl Into<Option<$type>>) -> Self {
            self.$field = $field.into();
            self
        }
        $crate::setters!(@ $($rest)*);
    };
    (@ $field:ident: $type:ty, $($rest:tt)*) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](field@Self::", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
        $crate::setters!(@ $($rest)*);
    };
}
