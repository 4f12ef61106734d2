//! Enums whose variants each have a name for people, from one list.

/// Makes an enum, its list `ALL` of all variants, and their names in the same order.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident: $($variant:ident = $told:literal),* $(,)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum $name {
            $($variant),*
        }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];
            /// The names of all, in order.
            pub(crate) const NAMES: &[&'static str] = &[$($told),*];
        }
    };
}

/// The same, for laws: a bit each, and a property each, so that a search cannot leave one out.
macro_rules! laws {
    ($(#[$meta:meta])* $name:ident: $($variant:ident = $told:literal),* $(,)?) => {
        $crate::model::named::named! {
            $(#[$meta])* $name: $($variant = $told),*
        }

        const _: () = assert!($name::ALL.len() <= 32, "more laws than bits");

        impl $name {
            pub(crate) const fn name(self) -> &'static str {
                Self::NAMES[self as usize]
            }

            pub(crate) const fn bit(self) -> u32 {
                1 << self as u8
            }

            /// The names of the laws of these bits.
            pub(crate) fn names(bits: u32) -> Vec<&'static str> {
                let laws = Self::ALL.iter().filter(|law| bits & law.bit() != 0);
                laws.map(|law| law.name()).collect()
            }

            /// Each law as a property of the states of a model.
            pub(crate) fn properties<M>() -> Vec<stateright::Property<M>>
            where
                M: stateright::Model,
                M::State: $crate::model::named::Breakable,
            {
                use $crate::model::named::Breakable as _;
                vec![$(stateright::Property::always($name::$variant.name(), |_: &M, state: &M::State| {
                    state.broken() & $name::$variant.bit() == 0
                })),*]
            }
        }
    };
}

/// A state that knows which laws are broken in it.
pub(crate) trait Breakable {
    /// The broken laws, a bit each.
    fn broken(&self) -> u32;
}

pub(crate) use {laws, named};
