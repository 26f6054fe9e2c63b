"""The CPU engine: every step for real with OpenCV and Pillow, without a neural model, and it says so."""
