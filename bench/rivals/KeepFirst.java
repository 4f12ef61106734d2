import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * Deduplication by the record's key in Kafka Streams: the first record of a key within a window goes on to the
 * output topic, with exactly_once_v2 and state in RocksDB, which a changelog topic backs. Keys and values are
 * bytes throughout, so nothing is parsed.
 *
 * <p>Arguments: brokers, application id, input, output, folder of the state, `keyvalue` or `window`, threads,
 * commit interval in milliseconds.
 */
public final class KeepFirst {
    private static final String STORE = "seen";
    private static final Duration WINDOW = Duration.ofDays(30);

    public static void main(String[] args) throws InterruptedException {
        Serde<Bytes> key = Serdes.Bytes();
        Serde<byte[]> value = Serdes.ByteArray();
        boolean inWindows = args[5].equals("window");
        StoreBuilder<?> store = inWindows
            ? Stores.windowStoreBuilder(
                    Stores.persistentWindowStore(STORE, WINDOW, WINDOW, false), key, Serdes.Long())
                .withCachingEnabled()
            : Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), key, Serdes.Long())
                .withCachingEnabled();
        Topology topology = new Topology();
        topology.addSource("in", key.deserializer(), value.deserializer(), args[2]);
        if (inWindows) {
            topology.addProcessor("first", InWindows::new, "in");
        } else {
            topology.addProcessor("first", ByKey::new, "in");
        }
        topology.addStateStore(store, "first");
        topology.addSink("out", args[3], key.serializer(), value.serializer(), "first");

        KafkaStreams streams = new KafkaStreams(topology, settings(args));
        CountDownLatch stopped = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            stopped.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        stopped.await();
        System.exit(1);
    }

    private static Properties settings(String[] args) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, args[6]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, args[7]);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        // Room for what one commit interval puts into the stores, and for much of what repeats.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 256L << 20);
        // A backlog: large fetches, and enough read ahead that no task waits for one.
        settings.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10_000);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10_000);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG), 4 << 20);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 256 << 10);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5);
        return settings;
    }

    /** A key and when it was seen. Whatever is past the window is forgotten once an hour. */
    private static final class ByKey implements Processor<Bytes, byte[], Bytes, byte[]> {
        private ProcessorContext<Bytes, byte[]> context;
        private KeyValueStore<Bytes, Long> seen;

        @Override
        public void init(ProcessorContext<Bytes, byte[]> context) {
            this.context = context;
            seen = context.getStateStore(STORE);
            context.schedule(Duration.ofHours(1), PunctuationType.WALL_CLOCK_TIME, this::forget);
        }

        @Override
        public void process(Record<Bytes, byte[]> record) {
            Long at = seen.get(record.key());
            if (at != null && record.timestamp() - at <= WINDOW.toMillis()) {
                return;
            }
            seen.put(record.key(), record.timestamp());
            context.forward(record);
        }

        private void forget(long now) {
            try (KeyValueIterator<Bytes, Long> all = seen.all()) {
                all.forEachRemaining(entry -> {
                    if (now - entry.value > WINDOW.toMillis()) {
                        seen.delete(entry.key);
                    }
                });
            }
        }
    }

    /** Segments of time that are dropped whole: how the tutorials do it. */
    private static final class InWindows implements Processor<Bytes, byte[], Bytes, byte[]> {
        private ProcessorContext<Bytes, byte[]> context;
        private WindowStore<Bytes, Long> seen;

        @Override
        public void init(ProcessorContext<Bytes, byte[]> context) {
            this.context = context;
            seen = context.getStateStore(STORE);
        }

        @Override
        public void process(Record<Bytes, byte[]> record) {
            long now = record.timestamp();
            long window = WINDOW.toMillis();
            try (WindowStoreIterator<Long> before = seen.fetch(record.key(), now - window, now + window)) {
                if (before.hasNext()) {
                    return;
                }
            }
            seen.put(record.key(), now, now);
            context.forward(record);
        }
    }
}
