"""Reports of fits as one HTML file, pictures and result files."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvariates.report.model_report import write_report

__all__ = ["write_report"]


if not TYPE_CHECKING:  # imported when it is used: the command needs only small parts of this room

    def __getattr__(name: str) -> Any:
        if name != "write_report":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from kvariates.report.model_report import write_report

        return write_report
