"""Public reading and writing of files: JSON, JSON lines, and files that are complete or not there at all."""

from wherefrom.core.files import FilePath, read_json, read_json_lines, replacing, write_atomically

__all__ = ["FilePath", "read_json", "read_json_lines", "replacing", "write_atomically"]
