//! Progress bars on standard error, if that is a terminal: the progress, the speed, and the remaining time.

use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{HumanCount, MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use semel_engine::summary::Fate;
use semel_engine::surroundings::OnProgress;
use semel_engine::system::SystemClock;
use semel_supervisor::event_log::{Decision, EventLog, Form, Level, LogWriter, Verbosity};

use crate::{self as output, LogFormat};

/// A bar per pipeline or per piece of long work; no bars if nobody would see them.
#[derive(Clone)]
pub struct Bars(Option<MultiProgress>);

impl Default for Bars {
    fn default() -> Self {
        Self::new()
    }
}

impl Bars {
    /// Bars if standard error is a terminal and messages are text.
    pub fn new() -> Self {
        let is_seen = std::io::stderr().is_terminal() && output::is_told_in_text();
        Self(is_seen.then(MultiProgress::new))
    }

    /// Bars beside data that is printed while the work goes on: none if both would meet on one terminal.
    pub fn beside_data() -> Self {
        if std::io::stdout().is_terminal() {
            return Self(None);
        }
        Self::new()
    }

    /// Tells whether bars are shown.
    pub fn are_shown(&self) -> bool {
        self.0.is_some()
    }

    /// Prints a message without tearing a bar apart.
    pub fn note(&self, text: &str) {
        self.tell(|| output::note(text));
    }

    /// Prints something that wants attention.
    pub fn warning(&self, text: &str) {
        self.tell(|| output::warning(text));
    }

    /// Calls `tell`, which may print, without tearing a bar apart.
    pub fn tell(&self, tell: impl FnOnce()) {
        match &self.0 {
            Some(bars) => bars.suspend(tell),
            None => tell(),
        }
    }

    /// The log of a run, printed beside the bars.
    pub fn event_log(&self, format: LogFormat, verbosity: Verbosity) -> Arc<EventLog> {
        let form = match format {
            LogFormat::Json => Form::Objects,
            LogFormat::Text => Form::Text,
            LogFormat::Off => Form::Off,
        };
        let (writer, clock) = (Arc::new(self.clone()), Arc::new(SystemClock::new()));
        Arc::new(EventLog::new(writer, form, verbosity, clock))
    }

    /// Takes the bars away.
    pub fn clear(&self) {
        if let Some(bars) = &self.0 {
            let _ = bars.clear();
        }
    }

    /// The bar of one piece of long work, of `total` in `unit`, if the total is known.
    pub fn of_work(&self, name: &str, unit: Unit, total: Option<u64>) -> Bar {
        let Some(bars) = &self.0 else {
            return Bar(None);
        };
        let bar = bars.add(ProgressBar::new_spinner().with_style(unit.style(total.is_some())));
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(TICK);
        Bar(Some(bar))
    }

    /// The function that moves the bar of one pipeline.
    pub fn of(&self, name: &str) -> OnProgress {
        let Some(bars) = &self.0 else {
            return Arc::new(|_, _| {});
        };
        let bar = bars.add(ProgressBar::no_length().with_style(style(PIPELINE_WITHOUT_END)));
        bar.set_prefix(name.to_owned());
        Arc::new(move |progress, summary| {
            if let Some(progress) = progress {
                if let (Some(total), None) = (progress.total_bytes, bar.length()) {
                    bar.set_style(style(PIPELINE_WITH_END));
                    bar.set_length(total);
                }
                bar.set_position(progress.read_bytes);
            }
            let (applied, all) = (summary.of(Fate::Applied), summary.deliveries());
            bar.set_message(format!("{applied} applied of {all}"));
        })
    }
}

impl LogWriter for Bars {
    fn text(&self, level: Level, text: &str) {
        match level {
            Level::Info => self.note(text),
            Level::Warning => self.warning(text),
        }
    }

    fn object(&self, level: Level, decision: &Decision<'_>) {
        let level = match level {
            Level::Info => output::Level::Info,
            Level::Warning => output::Level::Warning,
        };
        output::log(level, decision);
    }
}

/// The unit that a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Records, or other things that are counted one by one.
    Records,
    /// Bytes read or written.
    Bytes,
}

impl Unit {
    fn style(self, has_end: bool) -> ProgressStyle {
        let template = match (self, has_end) {
            (Self::Records, true) => {
                "{prefix} {wide_bar} {percent:>3}% {human_pos} records, {rate}, {eta} left"
            }
            (Self::Records, false) => "{prefix} {spinner} {human_pos} records, {rate}",
            (Self::Bytes, true) => {
                "{prefix} {wide_bar} {percent:>3}% {binary_bytes}, {binary_bytes_per_sec}, {eta} left"
            }
            (Self::Bytes, false) => "{prefix} {spinner} {binary_bytes}, {binary_bytes_per_sec}",
        };
        style(template).with_key("rate", rate)
    }
}

/// The bar of one piece of long work; it vanishes when dropped. Does nothing if no bar is shown.
pub struct Bar(Option<ProgressBar>);

impl Bar {
    /// Counts `count` more as done.
    pub fn advance(&self, count: u64) {
        if let Some(bar) = &self.0 {
            bar.inc(count);
        }
    }

    /// Sets the total, once it is known.
    pub fn ends_at(&self, total: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(total);
        }
    }

    /// Sets the total of what is done.
    pub fn reach(&self, count: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(count);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Shows the speed: `310,000/s`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is shown, never decided on; the cast saturates"
)]
fn rate(state: &ProgressState, to: &mut dyn Write) {
    // A bar that cannot be drawn is no failure.
    let _ = write!(to, "{}/s", HumanCount(state.per_sec() as u64));
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

const PIPELINE_WITH_END: &str =
    "{prefix} {wide_bar} {percent:>3}% {msg}, {binary_bytes_per_sec}, {eta} left";
const PIPELINE_WITHOUT_END: &str = "{prefix} {spinner} {msg}";
const TICK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use indicatif::ProgressDrawTarget;

    use super::*;

    #[test]
    fn every_template_is_one_that_indicatif_knows() {
        for template in [PIPELINE_WITH_END, PIPELINE_WITHOUT_END] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn without_a_terminal_there_is_no_bar_and_no_work() {
        let bars = Bars(None);
        let bar = bars.of_work("export", Unit::Records, Some(10));
        assert!(bar.0.is_none());
        bar.advance(1);
        bar.reach(2);
    }

    #[test]
    fn a_bar_knows_its_end_and_goes_where_it_is_told() {
        let bars = Bars(Some(MultiProgress::with_draw_target(
            ProgressDrawTarget::hidden(),
        )));
        let bar = bars.of_work("export", Unit::Bytes, Some(10));
        bar.advance(3);
        bar.advance(4);
        let shown = bar.0.as_ref().expect("a bar");
        assert_eq!((shown.position(), shown.length()), (7, Some(10)));
        bar.ends_at(20);
        assert_eq!(shown.length(), Some(20));
        bar.reach(10);
        assert_eq!(shown.position(), 10);
    }
}
