"""The examples in the docstrings of kineto_spyre.profiler run, and print what they say."""

from __future__ import annotations


def test_the_examples_of_the_profiler(run_python):
    done = run_python(
        """
        import doctest, importlib, pkgutil, torch, kineto_spyre
        from kineto_spyre import emulator, profiler
        emulator.enable(devices=1)
        x = torch.ones(8, 8).to("spyre")
        model = torch.nn.Linear(8, 8).to("spyre")
        names = {"kineto_spyre": kineto_spyre, "x": x, "model": model, "batches": [x] * 4}
        names_of = [module.name for module in pkgutil.iter_modules(profiler.__path__, profiler.__name__ + ".")]
        for module in [profiler, *map(importlib.import_module, names_of)]:
            print("ran", module.__name__, *doctest.testmod(module, extraglobs=names))
        """
    )
    ran = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ran ")]
    assert all(failed == "0" for _, failed, _ in ran), done.stdout
    tried = {name.rpartition(".")[2] for name, _, tried in ran if tried != "0"}
    assert {"profiler", "_profile", "_profile_spyre", "_session", "_status"} <= tried
