"""The verdict on a target: its libraries, and the Python code that loads them, on one torch or on several."""
