"""What a model was made to do: one file a task. Every file of this folder is imported, and registers its task."""

import pkgutil
from importlib import import_module

from wherefrom.errors import UnknownName
from wherefrom.model.tasks.task import TargetSpec, Task
from wherefrom.registry import all_tasks

for _module in pkgutil.iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def find_task(name: str) -> Task:
    """The task of that name, ours or another package's."""
    tasks = all_tasks()
    if name not in tasks:
        raise UnknownName.among("task", name, tasks)
    task: Task = tasks[name]
    return task


__all__ = ["TargetSpec", "Task", "find_task"]
