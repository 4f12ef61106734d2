//! A plain function per case, by the port whose catalogue lists it. The tests of a backend call
//! these.

macro_rules! ports {
    ($($port:ident of $each:ident,)+) => {
        $(pub mod $port {
            crate::$each! { __checks }
        })+
    };
}

ports! {
    store of __each_store_law,
    durable of __each_durable_law,
    checkpoint of __each_checkpoint_law,
    durable_checkpoint of __each_durable_checkpoint_law,
    transactional of __each_transactional_law,
    durable_transactional of __each_durable_transactional_law,
    transfer of __each_transfer_law,
    durable_transfer of __each_durable_transfer_law,
    checkpoint_transfer of __each_checkpoint_transfer_law,
}
