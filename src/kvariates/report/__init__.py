"""Reports of fits as one HTML file, pictures, result files, and the tables of the API pages."""

from kvariates.report.model_report import write_report

__all__ = ["write_report"]
