"""A coordinator and peers who keep their rows, and parties who keep their columns."""
