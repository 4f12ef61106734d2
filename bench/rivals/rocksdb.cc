// RocksDB as a deduplication store, the way one would build it: a batch is looked up with one
// MultiGet, the new keys go in with one synced write. One answer per key, as the rival has to give.
//
// usage: rocksdb DIR BATCH BATCHES SLICES SEED   (keys of 36 bytes, a tenth repeats one of the last
// million); prints decisions per second, one line per slice. Reads a line from standard input before
// each slice, so that two programs can take turns.

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Keys {
  uint64_t state;
  std::vector<uint64_t> window;
  uint64_t made = 0;

  explicit Keys(uint64_t seed) : state(seed * 0x9E3779B97F4A7C15ull | 1), window(1000000) {}

  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Dull;
  }

  std::string key() {
    uint64_t number;
    if (made > 0 && next() >> 32 < (uint64_t{1} << 32) / 10) {
      uint64_t span = made < window.size() ? made : window.size();
      number = window[(made - 1 - (next() >> 11) % span) % window.size()];
    } else {
      number = next();
      window[made++ % window.size()] = number;
    }
    char text[40];
    std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", unsigned(number >> 32),
                  unsigned(number >> 16 & 0xffff), unsigned(number & 0xffff),
                  unsigned(number * 31 & 0xffff),
                  (unsigned long long)(number * 0x9E3779B97F4A7C15ull & 0xffffffffffffull));
    return std::string(text, 36);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string dir = argv[1];
  const size_t batch = std::strtoull(argv[2], nullptr, 10);
  const size_t batches = std::strtoull(argv[3], nullptr, 10);
  const int slices = std::atoi(argv[4]);
  Keys keys(std::strtoull(argv[5], nullptr, 10));

  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_cache = rocksdb::NewLRUCache(size_t{1} << 30);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.IncreaseParallelism(2);
  options.write_buffer_size = 128 << 20;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocksdb::DB* db = nullptr;
  if (!rocksdb::DB::Open(options, dir, &db).ok()) return 3;

  rocksdb::WriteOptions synced;
  synced.sync = true;
  uint64_t fresh = 0;
  for (int slice = 0; slice < slices; ++slice) {
    // Keys are made outside the timed region, as on the other side.
    std::vector<std::vector<std::string>> input(batches);
    for (auto& keys_of_batch : input) {
      for (size_t i = 0; i < batch; ++i) keys_of_batch.push_back(keys.key());
    }
    std::string go;
    if (!std::getline(std::cin, go)) break;
    const auto start = std::chrono::steady_clock::now();
    for (const auto& keys_of_batch : input) {
      std::vector<rocksdb::Slice> slices_of_keys(keys_of_batch.begin(), keys_of_batch.end());
      std::vector<std::string> values;
      const auto found = db->MultiGet(rocksdb::ReadOptions(), slices_of_keys, &values);
      rocksdb::WriteBatch write;
      for (size_t i = 0; i < batch; ++i) {
        if (found[i].IsNotFound()) {
          write.Put(slices_of_keys[i], "12345678");
          ++fresh;
        } else if (!found[i].ok()) {
          return 4;
        }
      }
      if (!db->Write(synced, &write).ok()) return 5;
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    std::printf("%.1f\n", double(batch * batches) / taken.count());
    std::fflush(stdout);
  }
  std::fprintf(stderr, "fresh %llu\n", (unsigned long long)fresh);
  delete db;
  return 0;
}
