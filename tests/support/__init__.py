"""What tests of every folder share: time, waiting, processes.

- `virtual_time`: an event loop whose clock jumps, for code that waits; `@pytest.mark.virtual_time`.
- `waiting`: wait for what must come, with a ceiling that only decides when to give up.
- `processes`: whether a process runs, and when it is gone.
"""
