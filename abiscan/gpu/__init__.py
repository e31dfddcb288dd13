"""Code for GPUs inside an object: the containers that hold it, and which GPUs, with which drivers, run it."""
