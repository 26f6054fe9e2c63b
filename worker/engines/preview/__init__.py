"""The CPU engine: it runs every step with OpenCV and Pillow, without a neural model, and reports that."""
