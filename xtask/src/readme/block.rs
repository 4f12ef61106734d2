//! Checked console blocks of a Markdown page.

/// A block: where it starts, and its commands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its opening fence, from 1.
    pub(crate) line: usize,
    /// The commands, in order.
    pub(crate) steps: Vec<Step>,
}

/// A command and its output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The command, possibly of several lines.
    pub(crate) command: String,
    /// The lines that follow it in the block.
    pub(crate) expected: Vec<String>,
}

const MARK: &str = "<!-- check -->";
const FENCE: &str = "```";

/// The checked blocks of `page`, or the line and reason why one cannot be run.
pub(crate) fn read(page: &str) -> Result<Vec<Block>, (usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((index, text)) = lines.next() {
        if text.trim() != MARK {
            if text.starts_with(FENCE) {
                // A block of any other kind, whatever it contains.
                lines.by_ref().find(|(_, text)| text.starts_with(FENCE));
            }
            continue;
        }
        let line = index + 2;
        if lines
            .next()
            .is_none_or(|(_, fence)| fence.trim() != "```console")
        {
            return Err((
                line,
                format!("after {MARK} a ```console block should begin"),
            ));
        }
        let mut closed = false;
        let inside: Vec<&str> = lines
            .by_ref()
            .map(|(_, text)| text)
            .take_while(|text| {
                closed = text.starts_with(FENCE);
                !closed
            })
            .collect();
        if !closed {
            return Err((line, "the block does not end".to_owned()));
        }
        let steps = steps(&inside).map_err(|fault| (line, fault))?;
        blocks.push(Block { line, steps });
    }
    Ok(blocks)
}

fn steps(lines: &[&str]) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = lines.iter();
    while let Some(line) = lines.next() {
        if let Some(first) = line.strip_prefix("$ ") {
            let mut command = first.to_owned();
            while continues(&command) {
                let next = lines.next().ok_or("its last command does not end")?;
                command.push('\n');
                command.push_str(next.strip_prefix("> ").unwrap_or(next));
            }
            steps.push(Step {
                command,
                expected: Vec::new(),
            });
        } else if let Some(step) = steps.last_mut() {
            step.expected.push((*line).to_owned());
        } else {
            return Err("it should begin with a command (`$ …`)".to_owned());
        }
    }
    if steps.is_empty() {
        Err("it has no command (`$ …`)".to_owned())
    } else {
        Ok(steps)
    }
}

/// Returns whether the shell would read on: after a backslash, or up to the end of a here-document.
fn continues(command: &str) -> bool {
    if command.ends_with('\\') {
        return true;
    }
    let Some((_, mark)) = command.lines().next().unwrap_or_default().split_once("<<") else {
        return false;
    };
    let mark = mark.trim_start_matches(['-', ' ', '\'', '"']);
    let length = mark
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        .count();
    length > 0
        && !command
            .lines()
            .skip(1)
            .any(|line| line.trim_start_matches('\t') == &mark[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(inside: &str) -> String {
        format!("# A\n\n<!-- check -->\n```console\n{inside}\n```\n")
    }

    fn only(inside: &str) -> Vec<Step> {
        read(&page(inside)).expect("well formed").remove(0).steps
    }

    #[test]
    fn commands_and_their_output_are_told_apart() {
        let step = |command: &str, expected: &[&str]| Step {
            command: command.to_owned(),
            expected: expected.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(
            only("$ one\na\n\n> b\n$ two"),
            [step("one", &["a", "", "> b"]), step("two", &[])]
        );
        assert_eq!(
            only("$ one \\\n>   --two\na"),
            [step("one \\\n  --two", &["a"])]
        );
        assert_eq!(
            only("$ cat <<'END' >f\n$ x\nEND\n$ cat f\n$_x"),
            [
                step("cat <<'END' >f\n$ x\nEND", &[]),
                step("cat f", &["$_x"])
            ]
        );
        assert_eq!(only("$ cat <<< a\na"), [step("cat <<< a", &["a"])]);
    }

    #[test]
    fn unmarked_blocks_do_not_count() {
        let text = format!(
            "```console\n$ x\n```\n```text\n{MARK}\n```\n{}",
            page("$ y")
        );
        let blocks = read(&text).expect("well formed");
        assert_eq!(blocks.len(), 1);
        assert_eq!(blocks[0].line, 10);
    }

    #[test]
    fn what_cannot_be_run_is_an_error() {
        for text in [
            format!("{MARK}\n"),
            format!("{MARK}\n\n```console\n$ x\n```\n"),
            format!("{MARK}\n```sh\nx\n```\n"),
            format!("{MARK}\n```console\n$ x\n"),
            page("output only"),
            page("$ x \\"),
            page("$ cat <<END\nx"),
            page(""),
        ] {
            assert!(read(&text).is_err(), "{text}");
        }
    }
}
