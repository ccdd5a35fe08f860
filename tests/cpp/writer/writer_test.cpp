// Both files of csrc/writer, read back: Perfetto's wire format by a reader of its own (the Python tests read it with
// the published messages as well), and the JSON as text.
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include "trace/records.h"
#include "writer/writer.h"

using namespace kineto_spyre;
using namespace kineto_spyre::trace::testing;
using kineto_spyre::trace::DeviceRange;

namespace {

struct Memory final : writer::Sink {
  std::string bytes;
  void write(const char* data, size_t size) override { bytes.append(data, size); }
};

// A message: its fields in order. Throws where the bytes are no message.
struct Message {
  struct Field {
    uint64_t number;
    uint64_t value;          // of a varint or a fixed64
    std::string_view bytes;  // of the rest
  };
  std::vector<Field> fields;

  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t tag = varint(bytes);
      Field field{tag >> 3, 0, {}};
      switch (tag & 7) {
        case 0:
          field.value = varint(bytes);
          break;
        case 1:
          std::memcpy(&field.value, take(bytes, 8).data(), 8);
          break;
        case 2:
          field.bytes = take(bytes, varint(bytes));
          break;
        default:
          throw std::runtime_error("no such wire type");
      }
      fields.push_back(field);
    }
  }
  std::vector<uint64_t> numbers(uint64_t number) const {
    std::vector<uint64_t> found;
    for (const Field& field : fields) {
      if (field.number == number) found.push_back(field.value);
    }
    return found;
  }
  uint64_t number(uint64_t number, uint64_t otherwise = 0) const {
    const auto found = numbers(number);
    return found.empty() ? otherwise : found.front();
  }
  std::vector<std::string_view> all(uint64_t number) const {
    std::vector<std::string_view> found;
    for (const Field& field : fields) {
      if (field.number == number) found.push_back(field.bytes);
    }
    return found;
  }
  std::string_view text(uint64_t number) const {
    const auto found = all(number);
    return found.empty() ? std::string_view() : found.front();
  }

 private:
  static std::string_view take(std::string_view& bytes, uint64_t size) {
    if (size > bytes.size()) throw std::runtime_error("a field reaches beyond its message");
    const std::string_view taken = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return taken;
  }
  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint8_t>(take(bytes, 1).front());
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a varint without an end");
  }
};

struct Found {
  std::string name, category, track;
  int64_t begin, end;  // relative to kNow
  std::vector<uint64_t> leaves, reaches;
  std::map<std::string, uint64_t> arguments;
};

// What a Perfetto file shows.
struct Shown {
  std::vector<Found> slices;
  std::string metadata;
  std::map<uint64_t, std::string> tracks;

  explicit Shown(const std::string& file) {
    std::map<uint64_t, std::string> names, categories, keys;
    std::map<uint64_t, std::vector<size_t>> open;
    int64_t base = 0;
    for (const std::string_view bytes : Message(file).all(1)) {
      const Message packet(bytes);
      for (const std::string_view one : packet.all(6)) {
        std::map<uint64_t, int64_t> clocks;
        for (const std::string_view clock : Message(one).all(1)) {
          clocks[Message(clock).number(1)] = static_cast<int64_t>(Message(clock).number(2));
        }
        base = clocks.at(1) - clocks.at(64);
      }
      for (const std::string_view one : packet.all(12)) read_names(Message(one), &names, &categories, &keys);
      for (const std::string_view one : packet.all(60)) {
        const Message track(one);
        std::string name(track.text(2));
        for (const std::string_view thread : track.all(4)) name = "tid " + std::to_string(Message(thread).number(2));
        tracks[track.number(1)] = name;
      }
      const int64_t time = base + static_cast<int64_t>(packet.number(8)) - kNow;
      for (const std::string_view one : packet.all(11)) {
        const Message event(one);
        const uint64_t track = event.number(11);
        REQUIRE(tracks.contains(track));  // described before it is used
        if (event.number(9) == 3) metadata = Message(event.text(4)).text(6);
        if (event.number(9) == 2) {
          REQUIRE_FALSE(open[track].empty());
          slices[open[track].back()].end = time;
          open[track].pop_back();
        }
        if (event.number(9) != 1) continue;
        open[track].push_back(slices.size());
        slices.push_back({names.at(event.number(10)),
                          categories.at(event.number(3)),
                          tracks[track],
                          time,
                          INT64_MIN,
                          event.numbers(47),
                          event.numbers(48),
                          {}});
        for (const std::string_view argument : event.all(4)) {
          slices.back().arguments[keys.at(Message(argument).number(1))] = Message(argument).number(4);
        }
      }
    }
    for (const auto& [track, indices] : open) CHECK(indices.empty());
  }

  const Found& named(std::string_view name) const {
    for (const Found& slice : slices) {
      if (slice.name == name) return slice;
    }
    throw std::runtime_error("no slice " + std::string(name));
  }

 private:
  using Names = std::map<uint64_t, std::string>;
  static void read_names(const Message& interned, Names* names, Names* categories, Names* keys) {
    const auto read = [&](uint64_t table, Names* into) {
      for (const std::string_view entry : interned.all(table)) {
        CHECK(into->emplace(Message(entry).number(1), Message(entry).text(2)).second);  // each is written once
      }
    };
    read(1, categories), read(2, names), read(3, keys);
  }
};

// A session with its document; add records and slices, then write.
struct Recording {
  Session session;
  writer::Document document;
  std::vector<writer::HostSlice> host;
  std::vector<std::string> range_names;

  void op(std::string_view name, int64_t begin, int64_t end, bool range = false) {
    host.push_back({kNow + begin, kNow + end, range ? 0 : host.size() + 1, name, kThread, range});
    if (!range) session.op(host.size(), begin, end);
  }
  void launched(std::string_view name, uint64_t correlation, int64_t at, int64_t start, int64_t end) {
    session.add(Call{.start = at, .end = at + kUs, .correlation = correlation});
    session.add(Kernel{.name = std::string(name), .start = start, .end = end, .correlation = correlation});
  }
  void prepare() {
    session.make();
    document.events = &session.events;
    document.trace = &session.trace;
    document.host = document.all_ops = host;
    document.range_names = range_names;
    document.process = kProcess;
    document.process_name = "python";
    document.window_begin = session.options.window_begin;
    document.window_end = session.options.window_end;
    if (document.metadata.empty()) document.metadata = R"({"emulated": true})";
    document.device_properties = "[]";
  }
  Shown perfetto() {
    prepare();
    Memory memory;
    written = writer::write_perfetto(document, memory);
    return Shown(memory.bytes);
  }
  std::string json() {
    prepare();
    Memory memory;
    written = writer::write_json(document, memory);
    return memory.bytes;
  }
  writer::Written written;
};

}  // namespace

TEST_CASE("a launch in an op: slices with exact times, their tracks, what joins them, and one arrow") {
  Recording recording;
  recording.op("aten::mm", 10 * kUs, 20 * kUs);
  recording.launched("mm_kernel", 7, 12 * kUs, 30 * kUs + 1, 40 * kUs + 3);
  const Shown shown = recording.perfetto();
  REQUIRE(shown.slices.size() == 3);
  const Found& op = shown.named("aten::mm");
  const Found& kernel = shown.named("mm_kernel");
  const Found& launch = shown.named("aiuLaunchControlBlocks");
  CHECK(op.category == "cpu_op");
  CHECK(kernel.category == "kernel");
  CHECK(launch.category == "privateuse1_runtime");
  CHECK((op.begin == 10 * kUs && op.end == 20 * kUs));
  CHECK((kernel.begin == 30 * kUs + 1 && kernel.end == 40 * kUs + 3));
  CHECK((launch.begin == 12 * kUs && launch.end == 13 * kUs));
  CHECK(op.track == "tid " + std::to_string(kThread));
  CHECK(launch.track == op.track);
  CHECK(kernel.track != op.track);
  CHECK(kernel.arguments.at("correlation") == launch.arguments.at("correlation"));
  CHECK(kernel.arguments.at("External id") == op.arguments.at("External id"));
  CHECK((launch.leaves.size() == 1 && launch.leaves == kernel.reaches));
  CHECK((recording.written.slices == 3 && recording.written.arrows == 1));
}

TEST_CASE("two pieces of work of one launch are two arrows, no chain") {
  Recording recording;
  recording.launched("first", 7, 0, 10 * kUs, 20 * kUs);
  recording.session.add(Kernel{.name = "second", .start = 20 * kUs, .end = 30 * kUs, .correlation = 7});
  const Shown shown = recording.perfetto();
  const Found& launch = shown.named("aiuLaunchControlBlocks");
  REQUIRE(launch.leaves.size() == 2);
  CHECK(launch.leaves[0] != launch.leaves[1]);
  std::vector<uint64_t> reached = shown.named("first").reaches;
  for (const uint64_t arrow : shown.named("second").reaches) reached.push_back(arrow);
  std::ranges::sort(reached);
  std::vector<uint64_t> left = launch.leaves;
  std::ranges::sort(left);
  CHECK(reached == left);
  CHECK(recording.written.arrows == 2);
}

TEST_CASE("slices that cross on one track keep their times, on a track beside it") {
  Recording recording;
  recording.launched("first", 1, 0, 10 * kUs, 30 * kUs);
  recording.launched("second", 2, 2 * kUs, 20 * kUs, 40 * kUs);
  const Shown shown = recording.perfetto();
  CHECK((shown.named("first").begin == 10 * kUs && shown.named("first").end == 30 * kUs));
  CHECK((shown.named("second").begin == 20 * kUs && shown.named("second").end == 40 * kUs));
  CHECK(shown.named("second").track == shown.named("first").track + ", crossing 1");
}

TEST_CASE("slices of no length stay, and so does their order in one another") {
  Recording recording;
  recording.op("outer", 0, 10 * kUs);
  recording.op("empty", 5 * kUs, 5 * kUs);
  recording.op("inner", 5 * kUs, 10 * kUs);
  const Shown shown = recording.perfetto();
  CHECK(shown.slices.size() == 3);
  CHECK((shown.named("empty").begin == 5 * kUs && shown.named("empty").end == 5 * kUs));
  CHECK((shown.named("inner").begin == 5 * kUs && shown.named("inner").end == 10 * kUs));
  CHECK(shown.named("inner").track == shown.named("outer").track);
}

TEST_CASE("names of any bytes are shown as the JSON shows them, and written once") {
  Recording recording;
  const std::string odd = "na\"me \xE2\x82\xAC \xFF";
  for (int i = 0; i < 3; ++i) recording.op(odd, i * kMs, i * kMs + kUs, true);
  const std::string expected = "na'me <U+20AC> <0xFF>";
  const Shown shown = recording.perfetto();
  REQUIRE(shown.slices.size() == 3);
  for (const Found& slice : shown.slices) CHECK(slice.name == expected);
  CHECK(recording.json().find("\"name\": \"" + expected + '"') != std::string::npos);
}

TEST_CASE("metadata and names of any length are whole") {
  Recording recording;
  const std::string name(70'000, 'n');
  recording.op(name, 0, kUs, true);
  recording.document.metadata = R"({"long": ")" + std::string(3'000'000, 'm') + "\"}";
  const Shown shown = recording.perfetto();
  CHECK(shown.metadata == recording.document.metadata);
  CHECK(shown.slices.at(0).name == name);
}

TEST_CASE("what is not part of the trace is not in the files") {
  Recording recording;
  recording.session.options.window_end = kNow + 100 * kUs;
  recording.launched("inside", 1, 0, 10 * kUs, 20 * kUs);
  recording.launched("later", 2, 200 * kUs, 210 * kUs, 220 * kUs);
  const Shown shown = recording.perfetto();
  CHECK(shown.slices.size() == 2);
  CHECK_THROWS(shown.named("later"));
  CHECK(recording.json().find("later") == std::string::npos);
}

TEST_CASE("ranges on the device bear the names of the program's") {
  Recording recording;
  recording.op("step 1", 0, 100 * kUs, true);
  recording.session.range(1, 0, 100 * kUs);
  recording.session.op_event(kThread, 0, 1, capture::OpEventKind::kPushRange);
  recording.session.op_event(kThread, 100 * kUs, 1, capture::OpEventKind::kPopRange);
  recording.launched("kernel", 1, 10 * kUs, 20 * kUs, 30 * kUs);
  recording.range_names = {"step 1"};
  const Shown shown = recording.perfetto();
  REQUIRE(recording.session.trace.ranges.size() == 1);
  size_t on_device = 0;
  for (const Found& slice : shown.slices) {
    if (slice.category != "gpu_user_annotation") continue;
    ++on_device;
    CHECK(slice.name == "step 1");
    CHECK((slice.begin == 20 * kUs && slice.end == 30 * kUs));
  }
  CHECK(on_device == 1);
}

TEST_CASE("the JSON has Kineto's keys, units and arrows") {
  Recording recording;
  recording.op("aten::mm", 10 * kUs, 20 * kUs);
  recording.launched("mm_kernel", 7, 12 * kUs, 30 * kUs + 1, 40 * kUs + 3);
  const std::string json = recording.json();
  const auto holds = [&](std::string_view text) { return json.find(text) != std::string::npos; };
  CHECK(holds("\"schemaVersion\": 1"));
  CHECK(holds("\"baseTimeNanoseconds\": " + std::to_string(kNow)));
  CHECK(holds(R"("ts": 30.001, "dur": 10.002, "cat": "kernel", "name": "mm_kernel")"));
  CHECK(holds(R"("ts": 10.000, "dur": 10.000, "cat": "cpu_op", "name": "aten::mm", "args": {"External id": 1})"));
  CHECK(holds(R"({"ph": "s", )"));
  CHECK(holds(R"("bp": "e"})"));
  CHECK(holds("\"kineto_spyre\": {\"emulated\": true}"));
  CHECK((recording.written.slices == 3 && recording.written.arrows == 1));
}

TEST_CASE("a recording without an event is a file without a slice") {
  Recording recording;
  const Shown shown = recording.perfetto();
  CHECK(shown.slices.empty());
  CHECK(shown.metadata == recording.document.metadata);
  CHECK(recording.json().find("\"traceEvents\": [") != std::string::npos);
}

TEST_CASE("what a sink throws comes through") {
  struct Full final : writer::Sink {
    void write(const char*, size_t) override { throw std::runtime_error("the disk is full"); }
  } full;
  Recording recording;
  recording.launched("kernel", 1, 0, 10 * kUs, 20 * kUs);
  recording.prepare();
  CHECK_THROWS_WITH(writer::write_perfetto(recording.document, full), "the disk is full");
  CHECK_THROWS_WITH(writer::write_json(recording.document, full), "the disk is full");
}
