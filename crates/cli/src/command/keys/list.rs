//! `semel keys list`.

use semel_core::Result;
use semel_core::port::store::{ListQuery, Listed};
use semel_operate::keys::KeyEntry;
use semel_operate::keys::since;

use crate::Exit;
use crate::args::keys::List;
use crate::command::operate::{self, print_list};
use crate::output::key_text;

/// Lists the keys on record.
pub(crate) fn list(arguments: &List) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let query = ListQuery {
            state: arguments.state,
            repeated: arguments.repeated,
            ..ground.selection()
        };
        ground.tell_of_streamed(&query);
        let latest = arguments.older_than.map(|age| ground.now().minus(age));
        let is_wanted = |listed: &Listed| {
            let Listed { operation, record } = listed;
            let prefix = arguments.prefix.as_deref().unwrap_or_default();
            let key = operation.key.as_str();
            (key.starts_with(prefix) || key_text(key).starts_with(prefix))
                && (!arguments.held || record.held)
                && latest.is_none_or(|latest| since(record) <= latest)
        };
        print_list(
            &ground.store,
            &arguments.listing,
            query,
            |listed: Listed| is_wanted(&listed).then(|| KeyEntry::of(listed)),
        )
        .await
    })
}
