//! The macros by which a backend names the laws that it keeps.

/// Expands to one test per case of the store port, over the bare, erased and observed store.
///
/// `store_laws!(Memory)` names a [`Subject`](crate::Subject) of the module that it stands in.
/// `store_laws!(Postgres, bare)` leaves the other two forms out: they are the same over every store, and a
/// server is too slow to prove them once more.
#[macro_export]
macro_rules! store_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { store_laws $subject __each_store_law $($only)? }
    };
}

/// Expands to one test per case that survives reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { durable_laws $subject __each_durable_law $($only)? }
    };
}

/// Expands to one test per case of the checkpoint port; see [`store_laws!`].
#[macro_export]
macro_rules! checkpoint_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { checkpoint_laws $subject __each_checkpoint_law $($only)? }
    };
}

/// Expands to one test per case of checkpoints that survive reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_checkpoint_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { durable_checkpoint_laws $subject __each_durable_checkpoint_law $($only)? }
    };
}

/// Expands to one test per case of transactions that survive reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_transactional_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { durable_transactional_laws $subject __each_durable_transactional_law $($only)? }
    };
}

/// Expands to one test per case of the transactional port; see [`store_laws!`].
#[macro_export]
macro_rules! transactional_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { transactional_laws $subject __each_transactional_law $($only)? }
    };
}

/// Expands to random histories on the bare and the erased store; see [`store_laws!`].
///
/// `SEMEL_HISTORIES` sets how many, `SEMEL_FIRST_SEED` from which seed on, and `SEMEL_RACE` how many
/// tasks race with how many calls each, as `8x40`.
#[macro_export]
macro_rules! history_laws {
    ($subject:ident) => {
        $crate::history_laws! { $subject, bare }
        mod erased_history_laws {
            #[test]
            fn races_are_explained_by_the_decisions() {
                $crate::history::check_races::<$crate::Erased<super::$subject>>();
            }
        }
    };
    ($subject:ident, bare) => {
        mod history_laws {
            #[test]
            fn races_are_explained_by_the_decisions() {
                $crate::history::check_races::<super::$subject>();
            }

            #[test]
            fn sequences_are_answered_as_decided() {
                $crate::history::check_sequences::<super::$subject>();
            }
        }
    };
}

/// Expands to one test per case of the transfer port, and to random histories that move half way
/// to a fresh instance; see [`store_laws!`].
#[macro_export]
macro_rules! transfer_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { transfer_laws $subject __each_transfer_law $($only)? }
        mod transfer_histories {
            #[test]
            fn sequences_that_move_are_answered_as_decided() {
                $crate::history::check_moves::<super::$subject>();
            }
        }
    };
}

/// Expands to one test per case of imports that survive reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_transfer_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { durable_transfer_laws $subject __each_durable_transfer_law $($only)? }
    };
}

/// Expands to one test per case of marks that move; see [`store_laws!`].
#[macro_export]
macro_rules! checkpoint_transfer_laws {
    ($subject:ident $(, $only:ident)?) => {
        $crate::__forms! { checkpoint_transfer_laws $subject __each_checkpoint_transfer_law $($only)? }
    };
}
