"""What shows a trace to somebody: each viewer a module. Nothing here needs torch."""
