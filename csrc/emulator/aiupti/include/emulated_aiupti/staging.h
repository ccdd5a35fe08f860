// Where records lie between the thread that writes them and the client's buffer: chunks of the library's own memory.
//
//   free -> a writer's (record_writer.h) -> staged (full, or taken by a flush) -> the filler's (current_buffer.h) ->
//   free
//
// A chunk has one owner at a time; the two queues hand it over (bounded_queue.h). Chunks are made as they are needed,
// up to kMost of them, and used again for good; a number of them is made and touched ahead, so that the first records
// of a session wait for no page. A thread that finds no chunk is ahead of the filler by 128 MiB: it fills on its own
// (process.cpp), so records are not dropped for want of chunks.
//
// Staged are also, as a fault, buffers that the client lent to a thread; they have no chunk and need no filling.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "emulated_aiupti/bounded_queue.h"
#include "emulated_aiupti/record_writer.h"
#include "emulated_aiupti/shape.h"

namespace kineto_spyre::emulator {

struct Chunk {
  static constexpr size_t kBytes = 64 << 10;
  Shape shape;  // of all records in it; set by the writer that takes it
  alignas(64) uint8_t data[kBytes];
};

struct Staged {
  Buffer buffer;
  size_t valid = 0;
};

class Staging {
 public:
  static constexpr uint64_t kMost = 2048;

  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    Staged staged;
    while (staged_.pop(&staged)) delete static_cast<Chunk*>(staged.buffer.chunk);
    for (Chunk* chunk = nullptr; free_.pop(&chunk);) delete chunk;
  }

  // Null: kMost are in use, or there is no memory.
  Chunk* take() {
    Chunk* chunk = nullptr;
    if (free_.pop(&chunk)) return chunk;
    if (made_.fetch_add(1, std::memory_order_relaxed) >= kMost) {  // a count; the queues order the chunks themselves
      made_.fetch_sub(1, std::memory_order_relaxed);
      return nullptr;
    }
    chunk = new (std::nothrow) Chunk;
    if (chunk == nullptr) made_.fetch_sub(1, std::memory_order_relaxed);
    return chunk;
  }
  void put_back(Chunk* chunk) {
    free_.push(chunk);  // never full: there are as many cells as chunks
  }
  // Makes that many, with their pages.
  void touch_ahead(size_t chunks) {
    std::vector<Chunk*> made;
    while (made.size() < chunks) {
      Chunk* const chunk = take();
      if (chunk == nullptr) break;
      std::memset(chunk->data, 0, sizeof(chunk->data));
      made.push_back(chunk);
    }
    for (Chunk* chunk : made) put_back(chunk);
  }

  bool push(const Staged& staged) { return staged_.push(staged); }  // false: full
  bool pop(Staged* staged) { return staged_.pop(staged); }          // false: empty

 private:
  BoundedQueue<Chunk*, kMost> free_;
  BoundedQueue<Staged, 2 * kMost> staged_;
  std::atomic<uint64_t> made_{0};
};

}  // namespace kineto_spyre::emulator
