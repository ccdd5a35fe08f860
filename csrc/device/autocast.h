// torch.autocast("spyre"): the casts that torch.autocast("cpu") makes, op by op, so that equal programs give equal
// results. The default dtype is float16, as PyTorch has it for PrivateUse1 and as Spyre has it for everything.
#pragma once

namespace kineto_spyre::device {

void register_autocast();

}  // namespace kineto_spyre::device
