//! The macros by which a backend names the laws that it keeps.

/// Expands to one test per case of the store port, over the erased store.
///
/// `store_laws!(Memory)` names a [`Subject`](crate::Subject) of the module that it stands in. A test calls the
/// compiled case of this crate.
#[macro_export]
macro_rules! store_laws {
    ($subject:ident) => {
        $crate::__laws! { store_laws of $subject: __each_store_law store () }
    };
}

/// Expands to one test per case that survives reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_laws {
    ($subject:ident) => {
        $crate::__laws! { durable_laws of $subject: __each_durable_law durable (durable) }
    };
}

/// Expands to one test per case of the checkpoint port; see [`store_laws!`].
#[macro_export]
macro_rules! checkpoint_laws {
    ($subject:ident) => {
        $crate::__laws! { checkpoint_laws of $subject: __each_checkpoint_law checkpoint (checkpoint) }
    };
}

/// Expands to one test per case of checkpoints that survive reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_checkpoint_laws {
    ($subject:ident) => {
        $crate::__laws! { durable_checkpoint_laws of $subject: __each_durable_checkpoint_law durable_checkpoint (durable checkpoint) }
    };
}

/// Expands to one test per case of transactions that survive reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_transactional_laws {
    ($subject:ident) => {
        $crate::__laws! { durable_transactional_laws of $subject: __each_durable_transactional_law durable_transactional (durable transactional) }
    };
}

/// Expands to one test per case of the transactional port; see [`store_laws!`].
#[macro_export]
macro_rules! transactional_laws {
    ($subject:ident) => {
        $crate::__laws! { transactional_laws of $subject: __each_transactional_law transactional (transactional) }
    };
}

/// Expands to random histories; see [`store_laws!`].
///
/// `SEMEL_HISTORIES` sets their number, `SEMEL_FIRST_SEED` the first seed, and `SEMEL_RACE` how many tasks
/// race with how many calls each, as `8x40`.
#[macro_export]
macro_rules! history_laws {
    ($subject:ident) => {
        mod history_laws {
            fn backend() -> $crate::Backend {
                $crate::Ports::<super::$subject>::new().erase()
            }

            #[test]
            fn races_are_explained_by_the_decisions() {
                $crate::history::check_races(&backend());
            }

            #[test]
            fn sequences_are_answered_as_decided() {
                $crate::history::check_sequences(&backend());
            }
        }
    };
}

/// Expands to one test per case of the transfer port, and to random histories that move half way
/// to a fresh instance; see [`store_laws!`].
#[macro_export]
macro_rules! transfer_laws {
    ($subject:ident) => {
        $crate::__laws! { transfer_laws of $subject: __each_transfer_law transfer (transfer) }
        mod transfer_histories {
            #[test]
            fn sequences_that_move_are_answered_as_decided() {
                let backend = $crate::Ports::<super::$subject>::new().transfer().erase();
                $crate::history::check_moves(&backend);
            }
        }
    };
}

/// Expands to one test per case of imports that survive reopening; see [`store_laws!`].
#[macro_export]
macro_rules! durable_transfer_laws {
    ($subject:ident) => {
        $crate::__laws! { durable_transfer_laws of $subject: __each_durable_transfer_law durable_transfer (durable transfer) }
    };
}

/// Expands to one test per case of marks that move; see [`store_laws!`].
#[macro_export]
macro_rules! checkpoint_transfer_laws {
    ($subject:ident) => {
        $crate::__laws! { checkpoint_transfer_laws of $subject: __each_checkpoint_transfer_law checkpoint_transfer (checkpoint transfer) }
    };
}
