//! Prints an explanation.

use semel_operate::action::ActionKind;
use semel_operate::keys::{Choice, Explanation};
use semel_operate::relative_time::when;
use serde::Serialize;

use crate::{Answer, Block, key_text};

/// An action that the operator can take, as the command that performs it.
#[derive(Debug, Serialize)]
pub struct Command {
    text: String,
    command: String,
}

impl Command {
    /// Words a choice that this command carries out.
    pub fn new(choice: &Choice, command: String) -> Self {
        let hint = if choice.action.kind == ActionKind::ResolveApplied {
            " (--outcome TEXT says what it answered)"
        } else {
            ""
        };
        Self {
            text: format!("{}{hint}", choice.text),
            command,
        }
    }
}

impl Answer for Explanation<'_, Command> {
    fn describe(&self, block: &mut Block) {
        let now = self.now.0;
        block.field("key", key_text(&self.key));
        block.field("pipeline", &self.pipeline);
        block.some("tenant", self.tenant.as_ref());
        block.field("operation id", &self.operation_id);
        block.field("state", self.state.replace('_', " "));
        block.some("since", self.since.map(|since| when(since.0, now)));
        block.some("transport id", self.transport.as_ref());
        block.heading("How it stands");
        block.prose(&self.text);
        if !self.history.is_empty() {
            block.heading("What happened");
        }
        for event in &self.history {
            block.prose(&format!("{}: {}", when(event.at.0, now), event.text));
        }
        block.heading(self.arrival.of(
            "What a message with this key meets now",
            "What a claim of this key meets now",
            "What a request under this key meets now",
        ));
        for text in &self.duplicate.texts {
            block.prose(text);
        }
        if self.message_count > 0 {
            block.heading("Messages kept under this key");
        }
        for message in &self.messages {
            let detail = match &*message.detail {
                "" => String::new(),
                detail => format!(": {detail}"),
            };
            block.prose(&format!(
                "{} since {}, from {}{detail}",
                message.reason,
                when(message.since.0, now),
                message.coordinates,
            ));
        }
        let more = self.message_count - self.messages.len();
        if more > 0 {
            block.prose(&format!("and {more} more"));
        }
        block.heading("What happens next without anybody's doing");
        block.prose(&self.next);
        if !self.can.is_empty() {
            block.heading("What you can do");
        }
        for can in &self.can {
            // A body is never broken across lines.
            block.bytes(&can.text, format!("{}\n", can.command).as_bytes());
        }
    }
}
