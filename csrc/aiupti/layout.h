// Whether this build reads records as our own header lays them out, which is how the emulated libaiupti writes them.
#pragma once

namespace kineto_spyre::aiupti {

// False if this was built with an SDK's header that has a field elsewhere, or in another width.
bool has_own_layout() noexcept;

}  // namespace kineto_spyre::aiupti
