// What this is built with, and runs on: under a sanitizer or qemu-user some tests are shorter, and a few can't be had.
#pragma once

#if defined(__has_feature)
#define KINETO_SPYRE_HAS_FEATURE(name) __has_feature(name)
#else
#define KINETO_SPYRE_HAS_FEATURE(name) 0
#endif

namespace kineto_spyre::capture::testing {

#if defined(__SANITIZE_THREAD__) || KINETO_SPYRE_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

#if defined(__SANITIZE_ADDRESS__) || KINETO_SPYRE_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

// Set by the build when it crosses: qemu-user has faults of its own where threads and forks meet.
#ifdef UNDER_QEMU
inline constexpr bool kQemu = true;
#else
inline constexpr bool kQemu = false;
#endif

// Ends a test case whose subject can't be had here; the build tells ctest that these words mean a skip.
#define SKIP_TEST(reason)                   \
  do {                                      \
    WARN("This test was skipped: " reason); \
    return;                                 \
  } while (false)

inline constexpr bool kSanitizer = kThreadSanitizer || kAddressSanitizer;

}  // namespace kineto_spyre::capture::testing
