//! The expansion of the catalogue: functions here, tests at a backend.

/// A function per case, and [`Case`](crate::Case)s of all of them. They are compiled in this crate, so that a
/// backend's tests only call them.
#[doc(hidden)]
#[macro_export]
macro_rules! __checks {
    ($($topic:ident { $(LawId::$law:ident => $case:ident;)+ })+) => {
        $(pub mod $topic {
            $(pub fn $case(backend: &$crate::Backend) {
                $crate::check::check($crate::LawId::$law, backend, |lab| {
                    Box::pin($crate::laws::$topic::$case(lab))
                });
            })+
        })+

        pub fn all(backend: &$crate::Backend) -> Vec<$crate::Case> {
            vec![$($($crate::check::case(
                (stringify!($topic), stringify!($case), $crate::LawId::$law),
                $topic::$case,
                backend,
            ),)+)+]
        }
    };
}

/// A module of tests, one per case, over the ports of a subject.
#[doc(hidden)]
#[macro_export]
macro_rules! __laws {
    ($module:ident of $subject:ident: $each:ident $port:ident ($($offered:ident)*)) => {
        mod $module {
            fn backend() -> $crate::Backend {
                $crate::Ports::<super::$subject>::new()$(.$offered())*.erase()
            }

            $crate::$each! { __tests $port }
        }
    };
}

/// One test per case.
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($port:ident $($topic:ident { $(LawId::$law:ident => $case:ident;)+ })+) => {
        $(mod $topic {
            use $crate::cases::$port::$topic as cases;

            use super::backend;

            $(#[test]
            fn $case() {
                cases::$case(&backend());
            })+
        })+
    };
}
