"""torch.compile on the timeline: `profile_spyre(compile=True)` adds its phases, recompiles and graph breaks."""
