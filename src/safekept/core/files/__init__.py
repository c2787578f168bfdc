"""Files and directories: written durably, read with care, reached without following a link."""

from typing import TYPE_CHECKING

from ..doors import doors

if TYPE_CHECKING:
    from .durable import (
        NOT_THERE,
        TEMPORARY_PREFIX,
        NoRoom,
        durable_directories,
        durable_file,
        durable_write,
        free_bytes,
        fsync_directory,
        link_once,
        numbered_name,
        private_directory,
        quick_write,
        read_exactly,
        remove_quietly,
        rename_to_free_name,
        sweep_temporaries,
        temporary_name,
        write_all,
    )

__getattr__ = doors(
    __name__,
    {
        "durable": "NOT_THERE NoRoom TEMPORARY_PREFIX durable_directories durable_file "
        "durable_write free_bytes fsync_directory link_once numbered_name "
        "private_directory quick_write read_exactly remove_quietly rename_to_free_name "
        "sweep_temporaries temporary_name write_all",
    },
)
