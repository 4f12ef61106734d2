//! What the catalogue expands to: forms, tests, cases.

/// The three forms in which a subject is tried.
#[doc(hidden)]
#[macro_export]
macro_rules! __forms {
    ($module:ident $subject:ident $each:ident) => {
        mod $module {
            mod bare {
                type Tested = super::super::$subject;
                $crate::$each! { __tests Tested }
            }
            mod erased {
                type Tested = $crate::Erased<super::super::$subject>;
                $crate::$each! { __tests Tested }
            }
            mod observed {
                type Tested = $crate::Observed<super::super::$subject>;
                $crate::$each! { __tests Tested }
            }
        }
    };
    ($module:ident $subject:ident $each:ident bare) => {
        mod $module {
            mod bare {
                type Tested = super::super::$subject;
                $crate::$each! { __tests Tested }
            }
        }
    };
}

/// One test per case.
#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($tested:ident $($topic:ident { $(LawId::$law:ident => $case:ident;)+ })+) => {
        $(mod $topic {
            use super::$tested;
            $(#[test]
            fn $case() {
                $crate::check($crate::LawId::$law, $crate::laws::$topic::$case::<$tested>);
            })+
        })+
    };
}

/// One [`Case`](crate::Case) per case.
#[doc(hidden)]
#[macro_export]
macro_rules! __cases {
    ($tested:ident $($topic:ident { $(LawId::$law:ident => $case:ident;)+ })+) => {
        vec![$($($crate::Case {
            topic: stringify!($topic),
            name: stringify!($case),
            law: $crate::LawId::$law,
            run: || $crate::check($crate::LawId::$law, $crate::laws::$topic::$case::<$tested>),
        },)+)+]
    };
}
