// libaiupti is found, opened once, and never without need. A process has one: each case is a process of its own.
#include "aiupti/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

using namespace kineto_spyre::aiupti;

namespace {

// What `body` returns, from a child process.
std::string in_child(const std::function<std::string()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string result = body();
    const bool written = write(ends[1], result.data(), result.size()) == static_cast<ssize_t>(result.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string result;
  char part[512];
  for (ssize_t bytes; (bytes = read(ends[0], part, sizeof(part))) > 0;) result.append(part, static_cast<size_t>(bytes));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(status == 0);
  return result;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool is_mapped(const char* path) {
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return false;
  char line[4096];
  bool found = false;
  while (std::fgets(line, sizeof(line), maps) != nullptr) found |= std::strstr(line, path) != nullptr;
  std::fclose(maps);
  return found;
}

std::string open_all(const std::vector<std::string>& candidates) {
  std::string tried;
  const Library* library = open_library(candidates, &tried);
  return library != nullptr ? "opened " + library->path + "|" + library->in_place_of : tried;
}

}  // namespace

TEST_CASE("a library with the real one's names is opened, and stays the process's only one") {
  CHECK(in_child([]() -> std::string {
          if (opened_library() != nullptr) return "open before anybody asked";
          if (is_mapped(COMPLETE_LIBRARY)) return "mapped before anybody asked";
          std::string tried;
          const std::vector<std::string> candidates = {COMPLETE_LIBRARY};
          const Library* library = open_library(candidates, &tried);
          if (library == nullptr) return tried;
          size_t dropped = 0;
          if (library->dropped_records(&dropped) != AIUPTI_SUCCESS || dropped != 5) return "dropped_records";
          if (library->flush_all() != AIUPTI_SUCCESS || library->enable(AIUPTI_ACTIVITY_KIND_CMPT) != AIUPTI_SUCCESS ||
              library->disable(AIUPTI_ACTIVITY_KIND_CMPT) != AIUPTI_SUCCESS ||
              library->register_callbacks(nullptr, nullptr) != AIUPTI_SUCCESS ||
              library->next_record(nullptr, 0, nullptr) == AIUPTI_SUCCESS) {
            return "a function";
          }
          // What it brings is for all, as clients have it.
          if (dlsym(RTLD_DEFAULT, "_Z24aiuptiFlushAllActivitiesv") == nullptr) return "not global";
          if (library->emulated) return "taken for the emulated one";
          const std::vector<std::string> others = {"nothing.so"};
          if (open_library(others, &tried) != library || opened_library() != library) return "another one";
          return library->path == COMPLETE_LIBRARY && library->in_place_of.empty()
                     ? "good"
                     : library->path + library->in_place_of;
        }) == "good");
}

TEST_CASE("a library with C linkage is taken as well") {
  CHECK(in_child([]() -> std::string {
          std::string tried;
          const std::vector<std::string> candidates = {PLAIN_LIBRARY};
          const Library* library = open_library(candidates, &tried);
          size_t dropped = 0;
          if (library == nullptr) return tried;
          library->dropped_records(&dropped);
          return dropped == 7 ? "good" : "wrong function";
        }) == "good");
}

TEST_CASE("a library that lacks functions is invalid by their names, and the next candidate is tried") {
  const std::string invalid = in_child([] { return open_all({INCOMPLETE_LIBRARY}); });
  CHECK(contains(invalid, INCOMPLETE_LIBRARY " (lacks aiuptiActivityGetNumDroppedRecords, aiuptiFlushAllActivities)"));
  const std::string passed_over = in_child([] { return open_all({INCOMPLETE_LIBRARY, COMPLETE_LIBRARY}); });
  CHECK(passed_over == "opened " COMPLETE_LIBRARY "|");
}

TEST_CASE("what can't be found names every path that was tried") {
  const std::string sentence = in_child([] { return open_all({"/nowhere/libaiupti.so", "/dev/null"}); });
  CHECK(contains(sentence, "/nowhere/libaiupti.so ("));
  CHECK(contains(sentence, "No such file"));
  CHECK(contains(sentence, "/dev/null ("));
  CHECK(in_child([] { return open_all({}); }) == "no library was found to try");
}

TEST_CASE("a library that the process has already is the one that is used, whatever the folder that was named") {
  char folder[] = "/tmp/kineto_spyre_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string of_runtime = std::string(folder) + "/libaiupti.so.1";
  const std::string link = std::string(folder) + "/libaiupti.so";
  REQUIRE(symlink(COMPLETE_LIBRARY, of_runtime.c_str()) == 0);
  REQUIRE(symlink(COMPLETE_LIBRARY, link.c_str()) == 0);
  const auto with_mapped = [&](const std::vector<std::string>& candidates) {
    return in_child([&]() -> std::string {
      // As the runtime may have it: for itself.
      if (dlopen(of_runtime.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) return dlerror();
      const std::string result = open_all(candidates);
      return result + (dlsym(RTLD_DEFAULT, "_Z24aiuptiFlushAllActivitiesv") == nullptr ? ", not global" : "");
    });
  };
  const std::string other = with_mapped({"/sdk/lib/libaiupti.so", "libaiupti.so"});
  CHECK(other == "opened " + of_runtime + "|/sdk/lib/libaiupti.so");
  CHECK_FALSE(contains(other, "not global"));
  CHECK(with_mapped({link}) == "opened " + of_runtime + "|");  // the same file by another path
  CHECK(with_mapped({"libaiupti.so"}) == "opened " + of_runtime + "|");
  // Another name is another library.
  CHECK(contains(with_mapped({PLAIN_LIBRARY}), "opened " PLAIN_LIBRARY "|"));
  unlink(of_runtime.c_str());
  unlink(link.c_str());
  rmdir(folder);
}

TEST_CASE("threads that open it at the same time get the same one") {
  CHECK(in_child([]() -> std::string {
          const Library* found[4] = {};
          std::vector<std::thread> threads;
          for (const Library*& mine : found) {
            threads.emplace_back([&mine] {
              std::string tried;
              const std::vector<std::string> candidates = {COMPLETE_LIBRARY};
              mine = open_library(candidates, &tried);
            });
          }
          for (std::thread& thread : threads) thread.join();
          for (const Library* each : found) {
            if (each == nullptr || each != opened_library()) return "another one";
          }
          return "good";
        }) == "good");
}

TEST_CASE("a fork while another thread opens it leaves the child free to open it") {
  char folder[] = "/tmp/kineto_spyre_XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string pipe = std::string(folder) + "/waits.so";  // the loader waits until someone writes into it
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(in_child([&]() -> std::string {
          std::string in_thread;
          std::thread thread([&] { in_thread = open_all({pipe, COMPLETE_LIBRARY}); });
          usleep(100'000);
          const std::string forked = in_child([] { return open_all({COMPLETE_LIBRARY}); });
          close(open(pipe.c_str(), O_WRONLY));
          thread.join();
          return contains(in_thread, "opened " COMPLETE_LIBRARY "|" + pipe) ? forked : in_thread;
        }) == "opened " COMPLETE_LIBRARY "|");
  unlink(pipe.c_str());
  rmdir(folder);
}
