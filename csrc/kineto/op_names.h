// The flight recorder's ops: PyTorch's global RecordFunction callback, and the names that it met.
//
// PyTorch tells an op's name by the address of a text, which is the same for each call of an op as long as the op is
// registered; a thread remembers which number the text at an address has, and compares the text before it believes
// that. Ranges (record_function) have texts of their own each time, which the op ring keeps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kineto_spyre::kineto::op_names {

// Ops and ranges of all threads go to the op ring, until off. Any thread.
void record(bool on);
// By the numbers that ops have in the op ring. Number 0 stands for all names beyond the first 65,535.
std::vector<std::string> all();

}  // namespace kineto_spyre::kineto::op_names
