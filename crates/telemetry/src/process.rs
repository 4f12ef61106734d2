//! The usual metrics of a process, where the system tells them.

use prometheus_client::registry::Registry;

#[cfg(not(target_os = "linux"))]
pub(crate) fn register(_registry: &mut Registry) {}

#[cfg(target_os = "linux")]
pub(crate) fn register(registry: &mut Registry) {
    registry.register_collector(Box::new(linux::Process));
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fmt;

    use procfs::process::{LimitValue, Process as Proc};
    use procfs::{boot_time_secs, page_size, ticks_per_second};
    use prometheus_client::collector::Collector;
    use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
    use prometheus_client::metrics::MetricType;
    use prometheus_client::metrics::counter::ConstCounter;
    use prometheus_client::metrics::gauge::ConstGauge;

    /// Reads `/proc/self` at each scrape. What cannot be read is left out.
    #[derive(Debug)]
    pub(super) struct Process;

    impl Collector for Process {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let Ok((process, stat)) = Proc::myself().and_then(|it| {
                let stat = it.stat()?;
                Ok((it, stat))
            }) else {
                return Ok(());
            };
            let ticks = float(ticks_per_second());
            let cpu = float(stat.utime + stat.stime) / ticks;
            let help = "User and system time spent, in seconds.";
            let counter = encoder.encode_descriptor(
                "process_cpu_seconds",
                help,
                None,
                MetricType::Counter,
            )?;
            ConstCounter::new(cpu).encode(counter)?;
            let resident = float(stat.rss) * float(page_size());
            let most = process.limits().map(|it| it.max_open_files.soft_limit);
            let most = most.ok().and_then(|it| match it {
                LimitValue::Unlimited => None,
                LimitValue::Value(most) => Some(float(most)),
            });
            let open = process.fd_count().ok();
            let open = open.map(|it| float(it as u64));
            let begun = boot_time_secs().ok();
            let begun = begun.map(|boot| float(boot) + float(stat.starttime) / ticks);
            let gauges = [
                (
                    "process_resident_memory_bytes",
                    "Resident memory, in bytes.",
                    Some(resident),
                ),
                (
                    "process_virtual_memory_bytes",
                    "Virtual memory, in bytes.",
                    Some(float(stat.vsize)),
                ),
                ("process_open_fds", "Open file descriptors.", open),
                (
                    "process_max_fds",
                    "The most file descriptors that may be open.",
                    most,
                ),
                (
                    "process_start_time_seconds",
                    "The time at which the process began, in seconds since the epoch.",
                    begun,
                ),
                (
                    "process_threads",
                    "Threads of the process.",
                    Some(float(stat.num_threads.unsigned_abs())),
                ),
            ];
            for (name, help, value) in gauges {
                if let Some(value) = value {
                    let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                    ConstGauge::new(value).encode(gauge)?;
                }
            }
            Ok(())
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a metric is a float, and none of these comes near 2^53"
    )]
    const fn float(value: u64) -> f64 {
        value as f64
    }
}
